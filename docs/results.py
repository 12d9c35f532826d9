"""Bring a run of `paredown reproduce` into the docs: the generated parts of `results.md`, its numbers and its pictures.

`make results RUN=FOLDER` runs it, on a run that is finished or not: figures that the run has not made are left out, and
named. In the hand-written part, `<!-- fig1d 2 0.25 -->-1.20 ± 0.12<!-- / -->` quotes the point 0.25 of the second claim
of fig1d, and `<!-- fig1d 2 -->held<!-- / -->` its verdict; words that are no point quote the number that follows them
in the evidence. What is quoted of a figure that was not made stays as it is.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Mapping
from pathlib import Path

from PIL import Image
from tables import ROOT, filled

from paredown.files import write_whole
from paredown.reproduce import FIGURES
from paredown.reproduce.judging import PERCENT
from paredown.reproduce.results_page import MadeFigure, count_verdicts, read_figures, section, table_of_claims

PAGE = "docs/results.md"
IMAGES = ROOT / "docs" / "images"
QUOTED = re.compile(r"<!-- (\w+) (\d+)(?: ([^>]+?))? -->(.*?)<!-- / -->")
LARGEST = 200_000  # bytes of a picture
_COLOURS = (256, 128, 64)  # tried one after the other; plots have few
_SHRINK = 0.85  # where fewer colours are not enough


def parts(made: Mapping[str, MadeFigure]) -> dict[str, str]:
    """The generated text, by the name of its markers."""
    sections = [section(figure, f"images/{name}.png") for name, figure in made.items()]
    return {"run": _run(made), "claims": table_of_claims(made), "figures": "\n\n".join(sections)}


def _run(made: Mapping[str, MadeFigure]) -> str:
    """What was run, what came out, and what it took."""
    described = {(f.settings["size"], f.settings["seed"], f.settings["version"]) for f in made.values()}
    if len(described) != 1:
        raise SystemExit(f"the figures must be of one run, but have size, seed and version {sorted(described)}")
    size, seed, version = described.pop()
    seconds = sum(figure.cpu_seconds for figure in made.values())
    lines = [
        f"paredown {version}, size `{size}`, seed {seed}: {count_verdicts(made)} "
        f"Their records add up to {seconds:,.0f} CPU seconds, {seconds / 120:.0f} minutes on two cores; parts that a "
        "figure found made are counted once, or not at all where they were made apart."
    ]
    missing = [f'<a id="{name}"></a>{name}' for name in FIGURES if name not in made]  # where links to them lead
    if missing:
        lines.append(f"Not made in this run: {', '.join(missing)}. What is said of them above is of an earlier run.")
    return "\n\n".join(lines)


def with_quotes(text: str, made: Mapping[str, MadeFigure]) -> str:
    """A text in which the numbers quoted from figures are those of a run."""

    def quoted(found: re.Match[str]) -> str:
        figure, claim, point, old = found.groups()
        new = quote(made[figure], int(claim), point) if figure in made else old
        return found[0].replace(f"-->{old}<!--", f"-->{new}<!--")

    return QUOTED.sub(quoted, text)


def quote(figure: MadeFigure, claim: int, point: str | None) -> str:
    """A number with its standard error, a number of the evidence, or the verdict where no point is named."""
    if not 0 < claim <= len(figure.claims):
        raise SystemExit(f"{PAGE} quotes claim {claim} of {figure.name}, which has {len(figure.claims)}")
    judged = figure.claims[claim - 1]
    if point is None:
        return judged.told
    for row in judged.numbers:
        if row["point"] == point:
            return told(row["value"], row["standard error"], judged.unit)
    said = re.search(rf"(?<!\S){re.escape(point)} ([-+]?\d(?:[\d.,]*\d)?(?: \([^)]*\))?)", judged.evidence)
    if said:
        return said[1]
    points = ", ".join(row["point"] for row in judged.numbers)
    raise SystemExit(f"{PAGE} quotes {figure.name} {claim} {point}; the points of that claim are: {points}")


def told(value: str, stderr: str, unit: str) -> str:
    """A number with its standard error; the log of a ratio of errors becomes a difference in per cent."""
    if unit != PERCENT.name:
        return f"{value} ± {stderr}"
    ratio = math.exp(float(value) / 100)
    return f"{100 * (ratio - 1):+.1f} ± {ratio * float(stderr):.1f}"


def copy_picture(source: Path, target: Path) -> int:
    """Copy a picture with as many colours, and as large, as fit into `LARGEST` bytes; its bytes."""
    with Image.open(source) as opened:
        picture = opened.convert("RGB")
    while True:
        for colours in _COLOURS:
            # Of Pillow's ways this one is never far off, with colours that cover little, such as those of a scale, too.
            few = picture.quantize(colours, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
            with write_whole(target) as part:
                few.save(part, format="PNG", optimize=True)
            if target.stat().st_size <= LARGEST:
                return target.stat().st_size
        picture = picture.resize([round(_SHRINK * side) for side in picture.size], Image.Resampling.LANCZOS)


def unshown() -> list[Path]:
    """Pictures of figures that no page shows."""
    pages = "".join(page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    pictures = [IMAGES / f"{name}.png" for name in FIGURES]
    return [picture for picture in pictures if picture.exists() and f"images/{picture.name})" not in pages]


def main(run: Path) -> None:
    """Write the page and the pictures."""
    made = read_figures(run, FIGURES)
    if not made:
        raise SystemExit(f"{run}: there are no figures in this folder")
    (ROOT / PAGE).write_text(with_quotes(filled(PAGE, parts(made)), made), encoding="utf-8")
    total = sum(copy_picture(run / f"{name}.png", IMAGES / f"{name}.png") for name in made)
    print(f"{len(made)} of {len(FIGURES)} figures, {total:,} bytes of pictures")
    for picture in unshown():
        picture.unlink()
        print(f"removed {picture.name}, which no page shows")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="folder that `paredown reproduce -o` wrote")
    main(parser.parse_args().run)
