# SPDX-License-Identifier: Apache-2.0

"""The bus is a foreign peer: it shares no code with the driver that is tested against it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import amqp1_driver.bus

FOLDER = Path(amqp1_driver.bus.__file__).parent
ALLOWED = {"proton", "cproton", "wsproto"}
#: functions of bytes below driver and bus, tested with bytes from the specification
COMMON = {"amqp1_driver.flowframe"}


@pytest.mark.parametrize("module", sorted(p.name for p in FOLDER.glob("*.py")))
def test_the_bus_imports_only_itself_libraries_and_the_standard_library(module: str) -> None:
    tree = ast.parse((FOLDER / module).read_text())
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            # One dot is this package; two would be the driver.
            assert node.level <= 1
            names = [node.module or ""] if node.level == 0 else []
        for name in names:
            top = name.partition(".")[0]
            assert name in COMMON or top in ALLOWED or top in sys.stdlib_module_names, name
