# SPDX-License-Identifier: Apache-2.0

"""The pages for developers name functions and files that exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "doc" / "source"
FUNCTION = re.compile(r"``([a-z_]+(?:\.[a-z_]+)*):([A-Z]\w+\.\w+)``")


def functions() -> list[tuple[str, str]]:
    text = (SOURCE / "life-of-a-message.rst").read_text()
    return sorted(set(FUNCTION.findall(text)))


@pytest.mark.parametrize(("module", "function"), functions())
def test_a_function_that_the_life_of_a_message_names(module: str, function: str) -> None:
    name, method = function.split(".")
    holder = getattr(importlib.import_module(f"amqp1_driver.{module}"), name)
    assert callable(getattr(holder, method))


def test_the_functions_are_found() -> None:
    assert len(functions()) > 15


def places() -> list[str]:
    """The paths of the columns "place" and "tests", from the top of the tree."""
    found = []
    rows = (SOURCE / "where-to-change.rst").read_text().split("   * - ")[2:]
    for row in rows:
        _, place, tests = (cell.split("\n\n")[0] for cell in row.split("\n     - "))
        folder = ""
        for path in re.findall(r"``([\w/.-]+)``", place):
            if path.startswith(("doc/", "releasenotes/")):
                found.append(path)
            elif "/" in path:
                folder = path.rpartition("/")[0]
                found.append(f"amqp1_driver/{path}")
            elif path.endswith(".py"):  # in the folder of the one before it, or at the top
                found.append("/".join(filter(None, ["amqp1_driver", folder, path])))
        found += [f"tests/{path}" for path in re.findall(r"``([\w/.-]+)``", tests)]
    return found


@pytest.mark.parametrize("path", places())
def test_a_place_that_a_change_has(path: str) -> None:
    assert (ROOT / path).exists()


def test_the_places_are_found() -> None:
    assert len(places()) > 50


def test_there_are_twenty_changes() -> None:
    rows = (SOURCE / "where-to-change.rst").read_text().count("   * - ")
    assert rows - 1 == 20
