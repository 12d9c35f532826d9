"""Fig. 6A: do the clusters behind the self-supervised metric align with the classes?

Claims: some classes are aligned with a small number of clusters, while others are dispersed across many.

    paredown reproduce fig6a

Expected: 15 seconds (`--size paper`: embedding ImageNet by SwAV and 1,000 clusters, hours of a GPU). Of 30 clusters of
CIFAR-10's embeddings an automobile is found in 5 and a bird in 11.5, as effective numbers; chance would be 29.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from paredown.laws import above, below
from paredown.plots import COLORS, figure, panel_letter
from paredown.reproduce.base import Claim, FigureTable
from paredown.reproduce.extreme_images import NEEDS as NEEDS
from paredown.reproduce.extreme_images import class_name
from paredown.reproduce.judging import Unit, judge_points, seeds_of
from paredown.reproduce.setup import FigurePlan, Setup, SharedScoring
from paredown.scores import Scores
from paredown.sources import load_column, open_source

ALIGNED = 0.25  # of the clusters that chance would spread a class over
APART = 2.0  # times as many clusters for the most dispersed class as for the most aligned one
CLUSTERINGS = 5  # with other seeds
_CLEARER = math.log(2)  # of the logs of both ratios: twice as far as their bounds
_NAMED = 40  # classes whose names fit beside the picture


def plan(setup: Setup) -> FigurePlan:
    """As many clusters as classes, as in the paper; some more where there are only ten classes."""
    data = setup.dataset()
    source = data.images("swav") if setup.scale == "paper" else data.features()
    k = setup.choose(tiny=20, cpu=30, paper=data.classes)
    return FigurePlan(scorings={"clusters": SharedScoring(source, ("prototypes",), {"k": k})}, datasets=(data,))


def measure(setup: Setup) -> FigureTable:
    """P(class | cluster) wherever it is not zero, and for each class over how many clusters it is spread."""
    scoring = plan(setup).scorings["clusters"]
    table = FigureTable()
    for number in range(CLUSTERINGS):
        scores = replace(setup, seed=setup.seed + number).score(scoring)["prototypes"]
        _add_clusters(table, setup, scoring, scores, number)
    return table


def _add_clusters(table: FigureTable, setup: Setup, scoring: SharedScoring, scores: Scores, number: int) -> None:
    """One clustering: how far classes are spread over it; of the first, the whole matrix too."""
    assert scores.clusters is not None
    names, codes = _classes(setup, scoring, scores.ids)
    counts = np.zeros((int(scores.clusters.max()) + 1, len(names)))
    np.add.at(counts, (scores.clusters, codes), 1)
    counts = counts[counts.sum(axis=1) > 0]
    counts = counts[_ordered(counts)]
    chance = spread(counts.sum(axis=1))
    spreads = np.sort([spread(own) for own in counts.T])
    columns = {"aligned": np.log([spreads[0] / chance]), "dispersed": np.log([spreads[-1] / spreads[0]])}
    table.add_seeds("seed", seeds=[number], columns=columns)
    if number:
        return
    share = counts / counts.sum(axis=1, keepdims=True)
    for cluster, code in np.argwhere(counts > 0):
        table.add(
            "cell",
            data=setup.dataset().title,
            cluster=int(cluster),
            category=names[code],
            code=int(code),
            examples=int(counts[cluster, code]),
            probability=share[cluster, code],
        )
    table.add("chance", clusters=len(counts), spread=chance)
    for code, name in enumerate(names):
        own = counts[:, code]
        majority = counts.argmax(axis=1) == code
        table.add(
            "class",
            category=name,
            code=code,
            examples=int(own.sum()),
            spread=spread(own),
            largest_cluster=own.max() / own.sum(),  # share of the class in its largest cluster
            purity=float(counts[majority, code].sum() / max(1, counts[majority].sum())),  # of clusters where it leads
            led=int(majority.sum()),
        )


def _classes(setup: Setup, scoring: SharedScoring, ids: NDArray) -> tuple[list[str], NDArray[np.int64]]:
    """Names of the classes, and the code of each scored example."""
    main, images = setup.dataset(), setup.dataset("images")
    known = open_source(images.location).labels
    assert known is not None
    if setup.scale == "paper":
        return list(known.classes), known.codes
    codes = load_column(Path(scoring.data["labels"]))[ids.astype(np.int64)]
    if images.name in (main.name, main.name.removesuffix("_features")):
        return list(known.classes), codes
    return [main.class_name(code) for code in range(main.classes)], codes


def spread(counts: NDArray[np.float64]) -> float:
    """The effective number of clusters, exp(entropy): n if something is spread evenly over n."""
    share = counts[counts > 0] / counts.sum()
    return float(np.exp(-(share * np.log(share)).sum()))


def _ordered(counts: NDArray[np.float64]) -> NDArray[np.int64]:
    """Clusters by the class that leads in them, the purest first, so that alignment shows as a staircase."""
    share = counts / counts.sum(axis=1, keepdims=True)
    return np.lexsort([-share.max(axis=1), share.argmax(axis=1)])


def judge(table: FigureTable) -> list[Claim]:
    """The most aligned class against chance and against the most dispersed one, over clusterings."""
    seeds, classes, chance = table.where(kind="seed"), table.where(kind="class"), table.where(kind="chance").rows[0]
    order = np.argsort(classes["spread"])
    aligned, dispersed = classes.rows[order[0]], classes.rows[order[-1]]
    tell = lambda row: f"{class_name(row['category'])} {row['spread']:.1f} clusters, purity {row['purity']:.2f}"
    return [
        judge_points(
            "Some classes are aligned with few clusters, others are dispersed across many.",
            {
                "most aligned / chance": below(seeds_of(seeds, "aligned"), math.log(ALIGNED), points=2),
                "most dispersed / most aligned": above(seeds_of(seeds, "dispersed"), math.log(APART), points=2),
            },
            rule=f"at most {ALIGNED:g} times chance and at least {APART:g} times as many",
            over="clusterings",
            effect=_CLEARER,
            unit=Unit("log ratio"),
            about=f"{table.where(kind='cell').rows[0]['data']}, {chance['clusters']:.0f} "
            "clusters, effective number of clusters of a class, log ratio",
            note=f"In the first clustering, by chance {chance['spread']:.1f}; most aligned {tell(aligned)}; most "
            f"dispersed {tell(dispersed)}.",
        )
    ]


def draw(table: FigureTable, path: Path) -> None:
    """The heat map, and the spread of each class."""
    cells, classes = table.where(kind="cell"), table.where(kind="class")
    chance = table.where(kind="chance").rows[0]
    matrix = np.zeros((int(chance["clusters"]), len(classes)))
    matrix[cells["cluster"].astype(int), cells["code"].astype(int)] = cells["probability"]
    names = [class_name(name) for name in classes["category"].tolist()]
    with figure(path, size=(10.4, 5.2), ncols=2, width_ratios=(1.25, 1)) as (drawn, (left, right)):
        shown = left.imshow(matrix, aspect="auto", cmap="viridis", vmin=0, vmax=1, interpolation="nearest")
        drawn.colorbar(shown, ax=left, label="P(class | cluster)")
        left.grid(visible=False)
        left.set(ylabel="cluster, by its leading class", xlabel="class")
        panel_letter(left, "A", f"clusters and classes of {cells.rows[0]['data']}")
        order = np.argsort(classes["spread"])
        right.barh(np.arange(len(order)), classes["spread"][order], color=COLORS[0])
        right.axvline(chance["spread"], color="black", linestyle=":")
        middle = (len(order) - 1) / 2
        told = "if clusters knew nothing of classes "
        right.text(chance["spread"], middle, told, rotation=90, ha="right", va="center", fontsize=9)
        right.set(xlabel="effective number of clusters of a class")
        right.set_title("from aligned to dispersed", loc="left")
        if len(names) <= _NAMED:
            left.set_xticks(range(len(names)), names, rotation=45, ha="right")
            right.set_yticks(range(len(order)), [names[i] for i in order])
        else:
            right.set_ylabel("classes")
