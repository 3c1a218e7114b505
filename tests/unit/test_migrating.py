# SPDX-License-Identifier: Apache-2.0

"""The page on migrating from rabbit:// has all options of that driver, and real ones of ours."""

from __future__ import annotations

import pathlib
import re

import pytest
from oslo_messaging._drivers import amqp, impl_rabbit

from amqp1_driver import options

_PAGE = pathlib.Path(__file__).resolve().parents[2] / "doc" / "source" / "migrating-rabbit.rst"
_TEXT = _PAGE.read_text()
_TABLE = _TEXT[_TEXT.index(".. begin of the map") : _TEXT.index(".. end of the map")]
#: (option of rabbit, options of ours); a row goes on where the first column is empty
_LINES = [line for line in _TABLE.splitlines() if "``" in line or " -- " in line][1:]


@pytest.mark.parametrize("name", [opt.name for opt in (*amqp.amqp_opts, *impl_rabbit.rabbit_opts)])
def test_every_option_of_rabbit_is_in_the_map(name: str) -> None:
    assert any(line.startswith(f"``{name}``") for line in _LINES)


def test_the_map_names_options_that_exist() -> None:
    ours = {opt.name for _group, opts in options.list_opts() for opt in opts}
    named = {name for line in _LINES for name in re.findall(r"``(\w+)``", line[43:82])}
    assert len(named) > 20
    assert named <= ours
