"""What does recording cost a training run, and what does not keeping the history save?

(a) The CPU time of an epoch of a small CNN on images of 32 x 32, with and without `Recorder.update`, on one thread.
(b) All metrics of a recording from online records, against the plain way: keep all logits, compute afterwards.

Run: python benchmarks/recorder.py [--quick]
"""

from __future__ import annotations

import argparse
import resource
import statistics
from collections.abc import Iterator
from time import process_time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import paredown as pdn

CLASSES, BATCH = 10, 128
METRICS = [name for name in pdn.RECORDED if name != "grand"]


def small_cnn() -> torch.nn.Module:
    """Some 26 thousand weights: as small a network as one would train on CIFAR-10, so that recording weighs most."""
    nn = torch.nn
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(256, CLASSES)),
    )


def overhead(n: int, rounds: int) -> None:
    """Epochs with and without a recorder in turn, on the same data from the same weights."""
    torch.manual_seed(0)
    images, labels = torch.randn(n, 3, 32, 32), torch.randint(0, CLASSES, (n,))
    model = small_cnn()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rec = pdn.Recorder(n, CLASSES)

    def epoch(number: int | None) -> tuple[float, float]:
        recording, begin = 0.0, process_time()
        for rows in torch.randperm(n).split(BATCH):
            logits = model(images[rows])
            loss = torch.nn.functional.cross_entropy(logits, labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if number is not None:
                before = process_time()
                rec.update(rows, logits, labels[rows], number)
                recording += process_time() - before
        return process_time() - begin, recording

    epoch(None)
    pairs = []
    for number in range(rounds):
        without = epoch(None)[0]
        pairs.append((without, *epoch(number)))
    steps = -(-n // BATCH)
    step = statistics.median(without for without, _, _ in pairs) / steps
    update = statistics.median(recording for _, _, recording in pairs) / steps
    print(f"(a) small CNN, {n} images, batch {BATCH}, {rounds} pairs of epochs")
    print(f"    a step takes {step * 1e3:.1f} ms and an update {update * 1e6:.0f} us of CPU time")
    describe("epoch with / without recorder", [with_ / without for without, with_, _ in pairs])
    describe("time inside update / rest of the epoch", [inside / (with_ - inside) for _, with_, inside in pairs])


def describe(name: str, ratios: list[float]) -> None:
    print(f"    {name}: median {statistics.median(ratios):.4f} ({min(ratios):.4f} to {max(ratios):.4f})")


Stream = Iterator[tuple[int, NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]]


def batches(n: int, epochs: int, classes: int) -> Stream:
    """The stream that a training run shows: float32 logits of shuffled batches."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, n)
    for epoch in range(epochs):
        logits = rng.normal(size=(n, classes)).astype(np.float32)
        logits[np.arange(n), labels] += 0.2 * epoch
        order = rng.permutation(n)
        for start in range(0, n, BATCH):
            rows = order[start : start + BATCH]
            yield epoch, rows, logits[rows], labels[rows]


Way = tuple[float, int, dict[str, Any]]  # CPU seconds, bytes kept, scores


def online(stream: Stream, n: int, epochs: int, classes: int) -> Way:
    rec, spent = pdn.Recorder(n, classes, tdds=True), 0.0
    for epoch, rows, logits, labels in stream:
        before = process_time()
        rec.update(rows, logits, labels, epoch)
        spent += process_time() - before
    before = process_time()
    scores = {metric: np.asarray(rec.scores(metric)) for metric in METRICS}
    return spent + process_time() - before, sum(table.nbytes for table in rec._tables.values()), scores


def stored_numpy(stream: Stream, n: int, epochs: int, classes: int) -> Way:
    history, target, spent = np.empty((epochs, n, classes), np.float32), np.empty(n, np.int64), 0.0
    for epoch, rows, logits, labels in stream:
        before = process_time()
        history[epoch, rows], target[rows] = logits, labels
        spent += process_time() - before
    before = process_time()
    p = np.exp(history - history.max(axis=2, keepdims=True))
    p /= p.sum(axis=2, keepdims=True)
    onehot = np.eye(classes, dtype=np.float32)[target]
    at = target[None, :, None]
    p_true = np.take_along_axis(p, at, axis=2)[..., 0]
    others = np.where(onehot[None] == 1, -np.inf, history).max(axis=2)
    margin = np.take_along_axis(history, at, axis=2)[..., 0] - others
    right = history.argmax(axis=2) == target
    windows = np.lib.stride_tricks.sliding_window_view(p_true, 10, axis=0)
    change = np.abs(p[1:] * np.log((p[1:] + 1e-8) / (p[:-1] + 1e-8))).sum(axis=2)
    spread = np.lib.stride_tricks.sliding_window_view(change, 9, axis=0)
    lengths = np.linalg.norm(spread - spread.mean(axis=2, keepdims=True), axis=2)
    scores = {
        "el2n": np.linalg.norm(p[-1] - onehot, axis=1),
        "forgetting": np.where(right.any(0), (right[:-1] & ~right[1:]).sum(0), epochs),
        "aum": -margin.mean(0),
        "margin": -margin[-1],
        "entropy": -(p[-1] * np.log(p[-1])).sum(1),
        "dyn_unc": windows.std(axis=2, ddof=1).mean(0),
        "tdds": (lengths * (0.9 * 0.1 ** np.arange(len(lengths))[::-1])[:, None]).sum(0),
        "confidence": 1 - p_true.mean(0),
        "variability": p_true.std(0),
        "correctness": 1 - right.mean(0),
    }
    return spent + process_time() - before, history.nbytes, scores


def stored_torch(stream: Stream, n: int, epochs: int, classes: int) -> Way:
    history, target, spent = torch.empty(epochs, n, classes), torch.empty(n, dtype=torch.int64), 0.0
    for epoch, rows, logits, labels in stream:
        before = process_time()
        where = torch.from_numpy(rows)
        history[epoch, where], target[where] = torch.from_numpy(logits), torch.from_numpy(labels)
        spent += process_time() - before
    before = process_time()
    p = history.softmax(2)
    onehot = torch.nn.functional.one_hot(target, classes)
    at = target[None, :, None].expand(epochs, n, 1)
    p_true = p.gather(2, at)[..., 0]
    margin = history.gather(2, at)[..., 0] - history.masked_fill(onehot[None] == 1, -torch.inf).amax(2)
    right = history.argmax(2) == target
    change = (p[1:] * ((p[1:] + 1e-8) / (p[:-1] + 1e-8)).log()).abs().sum(2)
    spread = change.unfold(0, 9, 1)
    lengths = (spread - spread.mean(2, keepdim=True)).norm(dim=2)
    scores = {
        "el2n": (p[-1] - onehot).norm(dim=1),
        "forgetting": torch.where(right.any(0), (right[:-1] & ~right[1:]).sum(0), epochs),
        "aum": -margin.mean(0),
        "margin": -margin[-1],
        "entropy": -(p[-1] * p[-1].log()).sum(1),
        "dyn_unc": p_true.unfold(0, 10, 1).std(2).mean(0),
        "tdds": (lengths * (0.9 * 0.1 ** torch.arange(len(lengths) - 1, -1, -1))[:, None]).sum(0),
        "confidence": 1 - p_true.mean(0),
        "variability": p_true.std(0, correction=0),
        "correctness": 1 - right.float().mean(0),
    }
    return spent + process_time() - before, history.nbytes, {name: score.numpy() for name, score in scores.items()}


def arithmetic(n: int, epochs: int, classes: int) -> None:
    """Every way computes the same scores, which is checked."""
    print(f"(b) {n} examples, {classes} classes, {epochs} epochs, batch {BATCH}, {len(METRICS)} metrics")
    print("    way                      CPU s   times ours   MiB kept   times ours   largest difference of a score")
    first = online(batches(n, epochs, classes), n, epochs, classes)
    for name, way in (("online", None), ("logits kept, numpy", stored_numpy), ("logits kept, torch", stored_torch)):
        spent, kept, scores = first if way is None else way(batches(n, epochs, classes), n, epochs, classes)
        ratios = f"{spent / first[0]:12.2f} {kept / 2**20:10.1f} {kept / first[1]:12.2f}"
        apart = max(float(np.abs(scores[metric] - first[2][metric]).max()) for metric in METRICS)
        assert apart < 1e-3, f"{name} computes other scores"
        print(f"    {name:22} {spent:7.2f} {ratios} {apart:12.0e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    overhead(n=512 if quick else 4096, rounds=2 if quick else 7)
    for n, epochs, classes in ((2000, 12, 10),) if quick else ((20_000, 50, 10), (20_000, 200, 10), (5_000, 50, 100)):
        arithmetic(n, epochs, classes)
    print(f"peak resident memory of all of it: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
