"""The code in the README and the docs runs as written, top to bottom, as a newcomer would follow it."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

from paredown.laws.calibration import Strength
from paredown.records import sealed_bytes
from paredown.reproduce import FIGURES, Claim, ClaimVerdict

ROOT = Path(__file__).parent.parent
PAGES = [
    "README.md",
    "docs/getting-started.md",
    "docs/scaling.md",
    "docs/scaling-out.md",
    "docs/sweeps.md",
    "docs/evaluation.md",
    "docs/laws.md",
    "docs/metrics.md",
    "docs/comparing.md",
    "docs/report.md",
    "docs/training.md",
    # Lightning and transformers warn about their own dependencies.
    pytest.param("docs/recording.md", marks=pytest.mark.filterwarnings("ignore")),
]
# Commands that need nothing a page has not made before; installing and the slow theory verbs are tested elsewhere.
LEFT_OUT = ("pip ", "make ", "paredown simulate", "paredown reproduce", "paredown theory", "paredown sweep")


def blocks(page: str) -> list[tuple[str, str]]:
    return re.findall(r"^```(python|sh)\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)


@pytest.mark.parametrize("page", PAGES)
def test_code_blocks_run(page, paredown, tmp_path, digits, capsys, request) -> None:
    import paredown as pdn

    if page == "README.md":  # the README's commands start from files the reader has
        np.save(tmp_path / "embeddings.npy", digits[0])
        np.save(tmp_path / "labels.npy", digits[1])
    if page in ("docs/metrics.md", "docs/comparing.md", "docs/report.md"):
        np.save(tmp_path / "embeddings.npy", digits[0][:200])
        np.save(tmp_path / "labels.npy", digits[1][:200])
        (tmp_path / "published.csv").write_text("image name, score\na.png, 0.5\nb.png, 0.25\n")
    if page == "docs/scaling.md":
        scores = pdn.score(digits[0], labels=digits[1], sensitivity=False)
        np.save(tmp_path / "embeddings.npy", digits[0])
        request.getfixturevalue("image_folder")
        (tmp_path / "scores").mkdir()
        pdn.write_scores(scores, tmp_path / "scores" / "part-0.parquet")
    if page == "docs/recording.md":  # Lightning and transformers import a torchvision that may not fit its torch
        from paredown.embeddings.encoders.torchvision_on_cpu import import_torchvision

        import_torchvision()
        request.getfixturevalue("one_torch_thread")
    names: dict = {}
    ran = 0
    for language, code in blocks(page):
        if language == "python":
            exec(compile(code, page, "exec"), names)
            ran += 1
            continue
        for line in code.splitlines():
            if line and not line.startswith(LEFT_OUT) and "--engine ray" not in line:  # tested in engines/
                words = shlex.split(line, comments=True)
                assert words[0] == "paredown", line
                if Path(words[-1]).exists():
                    words.append("--overwrite")
                result = paredown(*words[1:])
                assert result.returncode == 0, f"{line}\n{result.stderr}"
                ran += 1
    assert ran >= {"docs/scaling.md": 2, "docs/scaling-out.md": 1, "docs/sweeps.md": 1}.get(page, 3)


def script(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A script of docs/, under its own name for the others there."""
    spec = spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def test_tables_come_from_the_registries(monkeypatch) -> None:
    tables = script("tables", monkeypatch)
    for page in tables.TABLES:
        assert tables.with_tables(page) == (ROOT / page).read_text(), f"{page}: run `make tables`"


# --- the page of results -------------------------------------------------------------------------------------------

STRENGTH = Strength(effect=0.02, power=0.97, false_alarms=0.031, smallest_effect=0.0125, seeds=4, seeds_needed=4)
LONG = "And " + "so on " * 30 + "further."
RUN = {
    "fig1a": (
        {},
        Claim.exact("A law holds.", held=True, evidence="Its exponent is -1.25 (random -2), mostly."),
        replace(Claim.exact("It always holds.", held=True, evidence=f"mostly. {LONG}"), qualifier="in the limit"),
        Claim.not_testable("It is long.", f"{LONG} {LONG}"),
    ),
    "fig3": (
        {"data (main)": "mnist", "data (other)": "none", "data (teacher)": "cifar10_features_taught"},
        replace(
            Claim("A|B is steep.", ClaimVerdict.CANNOT_TELL, "+1.20 points."),
            rule="better than, below 0 points",
            numbers=({"point": "a|b", "value": "+1.20", "standard error": "0.30", "seeds": "4"},),
            unit="points",
            strength=STRENGTH,
        ),
        replace(
            Claim("Nine points are.", ClaimVerdict.CONTRADICTED, LONG),
            numbers=tuple({"point": f"{n}"} for n in range(9)),
        ),
    ),
    "fig_noise": (
        {"data (main)": "of another version"},
        replace(Claim("A|B is steep.", ClaimVerdict.CANNOT_TELL, "The same."), counted_in="fig3"),
    ),
}
GENERATED = {
    "run": """\
paredown 1.2, size `cpu`, seed 0: 3 figures and tables. 5 claims: 2 held, 1 contradicted, \
1 cannot tell, 1 not testable here; 1 more is on runs of another figure and counted there. \
Their records add up to 1,800 CPU seconds, 15 minutes on two cores; parts that a figure found made are counted once, \
or not at all where they were made apart.

Not made in this run: MISSING. What is said of them above is of an earlier run.""",
    "claims": r"""| figure | data | claim | verdict |
|---|---|---|---|
| [fig1a](#fig1a) | theory and simulation | A law holds. | held |
|  |  | It always holds. | held, in the limit |
|  |  | It is long. | **not testable here** |
| [fig3](#fig3) | MNIST; embeddings of CIFAR-10, labels of a teacher | A\|B is steep. | **cannot tell** |
|  |  | Nine points are. | **contradicted** |
| [fig_noise](#fig_noise) | of another version | A\|B is steep. | **cannot tell** (as in [fig3](#fig3)) |""",
    "figures": f"""## fig1a

Fig. 1A: {FIGURES["fig1a"].shows}.

![{FIGURES["fig1a"].shows}](images/fig1a.png)

**Held**: A law holds. Its exponent is -1.25 (random -2), mostly.

Rule: exact solution, without noise.

**Held, in the limit**: It always holds. Mostly.

<details><summary>more</summary>

{LONG}

</details>

Rule: exact solution, without noise.

**Not testable here**: It is long. {LONG}

<details><summary>more</summary>

{LONG}

</details>

Size `cpu`, theory and simulation; 600 CPU seconds.

## fig3

Fig. 3: {FIGURES["fig3"].shows}.

![{FIGURES["fig3"].shows}](images/fig3.png)

**Cannot tell**: A|B is steep. +1.20 points.

| point | value, points | standard error | seeds |
|---|---|---|---|
| a\\|b | +1.20 | 0.30 | 4 |

Rule: better than, below 0 points. 4 seeds find 1.25 points with a power of 0.8; at 2 points the power is 0.97; \
false alarms 3.1 %.

**Contradicted**: Nine points are.

<details><summary>more</summary>

{LONG}

</details>

<details><summary>9 points</summary>

| point |
|---|
{chr(10).join(f"| {n} |" for n in range(9))}

</details>

Size `cpu`, MNIST; embeddings of CIFAR-10, labels of a teacher; 600 CPU seconds.

## fig_noise

Beyond the paper: {FIGURES["fig_noise"].shows}.

![{FIGURES["fig_noise"].shows}](images/fig_noise.png)

**Cannot tell**: A|B is steep. The same.

Size `cpu`, of another version; 600 CPU seconds.""",
}


def test_results_come_from_a_run(monkeypatch, tmp_path) -> None:
    tables = script("tables", monkeypatch)
    results = script("results", monkeypatch)
    run, docs = tmp_path / "run", tmp_path / "docs"
    run.mkdir()
    (docs / "images").mkdir(parents=True)
    for name, (data, *claims) in RUN.items():
        settings = {"size": "cpu", "seed": 0, "version": "1.2", **data}
        record = {"figure": name, "claims": [c.record() for c in claims], "settings": settings, "cpu_seconds": 600.0}
        (run / f"{name}.json").write_bytes(sealed_bytes(record))
        Image.new("RGB", (40, 30), (0, 114, 178)).save(run / f"{name}.png")
    noise = np.random.default_rng(0).integers(0, 256, (400, 600), dtype=np.uint8)
    Image.fromarray(noise).save(run / "fig3.png")
    for name in ("fig1a", "fig2", "fig4a", "demo"):  # pictures of an earlier run, and one of another page
        (docs / "images" / f"{name}.png").touch()
    (tmp_path / "README.md").write_text("![still shown](docs/images/fig4a.png)\n")
    markers = "".join(f"<!-- {name}:begin -->\nold\n<!-- {name}:end -->\n" for name in GENERATED)
    quotes = "<!-- fig3 1 a|b -->{}<!-- / --> points, <!-- fig1a 2 -->{}<!-- / -->, "
    quotes += "<!-- fig1a 1 exponent is -->{}<!-- / -->, <!-- fig2 1 0.5 -->{}<!-- / -->\n"
    (docs / "results.md").write_text(quotes.format("+9.99 ± 0.99", "", "-7", "+3.00 ± 0.25") + markers)
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(results, "IMAGES", docs / "images")

    results.main(run)
    missing = ", ".join(f'<a id="{name}"></a>{name}' for name in FIGURES if name not in RUN)
    expected = "".join(f"<!-- {name}:begin -->\n{text}\n<!-- {name}:end -->\n" for name, text in GENERATED.items())
    expected = quotes.format("+1.20 ± 0.30", "held, in the limit", "-1.25 (random -2)", "+3.00 ± 0.25") + expected
    assert (docs / "results.md").read_text() == expected.replace("MISSING", missing)
    pictures = {file.name: file for file in (docs / "images").iterdir()}
    assert sorted(pictures) == ["demo.png", "fig1a.png", "fig3.png", "fig4a.png", "fig_noise.png"]
    with Image.open(pictures["fig1a.png"]) as plain, Image.open(pictures["fig3.png"]) as large:
        assert plain.convert("RGB").getcolors() == [(1200, (0, 114, 178))]
        assert plain.size == (40, 30)
        assert large.size[0] / large.size[1] == pytest.approx(1.5, abs=0.01)
    assert pictures["fig3.png"].stat().st_size <= 200_000

    made = results.read_figures(run, FIGURES)
    with pytest.raises(SystemExit, match=r"quotes fig3 1 0.5; the points of that claim are: a\|b"):
        results.with_quotes("<!-- fig3 1 0.5 -->x<!-- / -->", made)
    with pytest.raises(SystemExit, match="quotes claim 3 of fig3, which has 2"):
        results.with_quotes("<!-- fig3 3 -->x<!-- / -->", made)
    other = {"figure": "fig2", "claims": [], "settings": {"size": "paper", "seed": 0, "version": "1.2"}}
    (run / "fig2.json").write_bytes(sealed_bytes({**other, "cpu_seconds": 1.0}))
    with pytest.raises(SystemExit, match="must be of one run"):
        results.main(run)


def test_every_picture_is_shown_and_every_figure_has_its_section() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {(page.parent / target).resolve() for page in pages for target in pictures_in(page)}
    images = {file.resolve() for file in (ROOT / "docs" / "images").iterdir()}
    assert shown == images
    results = ROOT / "docs" / "results.md"
    made = re.findall(r"^## ((?:fig|tab)\w+)$", results.read_text(), re.M)
    assert made == [name for name in FIGURES if name in made]
    assert set(pictures_in(results)) == {f"images/{name}.png" for name in made}


def test_numbers_of_the_results_are_quoted_from_their_figures(monkeypatch) -> None:
    script("tables", monkeypatch)
    results = script("results", monkeypatch)
    assert results.told("-1.20", "0.30", "points") == "-1.20 ± 0.30"
    assert results.told("-69.3", "2.0", "%") == "-50.0 ± 1.0"  # half the error
    page = (ROOT / "docs" / "results.md").read_text()
    by_hand, _, generated = page.partition("<!-- run:begin -->")
    assert "±" not in results.QUOTED.sub("", by_hand).partition("± is one standard error")[2]
    sections = dict(re.findall(r"^## (\w+)$(.*?)(?=^## |\Z)", generated, re.M | re.S))
    for figure, claim, point, text in results.QUOTED.findall(by_hand):
        if point and figure in sections:
            rows = re.findall(rf"^\| {re.escape(point)} \| (\S+) \| (\S*) \|", sections[figure], re.M)
            known = {results.told(*row, unit) for row in rows for unit in ("", "%")}
            assert text in known or f"{point} {text}" in sections[figure], f"{figure} {claim} {point}: make results"
    anchors = {*sections, *re.findall(r'<a id="(\w+)">', generated)}
    assert set(re.findall(r"\]\(#(\w+)\)", page)) <= anchors
    others = "".join(other.read_text() for other in (ROOT / "docs").glob("*.md"))
    assert set(re.findall(r"\(results\.md#(\w+)\)", others)) <= anchors


def pictures_in(page: Path) -> list[str]:
    return re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text())


def test_links_lead_somewhere() -> None:
    for page in ROOT.rglob("*.md"):
        if ".venv" in page.parts:
            continue
        for target in re.findall(r"\]\(([^)#]+?)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
