"""The command line: one file per family of verbs, each of which parses, calls public functions and shows the result."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with its code."""
    from paredown.cli.run import run

    sys.exit(run([a for a in sys.argv[1:] if a != "--debug"], debug="--debug" in sys.argv))
