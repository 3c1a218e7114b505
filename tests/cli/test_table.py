# SPDX-License-Identifier: Apache-2.0

"""The table of ``amqp1 demo``."""

from __future__ import annotations

import io

import pytest

from amqp1_driver.cli.demo import Table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_row_has_verdict_name_milliseconds_and_details_below() -> None:
    out = io.StringIO()
    Table(out).row("call", True, 0.00123, ["first", "second"])
    assert out.getvalue() == (
        "ok     call                      1.2  first\n"
        "                                      second\n"
    )


def test_a_step_that_was_left_out_has_neither_verdict_nor_time() -> None:
    out = io.StringIO()
    Table(out).row("failover", None, None, [])
    assert out.getvalue() == "-      failover                    -\n"


def test_head_names_the_columns() -> None:
    out = io.StringIO()
    Table(out).head()
    assert out.getvalue() == "       step                       ms  what happened\n"


def test_no_colours_but_on_a_terminal() -> None:
    out = io.StringIO()
    Table(out).row("call", False, 1, ["x"])
    Table(out).text("done", True)
    assert "\x1b" not in out.getvalue()


def test_green_and_red_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    table = Table(out)
    table.row("call", True, 1, ["x"])
    table.row("cast", False, 1, ["x"])
    table.text("bad", False)
    assert "\x1b[32mok    \x1b[0m call" in out.getvalue()
    assert "\x1b[31mFAILED\x1b[0m cast" in out.getvalue()
    assert "\x1b[31mbad\x1b[0m\n" in out.getvalue()


def test_no_colours_on_a_terminal_when_they_are_not_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    Table(out).row("call", True, 1, ["x"])
    assert "\x1b" not in out.getvalue()
