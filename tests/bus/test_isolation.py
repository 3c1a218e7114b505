# SPDX-License-Identifier: Apache-2.0

"""The bus is a foreign peer: it shares no code with the driver that is tested against it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import amqp1_driver.bus
import amqp1_driver.wire

FOLDER = Path(amqp1_driver.bus.__file__).parent
WIRE = Path(amqp1_driver.wire.__file__).parent
ALLOWED = {"proton", "cproton", "wsproto"}
#: functions of bytes below driver and bus, tested with bytes from the specification
COMMON = {"amqp1_driver.flowframe"}
#: the codec of bus and scripted peer, which the driver does not use
CODEC = "amqp1_driver.wire."


def imports(path: Path) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            # One dot is this package; two would be the driver.
            assert node.level <= 1
            names += [node.module or ""] if node.level == 0 else []
    return names


@pytest.mark.parametrize("module", sorted(p.name for p in FOLDER.glob("*.py")))
def test_the_bus_imports_only_itself_libraries_and_the_standard_library(module: str) -> None:
    for name in imports(FOLDER / module):
        top = name.partition(".")[0]
        known = name in COMMON or name.startswith(CODEC) or top in ALLOWED
        assert known or top in sys.stdlib_module_names, name


@pytest.mark.parametrize("module", sorted(p.name for p in WIRE.glob("*.py")))
def test_the_codec_imports_only_itself_and_the_standard_library(module: str) -> None:
    for name in imports(WIRE / module):
        assert name.partition(".")[0] in sys.stdlib_module_names, name
