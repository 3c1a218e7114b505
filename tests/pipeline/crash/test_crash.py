# SPDX-License-Identifier: Apache-2.0

"""Killed again and again in live flow: nothing is lost, nothing doubled, no cap is exceeded.

AMQP1_LONG=1 runs it at full size; :mod:`.trial` is the same as a program.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.pipeline.crash.flow import Live
from tests.pipeline.crash.trial import (
    KINDS,
    LONG,
    SHORT,
    Done,
    not_live,
    plan,
    report,
    trial,
)

FULL = os.environ.get("AMQP1_LONG") == "1"


@pytest.mark.rabbitmq
@pytest.mark.timeout(5400 if FULL else 1500)
def test_each_notification_is_in_silver_once(tmp_path: Path) -> None:
    result = trial(tmp_path, LONG if FULL else SHORT, random.randrange(1 << 32))

    assert result["wrong"] == []
    assert len(result["kills"]) == (20 if FULL else 4)
    # the bus may deliver again, and the publisher send again what was in doubt
    assert result["bronze"] >= result["rows"] == (500_000 if FULL else 20_000)
    assert result["looks"] > 0
    assert all(result["most_on_disc"])
    # in live flow: the publisher had messages under way, and what a dead node had was in doubt
    assert all(kill["unconfirmed"] > 0 for kill in result["kills"])
    assert [
        kill
        for kill in result["kills"]
        if kill["kill"].startswith("bus") and not kill["sent_again"]
    ] == []


def test_kills_are_of_all_kinds_and_all_over_the_flow() -> None:
    kills = plan(LONG, KINDS, 7)
    assert (
        sorted(kill.kind for kill in kills)
        == ["between"] * 5 + ["bus"] * 5 + ["jvm"] * 5 + ["reader"] * 5
    )
    assert [kill.at for kill in kills] == sorted(kill.at for kill in kills)
    assert kills[0].at > 0 and 430_000 < kills[-1].at < 470_000
    assert plan(LONG, KINDS, 7) == kills != plan(LONG, KINDS, 8)


def test_a_kill_at_which_nothing_was_under_way_is_told() -> None:
    kills = report(
        [
            Done("bus", "silver", 10, Live(30, 7, 0, False)),
            Done("jvm", "append", 20, Live(40, 0, 5, True)),
            Done("bus", "bronze", 25, Live(50, 3, 5, False)),
        ],
        5,
    )
    assert kills == [
        {
            "kill": "bus after silver",
            "row": 10,
            "sent": 30,
            "unconfirmed": 7,
            "waited": False,
            "sent_again": 5,
        },
        {
            "kill": "jvm after append",
            "row": 20,
            "sent": 40,
            "unconfirmed": 0,
            "waited": True,
            "sent_again": 0,
        },
        {
            "kill": "bus after bronze",
            "row": 25,
            "sent": 50,
            "unconfirmed": 3,
            "waited": False,
            "sent_again": 0,
        },
    ]
    assert not_live(kills) == [
        f"nothing was under way: {kills[1]}",
        f"no message was in doubt: {kills[2]}",
    ]
    assert not_live(kills[:1]) == []
