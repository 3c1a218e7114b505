# SPDX-License-Identifier: Apache-2.0

"""The collector on RabbitMQ 4.3: both drivers' notifications, caps, faults."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import oslo_messaging as om
import pytest
from oslo_config import cfg

from amqp1_driver.exceptions import LinkFailed
from amqp1_driver.pipeline.collect import watch
from amqp1_driver.testing.proxy import FaultProxy
from tests.buses.rabbit import Management, Node

from .support import WAIT, Collecting, ids, publish, rows

#: the first test may have to install the node
pytestmark = [pytest.mark.rabbitmq, pytest.mark.timeout(400)]


@pytest.fixture
def queue(rabbit43: Node) -> Iterator[str]:
    """The address of a queue that is empty, and gone afterwards."""
    with Management(rabbit43) as management:
        management.declare("pipeline", x_queue_type="quorum")
    yield "/queues/pipeline"
    with Management(rabbit43) as management:
        management.delete("pipeline")


def test_notifications_of_this_driver_through_the_profile(
    rabbit43: Node, collecting: Collecting
) -> None:
    conf = cfg.ConfigOpts()
    conf([])
    transport = om.get_notification_transport(conf, rabbit43.url())
    try:
        notifier = om.Notifier(transport, "compute.h1", driver="messagingv2", topics=["nova"])
        for number in range(20):
            notifier.info({"tenant": "t"}, "compute.instance.update", {"number": number})
    finally:
        transport.cleanup()
    collector, spool = collecting(rabbit43.url(), topic="nova", priorities="info,error")
    assert collector.wait_for(20, WAIT)
    found = rows(spool)
    messages = [json.loads(json.loads(row["body"])["request"]["oslo.message"]) for row in found]
    assert [message["payload"]["number"] for message in messages] == list(range(20))
    assert {row["address"] for row in found} == {
        "/queues/openstack%3Anotify%3Aopenstack%3Anova.info"
    }
    assert len({row["message_id"] for row in found}) == 20


def test_notifications_of_the_rabbit_driver(
    rabbit43: Node, queue: str, collecting: Collecting
) -> None:
    """As oslo.messaging's own driver sends them, over AMQP 0.9.1."""
    kombu = pytest.importorskip("kombu")
    body = {"oslo.version": "2.0", "oslo.message": '{"event_type": "e"}'}
    with kombu.Connection(f"amqp://guest:guest@127.0.0.1:{rabbit43.port}//") as connection:
        kombu.Producer(connection.channel()).publish(
            body, routing_key="pipeline", delivery_mode=2, headers={"h": 1}
        )
    collector, spool = collecting(rabbit43.url(), address=queue)
    assert collector.wait_for(1, WAIT)
    (row,) = rows(spool)
    assert json.loads(row["body"]) == body
    assert row["content_type"] == "application/json"
    assert ("h", "1") in row["properties"]


def test_a_tiny_cap_and_many_messages(rabbit43: Node, queue: str, collecting: Collecting) -> None:
    publish(rabbit43.url(), queue, range(500))
    collector, spool = collecting(
        rabbit43.url(), address=queue, links=2, maxSpoolRows=50, segmentRows=10, credit=30
    )
    seen: list[str] = []
    while len(seen) < 500:
        assert collector.wait_for(min(500, len(seen) + 40), WAIT)
        assert sum(part.hi - part.lo + 1 for part in spool.parts(1, spool.high)) <= 50
        high = spool.high
        seen = list(dict.fromkeys(seen + ids(spool)))
        spool.commit(high)
    assert sorted(seen) == sorted(f"m{n}" for n in range(500))
    assert collector.facts()["received"] == 500


@pytest.mark.parametrize("after", [20_000, 60_000, 130_000])
def test_connections_that_break_anywhere_lose_nothing_and_make_no_doubles(
    rabbit43: Node, queue: str, collecting: Collecting, after: int
) -> None:
    publish(rabbit43.url(), queue, range(1000), size=100)
    with FaultProxy("127.0.0.1", rabbit43.port) as proxy:
        proxy.cut_after(after, "down")
        url = f"amqp://guest:guest@127.0.0.1:{proxy.port}"
        collector, spool = collecting(url, address=queue, segmentRows=50, credit=400)
        proxy.wait_cut(1, WAIT)
        assert collector.wait_for(1000, WAIT)
        publish(rabbit43.url(), queue, [1000])
        assert collector.wait_for(1001, WAIT)
        assert collector.stop()
    assert sorted(ids(spool)) == sorted(f"m{n}" for n in range(1001))
    assert collector.error is None


def test_acknowledgements_that_never_arrive_make_no_doubles(
    rabbit43: Node, queue: str, collecting: Collecting
) -> None:
    """The rows are durable, the connection breaks before the bus hears of it.

    No more than the first credit is for: the next would not get through, either.
    """
    publish(rabbit43.url(), queue, range(50))
    with FaultProxy("127.0.0.1", rabbit43.port) as proxy:
        url = f"amqp://guest:guest@127.0.0.1:{proxy.port}"
        collector, spool = collecting(url, address=queue, lingerMs=200)
        proxy.wait_connections(1, WAIT)
        assert collector.wait_for(1, WAIT)
        proxy.freeze("up")
        assert collector.wait_for(50, WAIT)
        proxy.cut()
        proxy.thaw("up")
        publish(rabbit43.url(), queue, [50])
        assert collector.wait_for(51, WAIT)
        assert collector.stop()
    assert sorted(ids(spool)) == sorted(f"m{n}" for n in range(51))


def test_a_restart_of_the_broker(rabbit43: Node, collecting: Collecting) -> None:
    """A classic queue: a quorum queue may never say what became of messages without a leader."""
    queue = "/queues/restarted"
    with Management(rabbit43) as management:
        management.declare("restarted", x_queue_type="classic")
    publish(rabbit43.url(), queue, range(100))
    collector, spool = collecting(rabbit43.url(), address=queue)
    assert collector.wait_for(100, WAIT)
    rabbit43.kill()
    rabbit43.start()
    publish(rabbit43.url(), queue, range(100, 200))
    assert collector.wait_for(200, 60)
    assert sorted(ids(spool)) == sorted(f"m{n}" for n in range(200))


def test_what_a_successor_finds_when_a_reader_was_fenced_out(
    rabbit43: Node, queue: str, collecting: Collecting
) -> None:
    publish(rabbit43.url(), queue, range(2000), size=100)
    first, _ = collecting(rabbit43.url(), address=queue, segmentRows=100, credit=200)
    assert first.wait_for(100, WAIT)
    second, spool = collecting(rabbit43.url(), address=queue, segmentRows=100, credit=200)
    publish(rabbit43.url(), queue, [2000])
    assert second.wait_for(2001, WAIT)
    first._thread.join(WAIT)
    facts: dict[str, Any] = first.facts()
    assert facts["error"] is not None and "was opened by another process" in facts["error"]
    assert sorted(ids(spool)) == sorted(f"m{n}" for n in range(2001))


def test_an_address_that_is_not_there_is_an_error_in_the_end(
    rabbit43: Node, queue: str, collecting: Collecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then the others are read."""
    monkeypatch.setattr(watch, "EVERY", 0.1)
    publish(rabbit43.url(), queue, range(10))
    collector, spool = collecting(
        rabbit43.url(),
        address=f"{queue},/queues/no-such",
        refusedTimeoutMs=2000,
        driver__link_retry_delay="0.5",
    )
    assert collector.wait_for(10, WAIT)
    assert collector.error is None
    collector._thread.join(WAIT)
    assert isinstance(collector.error, LinkFailed)
    text = str(collector.error)
    assert "the bus has refused the address for 2 s (option refusedTimeoutMs)" in text
    assert (
        f"host=127.0.0.1:{rabbit43.port}, address=/queues/no-such, condition=amqp:not-found"
    ) in text
    assert sorted(ids(spool)) == sorted(f"m{n}" for n in range(10))


def test_an_address_that_comes_in_time_is_read(
    rabbit43: Node, collecting: Collecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "EVERY", 0.1)
    collector, spool = collecting(
        rabbit43.url(),
        address="/queues/comes-late",
        refusedTimeoutMs=30_000,
        driver__link_retry_delay="0.2",
    )
    refused, real = threading.Event(), collector._watch._refused

    def look() -> Iterable[watch.Refusal]:
        found = list(real())
        if found:
            refused.set()
        return found

    monkeypatch.setattr(collector._watch, "_refused", look)
    assert refused.wait(WAIT)
    with Management(rabbit43) as management:
        management.declare("comes-late", x_queue_type="classic")
    publish(rabbit43.url(), "/queues/comes-late", [1])
    assert collector.wait_for(1, WAIT)
    assert collector.error is None and ids(spool) == ["m1"]


def test_large_messages_and_much_credit(rabbit43: Node, queue: str, collecting: Collecting) -> None:
    """A hundred mebibytes with credit for all of them; sixteen may be in memory."""
    publish(rabbit43.url(), queue, range(100), size=1024 * 1024)
    collector, spool = collecting(
        rabbit43.url(), address=queue, credit=2000, maxBufferBytes=16 * 1024 * 1024
    )
    assert collector.wait_for(100, 60)
    assert collector._subscription is not None and collector._subscription.room == 15
    assert collector.facts()["braked"] == 0
    assert len(set(ids(spool))) == 100
