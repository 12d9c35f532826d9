"""Reports in a real browser: what they show, that they cut as `select` does, and that nothing in them does harm."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from report.browsing import MISSING, Visit, started_browser

import paredown as pdn
from paredown.report import write_report

pytestmark = [pytest.mark.skipif(bool(MISSING), reason=MISSING), pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with started_browser() as started:
        yield started


@pytest.fixture(scope="module")
def pruned_images(tmp_path_factory: pytest.TempPathFactory, digits: Any) -> Path:
    """300 digits as PNG files, pruned, with the embeddings kept, and a report of it."""
    folder = tmp_path_factory.mktemp("pruned")
    images, labels = digits
    for row in range(300):
        file = folder / "photos" / f"digit-{labels[row]}" / f"{row:03d}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((images[row].reshape(8, 8) * 15).astype(np.uint8)).resize((40, 40)).save(file)
    pdn.embed(folder / "photos", out=folder / "store", encoder="pixels")
    pdn.prune(folder / "store", out=folder / "pruned", keep_fraction=0.6, scoring={"k": 5})
    write_report(folder / "pruned", folder / "report.html", projection="pca", exhibits=120)
    return folder


def test_opens_from_disk_without_an_error_or_a_request(browser: Any, pruned_images: Path) -> None:
    with Visit(browser, pruned_images / "report.html") as visit:
        for option in ("class", "kept", "score"):
            visit.page.select_option("#map-color", option)
        visit.page.hover("#map")
        visit.set(keep_fraction=0.3)
        assert visit.said == []
        assert visit.foreign_requests == []
        shown = visit.page.eval_on_selector_all("#galleries img", "images => images.map(image => image.naturalWidth)")
        assert len(shown) == 4 * 18
        assert all(width == 40 for width in shown)


def test_numbers_and_list_are_those_of_the_manifest(browser: Any, pruned_images: Path) -> None:
    scores, keep = pdn.read_manifest(pruned_images / "pruned")
    assert scores.labels is not None
    kept = scores.labels[keep]
    with Visit(browser, pruned_images / "report.html") as visit:
        assert visit.download() == scores.ids[keep].tolist()
        assert visit.kept_per_class() == dict(zip(kept.classes, kept.counts.tolist(), strict=True))
        after = visit.page.text_content("[data-live='balance-after']")
        assert after == f"{pdn.balance_score(kept):.3f}"
        assert visit.page.text_content("header [data-live='kept']") == "180"


def test_sliders_move_the_fields_and_reset_brings_the_manifest_back(browser: Any, pruned_images: Path) -> None:
    with Visit(browser, pruned_images / "report.html") as visit:
        before = visit.download()
        visit.page.focus("#keep-slider")
        visit.page.keyboard.press("Home")
        visit.wait_for_kept("1")
        assert visit.page.input_value("#keep-fraction") == "0.001"
        assert "--keep-fraction 0.001" in visit.page.text_content("#recut-command")
        visit.page.click("#reset")
        visit.wait_for_kept("180")
        assert visit.download() == before


RECIPES: list[dict[str, Any]] = [
    {"strategy": "hard", "balance": 0.5},
    {"strategy": "easy", "balance": 0.2},
    {"strategy": "window", "balance": 0.6, "drop_hardest": 0.2},
    {"strategy": "moderate", "balance": 0.3},
    {"strategy": "random", "balance": 0.9},
    {"strategy": "stratified", "balance": 0.0},
    {"strategy": "hard", "balance": 0.4, "mix_random": 0.3},
    {"strategy": "hard", "quota": "proportional", "mix_random": 0.25},
    {"strategy": "easy", "quota": "equal"},
    {"strategy": "hard", "balance": 0.0},
]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: "-".join(map(str, recipe.values())))
def test_the_page_cuts_as_select_does(browser: Any, tmp_path: Path, recipe: dict[str, Any]) -> None:
    """Six random settings each, sixty in all: ties in plenty, and classes so small that floors do not fit."""
    rng = np.random.default_rng(len(str(recipe)))
    n = 400
    values = np.round(rng.gamma(1.0, size=n), 1)
    labels = np.minimum(rng.geometric(0.2, n) - 1, 25)
    scores = pdn.Scores(values, np.array([f"row {i}" for i in range(n)]), labels=pdn.Labels.of(labels))
    write_report(pdn.select(scores, keep_fraction=0.5, seed=7, **recipe), tmp_path / "report.html")
    with Visit(browser, tmp_path / "report.html") as visit:
        for _ in range(6):
            fraction = round(float(rng.uniform(0.004, 0.94)), 3)
            settings = {"keep_fraction": fraction}
            if "quota" not in recipe:
                settings["floor"] = round(float(rng.choice([0, 1, rng.random()])), 3)
            visit.set(**settings)
            chosen = dict(recipe) | ({"balance": settings["floor"]} if "floor" in settings else {})
            if recipe["strategy"] == "stratified":
                visit.set(floor=0)
                chosen["balance"] = 0.0
            expected = pdn.select(scores, keep_fraction=fraction, seed=7, **chosen)
            assert visit.download() == expected.ids.tolist()
            table = expected.class_table()
            assert table is not None
            assert visit.kept_per_class() == dict(
                zip(*table.select(["class", "kept"]).to_pydict().values(), strict=True)
            )


def test_floors_move_stratified_too(browser: Any, tmp_path: Path, rng: np.random.Generator) -> None:
    scores = pdn.Scores(rng.random(200), np.arange(200), labels=pdn.Labels.of(np.arange(200) % 7))
    recipe = {"strategy": "stratified", "drop_hardest": 0.1, "seed": 3}
    write_report(pdn.select(scores, keep_fraction=0.5, balance=0.5, **recipe), tmp_path / "report.html")
    with Visit(browser, tmp_path / "report.html") as visit:
        for fraction, floor in ((0.3, 0.9), (0.9, 1.0), (0.05, 0.0)):
            visit.set(keep_fraction=fraction, floor=floor)
            expected = pdn.select(scores, keep_fraction=fraction, balance=floor, **recipe)
            assert visit.download() == [str(name) for name in expected.ids]
        assert visit.page.get_attribute("#keep-fraction", "max") == "0.9"


def test_galleries_show_the_class_that_is_chosen(browser: Any, pruned_images: Path) -> None:
    scores, keep = pdn.read_manifest(pruned_images / "pruned")
    assert scores.labels is not None
    of_class = np.flatnonzero(scores.labels.names == "digit-3")
    with Visit(browser, pruned_images / "report.html") as visit:
        visit.page.select_option("#gallery-class", label="digit-3")
        titles = visit.page.eval_on_selector_all(".strip h3", "titles => titles.map(title => title.textContent)")
        kept = int(keep[of_class].sum())
        assert any(title.startswith("Hardest kept") and f"of {kept}" in title for title in titles)
        ids = visit.page.eval_on_selector_all("#galleries .id", "ids => ids.map(id => id.textContent)")
        assert ids
        assert all(name.startswith("digit-3/") for name in ids)
        hardest_kept = of_class[keep[of_class]][np.argmax(scores.values[of_class[keep[of_class]]])]
        assert ids[0] == scores.ids[hardest_kept]


def test_numbers_below_a_narrow_histogram_do_not_touch(browser: Any, pruned_images: Path) -> None:
    with Visit(browser, pruned_images / "report.html", width=390) as visit:
        ends = visit.page.evaluate("""() => {
            const texts = [...document.querySelectorAll("#scores svg text")];
            const boxes = texts.map((e) => e.getBoundingClientRect());
            const lowest = boxes.toSorted((a, b) => b.bottom - a.bottom)[1].bottom; // below it is the axis's name
            return boxes.filter((box) => box.bottom === lowest).map((box) => [box.left, box.right]);
        }""")
        assert len(ends) == 3
        assert all(right + 8 < left for (_, right), (left, _) in itertools.pairwise(sorted(ends)))


def test_a_histogram_of_which_one_bin_holds_most_has_a_logarithmic_axis(browser: Any, tmp_path: Path) -> None:
    counts = {0.0: 900, 0.5: 9, 1.0: 1}
    scores = pdn.Scores(np.repeat(list(counts), list(counts.values())), np.arange(910))
    write_report(pdn.select(scores, keep_fraction=0.5), tmp_path / "skewed.html")
    write_report(pdn.select(np.linspace(0, 1, 910), keep_fraction=0.5), tmp_path / "even.html")
    heights = """() => [...document.querySelectorAll("#histogram g")].map((bar) => bar.getBBox().height)"""
    with Visit(browser, tmp_path / "skewed.html") as visit:
        assert "logarithmic" in visit.page.text_content("#histogram")
        low, middle, high = (height for height in visit.page.evaluate(heights) if height > 0)
        assert middle / low == pytest.approx(np.log1p(9) / np.log1p(900), rel=0.01)
        assert high / low == pytest.approx(np.log1p(1) / np.log1p(900), rel=0.02)
        kept = visit.page.evaluate("""() => document.querySelector("#histogram g rect.kept").getBBox().height""")
        assert kept / low == pytest.approx(445 / 900, rel=0.01)  # colours share the bar as the counts do
    with Visit(browser, tmp_path / "even.html") as visit:
        assert "logarithmic" not in visit.page.text_content("#histogram")


def test_links_lead_to_headings_that_can_be_seen(browser: Any, pruned_images: Path) -> None:
    with Visit(browser, pruned_images / "report.html") as visit:
        visit.page.emulate_media(reduced_motion="reduce")  # no smooth scrolling
        visit.page.click("nav a[href='#gallery']")
        covered = visit.page.eval_on_selector(".controls", "e => e.getBoundingClientRect().bottom")
        heading = visit.page.eval_on_selector("#gallery h2", "e => e.getBoundingClientRect().top")
        assert covered <= heading < 300


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["report.html", "sweep.html"])
def test_narrow_screens_and_both_schemes(
    browser: Any, pruned_images: Path, small_sweep: Path, name: str, scheme: str
) -> None:
    file = pruned_images / name if name == "report.html" else small_sweep / name
    with Visit(browser, file, width=390, scheme=scheme) as visit:
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
        paper = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        light = sum(map(int, paper.removeprefix("rgb(").removesuffix(")").split(","))) > 3 * 128
        assert light == (scheme == "light")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["report.html", "sweep.html"])
def test_no_serious_violation_of_accessibility(
    browser: Any, pruned_images: Path, small_sweep: Path, name: str, scheme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    file = pruned_images / name if name == "report.html" else small_sweep / name
    with Visit(browser, file, scheme=scheme) as visit:
        # The page forbids foreign scripts; axe is put into it by the driver.
        found = Axe().run(visit.page).response["violations"]
        serious = [item for item in found if item["impact"] in ("serious", "critical")]
        assert [(item["id"], item["nodes"][0]["html"]) for item in serious] == []


def test_the_keyboard_reaches_everything(browser: Any, pruned_images: Path) -> None:
    everything = "a[href], button, input:not([type=hidden]), select, [tabindex='0']"
    with Visit(browser, pruned_images / "report.html") as visit:
        wanted = visit.page.eval_on_selector_all(
            everything, "found => found.filter(e => e.checkVisibility()).map((e, i) => e.dataset.number = i).length"
        )
        reached = set()
        for _ in range(wanted + 5):
            visit.page.keyboard.press("Tab")
            reached.add(visit.page.evaluate("document.activeElement.dataset.number"))
        assert len(reached - {None}) == wanted
        visit.page.focus("#map")
        visit.page.keyboard.press("ArrowRight")
        hardest = pdn.read_manifest(pruned_images / "pruned")[0]
        assert visit.page.text_content("#map-card .id") == hardest.ids[np.argmax(hardest.values)]


HOSTILE = [
    "<script>document.body.dataset.harm='yes'</script>",
    "</script><img src=x onerror=\"document.body.dataset.harm='yes'\">",
    "' onmouseover='document.body.dataset.harm=1",
    '"><b>bold</b>',
    "\u202egnp.exe",
    "x" * 10_000,
    "line\nbreak",
    "&lt;b&gt; ${1+1} {{7*7}}",
]


def test_hostile_names_are_shown_and_not_obeyed(browser: Any, tmp_path: Path) -> None:
    n = 80
    ids = np.array([f"{i} {HOSTILE[i % len(HOSTILE)]}" for i in range(n)], np.dtypes.StringDType())
    classes = np.array([HOSTILE[i // 10] for i in range(n)], np.dtypes.StringDType())
    values = np.linspace(0, 1, n)
    scores = pdn.Scores(
        values,
        ids,
        metric=HOSTILE[0],
        labels=pdn.Labels.of(classes),
        clusters=np.arange(n) % 3,
        provenance={"source": {"location": HOSTILE[1]}, "warnings": [HOSTILE[1]], "options": {HOSTILE[2]: HOSTILE[3]}},
    )
    kept = pdn.select(scores, keep_fraction=0.5)
    write_report(kept, tmp_path / "report.html", texts=[HOSTILE[(i + 1) % len(HOSTILE)] for i in range(n)])
    with Visit(browser, tmp_path / "report.html", width=390) as visit:
        visit.page.select_option("#gallery-class", index=3)
        assert visit.page.evaluate("document.body.dataset.harm ?? 'none'") == "none"
        assert visit.page.locator("img, b b, script:not([type])").count() == 0
        assert visit.said == []
        assert visit.foreign_requests == []
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
        visible = visit.page.inner_text("body")
        assert "\u202e" not in visible
        assert "<script>document.body" in visible
        with visit.page.expect_download() as started:
            visit.page.click("#download")
        assert started.value.suggested_filename == "kept.json"  # an id with a line break would be two in a list
        import json

        assert json.loads(Path(started.value.path()).read_text()) == kept.ids.tolist()


def test_texts_are_shown(browser: Any, tmp_path: Path) -> None:
    scores = pdn.Scores(np.array([0.1, 0.9, 0.5]), np.array(["a", "b", "c"]))
    texts = ["easy words", "hard words " * 100, "middling"]
    write_report(pdn.select(scores, keep_fraction=0.4), tmp_path / "report.html", texts=texts)
    with Visit(browser, tmp_path / "report.html") as visit:
        quoted = visit.page.eval_on_selector_all("#galleries blockquote", "found => found.map(e => e.textContent)")
        assert quoted[0].startswith("hard words hard")
        assert len(quoted[0]) == 281
        assert quoted[-1] == "middling"


def test_images_that_moved_leave_the_rest_of_the_page(browser: Any, pruned_images: Path, tmp_path: Path) -> None:
    shutil.copytree(pruned_images, tmp_path / "moved", symlinks=True)
    scores, keep = pdn.read_manifest(pruned_images / "pruned")
    record = dict(scores.provenance)
    record["source"] = record["source"] | {"images": record["source"]["images"] | {"location": "/nowhere/photos"}}
    moved = pdn.Scores(scores.values, scores.ids, scores.metric, scores.labels, scores.clusters, record)
    summary = write_report(pdn.select(moved, keep_fraction=0.6), tmp_path / "report.html", projection="pca")
    assert summary.notes == ("The data are no longer at /nowhere/photos; say where they are with --source.",)
    with Visit(browser, tmp_path / "report.html") as visit:
        assert summary.notes[0] in visit.page.inner_text("#gallery")
        assert visit.download() == scores.ids[keep].tolist()
        assert visit.page.locator("#galleries .tile").count() == 4 * 18
    found = write_report(
        pdn.select(moved, keep_fraction=0.6), tmp_path / "found.html", projection="pca", source=pruned_images / "photos"
    )
    assert found.notes == ()


@pytest.fixture(scope="module")
def small_sweep(tmp_path_factory: pytest.TempPathFactory, digits: Any) -> Path:
    folder = tmp_path_factory.mktemp("sweep")
    images, labels = digits
    np.save(folder / "train.npy", images[:800])
    np.save(folder / "labels.npy", labels[:800])
    np.save(folder / "test.npy", images[800:])
    np.save(folder / "test_labels.npy", labels[800:])
    config = {
        "data": {
            "source": str(folder / "train.npy"),
            "labels": str(folder / "labels.npy"),
            "test": str(folder / "test.npy"),
            "test_labels": str(folder / "test_labels.npy"),
        },
        "grid": {
            "initial_size": [100, 200, 400, 800],
            "keep_fraction": [0.5, 0.25],
            "metric": ["supervised_prototypes"],
            "seeds": 3,
        },
        "student": {"recipe": "mlp", "epochs": 4},
    }
    pdn.sweep(config, out=folder / "swept", workers=1)
    write_report(folder / "swept", folder / "sweep.html")
    return folder


def test_a_comparison_shows_correlations_and_the_disputed_images(
    browser: Any, pruned_images: Path, tmp_path: Path, paredown: Any
) -> None:
    scores = [pdn.score(pruned_images / "store", metric=name) for name in ("prototypes", "typicality", "random")]
    pdn.write_scores(scores, tmp_path / "scores.parquet")
    out = tmp_path / "compared.html"
    made = paredown("compare", tmp_path / "scores.parquet", "--top", 5, "-o", out)
    assert made.returncode == 0, made.stderr
    compared = pdn.compare(tmp_path / "scores.parquet", top=5)
    with Visit(browser, out, width=390) as visit:
        assert visit.said == []
        assert [url for url in visit.foreign_requests if not url.startswith("data:")] == []
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
        cells = visit.page.eval_on_selector_all("#correlations td", "found => found.map(e => e.textContent)")
        expected = [f"{compared.spearman[a, b]:.2f}" for a in compared.order for b in compared.order]
        assert [cell for cell in cells if cell] == [cell.replace("-0.00", "0.00") for cell in expected]
        heights = visit.page.eval_on_selector_all("#correlations tbody tr", "found => found.map(e => e.clientHeight)")
        assert max(heights) < 36  # one line each, at any width
        narrowest = visit.page.eval_on_selector_all("#costs td", "found => Math.min(...found.map(e => e.clientWidth))")
        assert narrowest > 60  # wide enough for words
        names = visit.page.eval_on_selector_all("#disputed code", "found => found.map(e => e.textContent)")
        assert names == [str(each.id) for each in compared.disputed]
        widths = visit.page.eval_on_selector_all("#disputed img", "found => found.map(e => e.naturalWidth)")
        assert widths == [40] * 5


def test_a_sweep_shows_its_advice_and_differences(browser: Any, small_sweep: Path) -> None:
    table = pdn.sweeps.read_sweep(small_sweep / "swept").table
    advised = [str(each) for each in pdn.sweeps.advice(table)]
    compared = pdn.sweeps.compare_with_random(table)
    with Visit(browser, small_sweep / "sweep.html") as visit:
        assert visit.said == []
        assert visit.foreign_requests == []
        shown = visit.page.eval_on_selector_all("#advice p", "found => found.map(e => e.textContent)")
        assert shown == advised
        cells = visit.page.eval_on_selector_all(".differences td", "found => found.map(e => e.textContent)")
        assert sorted(filter(None, cells)) == sorted(
            f"{100 * row.difference:+.2f} ± {100 * row.difference_stderr:.2f}" for row in compared
        )
        assert visit.page.locator("#errors svg circle").count() == len(compared) + 8 + 4  # pruned, random, unpruned


def test_a_sweep_that_still_runs_shows_what_is_there(browser: Any, small_sweep: Path, tmp_path: Path) -> None:
    running = tmp_path / "running"
    shutil.copytree(small_sweep / "swept", running)
    (running / "results.parquet").unlink()
    runs = sorted((running / "runs").glob("*.json"))
    for file in runs[: len(runs) // 2]:
        file.unlink()
    runs[-1].write_text("{")  # half written
    write_report(running, tmp_path / "report.html")
    left = len(runs) - len(runs) // 2 - 1
    with Visit(browser, tmp_path / "report.html") as visit:
        lead = visit.page.inner_text("header")
        assert f"{left} students" in lead
        assert f"{len(runs) - left} of {len(runs)} runs are missing" in lead
