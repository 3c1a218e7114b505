# SPDX-License-Identifier: Apache-2.0

"""A progress bar of the benchmark, on terminals only. Main thread."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any, TextIO

_UNITS = 100


class Progress:
    """A progress bar, if tqdm is installed and ``out`` is a terminal; else no bar. Main thread.

    :param runs: number of runs
    :param seconds: expected duration of a run
    :param out: stream to which the bar goes; None: standard error
    """

    def __init__(self, runs: int, seconds: float, out: TextIO | None = None) -> None:
        self._seconds = max(0.1, seconds)
        self._bar = self._made(runs, sys.stderr if out is None else out)
        self._done = 0
        self._since = 0.0

    @staticmethod
    def _made(runs: int, out: TextIO) -> Any:
        if not out.isatty():
            return None
        try:
            from tqdm import tqdm
        except ImportError:
            return None
        form = "{percentage:3.0f}% |{bar}| {elapsed}, about {remaining} left  {desc}"
        return tqdm(total=runs * _UNITS, file=out, bar_format=form, leave=False)

    @contextlib.contextmanager
    def running(self, what: str) -> Iterator[None]:
        """Show a run on the bar; the run lasts as long as the ``with`` block."""
        self.begin(what)
        yield
        self.end()

    def begin(self, what: str) -> None:
        """Begin a run, and show ``what`` beside the bar."""
        self._since = time.monotonic()
        if self._bar is not None:
            self._bar.set_description_str(what)

    def tick(self) -> None:
        """Move the bar by the time since the run began."""
        if self._bar is not None:
            share = min(0.99, (time.monotonic() - self._since) / self._seconds)
            self._show(self._done + int(share * _UNITS))

    def end(self) -> None:
        """End the run, and move the bar to its end."""
        self._done += _UNITS
        if self._bar is not None:
            self._show(self._done)

    def write(self, text: str) -> None:
        """Print lines to standard output, above the bar."""
        if self._bar is None:
            print(text, flush=True)
        else:
            self._bar.write(text, file=sys.stdout)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()

    def _show(self, units: int) -> None:
        self._bar.n = units
        self._bar.refresh()
