// Histograms of scores, kept and dropped stacked. Scores stand hardest first, so a bin is a range of rows: the page
// needs no scores to count them.

const HEIGHT = 250, LEFT = 56, BOTTOM = 40, TOP = 8, TOP_WITH_TEXT = 22;

/** Counts of all and of kept rows in every bin and class: one pass over the rows. Bins go from low scores to high ones. */
function countBins(rows, keep, edges) {
  const bins = edges.length - 1, classes = rows.counts.length;
  const all = new Int32Array(bins * classes), kept = new Int32Array(bins * classes);
  for (let bin = 0; bin < bins; bin++) {
    const start = bin * classes;
    for (let rank = edges[bin + 1]; rank < edges[bin]; rank++) {
      const cell = start + rows.codes[rank];
      all[cell] += 1;
      kept[cell] += keep[rank];
    }
  }
  return { bins, classes, all, kept };
}

/** The kept and dropped of every bin, of one class or of all. */
function histogramOf({ bins, classes, all, kept }, code = null) {
  const found = { kept: new Array(bins).fill(0), dropped: new Array(bins).fill(0) };
  for (let bin = 0; bin < bins; bin++) {
    const [first, last] = code === null ? [0, classes] : [code, code + 1];
    for (let cell = bin * classes + first; cell < bin * classes + last; cell++) {
      found.kept[bin] += kept[cell];
      found.dropped[bin] += all[cell] - kept[cell];
    }
  }
  return found;
}

/** Whether one bin holds most of the rows, so that the others could not be seen beside it on a linear axis. */
function needsLogarithm({ kept, dropped }) {
  const counts = kept.map((number, bin) => number + dropped[bin]);
  return 2 * Math.max(...counts) > sum(counts);
}

/** On a logarithmic axis a bar is as high as its count says, and its colours still share it as kept and dropped do. */
function drawHistogram(place, { kept, dropped }, values, { small = false, title, logarithmic = false }) {
  const bins = kept.length, most = Math.max(1, ...kept.map((number, bin) => number + dropped[bin]));
  const [left, bottom] = small ? [4, 4] : [LEFT, BOTTOM];
  const [width, height] = small ? [220, 90] : [Math.max(300, place.clientWidth), HEIGHT];
  const top = logarithmic ? TOP_WITH_TEXT : TOP;
  const x = (bin) => left + ((width - left - 8) * bin) / bins;
  const part = logarithmic ? (count) => Math.log1p(count) / Math.log1p(most) : (count) => count / most;
  const y = (count) => height - bottom - (height - bottom - top) * part(count);
  const picture = drawing("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  if (logarithmic) {
    const about = small ? "logarithmic" : "examples (logarithmic axis; colours show the share of each bar)";
    picture.append(drawing("text", { x: small ? left : 0, y: 12 }, about));
  }
  if (!small) {
    for (const count of logarithmic ? powersOfTen(most) : niceSteps(most)) {
      picture.append(
        drawing("line", { class: "grid", x1: left, x2: width - 8, y1: y(count), y2: y(count) }),
        drawing("text", { x: left - 6, y: y(count) + 4, "text-anchor": "end" }, grouped(count)),
      );
    }
    for (const share of width < 480 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]) {
      const value = between(values, share);
      const anchor = share === 1 ? "end" : share === 0 ? "start" : "middle";
      picture.append(drawing("text", { x: x(share * bins), y: height - 22, "text-anchor": anchor }, significant(value)));
    }
    picture.append(drawing("text", { x: width / 2, y: height - 4, "text-anchor": "middle" }, "score (higher is harder)"));
  }
  for (let bin = 0; bin < bins; bin++) {
    const wide = Math.max(0.5, x(bin + 1) - x(bin) - (small ? 0.5 : 1));
    const low = between(values, bin / bins), high = between(values, (bin + 1) / bins);
    const about = `scores ${significant(low)} to ${significant(high)}: ${grouped(kept[bin])} kept, ${grouped(dropped[bin])} dropped`;
    const count = kept[bin] + dropped[bin], floor = y(0), head = y(count);
    const border = floor - ((floor - head) * kept[bin]) / Math.max(1, count);
    const bar = (kind, from, to) => drawing("rect", { class: kind, x: x(bin), width: wide, y: to, height: from - to });
    const group = drawing("g", {}, bar("kept", floor, border), bar("dropped", border, head));
    group.prepend(drawing("title", {}, about));
    picture.append(group);
  }
  place.replaceChildren(picture);
}

/** A number on the way from one to another, which may be further apart than a number can say. */
function between([low, high], share) {
  return (1 - share) * low + share * high;
}

function niceSteps(most) {
  const rough = most / 4, power = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
  const step = Math.max(1, power * [1, 2, 5, 10].find((factor) => factor * power >= rough));
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}

function powersOfTen(most) {
  return [0, ...Array.from({ length: Math.floor(Math.log10(most)) + 1 }, (_, power) => 10 ** power)];
}
