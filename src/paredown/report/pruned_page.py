"""The page of a manifest, or of scores that nothing was pruned by yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.markup import Markup, join, tag
from paredown.metrics.registry import METRICS
from paredown.report.costs_shown import describe_cost
from paredown.report.embedding_map import MOST_COMPARED, NEAR_DUPLICATE, EmbeddingsShown
from paredown.report.exhibits import Exhibits
from paredown.report.page import page
from paredown.report.page_parts import card, clipped, facts, heat_table, listed, numbers, scroll, shade, warning_card
from paredown.report.provenance_shown import commands_of, facts_of, selection_options, warnings_of
from paredown.report.recut_data import RankedRows
from paredown.scores import Scores
from paredown.selection import balance_of_counts

_SCRIPTS = ("elements.js", "unpacking.js", "recut.js", "histogram.js", "gallery.js", "map.js", "pruned_page.js")
_CLASS_HISTOGRAMS = 24  # classes, the largest, whose histograms are drawn
_HEAT_ROWS, _HEAT_COLUMNS = 30, 30  # of the table of clusters and classes, the largest of each

_STRATEGIES = {
    "hard": "the hardest",
    "easy": "the easiest",
    "random": "a random subset, without looking at scores",
    "window": "the hardest after leaving out the {drop:g} % that are hardest of all",
    "stratified": "equal numbers from every range of scores, after leaving out the {drop:g} % that are hardest",
    "moderate": "those closest to the median score",
}


class PrunedPage(NamedTuple):
    """Everything that the page of a selection is made of.

    Attributes:
        rows: the selection.
        pruned: whether this is a manifest; else the selection is only proposed.
        total: rows of the whole table, of which the page may show a sample.
        name: what the data are called.
        path: the manifest or scores, as the user named it.
        embeddings: the map and the near-duplicates.
        exhibits: examples with their content.
    """

    rows: RankedRows
    pruned: bool
    total: int
    name: str
    path: str
    embeddings: EmbeddingsShown
    exhibits: Exhibits

    @property
    def record(self) -> Mapping[str, Any]:
        """Where the scores come from; of a selection that is only proposed, with its own notes."""
        record = self.rows.scores.provenance
        return record if "selection" in record else {**record, "notes": self.rows.notes}

    def html(self) -> str:
        """The page as one file."""
        sections = {
            "scores": ("Scores", self._histogram()),
            "groups": (_plural(self.rows.kind).capitalize(), self._classes()),
            "gallery": ("Examples", self._gallery()),
            "alike": ("Near-duplicates", self._duplicates()),
            "embeddings": ("Map", self._map()),
            "clusters": ("Clusters and classes", self._heat()),
            "cost": ("Cost", self._cost()),
            "provenance": ("How it was made", self._provenance()),
        }
        title = f"{'What was kept of' if self.pruned else 'Scores of'} {clipped(self.name, 60)}"
        return page(
            title,
            sections,
            lead=[self._sentences(), self._numbers()],
            above=[self._warnings(), self._controls()],
            scripts=_SCRIPTS,
            data=self._data(),
        )

    def _data(self) -> dict[str, Any]:
        recipe = self.rows.recipe
        options = "" if recipe is None else selection_options(recipe)
        return self.rows.packed() | {
            "exhibits": self.exhibits.packed(self.rows),
            "points": self.embeddings.packed_points(),
            "duplicates": [vars(group) for group in self.embeddings.duplicates],
            "command": f"paredown prune {self.path}{options}",
            "recutOut": "pruned-again",
        }

    # --- the top of the page ---------------------------------------------------------------------------------------

    def _sentences(self) -> Markup:
        n, kept, scores = len(self.rows.keep), int(np.count_nonzero(self.rows.keep)), self.rows.scores
        recipe = self.rows.recipe or {}
        entry = METRICS.get(scores.metric)
        by = f" by {scores.metric}" + (f" ({entry.summary})" if entry else "")
        way = _STRATEGIES.get(recipe.get("strategy", ""), "those marked in the manifest")
        way = way.format(drop=100 * recipe.get("drop_hardest", 0))
        verb = " examples are kept (" if self.pruned else " examples would be kept ("
        first = join(
            live("kept", f"{kept:,}"), f" of {n:,}", verb, live("share", f"{100 * kept / n:.3g} %"), f"): {way}"
        )
        first = join(first, "." if recipe.get("strategy") == "random" else f"{by}.")
        return tag("p", join(first, " ", self._about_floor(recipe)), class_="lead")

    def _about_floor(self, recipe: Mapping[str, Any]) -> str:
        kind = self.rows.kind
        if self.rows.groups is None or not recipe:
            return ""
        if recipe.get("quota", "none") != "none":
            same = "fraction" if recipe["quota"] == "proportional" else "number, as far as it has so many"
            return f"Every {kind} keeps the same {same}."
        if not recipe.get("balance"):
            return f"There is no floor: a {kind} may lose all its examples."
        return (
            f"A floor of {recipe['balance']:g} protects small and easy {_plural(kind)}: each keeps at least that share "
            f"of what pruning all {_plural(kind)} equally would leave it."
        )

    def _numbers(self) -> Markup:
        groups, keep = self.rows.groups, self.rows.keep
        kept = int(np.count_nonzero(keep))
        shown: dict[str, object] = {
            "kept": live("kept", f"{kept:,}"),
            "dropped": live("dropped", f"{len(keep) - kept:,}"),
        }
        if groups is not None:
            counts = groups.counts
            after = groups[keep].counts
            kinds = _plural(self.rows.kind)
            shown |= {
                kinds: f"{len(groups.classes):,}",
                f"{kinds} that keep nothing": live("lost-classes", f"{int(((after == 0) & (counts > 0)).sum()):,}"),
                "balance b before": f"{balance_of_counts(counts):.3f}",
                "balance b after": live("balance-after", f"{balance_of_counts(after):.3f}"),
            }
        return numbers(shown)

    def _warnings(self) -> Markup:
        found, n = warnings_of(self.record), len(self.rows.keep)
        if n < self.total:
            found.insert(
                0, f"This page shows a random sample, {n:,} of {self.total:,} examples; its numbers are of the sample."
            )
        return warning_card(found)

    def _controls(self) -> Markup:
        rows = self.rows
        listed = "row numbers" if rows.ids_left_out else "ids"
        download = tag("button", f"Download the kept {listed}", type="button", id="download", class_="main")
        if not rows.repeatable or rows.recipe is None:
            why = (
                "This selection cannot be repeated from its recipe, so the page shows it as it is; select again with "
                "`paredown prune` to try other settings."
            )
            return card("What is kept", tag("div", download, class_="row"), hint=why)
        recipe = rows.recipe
        fixed = recipe["quota"] != "none" or rows.groups is None
        sliders = tag(
            "div",
            _slider("keep-fraction", "keep-slider", "Keep fraction", recipe["keep_fraction"], rows.largest_fraction),
            Markup("")
            if fixed
            else _slider("floor", "floor-slider", f"Floor per {rows.kind}", recipe["balance"], 1.0, least=0.0),
            class_="sliders",
        )
        hidden = tag("input", type="hidden", id="floor", value=recipe["balance"]) if fixed else Markup("")
        reset = tag("button", "Reset", type="button", id="reset")
        counted = tag("strong", live("kept", ""), " kept")
        command = _command("", "recut-command")
        body = join(sliders, hidden, tag("div", counted, download, reset, command, class_="row"))
        return tag(
            "section", tag("h2", "Try other settings", class_="unseen"), body, class_="card controls", id="controls"
        )

    # --- what the scores look like ---------------------------------------------------------------------------------

    def _histogram(self) -> Markup:
        key = tag(
            "ul",
            tag("li", tag("i", class_="kept"), "kept"),
            tag("li", tag("i", class_="dropped"), "dropped"),
            class_="key",
        )
        return card(
            "Scores", tag("div", id="histogram"), key, hint="How many examples have which score.", anchor="scores"
        )

    def _classes(self) -> Markup:
        groups, keep = self.rows.groups, self.rows.keep
        if groups is None:
            return Markup("")
        kind, kinds = self.rows.kind, _plural(self.rows.kind)
        counts, kept = groups.counts, groups[keep].counts
        headings = [(kind, ""), ("examples", "number"), ("kept", "number"), ("share kept", "")]
        head = tag(
            "tr", *(tag("th", tag("button", text, type="button"), scope="col", class_=c) for text, c in headings)
        )
        rows = [
            self._class_row(code, name, int(count), int(left))
            for code, (name, count, left) in enumerate(zip(groups.classes, counts, kept, strict=True))
        ]
        table = tag("table", tag("thead", head), tag("tbody", *rows), class_="sortable", id="classes")
        search = Markup("")
        if len(rows) > 20:
            label = tag("label", f"Find a {kind}: ", tag("input", type="search", id="class-search"))
            search = tag("div", label, class_="row")
        hint = (
            "b is the paper's balance: the smaller of two counts over the larger, averaged over all pairs of "
            f"{kinds}; 1 means that all are equally large. The line in each bar is the floor."
        )
        small = [
            tag("figure", tag("figcaption", clipped(groups.classes[code], 32)), tag("div", data_histogram_of=code))
            for code in np.argsort(-counts, kind="stable")[:_CLASS_HISTOGRAMS].tolist()
        ]
        which = "" if len(rows) <= _CLASS_HISTOGRAMS else f", of the {_CLASS_HISTOGRAMS} largest {kinds}"
        return card(
            f"{kinds.capitalize()} before and after",
            search,
            scroll(table, f"Table of {kinds}"),
            tag("h3", f"Scores per {kind}{which}", style="margin-top:20px"),
            tag("div", *small, class_="small-histograms"),
            hint=hint,
            anchor="groups",
        )

    def _class_row(self, code: int, name: str, count: int, kept: int) -> Markup:
        share = kept / count if count else 0.0
        bar = tag("div", tag("b", style=f"width:{100 * share:.2f}%"), tag("i"))
        return tag(
            "tr",
            tag("td", clipped(name), class_="name", title=clipped(name, 400)),
            tag("td", f"{count:,}", class_="number", data_value=count),
            tag("td", f"{kept:,}", class_="number kept-count", data_value=kept),
            tag("td", bar, tag("span", f"{100 * share:.1f} %"), class_="share", data_value=share),
            data_code=code,
        )

    # --- examples --------------------------------------------------------------------------------------------------

    def _gallery(self) -> Markup:
        hint = {
            "pictures": "Click an id to copy it.",
            "texts": "The beginning of each text. Click an id to copy it.",
            "none": "The page has no pictures of these examples. Click an id to copy it.",
        }[self.exhibits.kind]
        everything = tag("option", "all", value="")
        choose = tag("label", f"Show {self.rows.kind}: ", tag("select", everything, id="gallery-class"))
        return card(
            "The hardest and easiest examples",
            listed(filter(None, [self.exhibits.note])),
            tag("div", choose, class_="row"),
            tag("div", id="galleries"),
            hint=hint,
            anchor="gallery",
        )

    def _duplicates(self) -> Markup:
        shown = self.embeddings
        if not shown.compared and len(shown.ranks) == 0:
            return Markup("")
        groups = Markup("")
        if not shown.compared:
            hint = (
                f"Pairs are compared in sets of up to {MOST_COMPARED:,} examples, and this one is larger; `paredown "
                "score --metric duplicates` finds them in larger ones."
            )
        elif not shown.duplicates:
            hint = f"No two embeddings have a cosine of {NEAR_DUPLICATE} or more."
        else:
            hint = (
                f"The largest groups of examples whose embeddings are connected by cosines of {NEAR_DUPLICATE} or more."
            )
            groups = tag("div", id="duplicates")
        return card("Near-duplicates", groups, hint=hint, anchor="alike")

    def _map(self) -> Markup:
        shown = self.embeddings
        if len(shown.ranks) == 0:
            if not shown.note:
                return Markup("")
            return card("Map of the embeddings", hint=f"There is no map. {shown.note}", anchor="embeddings")
        colors = {"score": "score", "class": self.rows.kind, "kept": "kept or dropped"}
        if self.rows.groups is None:
            del colors["class"]
        options = [tag("option", text, value=value) for value, text in colors.items()]
        what = "PaCMAP" if shown.method == "pacmap" else "the two leading principal components"
        n = len(self.rows.keep)
        part = "" if len(shown.ranks) == n else f" of {len(shown.ranks):,} of the {n:,} examples, drawn at random"
        canvas = tag(
            "canvas",
            id="map",
            tabindex="0",
            role="img",
            aria_label="Map of the embeddings; arrow keys go through the examples from hard to easy",
        )
        side = tag(
            "div",
            tag("label", "Colour by ", tag("select", *options, id="map-color")),
            tag("ul", class_="key", id="map-key"),
            tag(
                "div",
                "Point at the map, or use the arrow keys on it, to see single examples.",
                id="map-card",
                class_="strip",
            ),
        )
        return card(
            "Map of the embeddings",
            tag("div", canvas, side, class_="map"),
            hint=f"Near points are examples with similar embeddings. Layout: {what}{part}.",
            anchor="embeddings",
        )

    def _heat(self) -> Markup:
        scores = self.rows.scores
        if scores.labels is None or scores.clusters is None:
            return Markup("")
        table, clusters, classes = cluster_table(scores)
        sizes = table.sum(axis=1)
        order = np.argsort(-sizes, kind="stable")[:_HEAT_ROWS]
        columns = np.sort(np.argsort(-table.sum(axis=0), kind="stable")[:_HEAT_COLUMNS])
        shown = table[order][:, columns].toarray()
        rows = [
            (f"cluster {clusters[r]} ({sizes[r]:,})", _heat_cells(counts / max(1, sizes[r])))
            for r, counts in zip(order, shown, strict=True)
        ]
        purity = float(table.max(axis=1).sum() / len(scores))
        hint = (
            "Each row is a cluster of the metric's k-means, each number the share of its examples that a class has, in "
            f"per cent. {100 * purity:.3g} % of the examples are in the largest class of their cluster: the higher, "
            "the better the embeddings know the classes."
        )
        if table.shape[0] > _HEAT_ROWS or table.shape[1] > _HEAT_COLUMNS:
            hint += (
                f" Shown are the largest: {len(order)} of {table.shape[0]:,} clusters and {len(columns)} of "
                f"{table.shape[1]:,} classes."
            )
        heat = heat_table("Table of clusters and classes", [clipped(classes[c], 24) for c in columns], rows)
        return card("Clusters and classes", heat, hint=hint, anchor="clusters")

    # --- how it was made -------------------------------------------------------------------------------------------

    def _cost(self) -> Markup:
        kept = int(np.count_nonzero(self.rows.keep))
        sentences = describe_cost(self.record, self.rows.scores.metric, len(self.rows.keep), kept)
        return card("Cost of the metric, and training saved", *(tag("p", text) for text in sentences), anchor="cost")

    def _provenance(self) -> Markup:
        recipe = self.rows.recipe or {}
        chosen = {name.replace("_", " "): value for name, value in recipe.items() if value is not None}
        commands = commands_of(self.record, self.path) if self.pruned and recipe else []
        again = [tag("h3", "The same again")] if commands else []
        again += [_command(command, f"command-{number}") for number, command in enumerate(commands)]
        return card(
            "How it was made",
            *again,
            tag("h3", "Scores"),
            facts({name: clipped(value, 400) for name, value in facts_of(self.record).items()}),
            tag("h3", "Selection", style="margin-top:16px"),
            facts(chosen),
            anchor="provenance",
        )


def live(name: str, value: str) -> Markup:
    """A text that the page keeps up to date."""
    return tag("span", value, data_live=name)


def cluster_table(scores: Scores) -> tuple[Any, NDArray[Any], tuple[str, ...]]:
    """How many examples of each class every cluster has, the clusters, and the classes.

    The table is sparse: with as many clusters and classes as examples a full one would not fit in memory.
    """
    from scipy.sparse import csr_array

    assert scores.labels is not None
    assert scores.clusters is not None
    clusters, rows = np.unique(scores.clusters, return_inverse=True)
    shape = (len(clusters), len(scores.labels.classes))
    table = csr_array((np.ones(len(rows), np.int64), (rows, scores.labels.codes)), shape=shape)
    return table, clusters, scores.labels.classes


def _heat_cells(shares: NDArray[np.float64]) -> list[Markup]:
    return [tag("td", f"{100 * s:.0f}" if s >= 0.005 else "", style=shade("kept", 45 * s)) for s in shares]


def _command(text: str, name: str) -> Markup:
    copy = tag("button", "Copy", type="button", data_copy=name)
    return tag("div", tag("pre", text, id=name, tabindex="0"), copy, class_="command")


def _slider(name: str, slider: str, label: str, value: float, most: float, least: float = 0.001) -> Markup:
    limits = {"min": f"{least:g}", "max": f"{most:g}"}
    return tag(
        "div",
        tag("label", label, for_=name),
        tag("input", type="number", id=name, value=repr(value), step="any", required=True, **limits),
        tag("input", type="range", id=slider, value=repr(value), step="0.001", aria_label=label, **limits),
        class_="slider",
    )


def _plural(kind: str) -> str:
    return "classes" if kind == "class" else f"{kind}s"
