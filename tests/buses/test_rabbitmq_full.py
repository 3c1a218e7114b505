# SPDX-License-Identifier: Apache-2.0
"""Bar: with one of two targets full, sends to the other go on at >= 90 % of their rate.

Full here: a queue at its max-length that refuses what is too much. (The rates beside a queue that
takes nothing and says nothing are in tests/bars/test_flow.py.)
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any

import oslo_messaging as om
import pytest

from tests.bars.support import Logged, Transports
from tests.bars.test_flow import _suspended
from tests.buses.rabbit import WAIT, Apps, Management, Node

pytestmark = pytest.mark.rabbitmq

#: messages in one turn, and turns of each kind
COUNT, TURNS = 400, 6
#: threads that send to the full queue, and how long each rests after a message, in seconds
THREADS, REST = 4, 0.02


class Endpoint:
    def tell(self, ctxt: dict[str, Any], text: Any) -> None:
        """Takes it."""


class Press:
    """Sends to the full queue while it is on."""

    def __init__(self, full: Any) -> None:
        self._full = full
        self.on = threading.Event()
        self._end = threading.Event()
        self.refused: list[str] = []
        self.taken = 0
        self._threads = [threading.Thread(target=self._run) for _ in range(THREADS)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        while self.on.wait() and not self._end.wait(REST):
            try:
                self._full.cast({}, "tell", text="x")
                self.taken += 1
            except om.MessageDeliveryFailure as error:
                self.refused.append(str(error))

    def end(self) -> None:
        self._end.set()
        self.on.set()
        for thread in self._threads:
            thread.join(WAIT)


@pytest.fixture
def press(rabbit: Node, transports: Transports) -> Iterator[tuple[Apps, Press]]:
    apps = Apps(rabbit, transports, rpc_queue_max_length=10, rpc_server_credit=500)
    client = apps.client("full", retry=0)
    for _ in range(12):
        try:
            client.cast({}, "tell", text="x")
        except om.MessageDeliveryFailure:
            break
    made = Press(client)
    yield apps, made
    made.end()
    with Management(rabbit) as management:
        management.delete("openstack:rpc:anycast:tests:full")


def test_a_queue_that_refuses_slows_no_other(
    press: tuple[Apps, Press], capsys: pytest.CaptureFixture[str]
) -> None:
    apps, pressing = press
    # over the same connection: that is where it could be slowed
    free = pressing._full.prepare(topic="free")
    apps.server("free", Endpoint(), rpc_queue_max_length=0)

    def rate() -> float:
        since = time.monotonic()
        for number in range(COUNT):
            free.cast({}, "tell", text=number)
        return COUNT / (time.monotonic() - since)

    rate()
    ratios = []
    for _ in range(TURNS):
        alone = rate()
        pressing.on.set()
        ratios.append(rate() / alone)
        pressing.on.clear()
    with capsys.disabled():
        print(
            f"\nrate to the other queue: {statistics.median(ratios):.0%} (median of {TURNS}), "
            f"best {max(ratios):.0%}; refused meanwhile: {len(pressing.refused)}"
        )
    assert len(pressing.refused) > 50
    assert pressing.taken == 0
    assert max(ratios) >= 0.9


def test_a_queue_that_says_nothing_holds_up_no_other(rabbit: Node, transports: Transports) -> None:
    """More messages wait than RabbitMQ takes unconfirmed on two links, up to 340 on each."""
    apps = Apps(rabbit, transports, blocked_warning_interval=0.2)
    silent = "openstack:rpc:anycast:tests:silent"
    client = apps.client("silent")
    client.cast({}, "tell", text=0)
    others = [client.prepare(topic=f"beside{number}") for number in range(10)]
    for other in others:
        other.cast({}, "tell", text=0)
    waiting = [
        threading.Thread(target=client.cast, args=({}, "tell"), kwargs={"text": number})
        for number in range(700)
    ]
    _suspended(rabbit, silent, "suspend")
    try:
        with Logged("blocked since") as blocked:
            for one in waiting:
                one.start()
            blocked.wait(WAIT)
        for number in range(100):
            others[number % 10].cast({}, "tell", text=number)
        assert all(one.is_alive() for one in waiting)
    finally:
        _suspended(rabbit, silent, "resume")
    for one in waiting:
        one.join(WAIT)
    assert not any(one.is_alive() for one in waiting)
    with Management(rabbit) as management:
        assert management.queue(silent)["message_count"] == 701
        for name in [silent, *(f"openstack:rpc:anycast:tests:beside{n}" for n in range(10))]:
            management.delete(name)
