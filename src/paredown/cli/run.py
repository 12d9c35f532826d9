"""Run a verb. Whatever ends it, there is one clear message, and an exit code that a script can rely on."""

from __future__ import annotations

import errno
import os
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import typer

# Each module registers its verbs with the app.
from paredown.cli import (  # noqa: F401
    compare_command,
    demo_command,
    embed_command,
    info_command,
    plan_command,
    prune_command,
    report_command,
    reproduce_command,
    score_command,
    simulate_command,
    sweep_command,
    theory_command,
    verify_command,
)
from paredown.cli.announced_outputs import current, starts_over
from paredown.cli.app import app, as_option, near_options
from paredown.cli.terminal import aside, encode_all, flush
from paredown.errors import PareError
from paredown.workers import DEBUG

__all__ = ["BUG", "MISTAKE", "app", "run"]

MISTAKE = 2  # the user can fix it: the command, a file, the memory or the disk
BUG = 70  # as in sysexits.h; docs/command-line.md lists all codes

_UsageError: Any = typer.BadParameter.__base__  # typer brings its own click, or takes the installed one
_FULL_DISK = (errno.ENOSPC, errno.EDQUOT)


def run(arguments: list[str], *, debug: bool = False, interrupted: Callable[[], bool] = lambda: False) -> int:
    """Run the command line and return its exit code.

    Args:
        arguments: of the command line, without `--debug`.
        debug: show the traceback of an error.
        interrupted: whether a signal came, after which errors are left to the caller.
    """
    encode_all()
    starts_over()
    if debug:
        os.environ[DEBUG] = "1"
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code = app(args=arguments, standalone_mode=False)
        flush()
    except _UsageError as error:
        _explain_usage(error)
        return MISTAKE
    except Exception as error:
        if interrupted():  # such as an import that was cut short
            raise
        if debug:
            for line in traceback.format_exc().splitlines():
                aside("{}", line)
        return _explain(error)
    except SystemExit as stop:  # rich and typer leave like this where nobody reads what they print
        return 0 if isinstance(stop.__context__, BrokenPipeError) else int(stop.code or 0)
    return code if isinstance(code, int) else 0


def _explain(error: Exception) -> int:
    if isinstance(error, PareError):
        _complain(error.with_arguments(as_option))
    elif isinstance(error, OSError) and error.errno in _FULL_DISK:
        what = f"cannot write {current.named()}: the disk is full" if current.named() else "the disk is full"
        _complain(f"{what}. Free some space, or choose another output with -o.")
    elif _is_out_of_memory(error):
        what = f"to make {current.named()}" if current.named() else "for this"
        _complain(f"there is not enough memory {what}. Close other programs, or use less data or a smaller --memory.")
    elif isinstance(error, OSError):
        what = "" if error.filename is None else f"{error.filename}: "
        _complain(f"{what}{error.strerror or error}.")
    else:
        aside(
            "[bold red]internal error:[/] {}: {}\n"
            "This is a bug in paredown. Please report it, including the output with --debug.",
            type(error).__name__,
            error,
        )
        return BUG
    return MISTAKE


def _complain(message: object) -> None:
    aside("[bold red]error:[/] {}", message)


def _is_out_of_memory(error: BaseException) -> bool:
    """Of Python and numpy; torch and ONNX Runtime have no class of errors for it on a processor."""
    said = str(error).lower()
    torch = isinstance(error, RuntimeError) and ("allocate memory" in said or "out of memory" in said)
    return isinstance(error, MemoryError) or torch


def _explain_usage(error: Any) -> None:
    message = error.format_message()
    if not message:  # the help, which is printed already
        return
    if hasattr(error, "possibilities"):  # an unknown option
        known = [option for param in error.ctx.command.params for option in param.opts]
        near = near_options(error.option_name, known)
        message = f"no such option: {error.option_name}." + (f" Did you mean {' or '.join(near)}?" if near else "")
    elif hasattr(error.__cause__, "errors"):  # of pydantic, which typer reads values with: without what was given
        found = error.__cause__.errors()[0]
        wanted = {"int_parsing": "a whole number", "float_parsing": "a number"}.get(found["type"], "of another kind")
        message = f"{error.param.opts[-1]} must be {wanted}, got {found['input']!r}."
    if error.ctx is not None:
        aside("{}", error.ctx.get_usage())
        aside("[dim]Try '{} {}' for help.[/]", error.ctx.command_path, error.ctx.help_option_names[0])
    _complain(message[:1].lower() + message[1:])


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning of a library, whose text may quote data."""
    aside("[yellow]Warning:[/] {}", message)
