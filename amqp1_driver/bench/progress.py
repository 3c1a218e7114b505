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

"""A bar of how far the benchmark is, on terminals only."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

_UNITS = 100


class Progress:
    """tqdm's bar, if that is installed and ``out`` is a terminal; else nothing. Main thread.

    :param runs: how many there will be
    :param seconds: that a run is expected to take
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

    def begin(self, what: str) -> None:
        """A run begins."""
        self._since = time.monotonic()
        if self._bar is not None:
            self._bar.set_description_str(what)

    def tick(self) -> None:
        """It goes on."""
        if self._bar is not None:
            share = min(0.99, (time.monotonic() - self._since) / self._seconds)
            self._show(self._done + int(share * _UNITS))

    def end(self) -> None:
        """The run is over."""
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
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()

    def _show(self, units: int) -> None:
        self._bar.n = units
        self._bar.refresh()
