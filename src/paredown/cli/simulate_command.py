"""`paredown simulate`: the teacher-student experiment, compared with the theory."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paredown.cli.app import JsonOption, advanced_option, app, scale_option, selection_option, training_option
from paredown.cli.terminal import emit, progress_bar, say
from paredown.cli.theory_command import explain_units
from paredown.errors import PareError

if TYPE_CHECKING:
    from paredown.perceptron import Simulation

EXAMPLE = "Example: `paredown simulate --alpha-prune 2 --keep-fraction 0.5 --theta 10 --draws 100 --seed 0`"


@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """The arguments of `paredown.perceptron.simulate`."""

    alpha_prune: Annotated[float, typer.Option(help="Kept examples per feature.")]
    keep_fraction: Annotated[
        float | None,
        selection_option("F", "Fraction of the examples kept, in (0, 1].", show_default="1, or all in the window"),
    ] = None
    theta: Annotated[
        float | None,
        typer.Option(metavar="DEGREES", help="Angle between probe and teacher, 0 to 90.", show_default="0"),
    ] = None
    strategy: Annotated[str, selection_option("NAME", "Which examples to keep: {simulated_strategies}.")] = "hard"
    window: Annotated[
        tuple[float, float] | None, selection_option("A B", "With --strategy window: keep A < |z| < B.")
    ] = None
    n_features: Annotated[int, typer.Option(help="Number of features N.")] = 200
    draws: Annotated[int, scale_option("N", "Independent draws to average over.")] = 100
    seed: Annotated[int, advanced_option("N", "The same seed gives the same result on any number of cores.")] = 0
    probe: Annotated[str, training_option("NAME", "Where the probe comes from:\n{probes}\n")] = "angle"
    probe_epochs: Annotated[int, training_option("N", "Epochs of a trained probe.")] = 1
    hardness: Annotated[str, selection_option("NAME", "What the examples are ranked by:\n{hardness}\n")] = "field"
    workers: Annotated[int | None, scale_option("N", "Processes.", show_default="one per core")] = None


@app.command(epilog=EXAMPLE)
def simulate(options: SimulationOptions, as_json: JsonOption = False) -> None:
    """Simulate pruning for a perceptron: teacher, probe, pruned data, exact max-margin student."""
    from paredown.perceptron import simulate as run

    simulation = run(**vars(options), track=progress_bar)
    theory = _theory_error(simulation)
    emit(_as_dict(simulation, theory), as_json=as_json, show=lambda: _show(simulation, theory))


def _theory_error(simulation: Simulation) -> float | None:
    """The theory's test error at the same point; None where there is no theory for it."""
    setting = simulation.setting
    if setting.hardness == "margin" and setting.strategy != "random" and simulation.theta > 0:
        return None  # the theory keeps examples by |z|
    try:
        from paredown import theory

        if setting.strategy == "random":  # a random subset is a smaller dataset without pruning
            return float(theory.solve(alpha_prune=setting.alpha_prune, keep_fraction=1.0).test_error)
        return float(
            theory.solve(
                alpha_prune=setting.alpha_prune,
                keep_fraction=None if setting.window else setting.keep_fraction,
                theta=simulation.theta,
                strategy=setting.strategy,
                window=setting.window,
            ).test_error
        )
    except (ImportError, PareError):
        return None


def _z_score(simulation: Simulation, theory: float | None) -> float | None:
    """How many standard errors the simulation lies above the theory."""
    if theory is None or not simulation.stderr > 0:
        return None
    return (simulation.test_error - theory) / simulation.stderr


def _as_dict(simulation: Simulation, theory: float | None) -> dict[str, Any]:
    setting, count = simulation.setting, len(simulation.draws)
    means = {name: simulation.mean(name) for name in ("R", "rho", "kappa", "theta", "n_support", "seconds")}
    return {
        **asdict(setting),
        "n_total": setting.n_total,
        "n_kept": setting.n_kept,
        "draws": count,
        "seed": simulation.seed,
        "test_error": simulation.test_error,
        "stderr": simulation.stderr if count > 1 else None,
        **means,
        "theory_test_error": theory,
        "z_score": _z_score(simulation, theory),
    }


def _show(simulation: Simulation, theory: float | None) -> None:
    for sentence in _sentences(simulation, theory):
        say("{}", sentence)
    explain_units("alpha_prune", simulation.setting.alpha_prune)


def _sentences(simulation: Simulation, theory: float | None) -> list[str]:
    setting, count = simulation.setting, len(simulation.draws)
    spread = f" ± {simulation.stderr:.1g} (standard error over {count} draws)" if count > 1 else " (one draw)"
    blind = setting.keep_fraction == 1 or setting.strategy == "random"
    ranked = "" if blind else f", ranked by a probe {simulation.theta:.3g} degrees off the teacher"
    kept = f"{_STRATEGY_WORDS[setting.strategy]} {setting.n_kept} of {setting.n_total}"
    lines = [
        f"Test error {simulation.test_error:.5f}{spread}, keeping {kept} examples in {setting.n_features} dimensions"
        f"{ranked}; overlap R = {simulation.R:.5f}, margin kappa = {simulation.kappa:.5f}."
    ]
    z = _z_score(simulation, theory)
    if theory is not None:
        away = "" if z is None else f", {abs(z):.1f} standard errors {'below' if z > 0 else 'above'} the simulation"
        trained = " It assumes a probe that is independent of the examples." if setting.probe == "trained" else ""
        lines.append(f"Theory, for infinitely many dimensions: {theory:.5f}{away}.{trained}")
    return lines


_STRATEGY_WORDS = {"hard": "the hardest", "easy": "the easiest", "window": "a window of", "random": "any"}
