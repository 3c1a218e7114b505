# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ: what the options of queues do, on running nodes."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import oslo_messaging as om
import pytest

from tests.bars.support import Logged, Transports, outcome
from tests.buses.rabbit import WAIT, Apps, Management, Node, quoted

pytestmark = pytest.mark.rabbitmq


class Endpoint:
    """Takes down what it is told, or hands notifications back as often as it is said."""

    def __init__(self, requeue: int = 0) -> None:
        self.told: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._requeue = requeue

    def echo(self, ctxt: dict[str, Any], text: str) -> str:
        return text

    def info(
        self,
        ctxt: dict[str, Any],
        publisher: str,
        event: str,
        payload: Any,
        metadata: dict[str, Any],
    ) -> Any:
        if self._requeue:
            self._requeue -= 1
            return om.NotificationResult.REQUEUE
        self.told.put(payload)
        return om.NotificationResult.HANDLED

    def get(self, count: int) -> list[Any]:
        return [self.told.get(timeout=WAIT) for _ in range(count)]


def names(topic: str, pool: str | None = None) -> str:
    return f"openstack:notify:tests:{topic}.info" + (f":{pool}" if pool else "")


@pytest.fixture
def management(rabbit43: Node) -> Iterator[Management]:
    with Management(rabbit43) as asked:
        before = {row[0] for row in rabbit43.listed("list_queues", "name")}
        yield asked
        for row in rabbit43.listed("list_queues", "name"):
            if row[0] not in before:
                asked.delete(row[0])


def test_quorum_queues_for_rpc_and_notifications_and_pools(
    rabbit: Node, transports: Transports
) -> None:
    apps = Apps(
        rabbit,
        transports,
        rpc_queue_type="quorum",
        notification_queue_type="quorum",
        queue_delivery_limit=5,
        rpc_queue_max_length=100,
        rpc_message_ttl=30,
        notification_queue_expiry=60,
        notification_message_ttl=40,
        queue_replicas=1,
        notification_queue_max_bytes=1_000_000,
        queue_overflow="drop-head",
    )
    endpoint = Endpoint()
    apps.server("quorum", endpoint)
    apps.listener("quorum", endpoint)
    pools = [Endpoint(), Endpoint()]
    apps.listener("quorum", pools[0], pool="one")
    apps.listener("quorum", pools[0], pool="one")
    apps.listener("quorum", pools[1], pool="two")
    client = apps.client("quorum")
    assert client.call({}, "echo", text="any") == "any"
    assert client.prepare(server="s").call({}, "echo", text="one") == "one"
    notifier = apps.notifier("quorum")
    for number in range(4):
        notifier.info({}, "event", number)
    assert sorted(endpoint.get(4)) == [0, 1, 2, 3]
    assert [sorted(one.get(4)) for one in pools] == [[0, 1, 2, 3]] * 2
    assert all(one.told.empty() for one in [endpoint, *pools])
    with Management(rabbit) as management:
        rpc = management.queue("openstack:rpc:anycast:tests:quorum")
        notify, pool = (management.queue(names("quorum", pool)) for pool in (None, "one"))
        transports.cleanup()
        for name in (None, "one", "two"):
            management.delete(names("quorum", name))
    assert (rpc["type"], rpc["durable"], rpc["arguments"]) == (
        "quorum",
        True,
        {
            "x-queue-type": "quorum",
            "x-expires": 1_800_000,
            "x-message-ttl": 30_000,
            "x-max-length": 100,
            "x-overflow": "drop-head",
            "x-delivery-limit": 5,
            "x-quorum-initial-group-size": 1,
        },
    )
    limits = {
        "x-queue-type": "quorum",
        "x-message-ttl": 40_000,
        "x-overflow": "drop-head",
        "x-max-length-bytes": 1_000_000,
        "x-delivery-limit": 5,
        "x-quorum-initial-group-size": 1,
    }
    assert notify["arguments"] == limits | {"x-expires": 60_000}
    assert pool["arguments"] == limits | {"x-expires": 1_800_000}


def test_a_full_queue_refuses_what_is_too_much(
    rabbit43: Node, transports: Transports, management: Management
) -> None:
    apps = Apps(rabbit43, transports, rpc_queue_max_length=3)
    client = apps.client("full", retry=0)
    found = [outcome(lambda: client.cast({}, "tell")) for _ in range(6)]
    refused = [one for one in found if one.error is not None]
    assert 1 <= len(refused) <= 3
    assert all(isinstance(one.error, om.MessageDeliveryFailure) for one in refused)
    assert "amqp:resource-limit-exceeded" in refused[0].text
    name = "openstack:rpc:anycast:tests:full"
    assert name.replace(":", "%3A") in refused[0].text
    assert management.queue(name)["message_count"] == 6 - len(refused)


def test_or_drops_the_oldest(
    rabbit43: Node, transports: Transports, management: Management
) -> None:
    settings = {"notification_queue_max_length": 2, "queue_overflow": "drop-head"}
    apps = Apps(rabbit43, transports, **settings)
    notifier = apps.notifier("drops")
    for number in range(5):
        notifier.info({}, "event", number)
    endpoint = Endpoint()
    apps.listener("drops", endpoint)
    assert endpoint.get(2) == [3, 4]


def test_notifications_that_nobody_fetches_in_time_are_dropped(
    rabbit43: Node, transports: Transports, management: Management
) -> None:
    apps = Apps(rabbit43, transports, notification_message_ttl=0.001)
    notifier = apps.notifier("ttl")
    notifier.info({}, "event", "old")
    notifier.info({}, "event", "new")
    # the node drops what is too old before it says how much there is
    rabbit43.ctl("eval", "timer:sleep(50).")
    assert management.queue(names("ttl"))["message_count"] == 0


def test_what_kills_its_readers_too_often_is_dropped(rabbit: Node, transports: Transports) -> None:
    apps = Apps(rabbit, transports, notification_queue_type="quorum", queue_delivery_limit=2)
    notifier = apps.notifier("limit")
    notifier.info({}, "event", "poison")
    for _ in range(3):
        with Management(rabbit) as reader:
            reader.connection.create_receiver(
                f"/queues/{quoted(names('limit'))}", credit=1
            ).receive(timeout=WAIT)
    notifier.info({}, "event", "next")
    endpoint = Endpoint()
    apps.listener("limit", endpoint)
    assert endpoint.get(1) == ["next"]
    transports.cleanup()
    with Management(rabbit) as management:
        management.delete(names("limit"))


def test_what_is_handed_back_comes_again_without_end(
    rabbit43: Node, transports: Transports, management: Management
) -> None:
    """From 4.3 on; 4.0 counts that too."""
    apps = Apps(rabbit43, transports, notification_queue_type="quorum", queue_delivery_limit=2)
    endpoint = Endpoint(requeue=30)
    apps.listener("again", endpoint, allow_requeue=True)
    apps.notifier("again").info({}, "event", "at last")
    assert endpoint.get(1) == ["at last"]


def test_one_active_listener_hands_over_to_the_next_in_order(
    rabbit: Node, transports: Transports
) -> None:
    settings = {"notification_single_active_consumer": True, "notify_server_credit": 5}
    apps = Apps(rabbit, transports, **settings)
    first, second = Endpoint(), Endpoint()
    active = apps.listener("single", first)
    apps.listener("single", second)
    notifier = apps.notifier("single")
    for number in range(20):
        notifier.info({}, "event", number)
    assert first.get(20) == list(range(20))
    assert second.told.empty()
    active.stop()
    active.wait()
    for number in range(20, 30):
        notifier.info({}, "event", number)
    assert second.get(10) == list(range(20, 30))
    transports.cleanup()
    with Management(rabbit) as management:
        management.delete(names("single"))


def test_messages_go_to_the_listeners_with_priority(rabbit: Node, transports: Transports) -> None:
    apps = Apps(rabbit, transports)
    low, high = Endpoint(), Endpoint()
    apps.listener("priority", low)
    apps.listener("priority", high, consumer_priority=10)
    notifier = apps.notifier("priority")
    for number in range(30):
        notifier.info({}, "event", number)
    assert high.get(30) == list(range(30))
    assert low.told.empty()
    transports.cleanup()
    with Management(rabbit) as management:
        management.delete(names("priority"))


def test_a_stream_gives_every_listener_every_message_from_now_on(
    rabbit: Node, transports: Transports
) -> None:
    apps = Apps(
        rabbit,
        transports,
        notification_queue_type="stream",
        notification_message_ttl=60,
        notification_queue_max_bytes=10_000_000,
    )
    notifier = apps.notifier("stream")
    notifier.info({}, "event", "before")
    endpoints = [Endpoint(), Endpoint()]
    for endpoint in endpoints:
        apps.listener("stream", endpoint)
    for number in range(5):
        notifier.info({}, "event", number)
    assert [endpoint.get(5) for endpoint in endpoints] == [[0, 1, 2, 3, 4]] * 2
    refused = outcome(lambda: apps.listener("stream", Endpoint(), pool="p"))
    assert isinstance(refused.error, NotImplementedError)
    assert "must be classic or quorum" in refused.text
    transports.cleanup()
    with Management(rabbit) as management:
        management.delete(names("stream"))


def test_a_queue_that_exists_with_another_type_is_used_as_it_is(
    rabbit43: Node, transports: Transports, management: Management
) -> None:
    assert management.declare(names("other"), x_queue_type="quorum") == "201"
    endpoint = Endpoint()
    with Logged(
        "inequivalent arg 'x-queue-type' for queue 'openstack:notify:tests:other.info'"
    ) as logged:
        apps = Apps(rabbit43, transports)
        apps.listener("other", endpoint)
        logged.wait(WAIT)
    apps.notifier("other").info({}, "event", "all the same")
    assert endpoint.get(1) == ["all the same"]
    assert management.queue(names("other"))["type"] == "quorum"


def test_a_policy_adds_to_what_is_declared(
    rabbit43: Node, transports: Transports, management: Management
) -> None:
    rabbit43.ctl("set_policy", "few", "^openstack:notify:tests:policy", '{"max-length":2}')
    apps = Apps(rabbit43, transports)
    notifier = apps.notifier("policy")
    for number in range(5):
        notifier.info({}, "event", number)
    endpoint = Endpoint()
    apps.listener("policy", endpoint)
    assert endpoint.get(2) == [3, 4]
    rabbit43.ctl("clear_policy", "few")


def test_transient_queues(rabbit: Node, transports: Transports) -> None:
    apps = Apps(rabbit, transports, durable_queues=False)
    apps.server("transient", Endpoint())
    assert apps.client("transient").call({}, "echo", text="x") == "x"
    with Management(rabbit) as management:
        assert management.queue("openstack:rpc:anycast:tests:transient")["durable"] is False


def test_an_exchange_of_ones_own(
    rabbit43: Node, transports: Transports, management: Management
) -> None:
    status, _ = management(
        "PUT",
        "/exchanges/mine",
        {
            "type": "direct",
            "durable": True,
            "auto_delete": False,
            "internal": False,
            "arguments": {},
        },
    )
    assert status == "204"
    apps = Apps(rabbit43, transports, binding_exchange="mine")
    endpoint = Endpoint()
    apps.listener("mine", endpoint)
    apps.notifier("mine").info({}, "event", "x")
    assert endpoint.get(1) == ["x"]
    assert ["mine", names("mine")] in rabbit43.listed(
        "list_bindings", "source_name", "destination_name"
    )
    transports.cleanup()
    management("DELETE", "/exchanges/mine")
