# SPDX-License-Identifier: Apache-2.0

"""The demo on its bus, with few made notifications: its tables and its page."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path
from typing import Any

import pytest

from amqp1_driver.pipeline.commands import demo

D1, D2 = datetime.date(2026, 3, 2), datetime.date(2026, 3, 3)


def test_the_demo(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The two fixed days are as computed by hand (tests/pipeline/lake/test_story.py)."""
    from amqp1_driver.pipeline.lake.layout import Lake

    page = demo.play(spark, tmp_path, 300, lambda text: None)
    out = capsys.readouterr().out
    assert "new in silver           354\n" in out
    for title in (
        "Usage by tenant",
        "Operations by event",
        "Error rate by host and event",
        "Where audit and observation disagree",
        "Malformed messages by reason",
    ):
        assert f"\n{title}\n" in out
    lake = Lake(spark, str(tmp_path / "lake"))
    usage = lake.read_gold("usage").where("day <= '2026-03-03'").orderBy("day", "tenant_id")
    assert [tuple(row) for row in usage.collect()] == [
        (D1, "blue", 1, 4.0, 16.0, 32.0, 400.0, 1, 600.0, 0, 0.0),
        (D1, "green", 1, 6.0, 6.0, 12.0, 120.0, 0, 0.0, 1, 13.0),
        (D1, "red", 2, 31.0, 67.0, 134.0, 1580.0, 1, 190.0, 1, 16.0),
        (D2, "blue", 1, 24.0, 96.0, 192.0, 2400.0, 0, 0.0, 0, 0.0),
        (D2, "green", 1, 16.0, 16.0, 32.0, 320.0, 0, 0.0, 1, 24.0),
        (D2, "red", 2, 30.0, 48.0, 96.0, 1080.0, 1, 480.0, 1, 6.0),
    ]
    audit = lake.read_gold("audit").where("status <> 'matched' AND day <= '2026-03-03'")
    assert sorted((row.day, row.resource_id, row.status) for row in audit.collect()) == [
        (D1, "i5", "contradictory"),
        (D1, "i6", "unexpected"),
        (D1, "v2", "missing"),
        (D2, "i2", "contradictory"),
        (D2, "i5", "missing"),
    ]
    html = page.read_text()
    assert html.count("<svg") == 5
    assert "No valid host was found" in html


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    args = argparse.Namespace(bulk=1, folder=str(tmp_path), no_browser=True, master=None)
    with pytest.raises(ValueError, match="is not empty"):
        demo.run(args)


def test_no_browser_where_nobody_sits(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    demo._show(Path("/page.html"))  # the standard output of a test is no terminal
    assert opened == []


def test_a_browser_that_fails_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    import webbrowser

    def fail(url: str) -> bool:
        raise webbrowser.Error("no display")

    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("webbrowser.open", fail)
    demo._show(Path("/page.html"))
