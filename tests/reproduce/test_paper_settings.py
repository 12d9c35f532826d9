"""The size `paper` as the paper has it: every plan against a table of its settings, by section."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from paredown.reproduce import FIGURES, Setup
from paredown.reproduce.rehearsal import rehearse
from paredown.reproduce.runner import _needs
from paredown.sweeps import expand, read_settings
from paredown.sweeps.jobs import student_steps
from paredown.training.schedule import steps_per_epoch

IMAGENET, CIFAR10, SVHN = 1_281_167, 50_000, 73_257
NOT_IN_IT = ("fig_pretrained", "fig_unbounded")  # with small networks at every size
EMPIRICAL = [name for name in FIGURES if hasattr(import_module(f"paredown.reproduce.figures.{name}"), "plan")]

# What every student is trained for, by the paper's sections. "epochs": so many on each pruned set; "whole": for as many
# iterations as so many epochs of the whole training set, whatever the initial size; "factor": as the table asks.
CIFAR_SVHN = ("epochs", 200)  # "CIFAR-10 and SVHN": from scratch on each pruned dataset for 200 epochs
SCALING_IMAGENET = ("whole", 105)  # "ImageNet": matched iterations, corresponding to 105 epochs on the full ImageNet
MAIN_IMAGENET = ("epochs", 105)  # "Interaction between data pruning and training duration": epochs are kept constant
FINE_TUNING = ("epochs", 10)  # "Data pruning for transfer learning"
PAPER: dict[str, dict[str, tuple[str, int]]] = {  # figure -> sweep -> duration
    "fig1d": {"ends": CIFAR_SVHN},
    "fig3": {"svhn": CIFAR_SVHN, "cifar10": CIFAR_SVHN, "imagenet": SCALING_IMAGENET},
    "fig4a": {"main": FINE_TUNING},
    "fig4b": {"pretraining": SCALING_IMAGENET},  # "exactly as in" Fig. 3D
    "fig5a": {},
    "fig5bc": {"ImageNet, 0": MAIN_IMAGENET},
    "fig6a": {},
    "fig6bc": {},
    "fig_compute_b": {"main": CIFAR_SVHN, "second": MAIN_IMAGENET},  # "here we fix the number of epochs"
    "fig_scaling_more": {"el2n": SCALING_IMAGENET, "prototypes": SCALING_IMAGENET},
    "fig_probe_strength": {"probes": CIFAR_SVHN},
    "fig_frontier_practice": {"frontier": CIFAR_SVHN},
    "fig_extremes": {},
    "tab_k": {"k": MAIN_IMAGENET},
    "tab_ensembles": {"encoders": MAIN_IMAGENET},
    "fig_imbalance": {},
    "fig_unbalanced": {"ImageNet, 0": MAIN_IMAGENET},
    "fig_histograms": {},
    "fig_fairness": {"ImageNet, 0": MAIN_IMAGENET},
    "tab_duration": {"factors": ("factor", 105)},
    "fig_ood": {"students": MAIN_IMAGENET},
    "fig_shape_bias": {"students": MAIN_IMAGENET},
    "fig_noise": dict.fromkeys(("0", "0.05", "0.2"), CIFAR_SVHN),
}
BATCH = {"resnet18": 128, "resnet18_svhn": 128, "resnet50": 2048, "vit": 128}
WHOLE = {"resnet18": CIFAR10, "resnet18_svhn": SVHN, "resnet50": IMAGENET, "vit": CIFAR10}
# Learning rate, where it falls by which factor, and weight decay; ResNet-50's is 0.1 for 256 images, on 8 x 256.
RATES = {
    "resnet18": (0.1, (60, 120, 160), 5.0, 5e-4),
    "resnet18_svhn": (0.1, (60, 120, 160), 5.0, 5e-4),
    "resnet50": (0.8, (30, 60, 90, 100), 10.0, 1e-3),
    "vit": (1e-5, (), 1.0, 0.0),
}
# "nesterov momentum = 0.9" with SGD; Adam for vision transformers, RMSProp after pretraining, without momentum.
OPTIMIZERS = {
    "resnet18": ("sgd", 0.9, True),
    "resnet18_svhn": ("sgd", 0.9, True),
    "resnet50": ("sgd", 0.9, True),
    "vit": ("adam", 0.0, False),
}
PROBES = {"resnet18": 20, "resnet18_svhn": 40, "vit": 2}  # epochs of a probe; averaged over 10


def plan_of(name: str) -> Any:
    setup = Setup("paper", 0, Path("parts"), _needs(name, "paper"), rehearsal=True)
    return import_module(f"paredown.reproduce.figures.{name}").plan(setup)


def test_every_plan_is_in_the_table() -> None:
    assert set(EMPIRICAL) - set(NOT_IN_IT) == set(PAPER)
    for name, sweeps in PAPER.items():
        assert set(plan_of(name).sweeps) == set(sweeps), name


@pytest.mark.parametrize("name", [name for name, sweeps in PAPER.items() if sweeps])
def test_students_train_as_long_as_in_the_paper(name: str) -> None:
    for sweep, config in plan_of(name).sweeps.items():
        settings = read_settings(config)
        recipe = settings.student.resolve()
        kind, epochs = PAPER[name][sweep]
        assert recipe.epochs == epochs
        assert recipe.batch_size == BATCH[recipe.name]
        rates = (recipe.learning_rate, recipe.milestones, recipe.decay, recipe.weight_decay)
        assert rates == RATES[recipe.name]
        assert (recipe.optimizer, recipe.momentum, recipe.nesterov) == OPTIMIZERS[recipe.name]
        for run in expand(settings.grid):
            kept = round(run.keep_fraction * run.initial_size)
            own, whole = (epochs * steps_per_epoch(n, recipe.batch_size) for n in (kept, WHOLE[recipe.name]))
            factor = {"epochs": 0.0, "whole": 1.0}.get(kind, run.matched_iterations)
            steps = student_steps(recipe, run, kept, settings.student.steps)
            assert steps == round(own + factor * (whole - own)), (name, sweep, run)


@pytest.mark.parametrize("name", ["fig1d", "fig3", "fig4a", "fig_frontier_practice", "fig_noise"])
def test_probes_are_those_of_the_paper(name: str) -> None:
    for config in plan_of(name).sweeps.values():
        settings = read_settings(config)
        recipe = settings.student.resolve()
        if "el2n" in settings.grid.metric:
            options = settings.probe.find("el2n").options
            assert options.get("epochs", recipe.probe_epochs) == PROBES[recipe.name]
            assert options.get("members", recipe.probe_members) == 10


def test_the_weak_and_the_strong_probe_are_those_of_the_appendix() -> None:
    (config,) = plan_of("fig_probe_strength").sweeps.values()
    settings = read_settings(config)
    assert [settings.probe.find(name).options["epochs"] for name in ("weak", "strong")] == [4, 40]


def test_durations_of_the_table_on_training_longer() -> None:
    (config,) = plan_of("tab_duration").sweeps.values()
    assert config["grid"]["matched_iterations"] == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert config["grid"]["keep_fraction"] == [0.8, 1.0]


def test_fractions_and_numbers_of_models() -> None:
    (config,) = plan_of("fig5bc").sweeps.values()
    assert config["grid"]["keep_fraction"] == [1.0, 0.9, 0.8, 0.7, 0.6]
    assert config["grid"]["balance"] == [0.5]
    assert len(config["grid"]["seed"]) == 5
    (config,) = plan_of("fig_unbalanced").sweeps.values()
    assert sorted(config["grid"]["balance"]) == [0.0, 0.5]
    (config,) = plan_of("fig4b").sweeps.values()
    assert config["grid"]["initial_size"] == [IMAGENET]


def test_pretrained_networks_are_fine_tuned_as_in_the_paper() -> None:
    """RMSProp with learning rate 1e-4, no weight decay, batches of 128, 10 epochs on all of CIFAR-10."""
    ((recipe, target),) = plan_of("fig4b").networks
    assert target.name == "cifar10"
    assert (recipe.optimizer, recipe.learning_rate, recipe.weight_decay) == ("rmsprop", 1e-4, 0.0)
    assert (recipe.momentum, recipe.batch_size, recipe.epochs) == (0.0, 128, 10)


def test_memorization_is_from_as_many_networks_everywhere() -> None:
    for name in PAPER:
        plan = plan_of(name)
        for config in plan.sweeps.values():
            settings = read_settings(config)
            scorer = settings.probe.find("memorization") if "memorization" in settings.grid.metric else None
            if scorer is not None and scorer.scores is None:
                assert scorer.options["members"] == 2000, name
        for scoring in plan.scorings.values():
            if "memorization" in scoring.metrics:
                assert scoring.options["members"] == 2000, name


def test_a_rehearsal_counts_the_networks_of_memorization() -> None:
    rehearsed = {part.part: part for part in rehearse(plan_of("fig3")) if part.role == "probe (memorization)"}
    assert rehearsed["imagenet"].trainings % 2000 == 0


def test_sizes_and_fractions_of_scaling() -> None:
    for name in ("fig1d", "fig3"):
        for config in plan_of(name).sweeps.values():
            grid = read_settings(config).grid
            whole = max(grid.initial_size)
            assert whole in WHOLE.values()
            assert [round(size / whole, 2) for size in sorted(grid.initial_size)] == [0.1, 0.2, 0.4, 0.6, 0.8, 1.0]
            assert sorted(grid.keep_fraction) == [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
