# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ: nothing is left on the broker that nobody asked for."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.bars.support import Transports
from tests.bars.workers import Worker
from tests.buses.rabbit import WAIT, Apps, Events, Management, Node

pytestmark = pytest.mark.rabbitmq


class Endpoint:
    """Takes down what it is told."""

    def __init__(self) -> None:
        self.told: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def echo(self, ctxt: dict[str, Any], text: str) -> str:
        return text

    def tell(self, ctxt: dict[str, Any], text: Any) -> None:
        self.told.put(text)

    def info(
        self,
        ctxt: dict[str, Any],
        publisher: str,
        event: str,
        payload: Any,
        metadata: dict[str, Any],
    ) -> None:
        self.told.put(payload)


def stop(server: Any) -> None:
    server.stop()
    server.wait()


def test_after_a_clean_shutdown_queues_of_notifications_and_of_servers_are_left(
    rabbit: Node,
) -> None:
    before = rabbit.holds()
    transports = Transports()
    apps = Apps(rabbit, transports)
    endpoint = Endpoint()
    servers = [apps.server("clean", endpoint, name) for name in ("one", "two")]
    listeners = [apps.listener("clean", endpoint), apps.listener("clean", endpoint, pool="p")]
    client = apps.client("clean")
    assert client.call({}, "echo", text="any") == "any"
    assert client.prepare(server="two").call({}, "echo", text="two") == "two"
    client.prepare(fanout=True).cast({}, "tell", text="all")
    apps.notifier("clean").info({}, "event", "note")
    assert sorted(endpoint.told.get(timeout=WAIT) for _ in range(4)) == [
        "all",
        "all",
        "note",
        "note",
    ]
    threads = [threading.Thread(target=stop, args=(one,)) for one in servers + listeners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    transports._servers.clear()
    transports.cleanup()
    kept = {"openstack:notify:tests:clean.info", "openstack:notify:tests:clean.info:p"}
    expiring = {
        "openstack:rpc:anycast:tests:clean",
        "openstack:rpc:unicast:tests:clean:one",
        "openstack:rpc:unicast:tests:clean:two",
    }
    queues, exchanges, bound = rabbit.holds()
    assert (queues - before[0], exchanges - before[1], bound - before[2]) == (
        kept | expiring,
        set(),
        kept,
    )
    with Management(rabbit) as management:
        for name in kept | expiring:
            management.delete(name)


def test_the_queue_of_fanouts_goes_with_a_server_whose_transport_goes_on(
    rabbit: Node, transports: Transports
) -> None:
    apps = Apps(rabbit, transports)
    server = apps.server("goes-on", Endpoint())
    stop(server)
    transports._servers.clear()
    left = {name for name in rabbit.holds()[0] if ":goes-on" in name}
    assert left == {"openstack:rpc:anycast:tests:goes-on", "openstack:rpc:unicast:tests:goes-on:s"}
    with Management(rabbit) as management:
        for name in left:
            management.delete(name)


def test_after_a_kill_all_expires(rabbit: Node, worker: Callable[[str], Worker]) -> None:
    killed = worker("killed")
    killed.do(
        "open",
        url=rabbit.url(),
        topic="killed",
        options={"queue_expiry": 1, "notification_queue_expiry": 1},
    )
    killed.do("serve", name="only")
    killed.do("start_traffic", timeout=WAIT)
    assert killed.do("through", count=3, timeout=WAIT) == []
    rpc = "openstack:rpc:"
    with Events(rabbit, "queue.deleted") as events:
        mine = {name for name in rabbit.holds()[0] if ":killed" in name}
        assert f"{rpc}anycast:openstack:killed" in mine
        assert f"{rpc}unicast:openstack:killed:only" in mine
        assert len([name for name in mine if ":notify:" in name]) >= 1
        killed.kill()
        events.wait_for(mine)
    queues, exchanges, bound = rabbit.holds()
    assert not {name for name in queues | bound if ":killed" in name}
    assert exchanges == set()


def test_casts_are_not_lost_while_servers_come_and_go(
    rabbit43: Node, transports: Transports
) -> None:
    apps = Apps(rabbit43, transports)
    client = apps.client("come-and-go")
    endpoint = Endpoint()
    accepted: list[int] = []
    done = threading.Event()

    def send() -> None:
        number = 0
        while not done.is_set():
            client.cast({}, "tell", text=number)
            accepted.append(number)
            number += 1

    sender = threading.Thread(target=send)
    sender.start()
    try:
        for _ in range(4):
            server = apps.server("come-and-go", endpoint)
            first = endpoint.told.get(timeout=WAIT)
            stop(server)
            endpoint.told.put(first)
    finally:
        done.set()
        sender.join(WAIT)
    apps.server("come-and-go", endpoint)
    received: set[int] = set()
    while received != set(accepted):
        received.add(endpoint.told.get(timeout=WAIT))


def test_what_a_server_is_sent_while_it_is_away_waits_for_it(
    rabbit: Node, transports: Transports
) -> None:
    apps = Apps(rabbit, transports)
    endpoint = Endpoint()
    stop(apps.server("away", endpoint))
    apps.client("away").prepare(server="s").cast({}, "tell", text="waits")
    apps.server("away", endpoint)
    assert endpoint.told.get(timeout=WAIT) == "waits"
