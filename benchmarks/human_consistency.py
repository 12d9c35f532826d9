"""Do the measures of `paredown.evaluate` give what model-vs-human published, on the answers of its human observers?

Needs the Parquet table of human trials with the columns that model-vs-human gives them: `subj`, `dataset`, `condition`,
`imagename`, `category` and `object_response`. Error consistency is computed three ways: by `compare_observers`, from
the four counts of right and wrong answers of every pair, and by scikit-learn's `cohen_kappa_score`.

    python benchmarks/human_consistency.py responses.parquet
"""

from __future__ import annotations

import argparse
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from sklearn.metrics import cohen_kappa_score

from paredown.evaluate import Trials, compare_observers, leave_out_conditions, measure_shape_bias

# Conditions that model-vs-human leaves out (`EXCLUDE_CONDITIONS` in its plotting/plot.py).
PUBLISHED_LEFT_OUT = {
    "colour": {"cr"},
    "contrast": {"c100", "c03", "c01"},
    "high-pass": {"inf", "0.55", "0.45", "0.4"},
    "low-pass": {"0", "15", "40"},
    "phase-scrambling": {"0", "150", "180"},
    "power-equalisation": {"0"},
    "false-colour": {"True"},
    "rotation": {"0"},
    "eidolonI": {"1-10-10", "64-10-10", "128-10-10"},
    "eidolonII": {"1-3-10", "32-3-10", "64-3-10", "128-3-10"},
    "eidolonIII": {"1-0-10", "16-0-10", "32-0-10", "64-0-10", "128-0-10"},
    "uniform-noise": {"0.0", "0.6", "0.9"},
}

# Human-human error consistency as Brain-Score computes it from the same trials (ceilings in its test of geirhos2021).
PUBLISHED_KAPPA = {
    "colour": 0.41543,
    "contrast": 0.43703,
    "cue-conflict": 0.33105,
    "edge": 0.31844,
    "eidolonI": 0.38634,
    "eidolonII": 0.45402,
    "eidolonIII": 0.45953,
    "false-colour": 0.44405,
    "high-pass": 0.44014,
    "low-pass": 0.46888,
    "phase-scrambling": 0.44667,
    "power-equalisation": 0.51063,
    "rotation": 0.43851,
    "silhouette": 0.47571,
    "sketch": 0.36962,
    "stylized": 0.50058,
    "uniform-noise": 0.43406,
}
PUBLISHED_MEAN_KAPPA = 0.43122


def read(path: Path) -> Trials:
    table = pq.read_table(path)
    column = lambda name: np.array(table[name].to_pylist())
    # 0001_cl_s01_cr_oven_40_n04111531_14126.png: trial, experiment, observer and condition are no part of the image.
    image = np.array([name.split("_", 4)[4] for name in table["imagename"].to_pylist()])
    return Trials.of(
        {
            "observer": column("subj"),
            "dataset": column("dataset"),
            "condition": column("condition"),
            "image": image,
            "category": column("category"),
            "response": column("object_response"),
        }
    )


def kappa_of_counts(first: np.ndarray, second: np.ndarray) -> float:
    """Cohen's kappa by its other algebra, from the four counts of right and wrong answers."""
    a, b = int((first & second).sum()), int((first & ~second).sum())
    c, d = int((~first & second).sum()), int((~first & ~second).sum())
    return 1.0 if b + c == 0 else 2 * (a * d - b * c) / ((a + b) * (b + d) + (a + c) * (c + d))


def conditions(trials: Trials) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for dataset, condition in zip(trials.dataset.tolist(), trials.condition.tolist(), strict=True):
        found.setdefault(dataset, set()).add(condition)
    return found


def check_kappa(trials: Trials) -> tuple[int, float, float]:
    """Number of pairs and conditions, and the largest distance of `compare_observers` from the two other ways."""
    ours = compare_observers(trials)
    kappa = dict(zip(ours.pairs, (agreement.error_consistency for agreement in ours.agreements), strict=True))
    by_counts, by_sklearn = [], []
    for dataset, names in conditions(trials).items():
        for condition in names:
            part = trials.take(np.flatnonzero((trials.dataset == dataset) & (trials.condition == condition)))
            right = {}
            for name in np.unique(part.observer).tolist():
                own = part.take(np.flatnonzero(part.observer == name))
                right[name] = own.correct[np.argsort(own.image)]
            for first, second in combinations(sorted(right), 2):
                value = kappa[dataset, condition, first, second]
                by_counts.append(abs(value - kappa_of_counts(right[first], right[second])))
                if (right[first] != right[second]).any():  # scikit-learn has no answer where nobody ever errs
                    by_sklearn.append(abs(value - cohen_kappa_score(right[first], right[second])))
    assert len(by_counts) == len(kappa)
    return len(kappa), max(by_counts), max(by_sklearn)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("responses", type=Path, nargs="?")
    options = parser.parse_args()
    if options.responses is None:
        print("left out: it needs the table of human trials as an argument")
        return
    everything = read(options.responses)
    trials = leave_out_conditions(everything)
    kept = conditions(trials)
    left_out = {name: names - kept.get(name, set()) for name, names in conditions(everything).items()}
    odd = {name: names ^ PUBLISHED_LEFT_OUT.get(name, set()) for name, names in left_out.items()}
    print(f"{len(everything)} trials")
    for name, condition in [(name, condition) for name, names in odd.items() for condition in sorted(names)]:
        there = everything.correct[(everything.dataset == name) & (everything.condition == condition)]
        print(
            f"{name} {condition} (accuracy {there.mean():.4f}) is in only one of our conditions and the published ones"
        )

    pairs, counts, sklearn = check_kappa(everything)
    print(f"kappa of {pairs} pairs and conditions: at most {counts:.0e} from counts, {sklearn:.0e} from scikit-learn\n")

    humans = compare_observers(trials)
    print("| data set | conditions | accuracy | accuracy difference | observed | error consistency | published |")
    print("|---|---|---|---|---|---|---|")
    rows = [(name, len(kept[name]), values, PUBLISHED_KAPPA[name]) for name, values in humans.by_dataset.items()]
    rows.append(("mean", sum(map(len, kept.values())), humans.overall, PUBLISHED_MEAN_KAPPA))
    for name, number, values, known in rows:
        shown = [f"{values[key]:.3f}" for key in ("accuracy", "accuracy_difference", "observed_consistency")]
        print(f"| {name} | {number} | {' | '.join(shown)} | {values['error_consistency']:.5f} | {known:.5f} |")

    cues = everything.take(np.flatnonzero(everything.dataset == "cue-conflict"))
    texture = np.array(
        [name.rsplit("-", 1)[1].removesuffix(".png").rstrip("0123456789") for name in cues.image.tolist()]
    )
    bias = measure_shape_bias(cues.response, cues.category, texture)
    print(f"\nshape bias of humans: {bias.value:.4f} ± {bias.stderr:.4f} ({bias.trials} trials with a conflict)")


if __name__ == "__main__":
    main()
