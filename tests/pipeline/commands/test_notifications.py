# SPDX-License-Identifier: Apache-2.0

"""``amqp1 pipeline notifications``: its options, and what it prints."""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
from typing import Any

import pytest

from amqp1_driver.pipeline.commands import notifications


def _parse(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    notifications.arguments(parser)
    return parser.parse_args(["--lake", "/lake", *argv])


def test_plan_of_a_bus() -> None:
    plan = notifications.plan(
        _parse(
            "--url",
            "amqp://bus",
            "--pool",
            "lake",
            "--source-option",
            "driver.ssl_ca_file=/ca=1.pem",
        )
    )
    assert plan.source == {
        "url": "amqp://bus",
        "topic": "notifications",
        "pool": "lake",
        "spoolDir": "/lake/_spool",
        "driver.ssl_ca_file": "/ca=1.pem",
    }
    assert (plan.bronze, plan.every, plan.dedup_within) == (None, None, None)


def test_plan_of_a_folder_continuous() -> None:
    plan = notifications.plan(
        _parse(
            "--bronze",
            "/b",
            "--continuous",
            "--every",
            "2",
            "--gold-every",
            "30",
            "--dedup-within",
            "2 hours",
            "--until",
            "2026-03-04T02:00:00+02:00",
        )
    )
    assert (plan.source, plan.bronze, plan.every, plan.gold_every) == (None, "/b", 2.0, 30.0)
    assert plan.dedup_within == "2 hours"
    assert plan.until == datetime.datetime(2026, 3, 4)


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ([], "one of --url and --bronze is needed, and not both"),
        (["--url", "u", "--bronze", "b"], "one of --url and --bronze is needed, and not both"),
        (["--bronze", "b", "--dedup-within", "long"], "'long' is no interval such as '2 hours'"),
        (["--url", "u", "--source-option", "x"], "--source-option 'x' is not NAME=VALUE"),
        (["--url", "u", "--lake", "s3a://b/lake"], "--spool is needed"),
    ],
)
def test_options_that_do_not_go_together(argv: list[str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        notifications.plan(_parse(*argv))


def test_main_says_it_on_standard_error(capsys: Any) -> None:
    assert notifications.main(["--lake", "/lake"]) == 2
    assert capsys.readouterr().err == (
        "notifications: one of --url and --bronze is needed, and not both\n"
    )


def test_summary() -> None:
    from amqp1_driver.pipeline.lake.job import Summary
    from amqp1_driver.pipeline.lake.silver import Taken

    days = [datetime.date(2026, 3, 2), datetime.date(2026, 3, 4)]
    summary = Summary(
        1200,
        Taken(1200, 1100, 25),
        days,
        datetime.datetime(2026, 3, 4, 1, 2, 3),
        {"bronze": 1.25, "gold": 2.0},
    )
    assert notifications.text(summary, "/lake").splitlines() == [
        "taken in from the bus   1,200",
        "read from bronze        1,200",
        "new in silver           1,100",
        "copies left out         75",
        "malformed, kept aside   25",
        "days with new rows      2: 2026-03-02 to 2026-03-04",
        "counted until           2026-03-04 01:02:03 UTC",
        "seconds                 bronze 1.2, gold 2.0",
        "tables in               /lake",
    ]


def test_summary_without_copies() -> None:
    from amqp1_driver.pipeline.lake.job import Summary
    from amqp1_driver.pipeline.lake.silver import Taken

    text = notifications.text(Summary(taken=Taken(5, 4, 1, True)), "/lake")
    assert "read from bronze        5, without copies\n" in text
    assert "copies left out         not counted\n" in text


def test_summary_of_nothing() -> None:
    from amqp1_driver.pipeline.lake.job import Summary

    text = notifications.text(Summary(), "/lake")
    assert "days with new rows      none" in text
    assert "counted until           -" in text


def test_options_are_read_without_spark() -> None:
    """What is missing is said in a word, not by an ImportError from within."""
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from amqp1_driver.cli.main import main\n"
        "print(main(['pipeline', 'notifications', '--lake', '/l', '--bronze', '/b']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "1\n"
    assert 'needs "pip install amqp1-driver[spark]" and Java 17' in done.stderr
