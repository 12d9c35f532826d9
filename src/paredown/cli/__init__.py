"""The command line: one file per family of verbs, each of which parses, calls public functions and shows the result."""

from __future__ import annotations

import sys
import traceback

# Each module registers its verbs with the app.
from paredown.cli import demo, embed, prune, reproduce, score, simulate, sweep, theory  # noqa: F401
from paredown.cli.app import app, error_console

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line; a user's mistake is one clear message and exit code 2, never a traceback."""
    from paredown.errors import PareError

    debug = "--debug" in sys.argv
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    try:
        app(args=arguments)
    except PareError as error:
        if debug:
            traceback.print_exc()
        error_console.print(f"[bold red]error:[/] {_escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        error_console.print("interrupted; nothing half-written was left behind")
        sys.exit(130)


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)
