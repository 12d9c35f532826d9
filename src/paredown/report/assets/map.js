// The map of the embeddings: points written into an image buffer, and a grid that finds the one under the pointer.

const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const CLASS_COLORS = [
  [0, 114, 178], [213, 94, 0], [0, 158, 115], [204, 121, 167], [230, 159, 0], [86, 180, 233],
  [148, 103, 189], [140, 86, 75], [127, 127, 127], [188, 189, 34], [227, 119, 194], [23, 190, 207],
];
const KEPT = [0, 114, 178], DROPPED = [213, 94, 0];

class EmbeddingMap {
  constructor(rows, points, gallery) {
    Object.assign(this, { rows, points, gallery });
    this.canvas = document.getElementById("map");
    this.card = document.getElementById("map-card");
    this.mode = document.getElementById("map-color");
    this.picked = null;
    this.mode.addEventListener("change", () => this.draw(this.keep));
    this.canvas.addEventListener("pointermove", (event) => this.pick(this.nearest(event)));
    this.canvas.addEventListener("pointerdown", (event) => this.pick(this.nearest(event)));
    this.canvas.addEventListener("keydown", (event) => this.step(event));
    this.canvas.addEventListener("pointerleave", () => this.pick(null));
    this.size = 640;
    this.grid = new Map();
    const side = this.size * 2;
    this.canvas.width = this.canvas.height = side;
    points.ranks.forEach((_, i) => {
      const cell = this.cell(this.place(points.x[i]), this.place(points.y[i]));
      if (this.grid.has(cell)) this.grid.get(cell).push(i);
      else this.grid.set(cell, [i]);
    });
  }

  place(coordinate) {
    return 12 + (coordinate / 65535) * (this.canvas.width - 24);
  }

  cell(x, y) {
    return Math.floor(y / 16) * 4096 + Math.floor(x / 16);
  }

  color(rank) {
    const { rows, keep } = this;
    if (this.mode.value === "kept") return keep[rank] ? KEPT : DROPPED;
    if (this.mode.value === "class") return CLASS_COLORS[rows.codes[rank] % CLASS_COLORS.length];
    const place = (1 - rank / Math.max(1, rows.n - 1)) * (RAMP.length - 1);
    const low = Math.min(RAMP.length - 2, Math.floor(place)), share = place - low;
    return RAMP[low].map((value, i) => value + share * (RAMP[low + 1][i] - value));
  }

  draw(keep) {
    this.keep = keep;
    const { canvas, points } = this, context = canvas.getContext("2d");
    const image = context.createImageData(canvas.width, canvas.height);
    const radius = points.ranks.length > 50_000 ? 1 : points.ranks.length > 8_000 ? 2 : 4;
    for (let i = 0; i < points.ranks.length; i++) {
      const [red, green, blue] = this.color(points.ranks[i]);
      const [x, y] = [Math.round(this.place(points.x[i])), Math.round(this.place(points.y[i]))];
      for (let down = -radius; down <= radius; down++) {
        for (let right = -radius; right <= radius; right++) {
          if (down * down + right * right > radius * radius) continue;
          const at = 4 * ((y + down) * canvas.width + x + right);
          image.data[at] = red;
          image.data[at + 1] = green;
          image.data[at + 2] = blue;
          image.data[at + 3] = 255;
        }
      }
    }
    this.image = image;
    this.paint();
    this.drawKey();
  }

  paint() {
    const context = this.canvas.getContext("2d");
    context.putImageData(this.image, 0, 0);
    if (this.picked === null) return;
    context.lineWidth = 5;
    context.strokeStyle = getComputedStyle(this.canvas).color;
    context.beginPath();
    context.arc(this.place(this.points.x[this.picked]), this.place(this.points.y[this.picked]), 14, 0, 2 * Math.PI);
    context.stroke();
  }

  drawKey() {
    const key = document.getElementById("map-key");
    const swatch = (color, text) =>
      element("li", {}, element("i", { style: `background:rgb(${color.map(Math.round).join(",")})` }), text);
    if (this.mode.value === "kept") key.replaceChildren(swatch(KEPT, "kept"), swatch(DROPPED, "dropped"));
    else if (this.mode.value === "class") {
      const shown = this.rows.names.slice(0, CLASS_COLORS.length).map((name, code) => swatch(CLASS_COLORS[code], shortened(name, 24)));
      const more = this.rows.names.length - shown.length;
      key.replaceChildren(...shown, ...(more > 0 ? [element("li", {}, `and ${grouped(more)} more, colours repeat`)] : []));
    } else key.replaceChildren(swatch(RAMP[0], "easiest"), swatch(RAMP[2], "median"), swatch(RAMP[4], "hardest"));
  }

  nearest(event) {
    const box = this.canvas.getBoundingClientRect(), scale = this.canvas.width / box.width;
    const [x, y] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    let best = null, distance = 24 * 24;
    for (let down = -1; down <= 1; down++) {
      for (let right = -1; right <= 1; right++) {
        for (const i of this.grid.get(this.cell(x + 16 * right, y + 16 * down)) ?? []) {
          const apart = (this.place(this.points.x[i]) - x) ** 2 + (this.place(this.points.y[i]) - y) ** 2;
          if (apart < distance) [best, distance] = [i, apart];
        }
      }
    }
    return best;
  }

  /** Arrow keys walk from the hardest example to the easiest. */
  step(event) {
    const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (move === undefined) return;
    event.preventDefault();
    const last = this.points.ranks.length - 1;
    this.pick(this.picked === null ? 0 : Math.min(last, Math.max(0, this.picked + move)));
    if (this.picked !== null) announce(this.card.textContent);
  }

  pick(i) {
    if (i === this.picked) return;
    this.picked = i;
    this.paint();
    this.card.replaceChildren(
      i === null ? "Point at the map, or use the arrow keys on it, to see single examples." : this.gallery.tile(this.points.ranks[i], this.keep),
    );
  }
}
