"""The recorder: hand-made runs, online against offline, merging, mistakes and files."""

from __future__ import annotations

import errno
import json
import re
import sys
from itertools import pairwise

import numpy as np
import pytest
import recorder_reference as offline
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

import paredown as pdn
from paredown import PareError, Recorder
from paredown.recorder import RECORDED
from paredown.recorder.observations import observe

EXACT = 1e-12  # float64 formulas written another way
WINDOW = 3


def logits_of(p):
    """Logits whose softmax is p."""
    return np.log(np.asarray(p, float))


def record(logits, labels, seen=None, *, cuts=(), member=0, rec=None, features=None, **options):
    """Record a history [epochs, n, classes] epoch by epoch, each in batches that end at `cuts`."""
    epochs, n, classes = logits.shape
    rec = rec or Recorder(n, classes, member=member, window=WINDOW, **options)
    for epoch in range(epochs):
        rows = np.arange(n) if seen is None else np.flatnonzero(seen[epoch])
        for start, end in pairwise(sorted({0, *(min(cut, len(rows)) for cut in cuts), len(rows)})):
            part = rows[start:end]
            given_features = None if features is None else features[epoch, part]
            rec.update(part, logits[epoch, part], labels[part], epoch, features=given_features)
    return rec


def state(rec: Recorder):
    """Every bit that a recorder holds."""
    tables = {member: table.tobytes() for member, table in sorted(rec._tables.items())}
    return tables, rec._labels.tobytes(), rec.coverage().epochs


# --- hand-made runs ---------------------------------------------------------------------------------------------------


def run_of_two_classes():
    """Four examples of class 0 over four epochs, given by the probability of their label."""
    p = np.array([[0.9, 0.2, 0.6, 0.1], [0.9, 0.6, 0.4, 0.2], [0.9, 0.7, 0.8, 0.3], [0.9, 0.8, 0.2, 0.4]])
    return logits_of(np.stack([p, 1 - p], axis=2)), np.zeros(4, int), p


def test_worked_example():
    logits, labels, p = run_of_two_classes()
    rec = record(logits, labels, el2n_epochs=(1,))
    root = np.sqrt(2)  # with two classes softmax - onehot is (p - 1, 1 - p)
    np.testing.assert_allclose(rec.scores("el2n"), root * (1 - p[-1]), rtol=EXACT)
    np.testing.assert_allclose(rec.scores("el2n", epoch=1), root * (1 - p[1]), rtol=EXACT)
    np.testing.assert_allclose(rec.scores("el2n", epoch="mean"), root * (1 - p.mean(0)), rtol=EXACT)
    # The third is learned and lost twice; the last is never right and counts as lost at all four looks.
    assert np.asarray(rec.scores("forgetting")).tolist() == [0, 0, 2, 4]
    odds = np.log(p / (1 - p))
    np.testing.assert_allclose(rec.scores("aum"), -odds.mean(0), atol=EXACT)
    np.testing.assert_allclose(rec.scores("margin"), -odds[-1], rtol=EXACT)
    np.testing.assert_allclose(rec.scores("entropy"), -(p * np.log(p) + (1 - p) * np.log(1 - p))[-1], rtol=EXACT)
    np.testing.assert_allclose(rec.scores("confidence"), 1 - p.mean(0), rtol=EXACT)
    np.testing.assert_allclose(rec.scores("variability"), p.std(0), atol=1e-9)
    assert np.asarray(rec.scores("correctness")).tolist() == [0, 0.25, 0.5, 1]
    windows = np.mean([p[:3].std(0, ddof=1), p[1:].std(0, ddof=1)], axis=0)
    np.testing.assert_allclose(rec.scores("dyn_unc"), windows, atol=EXACT)


def test_tdds_of_a_worked_example():
    logits, labels, p = run_of_two_classes()
    both = np.stack([p, 1 - p], axis=2)
    changes = np.abs(both[1:] * np.log(both[1:] / both[:-1])).sum(2)
    lengths = [
        np.linalg.norm(changes[start : start + 2] - changes[start : start + 2].mean(0), axis=0) for start in (0, 1)
    ]
    expected = 0.9 * lengths[1] + 0.9 * 0.1 * lengths[0]
    np.testing.assert_allclose(record(logits, labels).scores("tdds"), expected, atol=1e-6)  # 1e-8 is added to p


def test_grand_is_the_gradient_of_the_last_layer(rng):
    torch = pytest.importorskip("torch")
    features, labels = rng.normal(size=(6, 5)), rng.integers(0, 3, 6)
    layer = torch.nn.Linear(5, 3, dtype=torch.float64)
    rec = Recorder(6, 3)
    logits = layer(torch.tensor(features))
    rec.update(np.arange(6), logits, labels, 0, features=torch.tensor(features))
    for example in range(6):
        layer.zero_grad()
        row = layer(torch.tensor(features[example : example + 1]))
        torch.nn.functional.cross_entropy(row, torch.tensor(labels[example : example + 1])).backward()
        length = sum(float((parameter.grad**2).sum()) for parameter in layer.parameters()) ** 0.5
        assert rec.scores("grand").values[example] == pytest.approx(length, rel=1e-10)


def test_observe_agrees_with_plain_formulas(rng):
    logits, labels = rng.normal(scale=4, size=(50, 7)), rng.integers(0, 7, 50)
    told, p = observe(logits, labels, np.ones(50)), softmax(logits, axis=1)
    rest = np.where(np.eye(7, dtype=bool)[labels], -np.inf, logits)
    np.testing.assert_allclose(told.p, p, rtol=EXACT)
    np.testing.assert_allclose(told.el2n, np.linalg.norm(p - np.eye(7)[labels], axis=1), rtol=EXACT)
    np.testing.assert_allclose(told.entropy, -(p * np.log(p)).sum(1), rtol=1e-10)
    np.testing.assert_array_equal(told.margin, logits[np.arange(50), labels] - rest.max(1))
    np.testing.assert_array_equal(told.correct, told.margin > 0)


def test_higher_is_harder_for_every_metric():
    """An example that is always right and one that flips between right and wrong."""
    flip = np.array([0.4, 0.3, 0.7, 0.2, 0.8, 0.1])
    p = np.stack([np.full(6, 0.95), flip], axis=1)
    logits = logits_of(np.stack([p, 1 - p], axis=2))
    rec = record(logits, np.zeros(2, int), features=np.ones((6, 2, 1)))
    for metric in RECORDED:
        easy, hard = rec.scores(metric).values
        assert easy < hard, metric


# --- online is offline ------------------------------------------------------------------------------------------------


@st.composite
def histories(draw, *, all_seen=False):
    epochs, n, classes = draw(st.integers(1, 14)), draw(st.integers(1, 5)), draw(st.integers(2, 11))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    scale = draw(st.sampled_from([0.3, 3.0, 300.0]))
    labels = rng.integers(0, classes, n)
    logits = rng.normal(scale=scale, size=(epochs, n, classes))
    seen = np.ones((epochs, n), bool) if all_seen else rng.random((epochs, n)) < draw(st.sampled_from([0.5, 1.0]))
    return logits, labels, seen, draw(st.lists(st.integers(1, 5), max_size=2))


@settings(max_examples=50)
@given(histories())
def test_online_equals_offline_to_the_last_bit(run):
    logits, labels, seen, cuts = run
    features = np.sin(np.arange(logits[..., :2].size)).reshape(logits[..., :2].shape)
    rec = record(logits, labels, seen, cuts=cuts, features=features, el2n_epochs=(0, 3))
    looks = offline.looks_of(logits, labels, seen, features)
    if not seen.any():
        return
    most = max(map(len, looks))
    truth = {
        "el2n": offline.el2n,
        "forgetting": lambda looks: offline.forgetting(looks, most),
        "aum": offline.aum,
        "margin": lambda looks: -looks[-1][1]["margin"],
        "entropy": lambda looks: looks[-1][1]["entropy"],
        "grand": lambda looks: looks[-1][1]["grand"],
        "dyn_unc": lambda looks: offline.dyn_unc(looks, WINDOW),
        "tdds": lambda looks: offline.tdds(looks, WINDOW),
        "confidence": offline.confidence,
        "variability": offline.variability,
        "correctness": offline.correctness,
    }
    assert truth.keys() == RECORDED.keys()
    for metric, read in truth.items():
        enough = [i for i, seq in enumerate(looks) if len(seq) >= (WINDOW if metric in ("dyn_unc", "tdds") else 1)]
        if enough:
            scores = rec.scores(metric, unseen="drop")
            assert scores.ids.tolist() == enough
            assert scores.values.tolist() == [read(looks[i]) for i in enough], metric
    for epoch in (0, 3, "mean"):
        at = [i for i, seq in enumerate(looks) if seq and (epoch == "mean" or any(e == epoch for e, _ in seq))]
        if at:
            values = rec.scores("el2n", epoch=epoch, unseen="drop").values
            assert values.tolist() == [offline.el2n(looks[i], epoch) for i in at]


# --- merging ----------------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(histories(), st.data())
def test_merging_in_any_order_is_one_recording(run, data):
    """Workers that share the examples out, runs that stop and go on, and members, merged in any order."""
    logits, labels, seen, _ = run
    epochs, n, _ = logits.shape
    seams = sorted({0, *data.draw(st.lists(st.integers(1, epochs), max_size=2)), epochs})
    worker = np.array(data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)))
    parts: list[Recorder] = []
    for begin, end in pairwise(seams):
        span = (np.arange(epochs) >= begin) & (np.arange(epochs) < end)
        recorded = [
            record(logits * (1 + member), labels, seen & (worker == w) & span[:, None], member=member, el2n_epochs=(1,))
            for member in (0, 1)
            for w in (0, 1)
        ]
        parts += data.draw(st.permutations(recorded))
    whole = [record(logits * (1 + member), labels, seen, member=member, el2n_epochs=(1,)) for member in (0, 1)]
    expected = state(whole[0].merge(whole[1]))
    shuffled = data.draw(st.permutations(parts))
    assert state(shuffled[0].merge(*shuffled[1:])) == expected  # all at once, in any order
    while len(parts) > 1:  # or by twos: any neighbours first, which sets the brackets in any way
        place = data.draw(st.integers(0, len(parts) - 2))
        left, right = data.draw(st.permutations(parts[place : place + 2]))
        parts[place : place + 2] = [left.merge(right)]
    assert state(parts[0]) == expected


def test_the_transition_across_the_seam_is_forgotten():
    right, wrong = np.array([[2.0, 0.0]]), np.array([[0.0, 2.0]])
    before, after = Recorder(1, 2), Recorder(1, 2)
    before.update([0], right, [0], 0)
    after.update([0], wrong, [0], 1)
    assert after.merge(before).scores("forgetting").values.tolist() == [1.0]
    assert np.asarray(before.scores("forgetting")).tolist() == [0.0]  # merging leaves its parts alone


def test_an_epoch_that_comes_too_late_is_refused(rng):
    """Merging epochs 0 and 2 counts the step from one to the other, which epoch 1 would contradict."""
    logits, labels = rng.normal(size=(3, 4, 3)), np.array([0, 1, 2, 0])
    parts = [record(logits, labels, np.arange(3)[:, None] == np.full(4, epoch)) for epoch in range(3)]
    with pytest.raises(PareError, match=r"overlap \(0 to 2 and 1 to 1"):
        parts[0].merge(parts[2]).merge(parts[1])


def test_members_are_averaged(rng):
    logits, labels = rng.normal(size=(2, 8, 3)), rng.integers(0, 3, 8)
    members = [record(logits[i : i + 1], labels, member=i) for i in (0, 1)]
    merged = members[1].merge(members[0])
    expected = (members[0].scores("el2n").values + members[1].scores("el2n").values) / 2
    np.testing.assert_array_equal(merged.scores("el2n"), expected)
    with pytest.raises(PareError, match="merged from several members; record each in its own"):
        merged.update([0], logits[0, :1], labels[:1], 1)


def test_contradicting_merges_are_refused(rng):
    logits, labels = rng.normal(size=(2, 4, 3)), np.array([0, 1, 2, 0])
    rec = record(logits, labels)
    with pytest.raises(PareError, match=r"both recorders saw examples 0, 1, 2 and 1 more as member 0 in epochs that"):
        rec.merge(record(logits, labels))
    with pytest.raises(PareError, match=r"n_classes is (3 here and 4|4 here and 3) there"):
        rec.merge(Recorder(4, 4, window=WINDOW))
    with pytest.raises(PareError, match=r"n_examples is (4 here and 5|5 here and 4) there"):
        rec.merge(Recorder(5, 3, window=WINDOW))
    with pytest.raises(PareError, match="window is 3 here and 10 there"):
        rec.merge(Recorder(4, 3))
    with pytest.raises(PareError, match=r"el2n_epochs is \[\] here and \[2\] there"):
        rec.merge(Recorder(4, 3, window=WINDOW, el2n_epochs=[2]))
    with pytest.raises(PareError, match="ids differ"):
        rec.merge(Recorder(4, 3, window=WINDOW, ids=list("abcd")))
    with pytest.raises(PareError, match=r"1 examples have another label in each recorder, example 1: 1 and 0"):
        rec.merge(record(logits, np.array([0, 0, 2, 0]), member=1))


# --- batches ----------------------------------------------------------------------------------------------------------


def test_an_example_twice_in_a_batch_is_two_looks_in_order():
    right, wrong = [2.0, 0.0], [0.0, 2.0]
    rec = Recorder(2, 2)
    rec.update([0, 1, 0, 0], [right, right, wrong, right], [0, 0, 0, 0], 0)
    one_by_one = Recorder(2, 2)
    for index, logits in [(0, right), (1, right), (0, wrong), (0, right)]:
        one_by_one.update([index], [logits], [0], 0)
    assert state(rec) == state(one_by_one)
    assert rec.scores("forgetting").values.tolist() == [1, 0]
    assert rec.coverage().epochs == {0: {0: 2}}


def test_only_the_first_look_of_an_epoch_if_asked(rng):
    logits, labels = rng.normal(size=(4, 3)), np.array([0, 1, 0, 0])
    rec, once = Recorder(2, 3, repeats="first"), Recorder(2, 3, repeats="first")
    rec.update([0, 1, 0, 0], logits, labels, 0)
    rec.update([1], logits[2:3], [1], 0)
    once.update([0, 1], logits[:2], labels[:2], 0)
    assert state(rec) == state(once)


def test_anything_array_like_is_taken(rng):
    torch = pytest.importorskip("torch")
    logits, labels = rng.normal(size=(6, 3)).astype(np.float32), rng.integers(0, 3, 6)
    rounded = torch.tensor(logits).bfloat16()
    expected = record(rounded.float().numpy()[None], labels)
    network = rounded.clone().requires_grad_()
    for given_logits in (
        rounded,
        network * 1.0,
        rounded.float().tolist(),
        rounded.double(),
        np.asfortranarray(rounded.float()),
    ):
        rec = Recorder(6, 3, window=WINDOW)
        rec.update(torch.arange(6, dtype=torch.int32), given_logits, labels.tolist(), np.int64(0))
        assert state(rec) == state(expected)
    before = logits.astype(np.float64)
    kept = before.copy()
    for row in range(6):
        Recorder(6, 3).update([row], before[row : row + 1], labels[row : row + 1], 0)
    np.testing.assert_array_equal(before, kept)  # the caller's arrays are not written to
    rec.update([], np.empty((0, 3)), [], 1)
    assert state(rec) == state(expected)


def test_huge_margins_do_not_overflow():
    rec = Recorder(1, 2)
    for epoch in range(3):
        rec.update([0], [[1e6 + 0.25, 0.0]], [1], epoch)
    assert rec.scores("aum").values.tolist() == [1e6 + 0.25]
    rec.update([0], [[1e29, 0.0]], [1], 3)
    assert rec.scores("aum").values[0] == pytest.approx(2.0**40 / 4, rel=1e-5)  # counted as the largest margin


def test_memory_does_not_grow_with_epochs(rng):
    logits, labels = rng.normal(size=(30, 4, 3)), np.array([0, 1, 2, 0])
    few, many = record(logits[:2], labels), record(logits, labels)
    assert few._tables[0].nbytes == many._tables[0].nbytes
    assert Recorder(4, 1000)._layout.dtype.itemsize < 400  # no softmax vectors for many classes unless asked


# --- mistakes ---------------------------------------------------------------------------------------------------------

GOOD = {"indices": [0, 1], "logits": [[1.0, 2, 3], [1, 2, 3]], "labels": [0, 2], "epoch": 3}
BAD = [
    (
        {"labels": [0, 3]},
        r"epoch 3, step 1: label 3 in row 1 of the batch is out of range; classes are numbered 0 to 2",
    ),
    ({"labels": [0.5, 1.0]}, "labels must be whole numbers, got float64"),
    ({"labels": [[1, 0, 0], [0, 1, 0]]}, "labels must be one-dimensional.*not one-hot or mixed labels"),
    ({"labels": [0]}, "got 2, 2 and 1 of them"),
    ({"indices": [0, 9]}, "index 9 in row 1 of the batch is out of range; examples are numbered 0 to 3"),
    ({"indices": [0, -1]}, "index -1"),
    ({"indices": [0.0, 1.0]}, "indices must be whole numbers, got float64"),
    ({"logits": [[1.0, 2], [1, 2]]}, r"logits must have shape \(batch, 3\), got \(2, 2\)"),
    ({"logits": [[1.0, 2, 3], [1, np.nan, 3]]}, r"epoch 3, step 1: logits hold NaN.*for 1 of 2, example 1 \(id b\)"),
    ({"logits": [[np.inf, 2, 3], [1, 2, np.inf]]}, "for 2 of 2, examples 0"),
    ({"logits": [["a", "b", "c"], ["a", "b", "c"]]}, "logits must be numbers"),
    ({"epoch": 1}, r"example 0 \(id a\) was seen in epoch 2 already; epochs must not go back"),
    ({"epoch": 1.5}, "epoch must be a whole number, got 1.5"),
    ({"epoch": -1}, "epoch must be at least 0, got -1"),
    ({"labels": [1, 2]}, r"example 0 \(id a\) has label 1, but also 0"),
    ({"indices": [1, 1], "labels": [0, 2]}, r"example 1 \(id b\) has label"),
    ({"features": [[1.0]]}, r"features must have shape \(2, width\), got \(1, 1\)"),
    ({"features": [[1.0], [np.nan]]}, "features hold NaN"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[re.sub(r"\W+", "-", message)[:40] for _, message in BAD])
def test_a_bad_batch_is_refused_and_changes_nothing(change, message):
    rec = Recorder(4, 3, ids=list("abcd"))
    rec.update([0, 2], [[1.0, 2, 3], [1, 2, 3]], [0, 1], 2)
    rec.update([3], [[1.0, 2, 3]], [1], 3)
    before = state(rec)
    with pytest.raises(PareError, match=message):
        rec.update(**GOOD | change)
    assert state(rec) == before
    rec.update(**GOOD)


def test_a_refused_first_batch_leaves_nothing():
    rec = Recorder(4, 3)
    with pytest.raises(PareError, match="label 7"):
        rec.update([0], [[1.0, 2, 3]], [7], 0)
    rec.update([], np.empty((0, 3)), [], 0)
    assert state(rec) == state(Recorder(4, 3))
    with pytest.raises(PareError, match="nothing was recorded yet"):
        rec.scores("el2n")


def test_memory_of_the_caller_is_copied(rng):
    """A loop may fill the same arrays again before the batch is worked off."""
    logits, labels = rng.normal(size=(2, 4, 3)), np.array([0, 1, 2, 0])
    rec, index, shown = Recorder(4, 3, window=WINDOW), np.arange(4), np.empty((4, 3))
    for epoch in range(2):
        shown[:] = logits[epoch]
        rec.update(index, shown, labels, epoch)
        shown[:] = np.nan
    assert state(rec) == state(record(logits, labels))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_examples": 0}, "n_examples must be at least 1, got 0"),
        ({"n_classes": 1}, "n_classes must be at least 2, got 1"),
        ({"n_classes": 2.5}, "n_classes must be a whole number"),
        ({"window": 1}, "window must be at least 2"),
        ({"member": -1}, "member must be at least 0"),
        ({"ids": ["a"]}, "there are 1 ids for 3 examples"),
        ({"ids": ["a", "b", "a"]}, "1 id occurs more than once"),
        ({"repeats": "twice"}, "unknown way with repeats 'twice'; available: count, first"),
    ],
)
def test_bad_settings_are_refused(arguments, message):
    with pytest.raises(PareError, match=message):
        Recorder(**{"n_examples": 3, "n_classes": 2} | arguments)


def test_unseen_examples_are_not_guessed(rng):
    logits, labels = rng.normal(size=(2, 5, 3)), np.array([0, 1, 2, 0, 1])
    seen = np.array([[True, True, True, False, False], [True, True, False, False, False]])
    rec = record(logits, labels, seen, ids=list("abcde"), el2n_epochs=(1,))
    with pytest.raises(
        PareError,
        match=r"2 of 5 examples have no el2n.*examples 3 \(id d\), 4 \(id e\); some members never saw 2 of them",
    ):
        rec.scores("el2n")
    with pytest.raises(PareError, match="3 of 5 examples have no el2n, which needs an observation in epoch 1"):
        rec.scores("el2n", epoch=1)
    with pytest.raises(PareError, match=r"5 of 5 examples have no dyn_unc.*window \(3; choose another"):
        rec.scores("dyn_unc", unseen="drop")
    dropped = rec.scores("el2n", unseen="drop")
    assert dropped.ids.tolist() == ["a", "b", "c"]
    assert dropped.labels is not None
    hardest, easiest = rec.scores("el2n", unseen="hardest").values, rec.scores("el2n", unseen="easiest").values
    assert set(np.flatnonzero(hardest > dropped.values.max())) == {3, 4}
    assert set(np.flatnonzero(easiest < dropped.values.min())) == {3, 4}
    coverage = rec.coverage()
    assert coverage.epochs == {0: {0: 3, 1: 2}}
    assert coverage.partial == {0: {0: 3, 1: 2}}
    assert coverage.unseen.tolist() == [3, 4]
    assert coverage.observations == (0, 2)
    assert not coverage.complete
    assert "epoch 1 is partial: 2 of 5 examples" in str(coverage)
    recorded = json.loads(json.dumps(dropped.provenance))
    assert recorded["recording"]["members"] == [{"member": 0, "epochs": [0, 1], "partial_epochs": {"0": 3, "1": 2}}]
    assert recorded["without_score"] == 2


def test_questions_that_have_no_answer(rng):
    rec = Recorder(4, 3)
    with pytest.raises(PareError, match="nothing was recorded yet"):
        rec.scores("el2n")
    rec = record(rng.normal(size=(4, 4, 3)), np.array([0, 1, 2, 0]), tdds=False)
    with pytest.raises(PareError, match=r"unknown recorded metric 'eln2'.*Did you mean 'el2n'"):
        rec.scores("eln2")
    with pytest.raises(PareError, match="unknown way with unseen examples 'keep'"):
        rec.scores("el2n", unseen="keep")  # type: ignore[arg-type]
    with pytest.raises(PareError, match=r"EL2N of epoch 2 was not kept; kept are none.*el2n_epochs=\(2,\)"):
        rec.scores("el2n", epoch=2)
    with pytest.raises(PareError, match="epoch= chooses among the kept EL2N scores; aum covers the whole"):
        rec.scores("aum", epoch=1)
    with pytest.raises(PareError, match=r"grand needs the features.*features=h"):
        rec.scores("grand")
    with pytest.raises(PareError, match=r"tdds was not recorded.*tdds=True"):
        rec.scores("tdds")


def test_scores_are_ready_to_select_from(rng, tmp_path):
    labels = rng.integers(0, 3, 40)
    rec = record(rng.normal(size=(4, 40, 3)), labels, ids=[f"img-{i}" for i in range(40)])
    scores = rec.scores("forgetting")
    assert scores.labels is not None
    np.testing.assert_array_equal(scores.labels.codes, labels)
    kept = pdn.select(scores, keep_fraction=0.5, balance=0.5)
    assert len(kept) == 20
    assert str(kept.ids[0]).startswith("img-")
    pdn.write_scores(scores, tmp_path / "scores.parquet")
    again = pdn.read_scores(tmp_path / "scores.parquet")
    np.testing.assert_array_equal(again.values, scores.values)
    assert again.provenance["recording"]["examples"] == 40


# --- files ------------------------------------------------------------------------------------------------------------


def test_saved_and_loaded_is_the_same(rng, tmp_path):
    logits, labels = rng.normal(size=(6, 5, 3)), np.array([0, 1, 2, 0, 1])
    options = {"ids": ["a", "b", "ç", "d", "e"], "el2n_epochs": (1,)}
    file = tmp_path / "run" / "recording.npz"
    record(logits[:3], labels, **options).merge(record(logits, labels, member=1, **options)).save(file)
    loaded = Recorder.load(file)
    assert loaded.member is None
    assert loaded.scores("el2n").ids.tolist() == options["ids"]

    record(logits[:3], labels, **options).save(file)
    rec = Recorder(5, 3, window=WINDOW, **options)
    assert rec.resume(file)
    for epoch in range(3, 6):
        rec.update(np.arange(5), logits[epoch], labels, epoch)
    assert state(rec) == state(record(logits, labels, **options))
    assert not Recorder(5, 3).resume(tmp_path / "none.npz")


def test_resuming_with_other_settings_is_refused(rng, tmp_path):
    record(rng.normal(size=(1, 4, 3)), np.zeros(4, int)).save(tmp_path / "r.npz")
    with pytest.raises(PareError, match=r"cannot resume from .*r\.npz: window is 10 here and 3 there"):
        Recorder(4, 3).resume(tmp_path / "r.npz")
    with pytest.raises(PareError, match="member is 1 here and 0 there"):
        Recorder(4, 3, window=WINDOW, member=1).resume(tmp_path / "r.npz")


def test_a_full_disk_leaves_the_old_file(rng, tmp_path, monkeypatch):
    rec = record(rng.normal(size=(1, 4, 3)), np.zeros(4, int))
    file = tmp_path / "r.npz"
    rec.save(file)
    before = file.read_bytes()

    def full(stream, **arrays):
        stream.write(b"half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys.modules["paredown.recorder.storage"].np, "savez", full)
    with pytest.raises(PareError, match="the disk is full; nothing was changed"):
        rec.save(file)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["r.npz"]


def test_files_that_are_no_recording(rng, tmp_path):
    with pytest.raises(PareError, match="there is no such file"):
        Recorder.load(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("no")
    np.savez(tmp_path / "other.npz", x=np.arange(3))
    record(rng.normal(size=(1, 4, 3)), np.zeros(4, int)).save(tmp_path / "cut.npz")
    whole = (tmp_path / "cut.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    for name in ("text.npz", "other.npz", "cut.npz"):
        with pytest.raises(PareError, match=f"{name}: not a readable recording that Recorder.save wrote"):
            Recorder.load(tmp_path / name)
    np.savez(tmp_path / "new.npz", header=np.array(json.dumps({"format": "paredown-recording", "version": 99})))
    with pytest.raises(PareError, match="format paredown-recording 99, but this paredown reads"):
        Recorder.load(tmp_path / "new.npz")
