"""Ctrl-C and SIGTERM at any moment: everything is unwound, one line says what is saved, and the exit code says why.

Imported before anything else of the command line, so it imports next to nothing.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

_HANDLED = ("SIGINT", "SIGTERM", "SIGHUP")  # the last one when a terminal is closed; Windows has none
_AGAIN_AFTER = 0.01  # seconds until a signal is sent again whose exception was raised where Python drops exceptions
_ONE_REQUEST = 0.1  # seconds in which signals are one: `timeout` sends its own to the process, and then to its group


class Interrupted(BaseException):
    """A signal asked this process to end."""


class Signals:
    """Ends the command line on a signal by raising `Interrupted` in it, and at once on a second one.

    Handlers stay until the process has ended: the one who asks during the last milliseconds should not see a traceback.
    """

    def __init__(self) -> None:
        self.number: int | None = None  # the signal that came
        self.over = False  # nothing is left to be interrupted
        self._received = 0.0  # when it did
        self._lost = False  # the exception was dropped
        self._sent_again = 0

    def watch(self) -> None:
        """Take the signals over, unless whoever started this process had them ignored (`nohup`), or in a thread."""
        if threading.current_thread() is not threading.main_thread():
            return
        for name in _HANDLED:
            if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) != signal.SIG_IGN:
                signal.signal(getattr(signal, name), self._receive)
        # Python calls handlers between two steps of the interpreter only. In the middle of a long computation it is
        # this thread that sees a second signal.
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        threading.Thread(target=self._count, args=(reading,), daemon=True).start()
        sys.unraisablehook = self._instead_of(sys.unraisablehook, self._find_lost)
        sys.excepthook = self._instead_of(sys.excepthook)
        threading.excepthook = self._instead_of(threading.excepthook)

    def came(self) -> bool:
        """Whether this process was asked to end: what goes wrong from then on is no news."""
        return self.number is not None

    def run(self, work: Callable[[], int], explain: Callable[[], str]) -> int:
        """The exit code of `work`, or that of the signal that ended it, once `explain` said what is left of it."""
        try:
            code = work()
        except BaseException:
            if self.number is None:  # else whatever was made of `Interrupted` on its way
                raise
            code = 0
        self.over = True
        if self.number is None:
            return code
        gc.collect()  # generators that clear their progress bars and stop their threads
        _write_line(f"interrupted; {explain()}")
        return 128 + self.number

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._lost:
            self._lost = False
            raise Interrupted
        if self.number is not None:
            if time.monotonic() - self._received > _ONE_REQUEST:
                _end_now(number)
            return
        if not self.over:
            self.number, self._received = number, time.monotonic()
            raise Interrupted

    def _count(self, reading: int) -> None:
        seen, first = 0, 0.0
        while numbers := os.read(reading, 64):
            handled = {int(getattr(signal, name)) for name in _HANDLED if hasattr(signal, name)}
            for number in handled.intersection(numbers):
                again = seen - self._sent_again > 0
                if again and time.monotonic() - first > _ONE_REQUEST:
                    _end_now(number)
                if not again:
                    first = time.monotonic()
                    seen += 1

    def _find_lost(self, unraisable: Any) -> None:
        """Python drops exceptions in destructors and callbacks of C: the signal must come again."""
        if isinstance(unraisable.exc_value, Interrupted) and not self.over and self.number is not None:
            self._lost = True
            self._sent_again += 1
            threading.Timer(_AGAIN_AFTER, signal.raise_signal, [self.number]).start()

    def _instead_of(self, hook: Any, also: Callable[[Any], None] = lambda *_: None) -> Any:
        """A hook that prints tracebacks only as long as nobody asked this process to end."""

        def quietly(*arguments: Any) -> None:
            if self.number is None:
                hook(*arguments)
            else:
                also(*arguments)

        return quietly


def _end_now(number: int) -> None:
    """End without unwinding; workers notice that their parent is gone."""
    if os.isatty(2):
        os.write(2, b"\x1b[?25h\n")  # a progress bar hides the cursor
    os._exit(128 + number)


def _write_line(line: str) -> None:
    from paredown.text import encodable

    try:
        sys.stderr.write(("\n" if os.isatty(2) else "") + encodable(line) + "\n")  # a terminal shows ^C before it
        sys.stderr.flush()
    except OSError:  # the terminal is gone
        pass
