"""Reports: how large the page is, how long it takes to make, and how long a browser takes to open it.

    python benchmarks/report.py [--photos 10000] [--rows 1000000] [--classes 1000]

The page of scores is timed against reading the same file and sorting it with numpy (lexsort), in CPU seconds of one
process. The page of photographs is made of random pictures of 160 x 120 pixels, which compress worse than real ones.
Opening needs chromium and Playwright.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

import paredown as pdn
from paredown.ids import hash_ids
from paredown.report import write_report
from paredown.report.page import asset

MOST_PHOTOS, MOST_SCORES = 8.0, 12.0  # MB
LONGEST_OPENING = 5.0  # seconds


def photographs(folder: Path, number: int) -> float:
    """Megabytes of the page of pictures, with embeddings of noise."""
    rng = np.random.default_rng(0)
    for row in range(number):
        place = folder / "photos" / f"class-{row % 20:02d}"
        place.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(rng.integers(0, 255, (15, 20, 3), np.uint8))
        coarse.resize((160, 120), Image.Resampling.BICUBIC).save(place / f"{row:06d}.jpg", quality=80)
    source = pdn.open_source(folder / "photos")
    scores = pdn.Scores(
        rng.random(number), source.ids, "mine", source.labels, provenance={"source": source.provenance()}
    )
    pdn.prune(scores, keep_fraction=0.6, out=folder / "pruned")
    return write_report(folder / "pruned", folder / "photos.html").size / 1e6


def scores_page(folder: Path, rows: int, classes: int) -> tuple[float, float]:
    """Megabytes of the page of scores, and its CPU time against reading and sorting the file."""
    rng = np.random.default_rng(0)
    labels = pdn.Labels.of(rng.integers(0, classes, rows))
    made = pdn.Scores(rng.standard_normal(rows).astype(np.float32), np.arange(rows), "el2n", labels)
    pdn.write_scores(made, folder / "scores.parquet")
    size, ratios = 0.0, []
    for _ in range(3):
        start = time.process_time()
        scores = pdn.read_scores(folder / "scores.parquet")
        np.lexsort((hash_ids(scores.ids, seed=0), -scores.values))
        middle = time.process_time()
        size = write_report(folder / "scores.parquet", folder / "scores.html", overwrite=True).size / 1e6
        ratios.append((time.process_time() - middle) / (middle - start))
    return size, min(ratios)


def opening(file: Path) -> float | None:
    """Seconds until a page is drawn; None without a browser."""
    chromium = shutil.which("chromium")
    if chromium is None or find_spec("playwright") is None:
        return None
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        start = time.perf_counter()
        page.goto(file.as_uri())
        page.wait_for_selector("body[data-ready]")
        seconds = time.perf_counter() - start
        browser.close()
    return seconds


def script_kilobytes() -> float:
    names = ("elements", "unpacking", "recut", "histogram", "gallery", "map", "pruned_page")
    return sum(len(asset(f"{name}.js")) for name in names) / 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description="Size and time of reports.")
    parser.add_argument("--photos", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=1_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        photos = photographs(folder, given.photos)
        size, ratio = scores_page(folder, given.rows, given.classes)
        opened = {name: opening(folder / f"{name}.html") for name in ("photos", "scores")}
    rows = [
        (f"{given.photos:,} photographs, MB", photos, MOST_PHOTOS),
        (f"{given.rows:,} scores of {given.classes:,} classes, MB", size, MOST_SCORES),
        ("making that page / reading and sorting its file", ratio, 2.0),
        ("opening the page of photographs, s", opened["photos"], LONGEST_OPENING),
        ("opening the page of scores, s", opened["scores"], LONGEST_OPENING),
        ("our script, kB (Bokeh's core inline: 1,270)", script_kilobytes(), None),
    ]
    print(f"{'what':58} {'measured':>9} {'at most':>8}")
    for name, value, most in rows:
        print(f"{name:58} {'-' if value is None else f'{value:.2f}':>9} {'' if most is None else f'{most:g}':>8}")
    return int(any(value is not None and most is not None and value > most for _, value, most in rows))


if __name__ == "__main__":
    sys.exit(main())
