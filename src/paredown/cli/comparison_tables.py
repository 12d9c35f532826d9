"""A comparison of metrics in a terminal of 80 columns, however many metrics there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from paredown.cli.terminal import Side, TextTable, compose, say
from paredown.comparison.comparison_verdicts import two_digits

if TYPE_CHECKING:
    from rich.text import Text

    from paredown.comparison import MetricComparison

_COLUMNS = 7  # correlations or percentiles side by side
_NAME = 24  # characters of a metric's name in front of them
_FRACTIONS = 5  # columns of overlaps
_PAIRS = 15  # rows of overlaps: all pairs of six metrics


def show_comparison(comparison: MetricComparison) -> None:
    """Print it all; the conclusions come last, where they are seen."""
    title = compose("Rank correlation (Spearman), {:,} examples", comparison.examples)
    _show_matrix(comparison, title, comparison.spearman, comparison.order)
    _show_corrected(comparison)
    _show_overlaps(comparison)
    _show_disputed(comparison)
    _show_costs(comparison)
    for note in comparison.notes:
        say("Note: {}", note)
    for sentence in comparison.conclusions:
        say("[bold]{}[/]", sentence)


def _show_matrix(comparison: MetricComparison, title: Text, matrix: Any, order: Sequence[int]) -> None:
    """A matrix whose columns are numbered as its rows are, a few columns at a time."""
    numbers = _numbers(comparison)
    for start in range(0, len(order), _COLUMNS):
        some = order[start : start + _COLUMNS]
        columns: dict[str, Side] = {"": "right", "metric": "left"}
        columns |= {str(numbers[place]): "right" for place in some}
        table = TextTable(title, columns, narrow=True)
        for row in order:
            cells = [_correlation(float(matrix[row, column]), own=row == column) for column in some]
            table.add(numbers[row], _short(comparison.metrics[row]), *cells)
        table.show()


def _numbers(comparison: MetricComparison) -> dict[int, int]:
    """Metrics are numbered from 1 on in the order of the clustering."""
    return {place: number for number, place in enumerate(comparison.order, 1)}


def _short(name: str, most: int = _NAME) -> str:
    return name if len(name) <= most else f"{name[: most // 2]}…{name[-(most - most // 2 - 1) :]}"


def _correlation(rho: float, *, own: bool) -> Text:
    if rho != rho:
        return compose("[dim]-[/]")
    text = two_digits(rho)
    if own:
        return compose("[dim]{}[/]", text)
    if rho >= 0.9:
        return compose("[bold green]{}[/]", text)
    if rho >= 0.7:
        return compose("[green]{}[/]", text)
    return compose("[yellow]{}[/]" if rho >= 0.4 else "[red]{}[/]", text)


def _show_corrected(comparison: MetricComparison) -> None:
    known = [place for place in comparison.order if (comparison.facts[place].reliability or 0) > 0]
    if len(known) < 2:
        return
    title = compose("Rank correlation corrected for attenuation, where both reliabilities are known")
    _show_matrix(comparison, title, comparison.corrected, known)
    say(
        "[dim]Corrected: divided by the root of both reliabilities, an estimate of the correlation of scores without "
        "noise. It is too high where two metrics were read off the same networks.[/]"
    )


def _show_overlaps(comparison: MetricComparison) -> None:
    fractions = comparison.keep_fractions
    step = max(1, -(-len(fractions) // _FRACTIONS))
    shown = list(range(0, len(fractions), step))
    middle = shown[len(shown) // 2]
    pairs = sorted(comparison.pairs, key=lambda pair: -comparison.overlaps[middle][pair])
    selection = comparison.selection
    floor = f", floor {selection['balance']:g} per label" if selection["balance"] else ""
    title = compose("Overlap in % of what two metrics keep (strategy {}{})", selection["strategy"], floor)
    columns: dict[str, Side] = {"keep_fraction": "left"}
    columns |= {f"{fractions[place]:g}": "right" for place in shown}
    table = TextTable(title, columns, narrow=True)
    table.add("chance", *(_percent(fractions[place]) for place in shown), style="dim")
    means = comparison.mean_overlaps
    table.add("mean of all pairs", *(_percent(means[place]) for place in shown), style="bold", end_section=True)
    few = pairs if len(pairs) <= _PAIRS else [*pairs[: _PAIRS // 2], *pairs[-(_PAIRS // 2) :]]
    for a, b in few:
        names = f"{_short(comparison.metrics[a], 23)}, {_short(comparison.metrics[b], 23)}"
        table.add(names, *(_percent(comparison.overlaps[place, a, b]) for place in shown))
    table.show()
    if len(few) < len(pairs):
        say("[dim]The {} highest and {} lowest of {} pairs; --json has all.[/]", *[_PAIRS // 2] * 2, len(pairs))


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def _show_disputed(comparison: MetricComparison) -> None:
    """Every metric's percentile; with many metrics, the lowest and the highest of them."""
    if not comparison.disputed:
        return
    order, numbers = comparison.order, _numbers(comparison)
    many = len(order) > _COLUMNS
    columns: dict[str, Side] = {"id": "left", "label": "left", "spread": "right"}
    columns |= {"lowest by": "left", "highest by": "left"} if many else {str(numbers[p]): "right" for p in order}
    title = compose("Where the metrics disagree most: percentile by each (100: the hardest)")
    table = TextTable(title, columns, narrow=True)
    for example in comparison.disputed:
        if many:
            by_percentile = sorted(order, key=example.percentiles.__getitem__)
            ends = (by_percentile[0], by_percentile[-1])
            cells = [f"{_percent(example.percentiles[p])} {_short(comparison.metrics[p], 13)}" for p in ends]
        else:
            cells = [_percent(example.percentiles[place]) for place in order]
        label = "-" if example.label is None else _short(example.label, 9)
        table.add(_short(str(example.id), 18), label, _percent(example.spread), *cells)
    table.show()
    numbered = "" if many else "Columns are numbered as the rows of the first table. "
    say("[dim]{}Spread: standard deviation of the percentiles.[/]", numbered)


def _show_costs(comparison: MetricComparison) -> None:
    columns: dict[str, Side] = {"metric": "left", "labels": "left", "networks": "right", "reliability": "right"}
    columns["cost by default"] = "left"
    table = TextTable(compose("What each metric costs"), columns, narrow=True)
    by_default = False
    for place in comparison.order:
        facts = comparison.facts[place]
        labels = "-" if facts.needs is None else "yes" if "labels" in facts.needs else "no"
        networks = f"{facts.networks}" if facts.networks is not None else "-"
        if facts.networks is None and facts.usual_networks is not None:
            by_default = by_default or facts.usual_networks > 0
            networks = f"({facts.usual_networks})" if facts.usual_networks else "0"
        reliability = "-" if facts.reliability is None else f"{facts.reliability:.2f}"
        table.add(_short(facts.name), labels, networks, reliability, facts.cost or "-")
    table.show()
    if by_default:
        say("[dim]Numbers in parentheses are defaults; these scores do not record the actual number.[/]")
