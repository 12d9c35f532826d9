"""How much quicker does paredown cluster and score embeddings than faiss and scikit-learn, and how well?

CPU seconds on one thread each; every contender in a process of its own, on the same structured data (power-law
spectrum, nested groups of unequal size). `--parts big` prunes a generated file of 1,281,167 x 2048 float32 numbers, the
size of ImageNet under SwAV, and needs 11 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import process_time
from typing import Any

ITERATIONS = 20
SCORED_ROWS = 40_000  # where scoring is timed alone


def structured(path: Path, n: int, dim: int, *, groups: int = 1000, seed: int = 0) -> None:
    """Write unit rows around nested group centres with a power-law spectrum, a block at a time."""
    import numpy as np

    rng = np.random.default_rng(seed)
    spectrum = ((1 + np.arange(dim)) ** -0.7).astype(np.float32)
    above = rng.standard_normal((50, dim), np.float32) * spectrum
    centres = above[rng.integers(0, 50, groups)] + 0.8 * rng.standard_normal((groups, dim), np.float32) * spectrum
    turn = np.linalg.qr(rng.standard_normal((dim, dim)))[0].astype(np.float32)
    share = rng.dirichlet(np.full(groups, 2.0))
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (n, dim))
    for first in range(0, n, 20_000):
        count = min(20_000, n - first)
        block = centres[rng.choice(groups, count, p=share)]
        block = (block + 0.8 * rng.standard_normal((count, dim), np.float32) * spectrum) @ turn
        rows[first : first + count] = block / np.linalg.norm(block, axis=1, keepdims=True)
    rows.flush()


# --- contenders: each fits k centroids, scores every row, and returns its CPU seconds and the mean cosine ----------


def paredown_cosines(path: Path, k: int, kernel: str = "auto", memory: int = 2**32) -> dict[str, float | str]:
    import paredown as pdn

    source = pdn.open_source(path)
    start = process_time()
    scores = pdn.score(
        source, metric="prototypes", k=k, iterations=ITERATIONS, sensitivity=False, kernel=kernel, memory=memory
    )
    seconds = process_time() - start
    return {
        "seconds": seconds,
        "cosine": float(1 - scores.values.mean()),
        "kernel": scores.provenance["report"]["kernel"],
    }


def faiss_cosines(path: Path, k: int) -> dict[str, float]:
    import faiss
    import numpy as np

    faiss.omp_set_num_threads(1)
    rows = np.load(path)
    start = process_time()
    kmeans = faiss.Kmeans(rows.shape[1], k, niter=ITERATIONS, spherical=True, seed=1)
    kmeans.train(rows)
    cosine = np.concatenate([kmeans.index.search(rows[i : i + 65_536], 1)[0] for i in range(0, len(rows), 65_536)])
    return {"seconds": process_time() - start, "cosine": float(cosine.mean())}


def sklearn_cosines(path: Path, k: int, minibatch: bool = False) -> dict[str, float]:
    import numpy as np
    from sklearn.cluster import KMeans, MiniBatchKMeans

    rows = np.load(path)
    start = process_time()
    options: dict[str, Any] = {"n_clusters": k, "n_init": 1, "max_iter": ITERATIONS, "random_state": 0}
    sample = rows[np.random.default_rng(0).choice(len(rows), min(len(rows), 256 * k), replace=False)]
    fitted = MiniBatchKMeans(**options).fit(sample) if minibatch else KMeans(**options, init="random").fit(sample)
    index = fitted.predict(rows)
    seconds = process_time() - start
    centroids = fitted.cluster_centers_ / np.linalg.norm(fitted.cluster_centers_, axis=1, keepdims=True)
    cosine = np.concatenate(
        [np.vecdot(rows[i : i + 4096], centroids[index[i : i + 4096]]) for i in range(0, len(rows), 4096)]
    )
    return {"seconds": seconds, "cosine": float(cosine.mean())}


def scoring_alone(path: Path, k: int) -> dict[str, float | str]:
    """The search of paredown's pipeline, its float32 fallback, and faiss, on the same centroids."""
    import faiss
    import numpy as np

    from paredown.clustering.kernels import choose_search
    from paredown.clustering.kmeans import spherical_kmeans

    faiss.omp_set_num_threads(1)
    rows = np.load(path, mmap_mode="r")
    centroids = spherical_kmeans(rows[: 16 * k], k, seed=0, iterations=5).centroids
    rows = np.array(rows[-SCORED_ROWS:])
    index = faiss.IndexFlatIP(rows.shape[1])
    index.add(centroids)  # type: ignore[call-arg]

    def timed(search) -> tuple[float, np.ndarray]:
        start = process_time()
        found = [search(rows[first : first + 8192]) for first in range(0, len(rows), 8192)]
        return process_time() - start, np.concatenate(found)

    exact = choose_search(centroids, rows, n=len(rows), kernel="float32")
    chosen = choose_search(centroids, rows, n=10**9)
    theirs, _ = timed(lambda block: index.search(block, 1)[0])
    ours, cosine = timed(lambda block: chosen(block)[1])
    fallback, truth = timed(lambda block: exact(block)[1])
    kept = len(rows) * 3 // 10
    same = np.intersect1d(np.argsort(truth)[:kept], np.argsort(cosine)[:kept])
    return {
        "kernel": chosen.name,
        "ratio": theirs / ours,
        "float32 ratio": theirs / fallback,
        "same kept": len(same) / kept,
    }


CONTENDERS = {
    "paredown": paredown_cosines,
    "paredown float32": lambda path, k: paredown_cosines(path, k, "float32"),
    "paredown 1 GiB": lambda path, k: paredown_cosines(path, k, memory=2**30),
    "faiss.Kmeans": faiss_cosines,
    "sklearn KMeans": sklearn_cosines,
    "sklearn MiniBatchKMeans": lambda path, k: sklearn_cosines(path, k, True),
    "scoring": scoring_alone,
}


def peak_memory() -> float:
    """The most memory this process had resident, in GiB; `ru_maxrss` would count what its parent had."""
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 2**20


def run(name: str, path: Path, k: int) -> dict:
    """Run one contender in a process of its own and add its peak memory."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, __file__, "--contender", name, str(path), str(k)],
        env=os.environ | threads,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=["fit", "scoring", "growth", "big"])
    parser.add_argument("--folder", type=Path, help="where to put the generated data")
    parser.add_argument("--figure", type=Path, help="where to draw the growth, as .png")
    parser.add_argument("--contender", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contender:
        name, path, k = options.contender
        result = CONTENDERS[name](Path(path), int(k))
        print(json.dumps(result | {"peak GiB": peak_memory()}))
        return
    parts = options.parts or ["fit", "scoring", "growth"]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        file = Path(folder) / "rows.npy"
        for n, dim in ((400_000, 384), (150_000, 2048)):
            if "fit" in parts or "scoring" in parts:
                structured(file, n, dim)
            if "fit" in parts:
                compare_fits(file, n, dim)
            if "scoring" in parts:
                compare_scoring(file, dim)
        if "growth" in parts:
            show_growth(file, options.figure)
        if "big" in parts:
            prune_imagenet_size(file)


def compare_fits(file: Path, n: int, dim: int, k: int = 500) -> None:
    """Fit and score: every contender's CPU time relative to paredown's, and its mean cosine."""
    print(f"fit and score, {n} x {dim}, k = {k}: CPU time relative to paredown, mean cosine")
    base = run("paredown", file, k)
    print(f"  paredown ({base['kernel']}): 1, {base['cosine']:.4f}, peak {base['peak GiB']:.2f} GiB")
    for name in ("paredown float32", "faiss.Kmeans", "sklearn KMeans", "sklearn MiniBatchKMeans"):
        peer = run(name, file, k)
        print(f"  {name}: {peer['seconds'] / base['seconds']:.2f}, {peer['cosine']:.4f}", flush=True)


def compare_scoring(file: Path, dim: int) -> None:
    """Nearest centroids alone, of the chosen kernel and of the float32 fallback, against faiss."""
    for k in (1000, 4000):
        found = run("scoring", file, k)
        print(
            f"scoring alone, dim {dim}, k = {k}: faiss / paredown {found['ratio']:.2f} ({found['kernel']}), "
            f"faiss / float32 fallback {found['float32 ratio']:.2f}, kept sets agree {found['same kept']:.5f}",
            flush=True,
        )


def show_growth(file: Path, figure: Path | None) -> None:
    """Cost and memory from 10^5 to 10^6 rows."""
    print("growth with n at 384 dimensions, k = 500, 1 GiB")
    sizes, found = (100_000, 200_000, 400_000, 700_000, 1_000_000), []
    for n in sizes:
        structured(file, n, 384)
        found.append(run("paredown 1 GiB", file, 500))
        seconds, peak = found[-1]["seconds"], found[-1]["peak GiB"]
        print(f"  {n}: {seconds:.1f} CPU s, {1e6 * seconds / n:.1f} us a row, peak {peak:.2f} GiB", flush=True)
    if figure is not None:
        draw_growth(sizes, found, figure)


def draw_growth(sizes: tuple[int, ...], found: list[dict], figure: Path) -> None:
    """CPU time and peak memory against the number of rows."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    _, panels = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    for panel, key, label in zip(panels, ("seconds", "peak GiB"), ("CPU seconds", "peak memory, GiB"), strict=True):
        panel.plot([n / 1e6 for n in sizes], [result[key] for result in found], "o-", color="#1f5f8b")
        panel.set(xlabel="rows, millions", ylabel=label, xlim=(0, None), ylim=(0, None))
        panel.grid(alpha=0.3)
    panels[1].set_ylim(0, 1)
    plt.suptitle("prototypes at 384 dimensions, k = 500, memory 1 GiB: fit and score", fontsize=10)
    plt.savefig(figure, dpi=120)


def prune_imagenet_size(file: Path) -> None:
    """A file of the size of ImageNet under SwAV, inside 1 GiB."""
    structured(file, 1_281_167, 2048)
    ours = run("paredown 1 GiB", file, 1000)
    print(f"1,281,167 x 2048, k = 1000: peak {ours['peak GiB']:.2f} GiB, mean cosine {ours['cosine']:.4f}", flush=True)
    peer = run("faiss.Kmeans", file, 1000)
    print(f"  faiss / paredown {peer['seconds'] / ours['seconds']:.2f}, mean cosine {peer['cosine']:.4f}")


if __name__ == "__main__":
    main()
