"""The code in the README and the docs runs as written, top to bottom, as a newcomer would follow it."""

from __future__ import annotations

import re
import shlex
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

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
    import numpy as np

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


def test_tables_come_from_the_registries() -> None:
    spec = spec_from_file_location("tables", ROOT / "docs" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    tables = module_from_spec(spec)
    spec.loader.exec_module(tables)
    for page in tables.TABLES:
        assert tables.with_tables(page) == (ROOT / page).read_text(), f"{page}: run `make tables`"


def test_links_lead_somewhere() -> None:
    for page in ROOT.rglob("*.md"):
        if ".venv" in page.parts:
            continue
        for target in re.findall(r"\]\(([^)#]+?)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
