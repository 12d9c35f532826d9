"""The typer application every verb registers with: how options are grouped, shown and suggested."""

from __future__ import annotations

import inspect
from ast import literal_eval
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from paredown.cli.choices import fill_choices
from paredown.cli.terminal import say
from paredown.errors import PareError
from paredown.metrics import OWN_FLAGS
from paredown.places import as_place
from paredown.text import quoted
from paredown.version import __version__

# The groups of options (`rich_help_panel`) in the order in which they are shown; those without one are basics.
_PANELS = ("Basics", "Selection", "Metric", "Training", "Input", "Scale", "Advanced")

# As one comes to need them; others follow.
_ORDER = (
    *("demo", "embed", "score", "merge", "plan", "compare", "prune", "export", "report", "info", "sweep"),
    *("theory", "simulate", "reproduce", "verify", "clean"),
)

# What stands for the value of an option, by its type, where the option does not say.
_METAVARS = {int: "N", float: "NUMBER", str: "NAME", Path: "PATH"}

# What people type who know other tools: word -> option.
_ALIASES = {
    "clusters": "--k",
    "force": "--overwrite",
    "format": "--to",
    "fraction": "--keep-fraction",
    "output": "--out",
    "random-state": "--seed",
}


# Arguments of Python functions whose option has another name.
_OPTION_OF = {"columns": "--column", "out": "-o", "start": "--warm-start"}


class _TidyHelp:
    """A command whose help lists the choices of the registries, its groups in one order, and flags without a type."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
            if isinstance(self, _Verb) and getattr(param, "rich_help_panel", "") is None:
                param.rich_help_panel = _PANELS[0]
            if param.param_type_name == "argument":
                param.rich_help_panel = None
                param.display_type_rich = lambda ctx: None  # its name and help say enough
        return sorted(params, key=_panel_number)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for param in self.get_params(ctx):
            if getattr(param, "help", None):
                param.help = fill_choices(param.help)
        super().format_help(ctx, formatter)  # type: ignore[misc]


class _Verb(_TidyHelp, TyperCommand):
    pass


class _Verbs(_TidyHelp, TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(
            super().list_commands(ctx), key=lambda verb: _ORDER.index(verb) if verb in _ORDER else len(_ORDER)
        )


class _App(typer.Typer):
    def command(self, *arguments: Any, **settings: Any) -> Callable[[Any], Any]:
        register = super().command(*arguments, **{"cls": _Verb, **settings})
        return lambda function: register(_expanded(function))


app = _App(
    name="paredown",
    cls=_Verbs,
    help="Pare a training set down to the examples worth training on.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
    epilog="Example: `paredown prune embeddings.npy --keep-fraction 0.8 -o pruned`",
)

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]
OutFolder = Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Folder to write.", show_default=False)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing output.")]


def _options_in(panel: str) -> Callable[..., Any]:
    """`typer.Option` of one group of the help: what stands for its value (none for a flag), and what it is for."""

    def option(metavar: str | None, text: str, *names: str, **settings: Any) -> Any:
        return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel, **settings)

    return option


selection_option, metric_option, training_option, input_option, scale_option, advanced_option = map(
    _options_in, _PANELS[1:]
)


def positional(metavar: str, text: str) -> Any:
    """`typer.Argument`: its name in the help, and what it is."""
    return typer.Argument(metavar=metavar, help=text, show_default=False)


def as_option(name: str, value: str | None) -> str:
    """An argument of a Python function, with its value as Python writes it, as an option of the command line."""
    option = _OPTION_OF.get(name, f"--{name.replace('_', '-')}")
    given = None if value is None else literal_eval(value)
    if _is_of_metric(name):
        written = str(given).lower() if isinstance(given, bool) else given
        return f"--option {name}" if given is None or given is ... else f"--option {quoted(f'{name}={written}')}"
    if given is None or given is True or given is ...:
        return option
    if name == "column":  # of imported scores
        return f"{option} score={given}"
    if isinstance(given, dict):
        return " ".join(f"{option} {key}={item}" for key, item in given.items())
    return f"{option} {quoted(given)}"


def _is_of_metric(name: str) -> bool:
    """Whether a name is that of an option of metrics that is no option of the verbs."""
    from paredown.metrics.registry import METRICS

    return name not in OWN_FLAGS and any(name in entry.options for entry in METRICS.values())


def near_options(given: str, known: Iterable[str]) -> list[str]:
    """The options that someone who typed an unknown one may have meant."""
    options = [option for option in known if option.startswith("--")]
    if _ALIASES.get(given.lstrip("-")) in options:
        return [_ALIASES[given.lstrip("-")]]
    begun = [option for option in options if option.startswith(given)]
    return begun or get_close_matches(given, options, n=1)


def _expanded(function: Callable[..., None]) -> Callable[..., None]:
    """A verb whose parameters that are dataclasses became their fields: options that several verbs share."""
    hints = {name: _placed(hint) for name, hint in get_type_hints(function, include_extras=True).items()}
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in groups:
            parameters += _parameters(groups[name])
        else:
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints[name]))

    for parameter in parameters:
        kind, described, *_ = get_args(parameter.annotation)
        if isinstance(described, typer.models.OptionInfo) and described.metavar is None:
            described.metavar = _METAVARS.get((get_args(kind) or (kind,))[0])

    @wraps(function)
    def verb(**values: Any) -> None:
        made = {name: group(**{f.name: values.pop(f.name) for f in fields(group)}) for name, group in groups.items()}
        function(**values, **made)

    verb.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    verb.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return verb


def _parameters(group: Any) -> list[inspect.Parameter]:
    hints = {name: _placed(hint) for name, hint in get_type_hints(group, include_extras=True).items()}
    empty, kind = inspect.Parameter.empty, inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(f.name, kind, default=empty if f.default is MISSING else f.default, annotation=hints[f.name])
        for f in fields(group)
    ]


def _placed(hint: Any) -> Any:
    """A parameter for paths as one for places, `s3://bucket/folder` among them, of which `Path` would make another."""
    if get_origin(hint) is not Annotated or not hint.__metadata__:
        return hint
    kind, info = hint.__origin__, hint.__metadata__[0]
    swapped = {Path: str, Path | None: str | None, list[Path]: list[str]}.get(kind)
    if swapped is None:
        return hint
    info = copy(info)
    info.parser = _place
    info.metavar = info.metavar or "PATH"
    return Annotated[swapped, info]


def _place(given: str) -> Path:
    try:
        return as_place(given)
    except PareError as error:  # a ValueError, of which only the value would be told
        raise typer.BadParameter(error.message) from None


def _panel_number(param: Any) -> int:
    panel = getattr(param, "rich_help_panel", None)
    return _PANELS.index(panel) if panel in _PANELS else -1


def _print_version(wanted: bool) -> None:
    if wanted:
        say("{}", __version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback behind an error.")] = False,
) -> None:
    """Pare a training set down to the examples worth training on."""
