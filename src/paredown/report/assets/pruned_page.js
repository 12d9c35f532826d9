// The page of a manifest or of scores: one state, which rows are kept, and everything on the page drawn from it.

const page = JSON.parse(document.getElementById("data").textContent);

async function unpackRows() {
  const { n, names, counts, quantiles, recipe } = page;
  const [row, codesOfRow, order, shuffled, kept, ids] = await Promise.all([
    unpackNumbers(page.row),
    page.codes ? unpackNumbers(page.codes) : null,
    page.order ? unpackNumbers(page.order) : null,
    page.shuffled ? unpackNumbers(page.shuffled) : null,
    page.keep ? unpackNumbers(page.keep) : null,
    page.ids ? unpackTexts(page.ids) : null,
  ]);
  const codes = new (names.length < 256 ? Uint8Array : Uint16Array)(n);
  if (codesOfRow) for (let rank = 0; rank < n; rank++) codes[rank] = codesOfRow[row[rank]];
  const scoreAt = (rank) => {
    const place = n > 1 ? (rank / (n - 1)) * (quantiles.length - 1) : 0;
    const low = Math.min(quantiles.length - 1, Math.floor(place)), high = Math.min(quantiles.length - 1, low + 1);
    return between([quantiles[low], quantiles[high]], place - low);
  };
  return {
    n, names, counts, codes, row, order, shuffled, kept, recipe, scoreAt, ids,
    duplicates: page.duplicates,
    codesByName: [...names.keys()].filter((code) => counts[code] > 0),
    id: (rank) => (ids ? ids[row[rank]] : String(row[rank])),
  };
}

const rows = await unpackRows();
const gallery = new Gallery(rows, page.exhibits);
const points = page.points && {
  ranks: await unpackNumbers(page.points.ranks),
  x: await unpackNumbers(page.points.x),
  y: await unpackNumbers(page.points.y),
};
const map = points && new EmbeddingMap(rows, points, gallery);
const keepInput = document.getElementById("keep-fraction");
const keepSlider = document.getElementById("keep-slider");
const floorInput = document.getElementById("floor");
const floorSlider = document.getElementById("floor-slider");

function settings() {
  const { strategy, quota, drop_hardest, mix_random } = rows.recipe;
  return {
    keepFraction: Number(keepInput.value), balance: Number(floorInput.value),
    strategy, quota, dropHardest: drop_hardest, mixRandom: mix_random,
  };
}

function set(selector, text) {
  for (const place of document.querySelectorAll(`[data-live="${selector}"]`)) place.textContent = text;
}

let keep = null, waiting = false;

function redraw() {
  waiting = false;
  if (rows.kept) keep = rows.kept;
  else keep = cut(rows, settings()).keep;
  const keptOf = rows.counts.map(() => 0);
  let number = 0;
  for (let rank = 0; rank < rows.n; rank++) {
    if (keep[rank]) {
      number += 1;
      keptOf[rows.codes[rank]] += 1;
    }
  }
  set("kept", grouped(number));
  set("dropped", grouped(rows.n - number));
  set("share", percent(number / rows.n));
  set("balance-after", balanceScore(keptOf).toFixed(3));
  set("lost-classes", grouped(keptOf.filter((kept, code) => kept === 0 && rows.counts[code] > 0).length));
  const counted = countBins(rows, keep, page.edges);
  const whole = histogramOf(counted), logarithmic = needsLogarithm(whole);
  drawHistogram(document.getElementById("histogram"), whole, page.range, { title: "Histogram of the scores", logarithmic });
  showClasses(keptOf, counted, logarithmic);
  gallery.show(keep, keptOf);
  gallery.showGroups(keep);
  if (map) map.draw(keep);
  const command = document.getElementById("recut-command");
  if (command) {
    const floor = page.grouped && rows.recipe.quota === "none" ? ` --balance ${floorInput.value}` : "";
    command.textContent = `${page.command} --keep-fraction ${keepInput.value}${floor} -o ${page.recutOut}`;
  }
  document.body.dataset.ready = "yes";
}

function showClasses(keptOf, counted, logarithmic) {
  const floorShare = Number(floorInput?.value ?? 0) * Number(keepInput?.value ?? 0);
  for (const row of document.querySelectorAll("#classes tbody tr")) {
    const code = Number(row.dataset.code), kept = keptOf[code], count = rows.counts[code];
    const [cell, bar] = [row.querySelector(".kept-count"), row.querySelector(".share")];
    cell.textContent = grouped(kept);
    cell.dataset.value = kept;
    bar.dataset.value = count ? kept / count : 0;
    bar.querySelector("b").style.width = `${count ? (100 * kept) / count : 0}%`;
    bar.querySelector("i").style.left = `${100 * floorShare}%`;
    bar.querySelector("span").textContent = count ? percent(kept / count) : "";
  }
  for (const place of document.querySelectorAll("[data-histogram-of]")) {
    const code = Number(place.dataset.histogramOf);
    const title = `Histogram of the scores of ${shortened(rows.names[code])}`;
    drawHistogram(place, histogramOf(counted, code), page.range, { small: true, title, logarithmic });
  }
}

function schedule() {
  if (!waiting) requestAnimationFrame(redraw);
  waiting = true;
}

function bind(input, slider) {
  if (!slider) return;
  slider.addEventListener("input", () => {
    input.value = slider.value;
    schedule();
  });
  input.addEventListener("input", () => {
    if (!input.checkValidity() || input.value === "") return;
    slider.value = input.value;
    schedule();
  });
  input.addEventListener("change", () => {
    if (input.checkValidity() && input.value !== "") return;
    input.value = slider.value;
  });
}

bind(keepInput, keepSlider);
bind(floorInput, floorSlider);
document.getElementById("reset")?.addEventListener("click", () => {
  keepInput.value = keepSlider.value = rows.recipe.keep_fraction;
  floorInput.value = rows.recipe.balance;
  if (floorSlider) floorSlider.value = rows.recipe.balance;
  schedule();
});
document.getElementById("download").addEventListener("click", () => {
  const kept = [];
  for (let rank = 0; rank < rows.n; rank++) if (keep[rank]) kept.push(rows.row[rank]);
  kept.sort((a, b) => a - b);
  const lines = kept.map((row) => (rows.ids ? rows.ids[row] : String(row)));
  const broken = lines.some((line) => /[\n\r]/.test(line));
  const text = broken ? JSON.stringify(lines) : lines.map((line) => `${line}\n`).join("");
  saveText(text, broken ? "kept.json" : "kept.txt");
  announce(`${grouped(kept.length)} ids saved.`);
});
document.getElementById("class-search")?.addEventListener("input", (event) => {
  const wanted = event.target.value.toLowerCase();
  for (const row of document.querySelectorAll("#classes tbody tr")) {
    row.hidden = !rows.names[Number(row.dataset.code)].toLowerCase().includes(wanted);
  }
});
new ResizeObserver(schedule).observe(document.getElementById("histogram"));
redraw();
