"""The rows of a selection as the page cuts them again: in the order of their scores, ties settled."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.ids import hash_ids
from paredown.report.packing import pack_numbers, pack_texts
from paredown.scores import Labels, Scores
from paredown.selection import STRATEGIES, Selection, SelectionSettings
from paredown.selection.selecting import select_in_order

BINS = 60  # of the histograms
_QUANTILES = 2_049  # from which the page reads scores of examples that it shows nowhere else
_MOST_ID_BYTES = 6 * 2**20  # of packed ids; longer ones are left out, and the page names rows instead
_OPTIONS = ("keep_fraction", "strategy", "balance", "quota", "drop_hardest", "mix_random", "seed")
_ORDERED_BY_SCORE = ("hard", "easy", "window")


class RankedRows:
    """A selection from scores, its rows ranked hardest first, ties in the order in which `select` breaks them.

    Attributes:
        scores: of all examples.
        recipe: how they were selected, as a manifest records it; None if that is not known.
        keep: which are kept.
        repeatable: whether the recipe gives just these, so that the page can cut again at other settings.
        notes: what a user should know of the selection that the recipe gives.
    """

    def __init__(self, scores: Scores, recorded: Any, keep: NDArray[np.bool_] | None = None) -> None:
        """Rank the rows. `recorded` may come from anywhere; `keep` is what it gives, if not given."""
        self.scores, self.recipe = scores, _checked_recipe(scores, recorded)
        self._hashes = hash_ids(scores.ids, seed=0 if self.recipe is None else self.recipe["seed"])
        self.row = STRATEGIES["hard"](scores.values, self._hashes, 0)
        again = self._select_again()
        assert again is not None or keep is not None
        self.keep = keep if keep is not None else again.keep  # type: ignore[union-attr]
        self.repeatable = again is not None and bool(np.array_equal(again.keep, self.keep))
        self.notes = again.notes if again is not None else ()

    def _select_again(self) -> Selection | None:
        """What the recipe gives, for what is already in order; None if it cannot be repeated for other fractions."""
        if self.recipe is None:
            return None
        settings = SelectionSettings(**{name: self.recipe[name] for name in _OPTIONS})
        _, dropped = settings.kept_and_dropped(len(self.row))
        if settings.strategy == "stratified" and dropped < round(settings.drop_hardest * len(self.row)):
            return None  # fewer of the hardest are left out than asked for, and the bins depend on how many
        if settings.grouped and self.groups is None:
            return None
        self._dropped = dropped
        return select_in_order(self.scores, settings, self._order(settings.strategy))

    def _order(self, strategy: str) -> NDArray[np.int64]:
        if strategy == "hard":
            return self.row
        if strategy == "easy":
            return self.row[::-1]
        if strategy == "window":
            return np.roll(self.row, -self._dropped)
        return STRATEGIES[strategy](self.scores.values, self._hashes, self._dropped)

    @cached_property
    def groups(self) -> Labels | None:
        """The classes, or else the clusters, that floors are for."""
        if self.scores.labels is not None:
            return self.scores.labels
        return None if self.scores.clusters is None else Labels.of(self.scores.clusters)

    @property
    def kind(self) -> str:
        """What the groups are called."""
        return "class" if self.scores.labels is not None else "cluster"

    @cached_property
    def rank(self) -> NDArray[np.int64]:
        """The rank of every row."""
        rank = np.empty(len(self.row), np.int64)
        rank[self.row] = np.arange(len(self.row))
        return rank

    @property
    def largest_fraction(self) -> float:
        """Up to which keep_fraction the page can cut: beyond it `stratified` would have other bins."""
        if self.recipe is None or self.recipe["strategy"] != "stratified":
            return 1.0
        n = len(self.keep)
        return np.floor(1000 * (n - round(self.recipe["drop_hardest"] * n)) / n) / 1000

    def packed(self) -> dict[str, Any]:
        """What the page needs of all rows."""
        n, groups = len(self.keep), self.groups
        ordered = self.scores.values[self.row].astype(np.float64)
        low, high = float(ordered[-1]), float(ordered[0])
        # A bin is a range of ranks; the last one begins at the highest score. Ranks go down as scores go up.
        borders = 2 * np.linspace(low / 2, high / 2, BINS + 1)  # the range itself may be wider than a number can be
        edges = n - np.searchsorted(ordered[::-1], borders, side="left")
        edges[0], edges[-1] = n, 0
        places = np.linspace(0, n - 1, min(n, _QUANTILES))
        quantiles = 2 * np.interp(places, np.arange(n), ordered / 2)
        data: dict[str, Any] = {
            "n": n,
            "names": [""] if groups is None else list(groups.classes),
            "counts": [n] if groups is None else groups.counts.tolist(),
            "grouped": groups is not None,
            "row": pack_numbers(self.row),
            "codes": None if groups is None else pack_numbers(groups.codes),
            "quantiles": [float(f"{value:.7g}") for value in quantiles],
            "edges": edges.tolist(),
            "range": [low, high],
            "ids": self._packed_ids,
            "recipe": self.recipe or {"keep_fraction": float(self.keep.mean()), "balance": 0.0},
        }
        if not self.repeatable:
            return data | {"keep": pack_numbers(self.keep[self.row])}
        assert self.recipe is not None
        if self.recipe["strategy"] not in _ORDERED_BY_SCORE:
            data["order"] = pack_numbers(self.rank[self._order(self.recipe["strategy"])])
        if self.recipe["mix_random"]:
            shuffled = np.argsort(hash_ids(self.scores.ids, seed=self.recipe["seed"] + 1))
            data["shuffled"] = pack_numbers(self.rank[shuffled])
        return data

    @cached_property
    def _packed_ids(self) -> dict[str, Any] | None:
        """The ids in row order; None if they are row numbers, or take too much room."""
        if self._ids_are_rows:
            return None
        packed = pack_texts([str(name) for name in self.scores.ids.tolist()])
        return packed if len(packed["data"]) <= _MOST_ID_BYTES else None

    @cached_property
    def _ids_are_rows(self) -> bool:
        ids = self.scores.ids
        return ids.dtype.kind in "iu" and bool(np.array_equal(ids, np.arange(len(ids))))

    @property
    def ids_left_out(self) -> bool:
        """Whether the page names rows because the ids would take too much room."""
        return self._packed_ids is None and not self._ids_are_rows


def _checked_recipe(scores: Scores, recorded: Any) -> dict[str, Any] | None:
    """A recipe that `select` would take; None for anything else."""
    try:
        recipe = {name: recorded[name] for name in _OPTIONS}
        SelectionSettings(**recipe).check()
        hash_ids(scores.ids[:1], seed=recipe["seed"] + (recipe["mix_random"] > 0))
    except (PareError, TypeError, KeyError):
        return None
    return recipe | {"grouped_by": recorded.get("grouped_by")}
