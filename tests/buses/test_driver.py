# SPDX-License-Identifier: Apache-2.0
"""RPC and notifications on ActiveMQ Artemis and Qpid Broker-J, through oslo.messaging."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from typing import Any

import oslo_messaging as om
import pytest

from tests.bars.support import Logged, Transports, outcome
from tests.bars.workers import Worker
from tests.buses.javabus import JavaBus

WAIT = 20.0


class Endpoint:
    """Tells its name, and takes down what it is told."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.told: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def who(self, ctxt: dict[str, Any]) -> str:
        return self.name

    def echo(self, ctxt: dict[str, Any], text: str) -> str:
        return text

    def tell(self, ctxt: dict[str, Any], text: str) -> None:
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

    def get(self, count: int = 1) -> list[Any]:
        return [self.told.get(timeout=WAIT) for _ in range(count)]


class Bus:
    """Servers, clients, listeners and notifiers on one bus, each with a transport of its own."""

    def __init__(self, bus: JavaBus, transports: Transports) -> None:
        self.bus = bus
        self.transports = transports

    def server(self, topic: str, name: str) -> Endpoint:
        endpoint = Endpoint(name)
        server = om.get_rpc_server(
            self.transports.rpc(self.bus.url()),
            om.Target(exchange="tests", topic=topic, server=name),
            [endpoint],
            executor="threading",
        )
        server.start()
        self.transports._servers.append(server)
        return endpoint

    def client(self, topic: str, timeout: float = WAIT, **settings: Any) -> Any:
        return om.get_rpc_client(
            self.transports.rpc(self.bus.url(), **settings),
            om.Target(exchange="tests", topic=topic),
            timeout=timeout,
        )

    def listener(
        self, topic: str, pool: str | None = None, endpoint: Endpoint | None = None
    ) -> Endpoint:
        endpoint = endpoint or Endpoint(pool or "")
        listener = om.get_notification_listener(
            self.transports.notification(self.bus.url()),
            [om.Target(exchange="tests", topic=topic)],
            [endpoint],
            executor="threading",
            pool=pool,
        )
        listener.start()
        self.transports._servers.append(listener)
        return endpoint

    def notifier(self, topic: str) -> Any:
        return om.Notifier(
            self.transports.notification(self.bus.url(), default_notification_exchange="tests"),
            publisher_id="p",
            driver="messaging",
            topics=[topic],
        )


@pytest.fixture
def bus(java_bus: JavaBus, transports: Transports) -> Bus:
    return Bus(java_bus, transports)


def test_calls_reach_one_server_or_any_and_casts_all(bus: Bus) -> None:
    first, second = bus.server("rpc.x", "one"), bus.server("rpc.x", "two")
    client = bus.client("rpc.x")
    assert client.prepare(server="two").call({}, "who") == "two"
    assert client.prepare(server="one").call({}, "who") == "one"
    assert {client.call({}, "who") for _ in range(8)} == {"one", "two"}
    client.prepare(fanout=True).cast({}, "tell", text="all")
    assert (first.get(), second.get()) == (["all"], ["all"])


def test_names_with_every_sign_keep_apart(bus: Bus) -> None:
    names = ["a:b", "a::b", "a/b", "a*", "a#", "a?x=y", "a%3Ab", "ä ö", "a\\b", "a.b"]
    servers = [bus.server(name, name) for name in names]
    for name in names:
        client = bus.client(name)
        assert client.call({}, "who") == name
        client.prepare(server=name).cast({}, "tell", text="own")
        client.prepare(fanout=True).cast({}, "tell", text="all")
    for server in servers:
        assert sorted(server.get(2)) == ["all", "own"]
        assert server.told.empty()


def test_a_cast_waits_for_a_server_yet_to_come(bus: Bus) -> None:
    bus.client("later").cast({}, "tell", text="waits")
    assert bus.server("later", "s").get() == ["waits"]


@pytest.mark.parametrize("size", [0, 40_000, 300_000])
def test_messages_of_every_size(bus: Bus, size: int) -> None:
    """More than a frame, and more than from which on Artemis keeps them in files."""
    bus.server("large", "s")
    text = "0123456789" * (size // 10)
    assert bus.client("large").call({}, "echo", text=text) == text


def test_a_call_to_a_server_that_is_not_there_times_out(bus: Bus) -> None:
    client = bus.client("nobody", timeout=1)
    found = outcome(lambda: client.prepare(server="absent").call({}, "who"))
    assert isinstance(found.error, om.MessagingTimeout)
    assert found.seconds < 3


def test_a_server_that_comes_back_is_found_again(bus: Bus) -> None:
    client = bus.client("back")
    for _ in range(2):
        with_server = Transports()
        other = Bus(bus.bus, with_server)
        other.server("back", "s")
        assert client.prepare(server="s").call({}, "who") == "s"
        assert client.call({}, "who") == "s"
        with_server.cleanup()


def test_notifications_wait_for_listeners_and_every_pool_gets_each(bus: Bus) -> None:
    notifier = bus.notifier("pools")
    notifier.info({}, "event", 0)
    plain, first = bus.listener("pools"), bus.listener("pools", "first")
    second = bus.listener("pools", "second")
    bus.listener("pools", "second", second)
    assert plain.get() == [0]
    for number in range(1, 11):
        notifier.info({}, "event", number)
    assert sorted(plain.get(10)) == list(range(1, 11))
    assert sorted(first.get(10)) == list(range(1, 11))
    # the two of one pool take down in one place
    assert sorted(second.get(10)) == list(range(1, 11))


def test_what_is_stored_survives_the_death_of_the_bus(bus: Bus) -> None:
    bus.client("stored").cast({}, "tell", text="cast")
    bus.notifier("stored").info({}, "event", "note")
    bus.transports.cleanup()
    bus.bus.kill()
    bus.bus.start()
    assert bus.server("stored", "s").get() == ["cast"]
    assert bus.listener("stored").get() == ["note"]


def test_clients_and_servers_outlive_a_restart_of_the_bus(bus: Bus) -> None:
    bus.server("outlive", "s")
    client = bus.client("outlive")
    assert client.call({}, "who") == "s"
    bus.bus.kill()
    bus.bus.start()
    assert client.call({}, "who") == "s"
    assert client.prepare(server="s").call({}, "who") == "s"


def test_with_one_of_two_targets_full_sends_to_the_other_go_on(bus: Bus) -> None:
    """Counts only; the rates were measured, see the pages on deployment."""
    server = bus.server("good", "s")
    good = bus.client("good", blocked_warning_interval=0.5)
    full = good.prepare(topic="full")
    stop, sent = threading.Event(), []

    def fill() -> None:
        while not stop.is_set():
            full.cast({}, "tell", text="x" * 5000)
            sent.append(1)

    filler = threading.Thread(target=fill, daemon=True)
    with Logged("the peer grants no credit") as blocked:
        filler.start()
        blocked.wait(WAIT)
    stored = len(sent)
    for number in range(200):
        good.cast({}, "tell", text=str(number))
    assert sorted(map(int, server.get(200))) == list(range(200))
    assert good.call({}, "who") == "s"
    assert len(sent) == stored
    late = outcome(lambda: full.prepare(timeout=1).call({}, "who"))
    assert isinstance(late.error, om.MessagingTimeout)
    assert "timed out waiting for credit" in late.text
    # it goes on once there is room; the call that was given up was never sent
    stop.set()
    reader = bus.server("full", "s")
    assert len(reader.get(stored + 1)) == stored + 1
    filler.join(WAIT)
    assert len(sent) == stored + 1
    assert reader.told.empty()


def test_after_a_clean_stop_only_durable_queues_are_left(bus: Bus) -> None:
    prefix = {"artemis": "openstack.", "brokerj": "openstack:"}[bus.bus.name]
    before = bus.bus.queues()
    server, listener = bus.server("clean", "s"), bus.listener("clean", "pool")
    client, notifier = bus.client("clean"), bus.notifier("clean")
    assert client.prepare(server="s").call({}, "who") == "s"
    assert client.call({}, "who") == "s"
    client.prepare(fanout=True).cast({}, "tell", text="all")
    notifier.info({}, "event", 1)
    assert (server.get(), listener.get()) == (["all"], [1])
    bus.transports.cleanup()
    stays = {
        "artemis": {"openstack.notify.tests:clean.info", "openstack.notify.tests:clean.info:pool"},
        "brokerj": {"openstack:notify:tests:clean.info", "openstack:notify:tests:clean.info:pool"},
    }[bus.bus.name]
    left = bus.bus.left(prefix, lambda found: found - before == stays)
    assert left - before == stays
    # nor any address of replies
    assert bus.bus.queues() - before == stays


def test_a_server_that_stops_leaves_no_queue_behind_its_connection(bus: Bus) -> None:
    """Fanouts would wait in it until its process ends, and at last hold up those to all others."""
    transport = bus.transports.rpc(bus.bus.url())

    def started(topic: str) -> Any:
        server = om.get_rpc_server(
            transport,
            om.Target(exchange="tests", topic=topic, server="s"),
            [Endpoint("s")],
            executor="threading",
        )
        server.start()
        return server

    stays = started("stays")
    bus.transports._servers.append(stays)
    before = bus.bus.queues()
    stops = started("stops")
    assert len(bus.bus.queues() - before) == 3
    stops.stop()
    stops.wait()
    assert bus.bus.left("", lambda found: found == before) == before


def test_after_a_kill_only_durable_queues_are_left(java_bus: JavaBus, tmp_path: Path) -> None:
    """That of notifications; and on Broker-J that for any server, where a cast might wait."""
    before = java_bus.queues()
    process = Worker("server", tmp_path / "log")
    try:
        process.do("open", url=java_bus.url(), topic="killed", options={})
        process.do("serve", name="s")
        while_it_lives = java_bus.queues() - before
    finally:
        process.kill()
        process.stop()
    stays = {
        "artemis": {"openstack.notify.openstack:killed.info"},
        "brokerj": {
            "openstack:notify:openstack:killed.info",
            "openstack:rpc:anycast:openstack:killed",
        },
    }[java_bus.name]
    # any server, one, all, notifications, and two for replies
    assert len(while_it_lives) == 6
    found = java_bus.left("", lambda names: names - before == stays)
    assert found - before == stays


def test_a_virtual_host_of_the_bus_or_as_a_part_of_names(
    java_bus: JavaBus, transports: Transports
) -> None:
    """Broker-J's is named "default"; Artemis has none and takes any name."""
    found = []
    for pseudo in (True, False):
        url = java_bus.url() + "/default"
        transport = transports.rpc(url, pseudo_vhost=pseudo)
        endpoint = Endpoint(str(pseudo))
        server = om.get_rpc_server(
            transport, om.Target(topic="vhost", server="s"), [endpoint], executor="threading"
        )
        server.start()
        transports._servers.append(server)
        client = om.get_rpc_client(
            transports.rpc(url, pseudo_vhost=pseudo), om.Target(topic="vhost"), timeout=WAIT
        )
        found.append(client.call({}, "who"))
    assert found == ["True", "False"]
