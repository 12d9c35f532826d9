"""How much faster is ONNX Runtime than torch on a CPU, and what does decoding ahead in threads bring?

First table: images per second of a network through ONNX Runtime divided by those through torch as it is, on one core
and thread each, batches of 16, runs in turn, the median ratio and the range; and the least cosine between the two.
EfficientNet-Lite0 has its real weights, the timm models random ones, which take the same time.

Second table: CPU time of each step as a share, on JPEG photographs of 640 x 427; how much reading JPEG at reduced
size (Pillow's draft mode, which paredown does not use) would save of photographs of 1920 x 1281, and the cosine to
the embeddings of the full size. The most that doing the steps at the same time can bring on c cores, where the network
itself uses all of them, is (share of decoding and preparing + share of encoding / c) / (1 / c).

Third table: images per second of `embeddings.encoders.encode` on JPEG photographs of 640 x 427, threads decoding
ahead of the network, divided by those of decoding and encoding in turns, on all cores; and the same of CPU time.

Run: python benchmarks/embed.py [rounds]
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_sample_image

import paredown as pdn
from paredown.embeddings.encoders import Encoder, encode, load_encoder
from paredown.embeddings.encoders.inference import run_model
from paredown.embeddings.encoders.torchvision_on_cpu import import_torchvision
from paredown.sources import ImageSource

TIMM = ("resnet18", "resnet50", "vit_small_patch16_224")
BATCH = 16
PHOTOS = 64


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ratios(slow: Callable[[], object], fast: Callable[[], object], rounds: int) -> np.ndarray:
    """Time of `slow` over time of `fast`, run in turn; the first round only warms up."""
    return np.array([seconds(slow) / seconds(fast) for _ in range(rounds + 1)][1:])


def show(ratio: np.ndarray) -> str:
    return f"{np.median(ratio):.2f} ({ratio.min():.2f} to {ratio.max():.2f})"


def compare_runtimes(rounds: int) -> None:
    import_torchvision()
    import timm

    from paredown.embeddings.encoders.efficientnet import efficientnet_lite0

    print("| network | images per second, ONNX Runtime over torch | least cosine |\n|---|---|---|")
    models = {"efficientnet_lite0": efficientnet_lite0()}
    models |= {f"timm:{name}": timm.create_model(name, pretrained=False, num_classes=0) for name in TIMM}
    noise = list(np.random.default_rng(0).standard_normal((BATCH, 3, 224, 224)).astype(np.float32))
    for name, model in models.items():
        eager, exported = run_model(model, 224, runtime="torch"), run_model(model, 224, runtime="onnx")
        a, b = eager.run(noise), exported.run(noise)
        cosine = np.min(np.vecdot(a, b) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)))
        ratio = ratios(lambda run=eager.run: run(noise), lambda run=exported.run: run(noise), rounds)
        print(f"| {name} | {show(ratio)} | {cosine:.7f} |", flush=True)


def in_turns(source: ImageSource, encoder: Encoder) -> None:
    batch = []
    for image in source.images():
        assert isinstance(image, Image.Image)
        batch.append(encoder.prepare(image))
        if len(batch) == encoder.batch_size:
            encoder.encode(batch)
            batch = []


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def decode(data: bytes, *, draft: bool = False) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    if draft:
        image.draft("RGB", (384, 256))
    image.load()
    return image


def jpegs(size: tuple[int, int], number: int) -> list[bytes]:
    china = Image.fromarray(load_sample_image("china.jpg")).resize(size)
    files = []
    for turn in range(number):
        stream = io.BytesIO()
        china.rotate(turn).save(stream, "JPEG", quality=90)
        files.append(stream.getvalue())
    return files


def compare_steps(rounds: int) -> None:
    encoder = load_encoder("efficientnet_lite0")
    files, large = jpegs((640, 427), 32), jpegs((1920, 1281), 8)
    images = [decode(file) for file in files]
    prepared = [encoder.prepare(image) for image in images]
    steps = {
        "decode": lambda: [decode(file) for file in files],
        "prepare": lambda: [encoder.prepare(image) for image in images],
        "encode": lambda: encoder.encode(prepared),
        "full": lambda: [encoder.prepare(decode(file)) for file in large],
        "draft": lambda: [encoder.prepare(decode(file, draft=True)) for file in large],
    }
    times = np.array([[cpu_seconds(work) for work in steps.values()] for _ in range(rounds + 1)][1:])
    share = times[:, :3] / times[:, :3].sum(axis=1, keepdims=True)
    print("\n| step | share of the CPU time |\n|---|---|")
    for column, name in enumerate(list(steps)[:3]):
        print(f"| {name} | {show(share[:, column])} |")
    cores = len(os.sched_getaffinity(0))
    most = (share[:, 0] + share[:, 1] + share[:, 2] / cores) * cores
    print(f"\nMost that overlapping can bring on {cores} cores: {show(most)}")
    whole, reduced = (encoder.encode([encoder.prepare(decode(f, draft=d)) for f in large]) for d in (False, True))
    norms = np.linalg.norm(whole, axis=1) * np.linalg.norm(reduced, axis=1)
    cosine = np.min(np.vecdot(whole, reduced) / norms)
    ratio = show(times[:, 3] / times[:, 4])
    print(f"Decoding and preparing 1920 x 1281, full over draft: {ratio}, least cosine {cosine:.4f}")


def compare_overlap(rounds: int) -> None:
    encoder = load_encoder("efficientnet_lite0")
    china = Image.fromarray(load_sample_image("china.jpg"))
    with tempfile.TemporaryDirectory() as folder:
        for number in range(PHOTOS):
            china.rotate(number).save(Path(folder) / f"{number:03d}.jpg", quality=90)
        source = pdn.open_source(folder)
        assert isinstance(source, ImageSource)
        print("\n| threads that decode | images per second over in turns | CPU time, in turns over ahead |")
        print("|---|---|---|")
        for workers in (1, 2, 4):
            turns = lambda: in_turns(source, encoder)
            ahead = lambda workers=workers: encode(source, encoder=encoder, workers=workers)
            clock = ratios(turns, ahead, rounds)
            cpu = np.array([cpu_seconds(turns) / cpu_seconds(ahead) for _ in range(rounds)])
            print(f"| {workers} | {show(clock)} | {show(cpu)} |", flush=True)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    cores = os.sched_getaffinity(0)
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {min(cores)})
    compare_runtimes(rounds)
    os.sched_setaffinity(0, cores)
    compare_steps(rounds)
    compare_overlap(rounds)


if __name__ == "__main__":
    main()
