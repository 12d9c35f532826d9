"""The `Recorder`: metrics out of a training run that the user already has."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.errors import PareError, check_known
from paredown.ids import check_ids, id_array
from paredown.places import as_place
from paredown.reading import damaged
from paredown.recorder.batch_checks import ArrayBatch, name_examples, read_batch, read_count
from paredown.recorder.coverage import Coverage
from paredown.recorder.history import MAX_OBSERVATIONS, Layout, Table
from paredown.recorder.merging import check_same, join_labels, join_tables
from paredown.recorder.observations import observe
from paredown.recorder.recorded import RECORDED, beyond, read_metric
from paredown.recorder.rows import first_looks, put_records, rounds_without_repeats, take_records
from paredown.recorder.storage import read_recording, write_recording
from paredown.scores import Labels, Scores
from paredown.version import __version__

# Batches are checked at once and appended together: for small ones numpy's calls cost more than its arithmetic.
_WAITING_ROWS = 4096
_WAITING_LOGITS = 2**16
_TDDS_CLASSES = 100  # up to here the two softmax vectors per example of tdds are small change

Unseen = Literal["error", "hardest", "easiest", "drop"]


class Recorder:
    """Online statistics of a training run, from which the metrics that watch training are read.

    Call `update` with every batch and `scores` at any time. Every metric is "higher is harder"; `RECORDED` lists them.
    An example's observations are the batches it was in, in order. Memory is one record of fixed size per example and
    member, however many epochs are recorded.

    Args:
        n_examples, n_classes: examples are numbered 0 to n_examples - 1, and classes alike.
        ids: one id per example, for the scores; by default its number.
        member: which model of an ensemble this is; merged members are averaged.
        el2n_epochs: epochs whose EL2N is kept, beside that of the latest epoch and the mean.
        window: observations in a window of `dyn_unc` and `tdds`; both papers take 10.
        tdds: whether to keep the two softmax vectors per example that `tdds` needs. By default up to 100 classes.
        repeats: what an example seen again in the same epoch is: `count` it as a further observation, or keep only the
            `first` (for samplers that fill up the last batch).
    """

    def __init__(
        self,
        n_examples: int,
        n_classes: int,
        *,
        ids: ArrayLike | None = None,
        member: int = 0,
        el2n_epochs: Sequence[int] = (),
        window: int = 10,
        tdds: bool | None = None,
        repeats: Literal["count", "first"] = "count",
    ) -> None:
        self.n_examples = read_count(n_examples, "n_examples", least=1)
        self.n_classes = read_count(n_classes, "n_classes", least=2)
        self.member: int | None = read_count(member, "member", least=0)
        self.ids = None if ids is None else _check_ids(ids, self.n_examples)
        check_known("way with repeats", str(repeats), ("count", "first"))
        self.repeats = repeats
        self._layout = Layout(
            n_classes=self.n_classes,
            window=read_count(window, "window", least=2),
            tdds=self.n_classes <= _TDDS_CLASSES if tdds is None else bool(tdds),
            el2n_epochs=tuple(sorted({read_count(epoch, "el2n_epochs", least=0) for epoch in el2n_epochs})),
        )
        self._labels = np.full(self.n_examples, -1, np.int32)
        self._records: dict[int, Table] = {}  # of the members that were seen
        self._seen: dict[int, dict[int, int]] = {}  # member -> epoch -> how many examples
        self._place = (-1, 0)  # epoch and step of the latest update
        self._waiting: list[ArrayBatch] = []  # checked batches of that epoch that are not in the records yet
        self._capacity = min(_WAITING_ROWS, _WAITING_LOGITS // self.n_classes)

    # --- recording ---------------------------------------------------------------------------------------------------

    def update(self, indices: Any, logits: Any, labels: Any, epoch: int, *, features: Any = None) -> None:
        """Record a batch, as the training loop sees it; a refused one changes nothing.

        Args:
            indices: which examples these are, (batch,).
            logits: (batch, n_classes), before the softmax.
            labels: classes, (batch,).
            epoch: never smaller than an example's epoch before.
            features: what enters the last layer, (batch, width); only `grand` needs it.
        """
        if self.member is None:
            raise PareError("this recorder is merged from several members; record each in its own and merge again.")
        epoch = read_count(epoch, "epoch", least=0)
        step = self._place[1] + 1 if self._place[0] == epoch else 0
        where = f"epoch {epoch}, step {step}"
        if epoch != self._place[0] or self.repeats == "first":
            self._append_waiting()
        batch = read_batch(
            (indices, logits, labels, features),
            n_examples=self.n_examples,
            n_classes=self.n_classes,
            where=where,
            name=self._name,
        )
        table = self._records.get(self.member)
        if table is None:
            table = self._layout.empty(self.n_examples)
        if self.repeats == "first":
            batch = first_looks(batch, table["last_epoch"], epoch)
        if not len(batch.indices):
            return
        self._check(batch, table, epoch, where)
        self._record_labels(batch, where)
        self._records[self.member] = table
        self._place = (epoch, step)
        self._waiting.append(batch)
        if sum(len(waiting.indices) for waiting in self._waiting) >= self._capacity:
            self._append_waiting()

    def _check(self, batch: ArrayBatch, table: Table, epoch: int, where: str) -> None:
        """Raise if a batch contradicts what was recorded before. Waiting batches are of the same epoch."""
        last = table["last_epoch"][batch.indices]
        if last.max() > epoch:
            bad = np.flatnonzero(last > epoch)
            raise PareError(
                f"{where}: {self._name(batch.indices[bad])} was seen in epoch {last[bad[0]]} already; epochs must not "
                f"go back. A training that starts over needs a new Recorder, another model another member=."
            )
        if table["seen"][batch.indices].max() >= MAX_OBSERVATIONS:
            raise PareError(f"{where}: an example can be recorded {MAX_OBSERVATIONS} times at most.")

    def _record_labels(self, batch: ArrayBatch, where: str) -> None:
        before = self._labels[batch.indices]
        self._labels[batch.indices] = batch.labels
        after = self._labels[batch.indices]  # differs from the batch if that has two labels for an example
        wrong = (after != batch.labels) | ((before != batch.labels) & (before >= 0))
        if wrong.any():
            self._labels[batch.indices] = before
            bad = np.flatnonzero(wrong)
            other = before[bad[0]] if before[bad[0]] >= 0 else after[bad[0]]
            raise PareError(
                f"{where}: {self._name(batch.indices[bad])} has label {batch.labels[bad[0]]}, but also {other}; an "
                f"example keeps its label. Are the indices those of the whole training set?"
            )

    def _append_waiting(self) -> None:
        """Put the waiting batches into the records."""
        if not self._waiting:
            return
        assert self.member is not None
        batch, epoch = ArrayBatch.joined(self._waiting), self._place[0]
        table, epochs = self._records[self.member], self._seen.setdefault(self.member, {})
        observed = observe(batch.logits, batch.labels, batch.feature_lengths)
        rounds = list(rounds_without_repeats(batch.indices))
        for chosen in rounds:  # more than one if an example occurs twice: its looks follow each other
            indices = batch.indices[chosen]
            records = take_records(table, indices)
            epochs[epoch] = epochs.get(epoch, 0) + int(np.count_nonzero(records["last_epoch"] != epoch))
            self._layout.append(records, observed if len(rounds) == 1 else observed.rows(chosen), epoch)
            put_records(table, indices, records)
        self._waiting = []

    @property
    def _tables(self) -> dict[int, Table]:
        """The records of every member that was seen, with nothing left waiting."""
        self._append_waiting()
        return self._records

    @property
    def _epochs(self) -> dict[int, dict[int, int]]:
        self._append_waiting()
        return self._seen

    def _name(self, indices: NDArray[np.int64]) -> str:
        return name_examples(indices, ids=None if self.ids is None else self.ids[indices])

    # --- reading -----------------------------------------------------------------------------------------------------

    def scores(self, metric: str, *, epoch: int | str | None = None, unseen: Unseen = "error") -> Scores:
        """One score per example, higher is harder: a name in `RECORDED`, averaged over the members.

        Args:
            metric: a name in `RECORDED`.
            epoch: for `el2n` alone: one of `el2n_epochs`, `"mean"` over all epochs, or (None) the latest one that each
                example was seen in.
            unseen: what becomes of examples without a score, because they were never seen or not often enough: an
                `error`, rank them `hardest` or `easiest`, or `drop` them from the scores.
        """
        check_known("way with unseen examples", str(unseen), get_args(Unseen))
        values = read_metric(metric, self._tables, self._layout, epoch)
        missing = np.flatnonzero(np.isnan(values))
        if len(missing):
            self._explain_missing(metric, epoch, missing, unseen)
            values[missing] = beyond(values, unseen)
        kept = np.flatnonzero(~np.isnan(values))
        provenance = self._provenance(metric, epoch) | {"without_score": len(missing), "unseen": unseen}
        labels = self._labels[kept]
        return Scores(
            values=values[kept],
            ids=np.arange(self.n_examples)[kept] if self.ids is None else self.ids[kept],
            metric=metric,
            labels=Labels.of(labels) if labels.min() >= 0 else None,  # an unseen example's label is not known
            provenance=provenance,
        )

    def _explain_missing(self, metric: str, epoch: Any, missing: NDArray[np.int64], unseen: Unseen) -> None:
        needs = RECORDED[metric].needs if epoch in (None, "mean") else f"an observation in epoch {epoch}"
        if RECORDED[metric].windowed:
            needs += f" ({self._layout.window}; choose another with Recorder(..., window=))"
        if len(missing) < self.n_examples and unseen != "error":
            return
        raise PareError(
            f"{len(missing)} of {self.n_examples} examples have no {metric}, which needs {needs}: "
            f"{self._name(missing)}; some members never saw {len(self.coverage().unseen)} of them. Record them, or say "
            f"what becomes of them: unseen='hardest', 'easiest' or 'drop'."
        )

    def coverage(self) -> Coverage:
        """What was recorded: epochs, partial ones, and examples never seen."""
        return Coverage.of(self.n_examples, self._tables, self._epochs)

    def _provenance(self, metric: str, epoch: Any) -> dict[str, Any]:
        settings = {name: value for name, value in self._settings().items() if name != "ids"}
        chosen = (
            {"epoch": "latest" if epoch is None else epoch if epoch == "mean" else int(epoch)}
            if RECORDED[metric].of_one_epoch
            else {}
        )
        return {
            "paredown": __version__,
            "metric": metric,
            "reference": RECORDED[metric].reference,
            "options": settings | chosen,
            "recording": self.coverage().record(),
        }

    # --- together, and on disk ---------------------------------------------------------------------------------------

    def merge(self, *others: Recorder) -> Recorder:
        """A new recorder with the observations of all: other workers, other members, or later epochs of a resumed run.

        The order of the recorders and the way they are grouped make no difference, to the last bit; only an epoch
        between two others must not come after them. Refused where two recorders saw the same example of the same
        member in overlapping epochs, or have other settings.
        """
        first, *later = sorted((self, *others), key=Recorder._earliest)
        first._append_waiting()
        merged = deepcopy(first)
        merged._place = (-1, 0)
        for other in later:
            check_same(merged._settings(), other._settings(), "cannot merge")
            merged._labels = join_labels(merged._labels, other._labels, self.ids)
            for member, table in other._tables.items():
                if member in merged._tables:
                    mine = merged._tables[member]
                    table = join_tables(mine, table, self._layout, member=member, ids=self.ids)
                merged._tables[member] = table.copy()
                epochs = merged._epochs.setdefault(member, {})
                for epoch, seen in other._epochs[member].items():
                    epochs[epoch] = epochs.get(epoch, 0) + seen
            merged.member = merged.member if merged.member == other.member else None
        return merged

    def _earliest(self) -> int:
        return min((min(epochs) for epochs in self._epochs.values()), default=0)

    def save(self, path: str | Path) -> None:
        """Write everything to one `.npz` file; an earlier one is replaced only once the new one is complete."""
        settings = self._settings()
        ids = settings.pop("ids")
        arrays: dict[str, NDArray[Any]] = {"labels": self._labels}
        if ids is not None:
            arrays["ids"] = ids if ids.dtype.kind != "T" else np.array(ids.tolist(), str)  # fixed width needs no pickle
        arrays |= {f"member_{member}": table for member, table in self._tables.items()}
        epochs = {str(member): list(epochs.items()) for member, epochs in self._epochs.items()}
        write_recording(as_place(path), {"settings": settings, "member": self.member, "epochs": epochs}, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Recorder:
        """A recorder as `save` left it."""
        header, arrays = read_recording(as_place(path))
        with damaged(path, "recording", remedy="It is damaged; record again."):
            loaded = cls(**header["settings"], ids=arrays.get("ids"))
            loaded.member = header["member"]
            empty, loaded._labels = loaded._labels, arrays["labels"]
            loaded._records = {int(member): arrays[f"member_{member}"] for member in header["epochs"]}
            loaded._seen = {int(member): dict(map(tuple, pairs)) for member, pairs in header["epochs"].items()}
            expected = (loaded._layout.dtype, (loaded.n_examples,))
            whole = all((table.dtype, table.shape) == expected for table in loaded._records.values())
            if not whole or (loaded._labels.dtype, loaded._labels.shape) != (empty.dtype, empty.shape):
                raise PareError(f"{path}: a damaged recording; its records do not fit its settings.")
        return loaded

    def resume(self, path: str | Path) -> bool:
        """Go on from a saved recording, if there is one; one made with other settings is refused by their name."""
        if not as_place(path).exists():
            return False
        earlier = self.load(path)
        mine = self._settings() | {"member": self.member}
        check_same(mine, earlier._settings() | {"member": earlier.member}, f"cannot resume from {path}")
        self._labels, self._records, self._seen = earlier._labels, earlier._records, earlier._seen
        self._place, self._waiting = (-1, 0), []
        return True

    def _settings(self) -> dict[str, Any]:
        return {
            "n_examples": self.n_examples,
            "n_classes": self.n_classes,
            "window": self._layout.window,
            "tdds": self._layout.tdds,
            "el2n_epochs": list(self._layout.el2n_epochs),
            "repeats": self.repeats,
            "ids": self.ids,
        }

    def __repr__(self) -> str:
        looks = sum(int(table["seen"].sum()) for table in self._tables.values())
        members = ", ".join(map(str, sorted(self._tables))) or "none yet"
        return (
            f"Recorder({self.n_examples} examples, {self.n_classes} classes; members {members}; {looks} observations)"
        )


def _check_ids(ids: ArrayLike, n_examples: int) -> NDArray[Any]:
    array = id_array(ids)
    if len(array) != n_examples:
        raise PareError(f"there are {len(array)} ids for {n_examples} examples; give one id per example.")
    check_ids(array)
    return array
