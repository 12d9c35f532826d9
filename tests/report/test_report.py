"""Reports without a browser: what goes into them, and what is refused."""

from __future__ import annotations

import base64
import io
import json
import re
import shlex
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import paredown as pdn
from paredown.errors import PareError
from paredown.markup import tag
from paredown.metrics.reliability import Reliability
from paredown.report import exhibits, write_report
from paredown.report.charts import Chart, curve_style
from paredown.report.costs_shown import describe_cost
from paredown.report.embedding_map import find_duplicates
from paredown.report.exhibits import choose_ranks, read_thumbnail, thumbnail
from paredown.report.packing import pack_files, pack_numbers, pack_texts
from paredown.report.page_parts import clipped
from paredown.report.provenance_shown import commands_of, warnings_of
from paredown.report.pruned_page import cluster_table
from paredown.report.recut_data import RankedRows


def inflate(packed: str) -> bytes:
    return zlib.decompress(base64.b64decode(packed), -zlib.MAX_WBITS)


def unpack(column: dict[str, Any]) -> np.ndarray:
    planes = np.frombuffer(inflate(column["data"]), np.uint8).reshape(column["bytes"], column["length"])
    numbers = sum(planes[i].astype(np.uint64) << (8 * i) for i in range(column["bytes"]))
    return np.cumsum(numbers) if column["delta"] else numbers


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1), st.booleans())
def test_packed_numbers_come_back(numbers: list[int], delta: bool) -> None:
    values = np.sort(np.array(numbers, np.int64)) if delta else np.array(numbers, np.int64)
    column = pack_numbers(values, delta=delta)
    np.testing.assert_array_equal(unpack(column), values)
    assert column["bytes"] == (1 if values.max() < 256 else 2 if values.max() < 65_536 else 4)


@given(st.lists(st.text()))
def test_packed_texts_come_back(texts: list[str]) -> None:
    assert json.loads(inflate(pack_texts(texts)["data"])) == texts


def test_packed_files_lie_one_after_the_other() -> None:
    content, starts = pack_files([b"abc", b"", b"de"])
    assert base64.b64decode(content) == b"abcde"
    assert starts == [0, 3, 3, 5]


def test_markup_escapes_what_is_not_markup() -> None:
    made = tag("p", "<b>", tag("i", "&"), class_="a\"b'", hidden=True, id=None, aria_label="x\u202ey")
    assert made == '<p class="a&quot;b&#x27;" hidden aria-label="x\\u202ey">&lt;b&gt;<i>&amp;</i></p>'
    assert clipped("a" * 100, 30) == "a" * 18 + "…" + "a" * 11


def data_of(page: Path) -> Any:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text())[1])  # type: ignore[index]


def ranked(n: int = 1_000, **options: Any) -> RankedRows:
    rng = np.random.default_rng(1)
    scores = pdn.Scores(rng.random(n), np.arange(n), labels=pdn.Labels.of(np.arange(n) % 4))
    kept = pdn.select(scores, keep_fraction=0.5, **options)
    return RankedRows(scores, kept.recipe, kept.keep)


def test_histogram_edges_count_every_score_once() -> None:
    rows = ranked()
    data = rows.packed()
    counts = -np.diff(data["edges"])
    expected, _ = np.histogram(rows.scores.values, bins=60)
    np.testing.assert_array_equal(counts, expected)


def test_rows_are_ranked_hardest_first_with_ties_as_select_breaks_them() -> None:
    scores = pdn.Scores(np.array([1.0, 2.0, 1.0, 1.0]), np.arange(4))
    kept = [pdn.select(scores, keep_fraction=share, seed=5) for share in (0.25, 0.5, 0.75)]
    rows = RankedRows(scores, kept[0].recipe)
    for number, each in enumerate(kept, start=1):
        assert set(rows.row[:number]) == set(each.indices)


def test_a_manifest_that_its_recipe_does_not_give_is_shown_as_it_is() -> None:
    rows = ranked()
    assert rows.repeatable
    changed = rows.keep.copy()
    changed[[rows.row[0], rows.row[-1]]] ^= True
    other = RankedRows(rows.scores, rows.recipe, changed)
    assert not other.repeatable
    np.testing.assert_array_equal(unpack(other.packed()["keep"]), changed[other.row])
    assert not RankedRows(rows.scores, None, rows.keep).repeatable
    assert rows.recipe is not None
    for wrong in ({"strategy": "unheard of"}, {"keep_fraction": "half"}, {"seed": "x"}, {"balance": None}):
        assert RankedRows(rows.scores, rows.recipe | wrong, rows.keep).recipe is None


def test_shown_examples_hold_both_ends_of_all_and_of_every_class() -> None:
    rows = ranked(20_000)
    chosen = choose_ranks(rows, np.array([777]), 600)
    keep = rows.keep[rows.row]
    kept, dropped = np.flatnonzero(keep), np.flatnonzero(~keep)
    for ranks in (kept, dropped):
        assert set(ranks[:24]) | set(ranks[-24:]) <= set(chosen)
    codes = rows.scores.labels.codes[rows.row]  # type: ignore[union-attr]
    for code in range(4):
        assert set(kept[codes[kept] == code][:12]) <= set(chosen)
    assert 777 in chosen
    assert 450 <= len(chosen) <= 650
    assert np.diff(chosen).max() < 200  # spread over all ranks
    np.testing.assert_array_equal(choose_ranks(ranked(50), np.empty(0, np.int64), 600), np.arange(50))


def test_near_duplicates_are_grouped(rng: np.random.Generator) -> None:
    rows = rng.standard_normal((30, 64))
    rows[7] = rows[3] + 0.01 * rng.standard_normal(64)
    rows[11] = rows[3] + 0.01 * rng.standard_normal(64)
    rows[20] = rows[9] + 0.01 * rng.standard_normal(64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    groups = find_duplicates(rows.astype(np.float32), np.arange(30)[::-1].copy())
    assert [group.ranks for group in groups] == [[18, 22, 26], [9, 20]]
    assert all(group.more == 0 and 0.999 < group.nearest < 1 for group in groups)
    assert find_duplicates(np.eye(4, dtype=np.float32), np.arange(4)) == []


def test_thumbnails_are_small_and_keep_their_shape() -> None:
    import io

    made = Image.open(io.BytesIO(thumbnail(Image.new("RGBA", (400, 200), (255, 0, 0, 255)))))
    assert made.format == "WEBP"
    assert made.size == (96, 48)
    assert made.getpixel((40, 20))[0] > 200  # type: ignore[index]


def test_clusters_and_classes_are_counted() -> None:
    scores = pdn.Scores(
        np.zeros(5) + np.arange(5),
        np.arange(5),
        labels=pdn.Labels.of(list("abbab")),
        clusters=np.array([7, 7, 2, 2, 2]),
    )
    table, clusters, classes = cluster_table(scores)
    np.testing.assert_array_equal(table.toarray(), [[1, 2], [1, 1]])
    assert clusters.tolist() == [2, 7]
    assert classes == ("a", "b")


def test_costs_are_passes_over_examples() -> None:
    record = {"options": {"members": 4, "epochs": 6}, "source": {}}
    took, saves, pays = describe_cost(record, "el2n", 1_000, 600)
    assert took == "The scores took 4 networks trained for 6 epochs: 24,000 passes of an example through a probe."
    assert "400 examples fewer in every epoch: 40 %" in saves
    assert "after 60 epochs" in pays
    assert "computed elsewhere" in describe_cost({}, "mine", 10, 5)[0]
    assert describe_cost({"source": {"encoder": "x"}}, "prototypes", 10, 10)[0].endswith("through the encoder.")


def test_warnings_say_what_limits_the_scores() -> None:
    record = {
        "warnings": ["weak encoder."],
        "notes": ["ties decided."],
        "report": {"reliability": 0.4, "k": 10, "k_sensitivity": {"3": 0.9, "30": 0.55}},
        "skipped": [["a", "b"]],
    }
    found = warnings_of(record)
    assert found[:2] == ["Weak encoder.", "Ties decided."]
    assert found[2] == (
        "Scores depend somewhat on k (rank correlation 0.55 with k = 30); try several, or average an ensemble of "
        "encoders."
    )
    assert found[3] == "1 example could not be read and is not among those scored."
    assert len(found) == 4
    assert warnings_of({"report": {"reliability": 0.9, "k_sensitivity": {"3": 0.9}}}) == []


def test_low_reliability_is_one_warning() -> None:
    """The one that the metric has put into the record; a page used to add its own."""
    low = Reliability(4, 0.2)
    report = {"models": 4, "split_half": 0.2, "reliability": low.value}
    (found,) = warnings_of({"warnings": [low.warning("el2n")], "report": report})
    assert found.startswith("Scores of el2n from 4 models are unreliable (reliability 0.33")


def test_the_command_in_the_page_makes_the_same_manifest(tmp_path: Path, paredown: Any, digits: Any) -> None:
    np.save(tmp_path / "my embeddings.npy", digits[0][:200])
    source, out = str(tmp_path / "my embeddings.npy"), str(tmp_path / "first")
    options = (
        "--metric prototypes --k 7 --keep-fraction 0.37 --strategy window --drop-hardest 0.1 --balance 0.25 --seed 3"
    )
    made = paredown("prune", source, *options.split(), "-o", out)
    assert made.returncode == 0, made.stderr
    scores, keep = pdn.read_manifest(out)
    (command,) = commands_of(scores.provenance, str(tmp_path / "again"))
    again = paredown(*shlex.split(command)[1:])
    assert again.returncode == 0, again.stderr
    np.testing.assert_array_equal(pdn.read_manifest(tmp_path / "again")[1], keep)


@pytest.mark.parametrize(
    ("source", "option"),
    [
        ({"encoder": "in other words", "encoder_name": "pixels"}, " --encoder pixels "),
        ({"encoder": "in other words", "encoder_name": "timm:resnet18"}, " --encoder timm:resnet18 "),
        ({"encoder": "the Python function my.encoder", "encoder_name": "my.encoder"}, None),
        # as version 0.1.0 wrote it
        ({"encoder": "whitened PCA of 32 x 32 pixels, 23 components"}, " --encoder pixels "),
        ({"encoder": "swav, weights 0123 from torch.hub, 224 x 224 pixels, onnx"}, " --encoder swav "),
        ({}, None),
    ],
)
def test_the_command_has_the_encoder_by_its_name(source: dict[str, str], option: str | None) -> None:
    recipe = {"quota": "none", "balance": 0, "strategy": "hard", "mix_random": 0, "seed": 0, "keep_fraction": 0.5}
    record = {"metric": "prototypes", "source": source | {"location": "photos"}, "selection": recipe}
    (command,) = commands_of(record, "out")
    assert ("--encoder" in command) == (option is not None)
    assert (option or "") in command


def test_charts_have_a_point_for_every_value_on_the_right_scale() -> None:
    chart = Chart("t", "x", "y", log_x=True, log_y=True)
    chart.curve("a", [(10, 1, 0.1), (1000, 100, float("nan")), (100, 0, 0)], "#000")
    svg = chart.svg()
    places = [tuple(map(float, found)) for found in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', svg)]
    assert len(places) == 2  # a logarithm has no place for zero
    (left, low), (right, high) = places
    assert right > left
    assert high < low
    assert ">10</text>" in svg
    assert ">100</text>" in svg


def test_twelve_curves_of_a_chart_all_look_different() -> None:
    styles = [curve_style(number) for number in range(12)]
    assert len({tuple(style.values()) for style in styles}) == 12
    chart = Chart("t", "x", "y")
    for number, style in enumerate(styles):
        chart.curve(str(number), [(0, number, 0), (1, number, 0)], **style)
    svg = str(chart.svg())
    assert svg.count("stroke-dasharray") == 4
    assert len(set(re.findall(r'<i style="(background:[^"]*)"', svg))) == 12


def test_a_page_without_exhibits_reads_no_data(tmp_path: Path, digits: Any) -> None:
    images = digits[0]
    (tmp_path / "photos").mkdir()
    for row in range(60):
        Image.fromarray((images[row].reshape(8, 8) * 15).astype(np.uint8)).save(tmp_path / "photos" / f"{row}.png")
    pdn.prune(tmp_path / "photos", out=tmp_path / "pruned", keep_fraction=0.5, scoring={"k": 3, "encoder": "pixels"})
    kinds = {}
    for most in (0, 10):
        write_report(tmp_path / "pruned", tmp_path / f"{most}.html", exhibits=most, projection=None)
        kinds[most] = data_of(tmp_path / f"{most}.html")["exhibits"]["kind"]
    assert kinds == {0: "none", 10: "pictures"}


def test_the_same_report_is_the_same_bytes(tmp_path: Path, digits: Any) -> None:
    images, labels = digits
    pdn.prune(images[:150], labels=labels[:150], out=tmp_path / "pruned", keep_fraction=0.5)
    for name in ("a", "b"):
        write_report(tmp_path / "pruned", tmp_path / f"{name}.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert write_report(tmp_path / "pruned", tmp_path / "a.html").already
    with pytest.raises(PareError, match="already exists"):
        write_report(tmp_path / "pruned", tmp_path / "a.html", exhibits=3)
    write_report(tmp_path / "pruned", tmp_path / "a.html", exhibits=3, overwrite=True)


def test_scores_and_texts_of_a_table(tmp_path: Path, rng: np.random.Generator) -> None:
    n = 40
    table = {
        "id": [f"t{i}" for i in range(n)],
        "embedding": [row.tolist() for row in rng.standard_normal((n, 5)).astype(np.float32)],
        "text": [f"text number {i}" for i in range(n)],
    }
    pq.write_table(pa.table(table), tmp_path / "data.parquet")
    scores = pdn.score(tmp_path / "data.parquet", k=3)
    pdn.write_scores(scores, tmp_path / "scores.parquet")
    written = write_report(tmp_path / "scores.parquet", tmp_path / "report.html", keep_fraction=0.5)
    assert written.kind == "table of scores"
    page = (tmp_path / "report.html").read_text()
    assert "20 of 40 examples would be kept" in re.sub(r"<[^>]+>", "", page)
    for number in range(n):
        assert f"text number {number}" in page
    with pytest.raises(PareError, match=r"no column of texts named 'body'; its columns of texts: id, text"):
        write_report(tmp_path / "scores.parquet", tmp_path / "other.html", texts="body")


def test_the_page_of_a_table_with_several_metrics_prunes_by_the_one_shown(
    tmp_path: Path, paredown: Any, digits: Any
) -> None:
    scores = [pdn.score(digits[0][:60], metric=name) for name in ("prototypes", "typicality")]
    pdn.write_scores(scores, tmp_path / "two metrics.parquet")
    write_report(tmp_path / "two metrics.parquet", tmp_path / "report.html", metric="typicality", projection=None)
    (command,) = re.findall(r'"command": ?"((?:[^"\\]|\\.)*)"', (tmp_path / "report.html").read_text())
    made = paredown(*shlex.split(json.loads(f'"{command}"'))[1:], "-o", tmp_path / "pruned")
    assert made.returncode == 0, made.stderr
    assert pdn.read_manifest(tmp_path / "pruned")[0].metric == "typicality"


def test_settings_that_a_manifest_has_itself_are_refused(tmp_path: Path, digits: Any) -> None:
    pdn.prune(digits[0][:60], out=tmp_path / "pruned", keep_fraction=0.5)
    settings: list[dict[str, Any]] = [{"keep_fraction": 0.3}, {"strategy": "easy"}, {"balance": 0.1}]
    for setting in settings:
        with pytest.raises(PareError, match=f"a manifest has its own selection, which {next(iter(setting))} does"):
            write_report(tmp_path / "pruned", tmp_path / "report.html", **setting)
    assert not (tmp_path / "report.html").exists()


def test_notes_about_images_name_the_option_that_helps(tmp_path: Path, paredown: Any, image_folder: Path) -> None:
    made = paredown("prune", image_folder, "--encoder", "pixels", "-o", tmp_path / "pruned")
    assert made.returncode == 0, made.stderr
    pdn.embed(image_folder, out=tmp_path / "store", encoder="pixels")
    (note,) = write_report(tmp_path / "pruned", tmp_path / "a.html").notes
    assert note.endswith("embed it with `paredown embed` and give the folder with --embeddings.")
    image_folder.rename(tmp_path / "moved")
    (note,) = write_report(tmp_path / "pruned", tmp_path / "b.html", source=tmp_path / "moved").notes
    assert note.startswith(f"{tmp_path / 'moved'}: embeddings are needed")  # the data themselves were found
    assert write_report(tmp_path / "pruned", tmp_path / "c.html", source=tmp_path / "store").notes == ()
    with pytest.raises(PareError, match=r"no longer at nowhere; say where they are with embeddings=\.\.\."):
        write_report(tmp_path / "pruned", tmp_path / "d.html", source=tmp_path / "moved", embeddings="nowhere")
    with pytest.raises(PareError, match="no column of texts named 'text' in an image folder"):
        write_report(tmp_path / "pruned", tmp_path / "e.html", source=tmp_path / "moved", texts="text")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("missing", "there is no such file or folder"),
        ("empty", "neither a manifest, nor a table of scores, nor a sweep"),
        ("data.npy", "neither a manifest, nor a table of scores, nor a sweep"),
    ],
)
def test_what_is_no_output_is_refused(tmp_path: Path, given: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    np.save(tmp_path / "data.npy", np.ones((3, 2)))
    with pytest.raises(PareError, match=message):
        write_report(tmp_path / given, tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_the_command_line_writes_a_report_beside_a_manifest(tmp_path: Path, paredown: Any, image_folder: Path) -> None:
    out, page = tmp_path / "pruned", tmp_path / "report.html"
    arguments = ("prune", str(image_folder), "--encoder", "pixels", "-o", str(out), "--report", str(page))
    made = paredown(*arguments)
    assert made.returncode == 0, made.stderr
    assert "Report of a manifest written to" in made.stdout
    assert "There is no map" in page.read_text()  # the embeddings were not kept
    again = paredown(*arguments, "--json")
    assert json.loads(again.stdout)["report_page"]["kind"] == "manifest"
    wrong = paredown("prune", str(image_folder), "-o", str(tmp_path / "other"), "--report", "report.pdf")
    assert wrong.returncode == 2
    assert "a report is an HTML file; name it report.html" in wrong.stderr
    assert not (tmp_path / "other").exists()
    shown = paredown("report", str(out), "-o", str(tmp_path / "b.html"), "--map", "tsne")
    assert shown.returncode == 2
    assert "--map must be one of auto, pacmap, pca or none" in shown.stderr


def test_scores_as_far_apart_as_numbers_can_be_are_shown(tmp_path: Path) -> None:
    values = np.array([-1.7e308, 0.0, 1.0, 1.7e308])
    packed = RankedRows(pdn.Scores(values, np.arange(4)), None, np.ones(4, bool)).packed()
    assert packed["range"] == [-1.7e308, 1.7e308]
    assert packed["quantiles"] == [1.7e308, 1.0, 0.0, -1.7e308]
    assert (packed["edges"][0], packed["edges"][30], packed["edges"][-1]) == (4, 3, 0)


def test_as_many_clusters_and_classes_as_examples_fit_in_memory() -> None:
    n = 200_000  # a full table would take 320 GB
    scores = pdn.Scores(np.arange(float(n)), np.arange(n), labels=pdn.Labels.of(np.arange(n)), clusters=np.arange(n))
    table, clusters, classes = cluster_table(scores)
    assert table.shape == (len(clusters), len(classes)) == (n, n)
    assert table.sum() == n


def test_the_metric_of_a_manifest_with_several_is_the_one_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "m.parquet"
    columns = {"id": np.arange(4), "keep": [True, False, True, False], "el2n": np.arange(4.0), "aum": np.zeros(4)}
    pq.write_table(pa.table(columns), file)
    with pytest.raises(PareError, match=r"which column holds the scores\? It has el2n, aum"):
        write_report(file, tmp_path / "report.html")
    write_report(file, tmp_path / "report.html", metric="aum")
    assert "by aum" in (tmp_path / "report.html").read_text()


def test_thumbnails_are_turned_as_the_camera_noted(tmp_path: Path) -> None:
    notes = Image.Exif()
    notes[0x0112] = 6  # to be turned by a quarter, clockwise: what is left comes to the top
    lying = Image.new("RGB", (80, 40), (0, 0, 255))
    lying.paste((255, 0, 0), (0, 0, 40, 40))
    lying.save(tmp_path / "lying.jpg", exif=notes)
    picture = read_thumbnail(tmp_path / "lying.jpg", "lying.jpg")
    assert picture is not None
    upright = Image.open(io.BytesIO(picture)).convert("RGB")
    assert upright.size == (40, 80)
    top, bottom = np.asarray(upright)[10, 20], np.asarray(upright)[70, 20]
    assert top[0] > 200 > 50 > top[2]
    assert bottom[2] > 200 > 50 > bottom[0]


def test_images_that_cannot_be_shown_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.png").write_bytes(b"no image")
    assert read_thumbnail(tmp_path / "broken.png", "broken.png") is None
    Image.new("RGB", (8, 8)).save(tmp_path / "noted.jpg", exif=b"Exif\0\0II*\0\x08\0\0\0\xff\xff\x12\x01\x03")
    assert read_thumbnail(tmp_path / "noted.jpg", "noted.jpg") is not None  # only its note is damaged
    monkeypatch.setattr(exhibits, "decode_image", lambda *_: Image.new("La", (8, 8)))  # which cannot be converted
    assert read_thumbnail(tmp_path / "noted.jpg", "noted.jpg") is None


def test_a_page_inside_the_data_that_were_scored_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(4):
        Image.new("RGB", (8, 8), (60 * number, 0, 0)).save(folder / f"{number}.png")
    pdn.prune(folder, metric="random", keep_fraction=0.5, out=tmp_path / "pruned")
    with pytest.raises(PareError, match="is inside an input"):
        write_report(tmp_path / "pruned", folder / "report.html")
    assert sorted(file.name for file in folder.iterdir()) == ["0.png", "1.png", "2.png", "3.png"]
    summary = write_report(tmp_path / "pruned", tmp_path / "report.html")
    assert any("give the folder with --embeddings" in note for note in summary.notes)


def test_deleted_images_leave_the_pictures_of_the_others(tmp_path: Path, image_folder: Path) -> None:
    pdn.prune(image_folder, out=tmp_path / "pruned", keep_fraction=0.5, scoring={"encoder": "pixels"})
    deleted = sorted(image_folder.glob("*/*.png"))[:7]
    for file in deleted:
        file.unlink()
    refused = write_report(tmp_path / "pruned", tmp_path / "refused.html", projection=None)
    assert "these are not the data that were scored" in refused.notes[0]
    write_report(tmp_path / "pruned", tmp_path / "report.html", projection=None, trust_source=True)
    data = data_of(tmp_path / "report.html")
    assert data["exhibits"]["kind"] == "pictures"
    assert len(data["exhibits"]["ranks"]) == 60 - len(deleted)
