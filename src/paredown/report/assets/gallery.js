// Galleries: examples as tiles with a picture or the beginning of a text, their id, class and score.

const SHOWN = 18;
const LISTS = [
  ["Hardest kept", true, true],
  ["Easiest kept", true, false],
  ["Hardest dropped", false, true],
  ["Easiest dropped", false, false],
];

class Gallery {
  constructor(rows, exhibits) {
    this.rows = rows;
    this.pictures = exhibits.pictures ? bytesOf(exhibits.pictures) : null;
    this.numberOf = new Map(exhibits.ranks.map((rank, number) => [rank, number]));
    this.exhibits = exhibits;
    this.urls = [];
    this.place = document.getElementById("galleries");
    this.filter = document.getElementById("gallery-class");
    for (const code of rows.codesByName) {
      this.filter.append(element("option", { value: code }, shortened(rows.names[code])));
    }
    this.filter.parentElement.hidden = rows.names.length < 2;
    this.filter.addEventListener("change", () => this.show(this.keep, this.keptOf));
  }

  /** The first rows of a list; where examples have content, only those whose content is in the page. */
  pick(keep, kept, hardest) {
    const { n, codes } = this.rows, code = this.filter.value === "" ? null : Number(this.filter.value);
    const picked = [];
    let passed = 0;
    for (let i = 0; i < n && picked.length < SHOWN; i++) {
      const rank = hardest ? i : n - 1 - i;
      if (keep[rank] !== Number(kept) || (code !== null && codes[rank] !== code)) continue;
      if (this.exhibits.kind === "none" || this.numberOf.has(rank)) picked.push(rank);
      else passed += 1;
    }
    return { picked, passed };
  }

  /** How many rows a list has. */
  count(kept, keptOf) {
    const { counts } = this.rows, codes = this.filter.value === "" ? [...counts.keys()] : [Number(this.filter.value)];
    return sum(codes.map((code) => (kept ? keptOf[code] : counts[code] - keptOf[code])));
  }

  show(keep, keptOf) {
    Object.assign(this, { keep, keptOf });
    const lists = LISTS.map(([title, kept, hardest]) => {
      const { picked, passed } = this.pick(keep, kept, hardest), number = this.count(kept, keptOf);
      const about = number === 0 ? "none" : `${grouped(picked.length)} of ${grouped(number)}`;
      const left = passed && picked.length ? `; ${grouped(passed)} in between are not stored in this page` : "";
      return element(
        "section", { class: `strip ${kept ? "is-kept" : "is-dropped"}` },
        element("h3", {}, title, " ", element("small", {}, `${about}${left}`)),
        element("div", { class: "tiles" }, ...picked.map((rank) => this.tile(rank, keep))),
      );
    });
    this.place.replaceChildren(...lists);
  }

  tile(rank, keep) {
    const { rows } = this, id = rows.id(rank);
    const label = rows.names.length > 1 ? shortened(rows.names[rows.codes[rank]], 24) : "";
    const about = `${label ? `${label}, ` : ""}score ${significant(this.score(rank))}`;
    return element(
      "figure", { class: keep[rank] ? "tile is-kept" : "tile is-dropped" },
      this.content(rank, id),
      element(
        "figcaption", {},
        element(
          "button",
          { type: "button", class: "id", title: `${shortened(id, 300)} (click to copy)`, onclick: () => copyText(id, "The id was") },
          ...shortened(id, 28).split(/(?<=\/)/).flatMap((part) => [part, element("wbr")]), // rather than inside a name
        ),
        element("span", {}, about),
      ),
    );
  }

  content(rank, id) {
    const number = this.numberOf.get(rank);
    if (number === undefined || this.exhibits.kind === "none") return "";
    if (this.exhibits.kind === "texts") return element("blockquote", {}, visible(this.exhibits.texts[number]));
    return element("img", { src: this.url(number), alt: shortened(id, 80), width: 96, height: 96 });
  }

  url(number) {
    if (!this.urls[number]) {
      const [start, end] = [this.exhibits.starts[number], this.exhibits.starts[number + 1]];
      this.urls[number] = URL.createObjectURL(new Blob([this.pictures.subarray(start, end)], { type: "image/webp" }));
    }
    return this.urls[number];
  }

  /** Of an example shown in the page exactly, of others to about three digits. */
  score(rank) {
    const number = this.numberOf.get(rank);
    return number === undefined ? this.rows.scoreAt(rank) : this.exhibits.scores[number];
  }

  showGroups(keep) {
    const place = document.getElementById("duplicates");
    if (!place) return;
    place.replaceChildren(...this.rows.duplicates.map(({ ranks, more, nearest }) => {
      const kept = ranks.filter((rank) => keep[rank]).length;
      const size = ranks.length + more;
      const about = `${size} alike (cosine ${nearest.toFixed(3)} or more)${more ? `, ${ranks.length} shown` : ""}: `;
      return element(
        "section", { class: "strip" },
        element("h3", {}, element("small", {}, `${about}${kept} of ${ranks.length} kept`)),
        element("div", { class: "tiles" }, ...ranks.map((rank) => this.tile(rank, keep))),
      );
    }));
  }
}
