"""Facts in words: one short line each, in the order in which people ask for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from paredown.display import shorten
from paredown.selection.strategies import DROPPING
from paredown.units import format_size

_SHOWN = 8  # values of a list


def fact_lines(facts: Mapping[str, Any]) -> dict[str, str]:
    """The lines that people see, by their headings; what is not known has none."""
    lines = {heading: text for heading, write in _LINES.items() if (text := write(facts))}
    metrics = facts.get("metrics", ())
    for each in metrics if len(metrics) > 1 else ():  # several are shown on a line each
        hardest, easiest = (", ".join(str(one["id"]) for one in each[end]) for end in ("hardest", "easiest"))
        lines[each["metric"]] = f"{_range(each)}; hardest {hardest}; easiest {easiest}"
    for number, text in enumerate(facts.get("warnings", ()), start=1):
        lines[f"warning {number}" if len(facts["warnings"]) > 1 else "warning"] = text
    if "complete" in facts:
        lines["state"] = "complete" if facts["complete"] else f"unfinished: {facts['advice']}"
    return lines


def _examples(facts: Mapping[str, Any]) -> str:
    groups = {"classes": "class", "clusters": "cluster"}
    counts = [_counted(facts[plural], one, plural) for plural, one in groups.items() if plural in facts]
    inside = f" in {counts[0]}" if counts else ""
    skipped = f"; {facts['skipped']:,} unreadable ones left out" if "skipped" in facts else ""
    return f"{facts['examples']:,}{inside}{skipped}" if "examples" in facts else ""


def _counted(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


def _dimensions(facts: Mapping[str, Any]) -> str:
    kind = f", {facts['dtype']}" if "dtype" in facts else ""
    return f"{facts['dimensions']:,}{kind}" if "dimensions" in facts else ""


def _kept(facts: Mapping[str, Any]) -> str:
    kept = facts.get("kept")
    if kept is None:
        return ""
    how = [str(kept["strategy"])] if "strategy" in kept else []
    per = {"label": "class"}.get(kept.get("grouped_by", ""), kept.get("grouped_by"))
    if per and kept.get("quota", "none") != "none":
        how.append(f"{kept['quota']} quota per {per}")
    elif per and kept.get("balance"):
        how.append(f"floor {kept['balance']:g} per {per}")
    if kept.get("drop_hardest") and kept.get("strategy") in DROPPING:
        how.append(f"without the hardest {kept['drop_hardest']:.3g} of all")
    if kept.get("mix_random"):
        how.append(f"{kept['mix_random']:.3g} of them at random")
    share = kept["kept"] / max(1, facts["examples"])
    return f"{kept['kept']:,} ({100 * share:.4g} %)" + (f": {', '.join(how)}" if how else "")


def _balance(facts: Mapping[str, Any]) -> str:
    found = facts.get("balance_score") or {}
    after = f" before, {found['after']:.3f} after" if "after" in found else ""
    return f"{found['before']:.3f}{after}" if "before" in found else ""


def _range(scores: Mapping[str, Any]) -> str:
    return f"{scores['lowest']:.4g} to {scores['highest']:.4g}, median {scores['median']:.4g}"


def _scores(facts: Mapping[str, Any]) -> str:
    metrics = facts.get("metrics", ())
    if len(metrics) > 1:
        return f"{len(metrics)} metrics: {', '.join(each['metric'] for each in metrics)}"
    return f"{metrics[0]['metric']}: {_range(metrics[0])}" if metrics else ""


def _extremes(end: str, facts: Mapping[str, Any]) -> str:
    metrics = facts.get("metrics", ())
    found = metrics[0][end] if len(metrics) == 1 else ()
    return ", ".join(f"{each['id']} ({each['score']:.4g})" for each in found)


def _fitted(facts: Mapping[str, Any]) -> str:
    options = [f"{name} {value}" for name, value in facts.get("options", {}).items() if name != "memory"]
    centroids = [f"{facts['centroids']:,} centroids"] if "centroids" in facts else []
    return ", ".join([*centroids, *options])


def _recorded(facts: Mapping[str, Any]) -> str:
    if "epochs" not in facts:
        return ""
    fewest, most = facts["observations"]
    unseen = f"; {facts['unseen']:,} examples were never seen" if "unseen" in facts else ""
    trained = f"{_counted(facts['epochs'], 'epoch', 'epochs')} of {_counted(facts['members'], 'member', 'members')}"
    return f"{trained}, {fewest} to {most} observations of each example{unseen}"


def _parts(facts: Mapping[str, Any]) -> str:
    parts = facts.get("parts")
    if parts is None:
        return ""
    of = f" of {parts['of']:,}" if "of" in parts else ""
    failed = f", {facts['failed']:,} of them failed" if "failed" in facts else ""
    what = parts["what"].removesuffix("s") if (parts["done"], of) == (1, "") else parts["what"]
    return f"{parts['done']:,}{of} {what}{'' if facts.get('complete') else ' done'}{failed}"


def _grid(facts: Mapping[str, Any]) -> str:
    grid = {name: values for name, values in facts.get("grid", {}).items() if values}
    values_of = "; ".join(f"{name} {shorten(values, _SHOWN)}" for name, values in grid.items())
    return values_of if facts.get("complete") or not grid else f"so far {values_of}"


def _figures(facts: Mapping[str, Any]) -> str:
    claims = ", ".join(f"{number} {verdict}" for verdict, number in facts.get("claims", {}).items())
    size = f" at size {facts['size']}" if "size" in facts else ""
    said = f"; claims: {claims}" if claims else ""
    return f"{len(facts['figures'])}{size} ({shorten(facts['figures'], _SHOWN)}){said}" if facts.get("figures") else ""


def _files(facts: Mapping[str, Any]) -> str:
    form = f"{facts['form']}, " if "form" in facts else ""
    files = facts.get("files")
    return f"{form}{_counted(files['number'], 'file', 'files')}, {format_size(files['bytes'])}" if files else ""


def _place(source: Mapping[str, Any]) -> str:
    kind = f" ({source['kind']})" if "kind" in source else ""
    if source["state"] == "in memory":
        return "an array in memory"
    state = {"missing": ", which is not there any more", "present": ""}.get(source["state"], "")
    if source["state"] == "modified":
        state = f", modified later, at {_time(source['modified'])}"
    images = f"; embeddings of {_place(source['images'])}" if "images" in source else ""
    return f"{source['location']}{kind}{state}{images}"


def _made(facts: Mapping[str, Any]) -> str:
    version = f"paredown {facts['paredown']}" if facts.get("paredown") else ""
    seed = f"seed {facts['seed']}" if "seed" in facts else ""
    return ", ".join(filter(None, [version, _time(facts["written"]) if "written" in facts else "", seed]))


def _time(text: str) -> str:
    return f"{text[:10]} {text[11:16]} UTC"


_LINES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "examples": _examples,
    "dimensions": _dimensions,
    "encoder": lambda facts: str(facts.get("encoder", "")),
    "kept": _kept,
    "balance b": _balance,
    "metric": lambda facts: str(facts.get("metric", "")),
    "scores": _scores,
    "hardest": partial(_extremes, "hardest"),
    "easiest": partial(_extremes, "easiest"),
    "fitted": _fitted,
    "recorded": _recorded,
    "parts": _parts,
    "grid": _grid,
    "figures": _figures,
    "files": _files,
    "source": lambda facts: _place(facts["source"]) if "source" in facts else "",
    "made by": _made,
}
