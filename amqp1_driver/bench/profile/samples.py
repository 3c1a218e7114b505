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

"""Python stacks that a worker has written down, see ``workers.sampler``."""

from __future__ import annotations

import functools
import linecache
import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_PACKAGES = re.compile(r".*/(?:site|dist)-packages/(.+)")
_STANDARD = re.compile(r".*/lib(?:64)?/python\d\.\d+/(.+)")
_CHECKOUT = re.compile(r".*/(amqp1_driver/.+)")
#: stands before the path of a module of the standard library
STANDARD = "python:"


class Frame(NamedTuple):
    """One call on a stack.

    :param path: of the source file, as the interpreter knows it
    """

    path: str
    line: int
    function: str

    @property
    def module(self) -> str:
        """The path from the package on."""
        return module(self.path)

    @property
    def name(self) -> str:
        """The function with its module."""
        return f"{module(self.path)}:{self.function}"

    @property
    def text(self) -> str:
        """The line of the source, "" if it can't be had."""
        return source(self.path, self.line)


#: the outermost call first
Stack = tuple[Frame, ...]


@functools.cache
def module(path: str) -> str:
    """A file's path from its package on; ``STANDARD`` before those that come with Python."""
    found = _PACKAGES.match(path)
    if found:
        return found[1]
    found = _STANDARD.match(path)
    if found:
        return STANDARD + found[1]
    found = _CHECKOUT.match(path)
    return found[1] if found else path


@functools.cache
def source(path: str, line: int) -> str:
    """One line of a file."""
    return linecache.getline(path, line).strip()


def parse(lines: Iterable[str]) -> Counter[Stack]:
    """How often each stack was found. The last one is left out if it is cut off."""
    stacks: Counter[Stack] = Counter()
    frames: list[Frame] | None = None
    line = ""
    for line in lines:
        if line.startswith(("Stack ", "Current thread ", "Thread ")):
            if frames is not None:
                stacks[tuple(reversed(frames))] += 1
            frames = []
        elif frames is not None and line.endswith("\n"):
            found = _FRAME.match(line)
            if found:
                frames.append(Frame(found[1], int(found[2]), found[3].rstrip("\n")))
    if frames is not None and line.endswith("\n"):
        stacks[tuple(reversed(frames))] += 1
    return stacks


def folded(stacks: Counter[Stack]) -> list[str]:
    """Lines "outer;inner COUNT", which flame graph tools and speedscope read."""
    sums: Counter[str] = Counter()
    for stack, count in stacks.items():
        sums[";".join(frame.name.replace(";", ",") for frame in stack) or "(no Python)"] += count
    return [f"{names} {count}" for names, count in sorted(sums.items())]
