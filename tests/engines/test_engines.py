"""Sums in a fixed order, ranges of rows, and shares of the work: what every engine relies on, without a cluster."""

from __future__ import annotations

import heapq
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paredown as pdn
from paredown.engines import InProcess, fold, open_engine
from paredown.engines.base import combined, groups_of
from paredown.engines.ray_tasks import FoldTree
from paredown.engines.shares import Share
from paredown.errors import PareError
from paredown.records import write_record
from paredown.score_table import open_table
from paredown.scoring.ranged_scoring import merge, score_ranges
from paredown.sources.row_ranges import RangedSource
from paredown.workers import Outcome


def pair(left, right):
    return (left, right)


def itself(common, job):
    return job


def test_values_are_combined_neighbours_first() -> None:
    assert combined(pair, range(7)) == (((0, 1), (2, 3)), ((4, 5), 6))
    assert combined(pair, [3]) == 3
    assert combined(pair, []) is None


@given(jobs=st.integers(1, 200), workers=st.integers(1, 9))
def test_the_tree_does_not_depend_on_the_number_of_workers(jobs, workers) -> None:
    engine = InProcess()
    engine.workers = workers  # type: ignore[misc]
    here = f"{__name__}:"
    import sys

    sys.modules.setdefault(__name__, sys.modules[itself.__module__])
    assert fold(engine, here + "itself", here + "pair", range(jobs)) == combined(pair, range(jobs))


@given(jobs=st.integers(1, 300), workers=st.integers(1, 5), draw=st.data())
def test_a_tree_of_tasks_that_end_in_any_order_is_the_same(jobs, workers, draw) -> None:
    """Also where values are lost before they are combined."""
    groups = groups_of(range(jobs), workers)
    tree, running = FoldTree([len(group) for group in groups]), {}
    losses = draw.draw(st.integers(0, 3))
    while tree.ready or running:
        if tree.ready and (not running or draw.draw(st.booleans())):
            node = tree.ready.popleft()
            group = tree.group(node)
            running[node] = tree.pair(node) if group is None else combined(pair, groups[group])
        else:
            node = draw.draw(st.sampled_from(sorted(running)))
            value = running.pop(node)
            if losses and tree.group(node) is None:
                losses -= 1
                tree.repeat(node)
            else:
                tree.add(node, value)
    assert tree.values == {tree.root: combined(pair, range(jobs))}


@given(jobs=st.integers(1, 20_000), workers=st.integers(1, 300))
def test_workers_end_at_nearly_the_same_time(jobs, workers) -> None:
    """When each takes the next group as it is free, the last one ends at most half a group after the mean."""
    groups = [len(group) for group in groups_of(range(jobs), workers)]
    assert sum(groups) == jobs
    assert len(groups) <= 7 * workers + 4
    ends = [0] * workers
    for size in groups:
        heapq.heapreplace(ends, ends[0] + size)
    assert max(ends) <= jobs / workers + max(1, max(groups) / 2)


def test_unknown_engines_and_stray_addresses_are_refused() -> None:
    with pytest.raises(PareError, match="unknown engine 'rai'"), open_engine("rai"):
        pass
    with pytest.raises(PareError, match=r"address.*is that of a Ray cluster"), open_engine("local", address="auto"):
        pass


# --- ranges of rows ------------------------------------------------------------------------------------------------


@pytest.fixture
def small_ranges(monkeypatch) -> int:
    """Ranges of one block; the blocks of 1024 dimensions have 4,096 rows."""
    for module in ("sources.row_ranges", "clustering.passes", "metrics.prototypes"):
        monkeypatch.setattr(f"paredown.{module}.CHUNK_BLOCKS", 1)
    return 4_096


@pytest.fixture
def wide(tmp_path, rng) -> object:
    """A folder of three files with 20,000 rows in all, and labels."""
    folder = tmp_path / "wide"
    folder.mkdir()
    vectors = rng.integers(-100, 100, (20_000, 1_024)).astype(np.int8)
    vectors[:, :5] += 20 * rng.integers(0, 2, (20_000, 5), dtype=np.int8)
    for number, part in enumerate(np.split(vectors, [3_000, 15_000])):
        np.save(folder / f"{number}.npy", part)
    np.save(folder / "labels.npy", rng.integers(0, 7, 20_000))
    return folder


def test_ranges_hold_the_rows_of_the_source_in_order(wide, small_ranges) -> None:
    source, ranged = pdn.open_source(wide), RangedSource(wide)
    opened = [ranged.open(rows) for rows in ranged.ranges()]
    assert [len(part) for part in opened] == [4_096] * 4 + [20_000 - 4 * 4_096]
    assert np.concatenate([part.ids for part in opened]).tolist() == source.ids.tolist()
    labels = np.concatenate([part.labels.names for part in opened])
    assert source.labels is not None
    assert labels.tolist() == source.labels.names.tolist()
    blocks = np.concatenate([np.array(block) for part in opened for block in part.blocks(1_000)])
    np.testing.assert_array_equal(blocks, np.concatenate([np.array(block) for block in source.blocks(999)]))
    assert ranged.fingerprint() == source.fingerprint()


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        ("prototypes", {"k": 9}),
        ("prototypes", {"k": 9, "method": "full", "memory": 2**24}),
        ("prototypes", {"k": 400, "memory": 2**24, "sensitivity": False}),  # passes over the leading dimensions
        ("prototypes", {"k": 400, "memory": 2**24, "method": "hierarchical", "probes": 3, "sensitivity": False}),
        ("prototypes", {}),
        ("supervised_prototypes", {}),
        ("random", {}),
    ],
)
def test_scores_by_ranges_are_those_of_the_whole(wide, small_ranges, tmp_path, metric, options) -> None:
    whole = pdn.score(str(wide), metric=metric, seed=3, **options)
    table = score_ranges(wide, out=tmp_path / "scores", metric=metric, seed=3, **options)
    assert table is not None
    assert len(table.groups) == 5
    scores = pdn.read_scores(tmp_path / "scores")
    assert scores.ids.tolist() == whole.ids.tolist()
    np.testing.assert_array_equal(scores.values, whole.values)
    assert scores.labels is not None
    assert whole.labels is not None
    assert scores.labels.names.tolist() == whole.labels.names.tolist()
    if whole.clusters is not None:
        np.testing.assert_array_equal(scores.clusters, whole.clusters)
    for name in ("k", "mean_cosine", "kernel", "rows_clustered", "agreement"):
        assert table.provenance["report"].get(name) == whole.provenance["report"].get(name)
    kept = pdn.select(tmp_path / "scores", keep_fraction=0.3)
    assert kept.ids.tolist() == pdn.select(whole, keep_fraction=0.3).ids.tolist()


def test_one_file_has_row_numbers_for_ids(tmp_path, rng) -> None:
    np.save(tmp_path / "e.npy", rng.standard_normal((50, 4)))
    score_ranges(tmp_path / "e.npy", out=tmp_path / "s", k=3)
    assert pdn.read_scores(tmp_path / "s").ids.tolist() == list(range(50))


def test_stores_bring_their_ids_and_labels(tmp_path, rng) -> None:
    store = tmp_path / "store"
    store.mkdir()
    for number in range(2):
        np.save(store / f"0000{number}.npy", rng.standard_normal((5, 3)))
        table = {"id": [f"{number}-{row}" for row in range(5)], "label": ["b", "a", "a", "b", "c"]}
        pq.write_table(pa.table(table), store / f"0000{number}.parquet")
    write_record(store / "embed.json", {"complete": True, "classes": ["c", "a", "b"], "encoder": "e", "warnings": []})
    score_ranges(store, out=tmp_path / "s", metric="supervised_prototypes")
    scores, whole = pdn.read_scores(tmp_path / "s"), pdn.score(store, metric="supervised_prototypes")
    assert scores.ids.tolist() == whole.ids.tolist() == [f"{n}-{row}" for n in range(2) for row in range(5)]
    np.testing.assert_array_equal(scores.values, whole.values)


# --- stopped and divided work --------------------------------------------------------------------------------------


def contents(folder) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def test_finished_ranges_are_not_scored_again(wide, small_ranges, tmp_path, monkeypatch) -> None:
    import paredown.scoring.ranged_scoring as module

    score_ranges(wide, out=tmp_path / "whole", k=5)
    done: list[int] = []
    original = module.score_range

    def stopped(common, rows):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(rows.number)
        return original(common, rows)

    monkeypatch.setattr(module, "score_range", stopped)
    with pytest.raises(KeyboardInterrupt):
        score_ranges(wide, out=tmp_path / "s", k=5)
    with pytest.raises(PareError, match="these scores are incomplete"):
        pdn.read_scores(tmp_path / "s")
    (tmp_path / "s" / "000001.parquet").write_bytes(b"torn")  # counts as missing
    monkeypatch.setattr(module, "score_range", lambda common, rows: done.append(rows.number) or original(common, rows))
    score_ranges(wide, out=tmp_path / "s", k=5)
    assert done == [0, 1, 1, 2, 3, 4]
    assert contents(tmp_path / "s") == contents(tmp_path / "whole")
    score_ranges(wide, out=tmp_path / "s", k=5)  # complete: nothing is done
    assert len(done) == 6


def test_other_settings_or_data_are_refused(wide, small_ranges, tmp_path) -> None:
    score_ranges(wide, out=tmp_path / "s", k=5)
    with pytest.raises(PareError, match=r"other settings: k was 5 and is now 6"):
        score_ranges(wide, out=tmp_path / "s", k=6)
    np.save(wide / "0.npy", np.ones((3_000, 1_024), np.int8))
    with pytest.raises(PareError, match="the data have changed"):
        score_ranges(wide, out=tmp_path / "s", k=5)


def test_passes_of_kmeans_are_not_done_again(wide, small_ranges, tmp_path, monkeypatch) -> None:
    import paredown.clustering.kmeans as module

    options = {"k": 6, "method": "full", "memory": 2**24, "iterations": 6, "sensitivity": False}
    score_ranges(wide, out=tmp_path / "whole", **options)
    original, calls = module.lloyd_pass, []

    def stopped(*args, **kwargs):
        calls.append(len(calls))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(module, "lloyd_pass", stopped)
    with pytest.raises(KeyboardInterrupt):
        score_ranges(wide, out=tmp_path / "s", **options)
    score_ranges(wide, out=tmp_path / "s", **options)
    assert len(calls) == 7  # three before, one that was stopped, and the three that were left
    assert contents(tmp_path / "s") == contents(tmp_path / "whole")


def interrupted(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "options", [{"memory": 2**24}, {"memory": 2**30, "restarts": 2}, {"memory": 2**30, "passes": 1}]
)
def test_the_first_centroids_are_not_sought_again(wide, small_ranges, tmp_path, monkeypatch, options) -> None:
    import paredown.clustering.kmeans as module

    options |= {"k": 6, "iterations": 4, "sensitivity": False}
    score_ranges(wide, out=tmp_path / "whole", **options)
    group, groupings = module.group, []
    monkeypatch.setattr(module, "group", lambda *given, **how: groupings.append(1) or group(*given, **how))
    with monkeypatch.context() as stopped:
        stopped.setattr(module.KMeans, "_save", interrupted)  # in the first pass
        stopped.setattr("paredown.scoring.ranged_scoring.can_be_saved", interrupted)  # after a fit without passes
        with pytest.raises(KeyboardInterrupt):
            score_ranges(wide, out=tmp_path / "s", **options)
    begun = len(groupings)
    assert begun == options.get("restarts", 1)
    score_ranges(wide, out=tmp_path / "s", **options)
    assert len(groupings) == begun
    assert contents(tmp_path / "s") == contents(tmp_path / "whole")


class Several(InProcess):
    """Workers, of whom each is this process."""

    workers = 3

    def __init__(self) -> None:
        self.functions: list[str] = []

    def run_jobs(self, function, jobs, **how):
        self.functions.append(function.partition(":")[2])
        return super().run_jobs(function, jobs, **how)


@pytest.mark.parametrize("options", [{"memory": 2**24}, {"memory": 2**24, "restarts": 2}, {"memory": 2**30}])
def test_workers_that_compare_the_sample_find_the_same_centroids(
    wide, small_ranges, tmp_path, monkeypatch, options
) -> None:
    options |= {"k": 30, "iterations": 4, "sensitivity": False}
    for name in ("WORTH_SENDING", "WORTH_SHARING"):
        monkeypatch.setattr(f"paredown.clustering.lloyd._{name}", 2)
    monkeypatch.setattr("paredown.clustering.lloyd._ROWS_SENT", 100)
    engine = Several()
    score_ranges(wide, out=tmp_path / "alone", **options)
    score_ranges(wide, out=tmp_path / "shared", engine=engine, **options)
    assert engine.functions.count("choose_centroids") >= 2
    assert contents(tmp_path / "shared") == contents(tmp_path / "alone")


def test_workers_need_no_more_memory_than_is_asked_for(wide, small_ranges, tmp_path, monkeypatch) -> None:
    """What each task allocates at most, beside the rows it reads; joined by workers, the sample took twice its size."""
    import tracemalloc
    from copy import deepcopy

    from paredown.engines.base import find_function, fold_group

    reading = 2**24  # a block of rows, its unit rows, and what they add to the sums; the sample is twice as large
    monkeypatch.setattr("paredown.clustering.ranged_rows._FOLD_MEMORY", reading)
    monkeypatch.setattr("paredown.sources.row_ranges.BLOCK_BYTES", 2**21)
    monkeypatch.setattr("paredown.sources.base.BLOCK_BYTES", 2**21)
    tasks: list[tuple[str, int, int]] = []

    def measured(name, memory, work):
        tracemalloc.start()
        try:
            value = work()
            tasks.append((name, tracemalloc.get_traced_memory()[1], memory))
        finally:
            tracemalloc.stop()
        return value

    class Measured(InProcess):
        workers = 2

        def run_jobs(self, function, jobs, *, workers=None, common=None, memory=0):
            for number, job in enumerate(jobs):
                value = measured(function, memory, lambda job=job: find_function(function)(common, job))
                yield Outcome(number, value)

        def fold_groups(self, groups, common, memory):
            join = lambda left, right: find_function(common["combine"])(deepcopy(left), right)
            values = [
                measured(common["function"], memory, lambda group=group: fold_group(common, group)) for group in groups
            ]
            return combined(lambda left, right: measured(common["combine"], memory, lambda: join(left, right)), values)

    options = {"k": 300, "memory": 2**26, "method": "full", "passes": 1, "iterations": 2, "sensitivity": False}
    score_ranges(wide, out=tmp_path / "s", engine=Measured(), **options)
    names = {name.partition(":")[2] for name, _, _ in tasks}
    assert {"partial_sums", "join_sums", "parts_of_ranges"} <= names
    assert [(name, peak, asked) for name, peak, asked in tasks if peak > asked] == []


def test_passes_and_cells_of_many_clusters_are_not_done_again(wide, small_ranges, tmp_path, monkeypatch) -> None:
    """With more than 10,000 of them, which are fewer here."""
    import paredown.clustering.kmeans as module
    from paredown.clustering import lloyd

    monkeypatch.setattr(module, "EXACT_MOST", 30)
    options = {"k": 40, "passes": 3, "memory": 2**24, "iterations": 4, "sensitivity": False}
    whole = score_ranges(wide, out=tmp_path / "whole", **options)
    assert whole is not None
    assert whole.provenance["report"]["kernel"] == "grouped"
    group_cell, lloyd_pass = lloyd.group_cell, module.lloyd_pass
    passes, cells = [], []

    def one_cell(common, cell):
        cells.append(common["iterations"] == 4)  # others are of groups of centroids
        return group_cell(common, cell)

    def stopped(*args, **kwargs):
        passes.append(args)
        if len(passes) in (1, 3):
            raise KeyboardInterrupt
        return lloyd_pass(*args, **kwargs)

    monkeypatch.setattr(lloyd, "group_cell", one_cell)
    monkeypatch.setattr(module, "lloyd_pass", stopped)
    for _ in range(2):  # before the first pass is done, and before the second is
        with pytest.raises(KeyboardInterrupt):
            score_ranges(wide, out=tmp_path / "s", **options)
    score_ranges(wide, out=tmp_path / "s", **options)
    assert len(passes) == 5
    assert sum(cells) == 6  # the root of k, once
    assert contents(tmp_path / "s") == contents(tmp_path / "whole")


@pytest.mark.parametrize("n", [2, 5, 40])
def test_shares_give_the_same_bytes(wide, small_ranges, tmp_path, n) -> None:
    score_ranges(wide, out=tmp_path / "whole", k=5)
    for number in range(n, 1, -1):
        assert score_ranges(wide, out=tmp_path / "s", k=5, shard=f"{number}/{n}") is None
        assert not (tmp_path / "s" / "_complete.json").exists()
    with pytest.raises(PareError, match=r"ranges are missing \(range 0: 0\.npy from row 0"):
        merge(tmp_path / "s")
    score_ranges(wide, out=tmp_path / "s", k=5, shard=f"1/{n}")
    assert len(merge(tmp_path / "s")) == 20_000
    assert contents(tmp_path / "s") == contents(tmp_path / "whole")


def test_copies_and_tables_of_others_do_not_pass_for_shares(wide, small_ranges, tmp_path) -> None:
    out = tmp_path / "s"
    score_ranges(wide, out=out, k=5, shard="1/2")
    score_ranges(wide, out=tmp_path / "other", k=6)
    shutil.copy(out / "000000.parquet", out / "000001.parquet")
    shutil.copy(tmp_path / "other" / "000003.parquet", out)
    with pytest.raises(PareError, match=r"2 of 5 ranges are missing \(range 1: .*, range 3: "):
        merge(out)
    (out / "000001.parquet").write_bytes((out / "000002.parquet").read_bytes()[:-50])  # cut short
    with pytest.raises(PareError, match=r"2 of 5 ranges are missing"):
        merge(out)
    score_ranges(wide, out=out, k=5, shard="2/2")
    shutil.copy(tmp_path / "other" / "000003.parquet", out / "000005.parquet")  # one too many
    with pytest.raises(PareError, match=r"also holds 000005.parquet, which is none of its 5 tables; move it away"):
        merge(out)
    (out / "000005.parquet").unlink()
    merge(out)
    score_ranges(wide, out=tmp_path / "whole", k=5)
    assert contents(out) == contents(tmp_path / "whole")


def test_half_of_the_tables_never_pass_for_all(wide, small_ranges, tmp_path) -> None:
    score_ranges(wide, out=tmp_path / "half", k=5, shard="1/2")
    (tmp_path / "half" / ".paredown").unlink()  # what `cp half/*` leaves out
    with pytest.raises(PareError, match="half: these scores are incomplete; run the same"):
        open_table(tmp_path / "half")
    score_ranges(wide, out=tmp_path / "whole", k=5)
    (tmp_path / "whole" / ".paredown").unlink()
    assert len(open_table(tmp_path / "whole")) == 20_000
    (tmp_path / "whole" / "000002.parquet").unlink()
    (tmp_path / "whole" / "_settings.json").unlink()
    with pytest.raises(PareError, match="whole: these scores are incomplete"):
        open_table(tmp_path / "whole")


def test_tasks_of_a_slurm_array_do_all_shares(monkeypatch) -> None:
    monkeypatch.setenv("SLURM_ARRAY_TASK_MIN", "10")
    monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", "3")
    numbers: list[int] = []
    for task in ("10", "11", "12"):
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", task)
        numbers += Share.parse("/8").numbers
    assert sorted(numbers) == list(range(1, 9))
    assert list(Share.parse("3/8").numbers) == [3]


@pytest.mark.parametrize("text", ["", "3", "0/4", "5/4", "a/4", "3/b", "3/", "-1/4", "²/4"])
def test_what_is_no_share_is_refused(text, monkeypatch) -> None:
    with pytest.raises(PareError, match=r"shard.* (is I/N|goes from)"):
        Share.parse(text)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ID", None, r"SLURM_ARRAY_TASK_ID must be a whole number, and it is not set; submit the job with"),
        ("ID", "", r"SLURM_ARRAY_TASK_ID must be a whole number, and it is ''"),
        ("ID", "one", r"SLURM_ARRAY_TASK_ID must be a whole number, and it is 'one'"),
        ("ID", "²", r"SLURM_ARRAY_TASK_ID must be a whole number, and it is '²'"),
        ("MIN", None, r"SLURM_ARRAY_TASK_MIN must be a whole number, and it is not set"),
        ("COUNT", "3.5", r"SLURM_ARRAY_TASK_COUNT must be a whole number, and it is '3.5'"),
        ("ID", "9", r"task 9 is not one of the 3 that follow 10 without a gap .*, such as 1-3"),
        ("ID", "13", r"task 13 is not one of the 3 that follow 10"),
        ("COUNT", "0", r"task 10 is not one of the 0 that follow 10"),
    ],
)
def test_shares_of_no_array_are_refused(monkeypatch, name, value, said) -> None:
    for variable, right in {"ID": "10", "MIN": "10", "COUNT": "3"}.items():
        monkeypatch.setenv(f"SLURM_ARRAY_TASK_{variable}", right)
    assert Share.parse("/8") == Share(range(1, 9, 3), 8)
    if value is None:
        monkeypatch.delenv(f"SLURM_ARRAY_TASK_{name}")
    else:
        monkeypatch.setenv(f"SLURM_ARRAY_TASK_{name}", value)
    with pytest.raises(PareError, match=said):
        Share.parse("/8")


def test_what_cannot_be_read_by_ranges_is_refused(tmp_path, rng) -> None:
    np.savez(tmp_path / "e.npz", embeddings=np.eye(3))
    with pytest.raises(PareError, match=r"only .npy files"):
        score_ranges(tmp_path / "e.npz", out=tmp_path / "s")
    np.save(tmp_path / "e.npy", rng.standard_normal((9, 3)))
    with pytest.raises(PareError, match="metric 'typicality' needs all examples on one machine"):
        score_ranges(tmp_path / "e.npy", out=tmp_path / "s", metric="typicality")
    with pytest.raises(PareError, match="needs labels"):
        score_ranges(tmp_path / "e.npy", out=tmp_path / "s", metric="supervised_prototypes")
    with pytest.raises(PareError, match=r"is also an input|is inside an input|contains an input"):
        score_ranges(tmp_path / "e.npy", out=tmp_path)
    bad = rng.standard_normal((9, 3))
    bad[4, 1] = np.nan
    np.save(tmp_path / "bad.npy", bad)
    with pytest.raises(PareError, match="row 4"):
        score_ranges(tmp_path / "bad.npy", out=tmp_path / "t", k=2)


# --- what other commands say of such a folder ----------------------------------------------------------------------


def test_a_folder_of_scores_is_described_and_verified(wide, small_ranges, tmp_path) -> None:
    folder = tmp_path / "s"
    score_ranges(wide, out=folder, k=5)
    assert pdn.info(folder).kind == "scores"
    assert pdn.info(folder).facts["examples"] == 20_000
    checked = pdn.verify(folder)
    assert (checked.kind, checked.problems) == ("folder of scores", ())
    table = folder / "000002.parquet"
    content = bytearray(table.read_bytes())
    content[len(content) // 3] ^= 4
    table.write_bytes(content)
    assert [problem.path for problem in pdn.verify(folder).problems] == [table]
    table.unlink()
    with pytest.raises(PareError, match="these scores are incomplete"):
        pdn.select(folder, keep_fraction=0.5)
    assert pdn.info(folder).facts["complete"] is False
    assert any("4 tables; 5 were written" in problem.what for problem in pdn.verify(folder).problems)
    score_ranges(wide, out=folder, k=5)
    assert pdn.verify(folder).problems == ()
