"""`paredown theory`: what the theory of data pruning predicts, on one line."""

from __future__ import annotations

from math import isclose
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paredown.cli.app import JsonOption, advanced_option, app, selection_option
from paredown.cli.terminal import emit, say
from paredown.errors import PareError

if TYPE_CHECKING:
    from paredown.theory import Solution

_SAME = 1e-6  # of the errors of both ends, by which they differ at most where there is no better one

_EXAMPLES = """What test error does the theory predict for a pruned training set, and how much should be kept?

The theory describes a perceptron with many weights. alpha is the number of training examples per weight; theta is the
angle in degrees between the probe that scores the examples and the true classifier (0: perfect scores, 90: random).

With 10 examples per weight and a probe 20 degrees off, what error if I keep the 30 % hardest?

    paredown theory --alpha-tot 10 --theta 20 --keep-fraction 0.3

How much should I keep?

    paredown theory --alpha-tot 10 --theta 20
"""


@app.command(help=_EXAMPLES)
def theory(
    alpha_tot: Annotated[float | None, typer.Option(help="Examples per weight before pruning.")] = None,
    alpha_prune: Annotated[float | None, typer.Option(help="Kept examples per weight; instead of --alpha-tot.")] = None,
    theta: Annotated[float, typer.Option(metavar="DEGREES", help="Angle between probe and teacher, 0 to 90.")] = 0.0,
    keep_fraction: Annotated[
        float | None,
        selection_option("F", "Fraction of examples kept, in (0, 1].", show_default="asks how much to keep"),
    ] = None,
    strategy: Annotated[
        str | None,
        selection_option("NAME", "Which examples to keep: {theory_strategies}.", show_default="hard, or window"),
    ] = None,
    window: Annotated[
        tuple[float, float] | None, selection_option("A B", "Keep A < |z| < B, z the probe's field.")
    ] = None,
    min_keep_fraction: Annotated[
        float | None, advanced_option("F", "Smallest fraction to consider when asking how much to keep.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Answer one question and compare with random pruning, no pruning, and keeping the other end."""
    from paredown.theory import best_keep_fraction, solve

    if (alpha_tot is None) == (alpha_prune is None):
        raise PareError("give either --alpha-tot (examples per weight before pruning) or --alpha-prune (after it).")
    how_much = keep_fraction is None and window is None and strategy != "random"
    if how_much:
        end = strategy or "hard"
        if end not in ("hard", "easy"):
            raise PareError(f"how much to keep is answered for --strategy hard or easy, got {end!r}.")
        best = best_keep_fraction(
            alpha_tot=alpha_tot, alpha_prune=alpha_prune, theta=theta, strategy=end, min_keep_fraction=min_keep_fraction
        )
        if best.keep_fraction == 0:
            raise PareError(
                "with a perfect probe and alpha_prune >= 2 the error falls to zero as ever fewer examples are kept; "
                "give --min-keep-fraction, or --alpha-tot if the data are limited."
            )
        keep_fraction = best.keep_fraction
    elif min_keep_fraction is not None:
        raise PareError("--min-keep-fraction only applies when asking how much to keep; leave --keep-fraction out.")
    solution = solve(alpha_prune, keep_fraction, alpha_tot=alpha_tot, theta=theta, strategy=strategy, window=window)
    answer = _answer(solution, how_much)
    emit(answer, as_json=as_json, show=lambda: _show(answer))


def explain_units(name: str, alpha: float) -> None:
    """Say in one line what alpha and the angle of a probe mean for real data."""
    say(
        "For your data: {} = {:g} is the number of examples per feature of a linear model ({:,} examples for 512 "
        "features); a probe 0 degrees off ranks examples perfectly, one 90 degrees off at random.",
        name,
        alpha,
        round(512 * alpha),
    )


def _show(answer: dict[str, Any]) -> None:
    say("{}", _sentence(answer))
    explain_units("alpha_tot", float(f"{answer['alpha_tot']:.4g}"))


def _answer(solution: Solution, how_much: bool) -> dict[str, Any]:
    from paredown.theory import better_strategy, solve

    better = better_strategy(solution.alpha_tot, solution.keep_fraction, theta=solution.theta)
    of_solution = lambda *names: {name: getattr(solution, name) for name in names}
    return {
        "question": "how much to keep" if how_much else "what error",
        "strategy": solution.strategy,
        "window": None if solution.strategy != "window" else list(solution.window),
        **of_solution("keep_fraction", "alpha_tot", "alpha_prune", "theta", "test_error"),
        "random_error": solve(solution.alpha_prune, 1.0).test_error,
        "unpruned_error": solve(solution.alpha_tot, 1.0).test_error,
        "better_end": None if isclose(better.hard_error, better.easy_error, rel_tol=_SAME) else str(better),
        "hard_error": better.hard_error,
        "easy_error": better.easy_error,
        **of_solution("R", "rho", "kappa", "residual"),
    }


def _sentence(answer: dict[str, Any]) -> str:
    share = f"{100 * answer['keep_fraction']:.3g} %"
    kept = {
        "hard": f"the {share} hardest",
        "easy": f"the {share} easiest",
        "random": f"a random {share}",
        "window": f"the {share} in the window",
    }[answer["strategy"]]
    size = f"of alpha_tot = {answer['alpha_tot']:.4g} (alpha_prune = {answer['alpha_prune']:.4g})"
    probe = f"with a probe {answer['theta']:g} degrees off"
    error = f"{answer['test_error']:.4g}"
    how_much = answer["question"] == "how much to keep"
    verb, then = ("Keep", ": test error") if how_much else ("Keeping", " gives test error")
    first = f"{verb} {kept} {size} {probe}{then} {error}"
    ends = (
        f"keeping the hard end and keeping the easy end give the same error ({answer['hard_error']:.4g})"
        if answer["better_end"] is None
        else f"keeping the {answer['better_end']} end is better (hard {answer['hard_error']:.4g}, easy "
        f"{answer['easy_error']:.4g})"
    )
    return (
        f"{first}, compared with {answer['random_error']:.4g} for as many random examples and "
        f"{answer['unpruned_error']:.4g} without pruning; {ends}."
    )
