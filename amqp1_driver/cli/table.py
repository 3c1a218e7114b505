# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""A table that grows line by line, for commands that show what they do."""

from __future__ import annotations

import os
import sys
from typing import TextIO

_GREEN, _RED, _DIM, _BOLD, _OFF = "\x1b[32m", "\x1b[31m", "\x1b[2m", "\x1b[1m", "\x1b[0m"
_MARGIN = 38


class Table:
    """Steps with their verdict, latency in milliseconds and what happened.

    Colours are for terminals only, and not when NO_COLOR is set. Main thread.

    :param out: where to write; standard output unless given
    """

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = sys.stdout if out is None else out
        self._colours = self._out.isatty() and not os.environ.get("NO_COLOR")

    def head(self) -> None:
        """The names of the columns."""
        self._write(self._painted(f"{'':6} {'step':20} {'ms':>8}  what happened", _BOLD))

    def row(self, name: str, ok: bool | None, seconds: float | None, details: list[str]) -> None:
        """One step; ``ok`` None: left out. Further details go below the first."""
        word = {True: "ok", False: "FAILED", None: "-"}[ok]
        colour = {True: _GREEN, False: _RED, None: _DIM}[ok]
        latency = "-" if seconds is None else f"{seconds * 1000:.1f}"
        first, *more = details or [""]
        self._write(f"{self._painted(f'{word:6}', colour)} {name:20} {latency:>8}  {first}")
        for line in more:
            self._write(" " * _MARGIN + self._painted(line, _DIM))

    def text(self, line: str, ok: bool | None = None) -> None:
        """A line of its own, green or red if it is a verdict."""
        self._write(line if ok is None else self._painted(line, _GREEN if ok else _RED))

    def _painted(self, text: str, colour: str) -> str:
        return f"{colour}{text}{_OFF}" if self._colours else text

    def _write(self, line: str) -> None:
        print(line.rstrip(), file=self._out, flush=True)
