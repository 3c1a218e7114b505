# SPDX-License-Identifier: Apache-2.0

"""Python stacks in the files of ``workers.sampler``. Pure, except that it reads source files."""

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
#: prefix of the path of a module of the standard library
STANDARD = "python:"


class Frame(NamedTuple):
    """One call on a stack.

    :param path: path of the source file, as the interpreter knows it
    """

    path: str
    line: int
    function: str

    @property
    def module(self) -> str:
        """Return the path of the source file, beginning with the package."""
        return module(self.path)

    @property
    def name(self) -> str:
        """Return the function with its module: ``module:function``."""
        return f"{module(self.path)}:{self.function}"

    @property
    def text(self) -> str:
        """Return the line of the source; "" if it cannot be read."""
        return source(self.path, self.line)


#: the calls of a thread, the outermost first
Stack = tuple[Frame, ...]


@functools.cache
def module(path: str) -> str:
    """Return a file's path from its package on; ``STANDARD`` precedes Python's own modules."""
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
    """Return one line of a file; "" if it cannot be read."""
    return linecache.getline(path, line).strip()


def parse(lines: Iterable[str]) -> Counter[Stack]:
    """Count how often each stack occurs; omit the last one if it is cut off."""
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
    """Return lines "outer;inner COUNT", which flame graph tools and speedscope read."""
    sums: Counter[str] = Counter()
    for stack, count in stacks.items():
        sums[";".join(frame.name.replace(";", ",") for frame in stack) or "(no Python)"] += count
    return [f"{names} {count}" for names, count in sorted(sums.items())]
