# SPDX-License-Identifier: Apache-2.0

"""A table that grows line by line, for commands that show what they do. Main thread."""

from __future__ import annotations

import os
import sys
from typing import TextIO

_GREEN, _RED, _DIM, _BOLD, _OFF = "\x1b[32m", "\x1b[31m", "\x1b[2m", "\x1b[1m", "\x1b[0m"
_MARGIN = 38


class Table:
    """Steps with their verdict, latency in milliseconds and what happened.

    Colours appear on terminals only, and not if NO_COLOR is set. Main thread.

    :param out: where to write; standard output unless given
    """

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = sys.stdout if out is None else out
        self._colours = self._out.isatty() and not os.environ.get("NO_COLOR")

    def head(self) -> None:
        """Write the names of the columns."""
        self._write(self._painted(f"{'':6} {'step':20} {'ms':>8}  what happened", _BOLD))

    def row(self, name: str, ok: bool | None, seconds: float | None, details: list[str]) -> None:
        """Write one step; ``ok`` None: left out. Further details go below the first."""
        word = {True: "ok", False: "FAILED", None: "-"}[ok]
        colour = {True: _GREEN, False: _RED, None: _DIM}[ok]
        latency = "-" if seconds is None else f"{seconds * 1000:.1f}"
        first, *more = details or [""]
        self._write(f"{self._painted(f'{word:6}', colour)} {name:20} {latency:>8}  {first}")
        for line in more:
            self._write(" " * _MARGIN + self._painted(line, _DIM))

    def text(self, line: str, ok: bool | None = None) -> None:
        """Write a line of its own, green or red if it is a verdict."""
        self._write(line if ok is None else self._painted(line, _GREEN if ok else _RED))

    def _painted(self, text: str, colour: str) -> str:
        return f"{colour}{text}{_OFF}" if self._colours else text

    def _write(self, line: str) -> None:
        print(line.rstrip(), file=self._out, flush=True)
