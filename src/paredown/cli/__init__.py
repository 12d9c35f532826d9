"""The command line: one file per family of verbs, each of which parses, calls public functions and shows the result.

This file is what the command `paredown` imports first: it takes the signals over before anything that takes time.
"""

from __future__ import annotations

import sys

from paredown.cli.signals import Signals

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with its code."""
    signals = Signals()
    signals.watch()

    def work() -> int:
        from paredown.cli.run import run

        arguments = [a for a in sys.argv[1:] if a != "--debug"]
        return run(arguments, debug="--debug" in sys.argv, interrupted=signals.came)

    sys.exit(signals.run(work, _left))


def _left() -> str:
    from paredown.cli.announced_outputs import current

    return current.left()
