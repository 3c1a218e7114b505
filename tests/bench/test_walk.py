# SPDX-License-Identifier: Apache-2.0

"""The walk of a message: few hops, and no more calls of functions than its page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
CELL = re.compile(r"^   (?:\* -|  -) ?(.*)$", re.M)


def rows(text: str) -> dict[str, list[int]]:
    cells = CELL.findall(text)[5:]
    return {cells[i]: [int(cell) for cell in cells[i + 1 : i + 5]] for i in range(0, len(cells), 5)}


@pytest.mark.timeout(300)
def test_the_walk_is_that_of_the_page() -> None:
    made = subprocess.run(
        [sys.executable, "tools/walk.py", "--rst"],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    ).stdout
    now, page = rows(made), rows((TOP / "doc" / "source" / "walk.inc").read_text())
    assert list(now) == list(page) == ["one call", "one notification"]
    for name, (calls, functions, modules, hops) in now.items():
        assert hops == page[name][3] <= 5
        # batches differ from run to run, and on a loaded machine there are more of them
        assert calls <= 1.25 * page[name][0]
        assert functions <= 1.1 * page[name][1]
        assert modules <= 1.1 * page[name][2]
