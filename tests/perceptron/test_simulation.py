"""The simulator against the solved theory, against itself on other numbers of processes, and its errors."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

from paredown import PareError
from paredown.perceptron import Setting, simulate, solve_times
from paredown.perceptron.sampling import run_draw

# theta, strategy, keep_fraction, alpha_prune, test_error, R, kappa: the saddle point of the max-margin student for
# infinitely many features, solved to 1e-10 (the theta = 0 rows also in 25-digit arithmetic). Points away from
# keep_fraction -> 0 at alpha_prune = 2, where 200 features are still far from infinity.
THEORY = [
    (0, "hard", 1, 0.5, 0.3288497530, 0.5121484694, 1.2563803390),
    (0, "hard", 1, 5, 0.0938270078, 0.9568700800, 0.1967096120),
    (0, "hard", 0.6, 2, 0.1465483385, 0.8958769866, 0.2930963262),
    (0, "hard", 0.2, 5, 0.0199673480, 0.9980331642, 0.0401424637),
    (0, "easy", 0.2, 1, 0.1345899786, 0.9119326003, 1.6658318149),
    (5, "hard", 0.6, 1, 0.2997944423, 0.5883075756, 0.6040011681),
    (5, "easy", 0.6, 5, 0.0677577950, 0.9774291588, 0.6582303329),
    (20, "hard", 0.2, 1, 0.4054810085, 0.2925956600, 0.7271565348),
    (20, "hard", 0.6, 5, 0.0612011319, 0.9815731818, 0.1223304996),
    (20, "easy", 0.2, 2, 0.1383973322, 0.9069593431, 1.4877843638),
]
# a, b, alpha_prune, test_error at theta = 0, from the same solution; each window holds 30 % of the examples.
WINDOWS = [
    (0.35350377769579355, 0.8, 1.0, 0.22925804761431465),
    (0.7830216432764181, 1.5, 1.0, 0.15481493778377955),
    (0.35350377769579355, 0.8, 3.0, 0.05069036056324402),
]
FEW = 3.0  # standard errors


def without_seconds(simulation):
    return [draw._replace(seconds=0.0) for draw in simulation.draws]


@pytest.mark.parametrize(
    ("theta", "strategy", "keep_fraction", "alpha_prune", "test_error", "overlap", "kappa"), THEORY
)
def test_agrees_with_theory(theta, strategy, keep_fraction, alpha_prune, test_error, overlap, kappa):
    s = simulate(alpha_prune, keep_fraction=keep_fraction, theta=theta, strategy=strategy, draws=30, seed=0, workers=1)
    assert abs(s.test_error - test_error) < FEW * s.stderr
    assert abs(s.R - overlap) < FEW * s.stderr_of("R")
    assert abs(s.kappa - kappa) < FEW * s.stderr_of("kappa")


@pytest.mark.parametrize(("a", "b", "alpha_prune", "test_error"), WINDOWS)
def test_window_agrees_with_theory(a, b, alpha_prune, test_error):
    s = simulate(alpha_prune, strategy="window", window=(a, b), draws=30, seed=0, workers=1)
    assert s.setting.keep_fraction == pytest.approx(0.3, abs=1e-9)
    assert abs(s.test_error - test_error) < FEW * s.stderr


def test_random_pruning_is_no_pruning_of_a_smaller_dataset():
    s = simulate(5, keep_fraction=0.2, strategy="random", draws=30, seed=1, workers=1)
    assert (s.setting.n_total, s.setting.n_kept) == (5000, 1000)
    assert abs(s.test_error - 0.0938270078) < FEW * s.stderr  # the row (1, 5) above


def test_windows_at_the_ends_are_hard_and_easy():
    cut = 0.6744897501960817  # half of all |z| lie below
    options = {"theta": 20, "n_features": 20, "draws": 3}
    for strategy, window in (("hard", (0, cut)), ("easy", (cut, math.inf))):
        by_window = simulate(2, strategy="window", window=window, **options)
        by_name = simulate(2, strategy=strategy, keep_fraction=0.5, **options)
        np.testing.assert_allclose(by_window.values("test_error"), by_name.values("test_error"), rtol=1e-9)


def test_margins_and_fields_rank_alike_for_a_perfect_probe_only():
    options = {"keep_fraction": 0.3, "n_features": 50, "draws": 3}
    for theta, same in ((0, True), (30, False)):
        field = simulate(2, theta=theta, hardness="field", **options)
        margin = simulate(2, theta=theta, hardness="margin", **options)
        assert (without_seconds(field) == without_seconds(margin)) is same


def test_misclassified_examples_first_are_all_examples_the_probe_gets_wrong():
    """With theta = 60 the probe errs on a third; kept by margin these are learnt perfectly well against the probe."""
    s = simulate(1, keep_fraction=1 / 3, theta=60, hardness="margin", n_features=50, draws=5)
    assert s.rho < 0


@pytest.mark.parametrize("theta", [0.0, 0.001, 10.0, 45.0, 90.0])
@pytest.mark.parametrize("n_features", [2, 200])
def test_probe_is_at_the_exact_angle(theta, n_features):
    draw = run_draw(Setting(alpha_prune=2, keep_fraction=0.5, theta=theta, n_features=n_features), seed=0, index=0)
    assert draw.theta == pytest.approx(theta, abs=1e-12)


def test_a_trained_probe_nears_the_teacher():
    angles = [
        simulate(4, keep_fraction=0.5, probe="trained", probe_epochs=epochs, n_features=50, draws=10).theta
        for epochs in (1, 10)
    ]
    assert 5 < angles[1] < angles[0] < 60


def test_a_trained_probe_prunes_like_a_probe_at_its_angle():
    """Not exactly, because it has seen the examples it ranks; but far nearer than random pruning."""
    trained = simulate(1, keep_fraction=0.3, strategy="easy", probe="trained", probe_epochs=3, n_features=100, draws=30)
    angle = simulate(1, keep_fraction=0.3, strategy="easy", theta=trained.theta, n_features=100, draws=30)
    blind = simulate(1, keep_fraction=0.3, strategy="random", n_features=100, draws=30)
    assert abs(trained.test_error - angle.test_error) < 0.5 * abs(trained.test_error - blind.test_error)


def test_test_error_is_the_angle_of_the_overlap():
    s = simulate(2, keep_fraction=0.5, n_features=30, draws=4)
    np.testing.assert_allclose(s.values("test_error"), np.arccos(s.values("R")) / np.pi, rtol=1e-9)
    assert s.test_error == pytest.approx(s.values("test_error").mean())
    assert s.stderr == pytest.approx(s.values("test_error").std(ddof=1) / 2)


def test_numbers_of_examples_are_exact():
    setting = Setting(alpha_prune=2, keep_fraction=0.3, n_features=200)
    assert (setting.n_total, setting.n_kept) == (1333, 400)


@pytest.mark.parametrize("probe", ["angle", "trained"])
def test_same_bits_for_any_number_of_workers(probe):
    options = {"keep_fraction": 0.5, "n_features": 60, "draws": 5, "seed": 7, "probe": probe}
    alone, two, default = (simulate(3, workers=workers, **options) for workers in (1, 2, None))
    assert without_seconds(alone) == without_seconds(two) == without_seconds(default)
    assert len(set(alone.values("R"))) == 5


def test_more_workers_than_draws_with_a_window():
    options = {"strategy": "window", "window": (0.5, 1.5), "n_features": 10}
    assert without_seconds(simulate(2, draws=2, workers=4, **options)) == without_seconds(
        simulate(2, draws=2, **options)
    )


def test_seeds_differ_and_more_draws_extend_fewer():
    options = {"keep_fraction": 0.5, "n_features": 20}
    short, long = simulate(2, draws=2, **options), simulate(2, draws=4, **options)
    assert without_seconds(long)[:2] == without_seconds(short)
    assert without_seconds(simulate(2, draws=2, seed=1, **options)) != without_seconds(short)


def test_a_single_draw_has_no_standard_error():
    s = simulate(2, n_features=10, draws=1)
    assert math.isnan(s.stderr)
    assert 0 < s.test_error < 0.5


def test_one_example_is_learnt():
    s = simulate(0.02, n_features=50, draws=3)
    assert s.setting.n_kept == 1
    assert 0.3 < s.test_error < 0.5


def test_progress_counts_every_draw():
    seen = []

    def track(items, label, total=None):
        for item in items:
            seen.append((label, total))
            yield item

    simulate(1, n_features=10, draws=3, track=track)
    assert seen == [("draws", 3)] * 3


def test_stopping_early_leaves_no_worker_behind(monkeypatch):
    started = []

    class Recorded(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)

    def interrupt(items, label, total=None):
        yield next(iter(items))
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    with pytest.raises(KeyboardInterrupt):
        simulate(1, n_features=10, draws=4, workers=2, track=interrupt)
    assert len(started) == 2
    assert all(process.poll() is not None for process in started)


def test_a_worker_that_dies_is_reported(monkeypatch):
    monkeypatch.setattr(sys, "executable", "false")
    with pytest.raises(PareError, match="a draw was not finished: its process ended early"):
        simulate(1, n_features=10, draws=4, workers=2)


def test_solve_times_regress_seconds_on_alpha():
    times = solve_times([0.5, 1, 2], n_features=20, draws=2)
    np.testing.assert_allclose(np.polyfit(times.alpha_prune, times.seconds, 1), [times.slope, times.intercept])
    assert times.r_squared <= 1
    assert (times.seconds > 0).all()
    with pytest.raises(PareError, match=r"at least two different values of alpha_prune, got \[1\.0, 1\.0\]"):
        solve_times([1, 1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha_prune": 0}, r"alpha_prune must be a positive number, got 0"),
        ({"alpha_prune": math.nan}, r"alpha_prune must be a positive number, got nan"),
        ({"keep_fraction": 1.2}, r"keep_fraction must be in \(0, 1\], got 1.2"),
        ({"keep_fraction": 0}, r"keep_fraction must be in \(0, 1\], got 0"),
        ({"theta": -1}, r"theta must be in \[0, 90\] degrees, got -1"),
        ({"theta": 91}, r"theta must be in \[0, 90\] degrees, got 91"),
        ({"theta": math.nan}, r"theta must be in \[0, 90\] degrees, got nan"),
        ({"strategy": "hardest"}, r"unknown strategy 'hardest'; available: easy, hard, random, window. Did you mean"),
        ({"probe": "perfect"}, r"unknown probe 'perfect'; available: angle, trained"),
        ({"hardness": "distance"}, r"unknown hardness 'distance'; available: field, margin"),
        ({"probe": "trained", "theta": 10}, r"theta=10 was given with probe='trained'.*set probe_epochs"),
        ({"probe": "trained", "probe_epochs": 0}, r"probe_epochs must be at least 1, got 0"),
        ({"n_features": 1}, r"n_features must be at least 2, got 1"),
        ({"alpha_prune": 0.001}, r"alpha_prune=0.001 with n_features=200 keeps no example"),
        ({"draws": 0}, r"draws must be at least 1, got 0"),
        ({"seed": -1}, r"seed must be at least 0, got -1"),
        ({"workers": 0}, r"workers must be at least 1, got 0"),
        ({"strategy": "window"}, r"strategy='window' was given without window: a window belongs to"),
        ({"window": (0.1, 0.2)}, r"strategy='hard' was given with window: a window belongs to strategy='window'"),
        ({"strategy": "window", "window": (0.5, 0.2)}, r"0 <= a < b, in units of \|z\|, got \(0.5, 0.2\)"),
        ({"strategy": "window", "window": (0.5,)}, r"window must be \(a, b\)"),
        (
            {"strategy": "window", "window": (0.5, 1), "keep_fraction": 0.9},
            r"holds a fraction 0.299765 of all examples, but keep_fraction is 0.9",
        ),
    ],
)
def test_bad_options_are_clear_errors(options, message):
    with pytest.raises(PareError, match=message):
        simulate(**{"alpha_prune": 2.0, **options})
