# SPDX-License-Identifier: Apache-2.0
"""The short form of chaos: a handful of faults with a fixed seed on three buses.

With AMQP1_LONG=1 a hundred of them on each of the five.
"""

from __future__ import annotations

import io
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.chaos import history
from tests.chaos.run import chaos, report, summary

LONG = os.environ.get("AMQP1_LONG") == "1"
BUSES = ("router", "broker", "rabbitmq-4.3", *(("rabbitmq-4.0", "artemis") if LONG else ()))
SEED = 1
#: those that a gate may have again and again: no privileges, no seconds of waiting
SHORT = (
    "reset",
    "refuse",
    "half-open",
    "freeze",
    "deaf",
    "mute",
    "delay",
    "throttle",
    "server-kill",
    "server-restart",
    "listener-stop",
    "fork",
    "no-descriptors",
    "bus-kill",
    "close-connections",
    "delete-queues",
)


def violations(bus: str, folder: Path) -> str:
    """Run chaos on that bus; the report if it finds something, else an empty string."""
    chaos(
        bus,
        folder,
        seed=SEED,
        count=100 if LONG else 8,
        gap=(0.2, 0.6),
        rate=10.0,
        members=2 if LONG else 1,
        kinds=() if LONG else SHORT,
        warm_up=5.0 if LONG else 1.0,
    )
    out = io.StringIO()
    found = report(folder, out)
    seen = summary(history.load(folder))
    assert seen["failed faults"] == []
    for kind in ("call", "cast", "fanout", "notify"):
        assert seen["ends"].get(f"{kind} ok", 0) > 10
    return out.getvalue() if found else ""


@pytest.mark.rabbitmq
@pytest.mark.timeout(900)
def test_chaos_breaks_no_promise(tmp_path: Path) -> None:
    # at the same time, for most of it is waiting
    with ThreadPoolExecutor(len(BUSES)) as pool:
        found = list(pool.map(lambda bus: violations(bus, tmp_path / bus), BUSES))
    assert found == [""] * len(BUSES)
