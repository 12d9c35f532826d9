"""`paredown compare`: tables that stay readable, JSON, a picture, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import paredown as pdn
from paredown.scores import Labels, Scores

HAND = {"x": [1.0, 2, 3, 4, 5], "y": [2.0, 1, 4, 3, 5], "z": [5.0, 4, 3, 2, 1]}


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """`both.parquet` with the metrics x and y, and `third.parquet` with z and a table of one more example."""
    labels = Labels.of(list("pqpqp"))
    both = [Scores(np.array(HAND[name]), np.arange(5), name, labels) for name in "xy"]
    pdn.write_scores(both, tmp_path / "both.parquet")
    third = Scores(np.array([*HAND["z"], 9.0]), np.arange(6), "z", provenance={"report": {"models": 8}})
    pdn.write_scores(third, tmp_path / "third.parquet")
    return tmp_path


def test_it_prints_tables_and_sentences(paredown, tables) -> None:
    result = paredown(
        "compare", "both.parquet", "third.parquet", "--balance", "0", "--keep-fraction", "0.4", "--top", "2"
    )
    assert result.returncode == 0, result.stderr
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "Rank correlation (Spearman), 5 examples" in lines
    assert "1 x 1.00 0.80 -1.00" in lines
    assert "2 y 0.80 1.00 -0.80" in lines
    assert "chance 40" in lines
    assert "mean of all pairs 17" in lines
    assert "x, y 50" in lines
    assert "4 p 47 100 100 0" in lines  # id, label, spread, and the three percentiles
    assert "0 p 42 0 25 100" in lines
    assert "1 q" not in result.stdout
    assert "z - 8 - -" in lines  # no metric of paredown, but its scores say how many networks
    assert "Note: 5 examples have a score by every metric and are compared; left out: 1 of z." in lines
    assert lines[-1] == "z stands apart: its mean rank correlation with the other metrics is -0.90."


def test_json_has_everything(paredown, tables) -> None:
    result = paredown("compare", "both.parquet", "third.parquet", "--json")
    found = json.loads(result.stdout)
    assert found["metrics"] == ["x", "y", "z"]
    assert found["order"] == ["x", "y", "z"]
    assert found["left_out"] == {"x": 0, "y": 0, "z": 1}
    assert found["spearman"][0] == pytest.approx([1, 0.8, -1])
    assert found["corrected"][0] == [None, None, None]
    assert [row["keep_fraction"] for row in found["overlaps"]] == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    assert found["disputed"][0]["percentiles"] == {"x": 1, "y": 1, "z": 0}
    assert found["facts"][2]["networks"] == 8
    assert found["out"] is None
    again = paredown("compare", "both.parquet", "third.parquet", "--json")
    assert again.stdout == result.stdout


def test_a_picture_is_drawn_once(paredown, tables) -> None:
    draw = ("compare", "both.parquet", "third.parquet", "-o", "compared.png")
    assert "Picture: compared.png." in paredown(*draw).stdout
    drawn = Path("compared.png").read_bytes()
    with Image.open("compared.png") as picture:
        assert picture.width > picture.height > 400
    assert "compared.png was already complete; nothing was changed." in paredown(*draw).stdout
    refused = paredown(*draw, "--strategy", "easy")
    assert refused.returncode == 2
    assert "compared.png already exists" in refused.stderr
    assert Path("compared.png").read_bytes() == drawn
    assert paredown(*draw, "--strategy", "easy", "--overwrite").returncode == 0
    assert Path("compared.png").read_bytes() != drawn
    assert "unchanged" in paredown("verify", "compared.png").stdout
    assert paredown(*draw, "--overwrite").returncode == 0
    assert Path("compared.png").read_bytes() == drawn  # the same bytes again


def test_twenty_metrics_stay_readable(paredown, tmp_path, rng) -> None:
    names = [f"metric_{number:02d}" for number in range(19)] + ["<b>[red]$x$ a name that is far too long for a table"]
    ids = np.array([f"train/some/long/folder/{row:03d}.png" for row in range(60)])
    base = rng.random(60)
    scores = [Scores(base * place + rng.random(60), ids, name) for place, name in enumerate(names)]
    scores[3] = Scores(np.ones(60), ids, names[3])
    pdn.write_scores(scores, tmp_path / "many.parquet")
    result = paredown("compare", "many.parquet", "--top", "5", "-o", "many.png")
    assert result.returncode == 0, result.stderr
    sentences = ("Note:", "metric_", "The 7 highest", "Picture")
    tables = [line for line in result.stdout.splitlines() if not line.startswith(sentences) or "rank" not in line]
    assert max(len(line) for line in tables if not line.startswith("Note")) <= 80
    assert result.stdout.count("Rank correlation (Spearman)") == 3
    assert all(f"{number:2d}  " in result.stdout for number in range(1, 21))
    undefined = [line.split() for line in result.stdout.splitlines() if "metric_03  " in line]
    assert undefined[0][2:] == ["-"] * 7
    assert "[red]$x$" in result.stdout
    assert "The 7 highest and 7 lowest of 190 pairs; --json has all." in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("both.parquet", "-o", "x.pdf"),
            "unsupported file type '.pdf'; supported: .png, .html. Name the output such as x.png",
        ),
        (("both.parquet", "-o", "picture"), "picture has no file type; supported: .png, .html"),
        (("both.parquet", "-o", "both.parquet"), "unsupported file type '.parquet'"),
        (("third.parquet",), "a comparison needs at least two metrics, got only z"),
        (("both.parquet", "--metric", "x"), "a comparison needs at least two metrics, got only x"),
        (("both.parquet", "--metric", "x,w"), "unknown metric 'w'; available: x, y"),
        (("both.parquet", "--strategy", "hardest"), "unknown strategy 'hardest'"),
        (("both.parquet", "--keep-fraction", "50"), "--keep-fraction must be in (0, 1], got 50. Did you mean 0.5?"),
        (("both.parquet", "--top", "-2"), "--top must be at least 0, got -2"),
        (("both.parquet", "--seed", "-1"), "--seed must not be negative"),
        (("both.parquet", "both.parquet"), "both.parquet is given twice"),
        (("nothing.parquet",), "nothing.parquet: there is no such file"),
        (("x.npy",), "x.npy: not a table of scores"),
    ],
)
def test_mistakes_are_answered(arguments, said, paredown, tables) -> None:
    np.save("x.npy", np.zeros(3))
    result = paredown("compare", *arguments)
    assert result.returncode == 2
    assert said in " ".join(result.stderr.split())
    assert not Path("x.pdf").exists()
