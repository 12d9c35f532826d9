// The arithmetic of `paredown.select`, number for number. The rows stand in the order of their scores, hardest first,
// ties settled in Python; what is left to do here is to count floors and quotas and to walk along the order.

/** Python's round(): a half goes to the even neighbour. */
function roundHalfEven(x) {
  const low = Math.floor(x), rest = x - low;
  return rest < 0.5 || (rest === 0.5 && low % 2 === 0) ? low : low + 1;
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** How many rows each class is sure of: `fraction` of its own, rounded up if that fits (selection/floors.py). */
function classFloors(counts, fraction, nKeep) {
  const exact = counts.map((count) => fraction * count);
  const up = exact.map((x) => Math.ceil(x - 1e-9));
  if (sum(up) <= nKeep) return up;
  const down = exact.map((x) => Math.floor(x + 1e-9));
  const raised = [...counts.keys()]
    .filter((g) => up[g] > down[g])
    .sort((a, b) => (down[a] > 0) - (down[b] > 0) || exact[b] - down[b] - (exact[a] - down[a]) || a - b)
    .slice(0, Math.max(0, nKeep - sum(down)));
  for (const g of raised) down[g] += 1;
  return down;
}

/** Exact numbers per class that add up to nKeep. */
function classQuotas(counts, nKeep, quota) {
  if (quota === "proportional") {
    const n = sum(counts);
    const remainder = counts.map((count) => (count * nKeep) % n);
    const given = counts.map((count, g) => (count * nKeep - remainder[g]) / n);
    const next = [...counts.keys()].sort((a, b) => remainder[b] - remainder[a] || a - b);
    for (const g of next.slice(0, nKeep - sum(given))) given[g] += 1;
    return given;
  }
  let level = 0, above = counts.reduce((most, count) => Math.max(most, count), 0) + 1;
  while (above - level > 1) {
    const middle = Math.floor((level + above) / 2);
    if (sum(counts.map((count) => Math.min(count, middle))) <= nKeep) level = middle;
    else above = middle;
  }
  const given = counts.map((count) => Math.min(count, level));
  const short = [...counts.keys()].filter((g) => counts[g] > given[g]).slice(0, nKeep - sum(given));
  for (const g of short) given[g] += 1;
  return given;
}

/** The numbers of rows that a selection keeps, in all and of each class: by the order, and at random. */
function places(counts, n, { keepFraction, balance, quota, dropHardest, mixRandom }) {
  const nKeep = Math.max(1, roundHalfEven(keepFraction * n));
  const dropped = Math.min(roundHalfEven(dropHardest * n), n - nKeep);
  const none = counts.map(() => 0);
  if (quota !== "none") {
    const numbers = classQuotas(counts, nKeep, quota);
    const atRandom = numbers.map((number) => roundHalfEven(mixRandom * number));
    const floors = numbers.map((number, g) => number - atRandom[g]);
    return { nKeep, dropped, floors, total: sum(floors), randomFloors: atRandom };
  }
  const floors = balance > 0 ? classFloors(counts, balance * keepFraction, nKeep) : none;
  const atRandom = Math.min(roundHalfEven(mixRandom * nKeep), nKeep - sum(floors));
  return { nKeep, dropped, floors, total: nKeep - atRandom, randomFloors: none };
}

/**
 * Which rows are kept, as `select` would keep them: a 1 or 0 for every row, hardest first.
 * `rows` has: n, counts and codes of the classes, order (of strategies that are not an order of scores) and shuffled
 * (only where some are drawn at random).
 */
function cut(rows, settings) {
  const { n, codes, counts } = rows;
  const { nKeep, dropped, floors, total, randomFloors } = places(counts, n, settings);
  const keep = new Uint8Array(n);
  const ranks = {
    hard: (i) => i,
    easy: (i) => n - 1 - i,
    window: (i) => (i + dropped) % n,
  };
  fill(keep, codes, ranks[settings.strategy] || ((i) => rows.order[i]), floors, total);
  if (nKeep > total) fill(keep, codes, (i) => rows.shuffled[i], randomFloors, nKeep - total);
  return { keep, nKeep, dropped };
}

/** Keep `total` more rows: the first of every class up to its floor, then the first ones that are left. */
function fill(keep, codes, rankAt, floors, total) {
  const n = keep.length, left = Int32Array.from(floors);
  let reserved = sum(floors), rest = total - reserved;
  for (let i = 0; i < n && reserved > 0; i++) {
    const rank = rankAt(i);
    if (!keep[rank] && left[codes[rank]] > 0) {
      left[codes[rank]] -= 1;
      reserved -= 1;
      keep[rank] = 1;
    }
  }
  for (let i = 0; i < n && rest > 0; i++) {
    const rank = rankAt(i);
    if (!keep[rank]) {
      keep[rank] = 1;
      rest -= 1;
    }
  }
}

/** The paper's b: over pairs of classes, the mean of the smaller count over the larger. */
function balanceScore(counts) {
  const ascending = Float64Array.from(counts).sort();
  const c = ascending.length;
  if (c < 2) return 1;
  let smaller = 0, ratios = 0;
  for (const count of ascending) {
    if (count > 0) ratios += smaller / count;
    smaller += count;
  }
  return ratios / ((c * (c - 1)) / 2);
}
