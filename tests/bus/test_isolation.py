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

"""The bus is a foreign peer: it shares no code with the driver that is tested against it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import amqp1_driver.bus

FOLDER = Path(amqp1_driver.bus.__file__).parent
ALLOWED = {"proton", "cproton", "wsproto"}


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
            assert top in ALLOWED or top in sys.stdlib_module_names, name
