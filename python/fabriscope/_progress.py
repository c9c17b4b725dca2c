"""How far a long call is: a line on standard error where that is a terminal, or a function of the caller."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: How a caller hears of progress: True for a line on a terminal, None for that where standard error is one, False for nothing.
Progress = Callable[[int, int], None] | bool | None


class Line:
    """A line that says how many parts are done, and about how long the rest takes; shown from two seconds on."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._begun = time.monotonic()
        self._shown = False

    def __call__(self, done: int, all: int) -> None:
        gone = time.monotonic() - self._begun
        if gone < 2 and not self._shown:
            return
        left = f", about {spoken(gone / done * (all - done))} left" if 0 < done < all else ""
        sys.stderr.write(f"\r\x1b[K{self._what}: {done} of {all}{left}")
        sys.stderr.flush()
        self._shown = True

    def close(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False


@contextmanager
def heard(progress: Progress, what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Who hears of progress while a call goes on."""
    if callable(progress):
        yield progress
    elif progress or (progress is None and sys.stderr.isatty()):
        line = Line(what)
        try:
            yield line
        finally:
            line.close()
    else:
        yield None


def spoken(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
