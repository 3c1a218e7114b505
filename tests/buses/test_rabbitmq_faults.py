# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ: alarms, deleted queues, virtual hosts, many links, restarts; on running nodes."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import oslo_messaging as om
import pytest

from amqp1_driver.addressing.peer import Peer, profile_for
from tests.bars.support import Logged, Transports, outcome
from tests.bars.test_restarts import Run
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


#: by resource: what sets its limit, a limit that is passed, and one that is not
LIMITS = {
    "memory": ("set_vm_memory_high_watermark", "0.000001", "0.6"),
    "disk": ("set_disk_free_limit", "1000000GB", "50MB"),
}


class Alarm:
    """An alarm while the context lasts, or until it is cleared."""

    def __init__(self, node: Node, resource: str = "memory") -> None:
        self._node = node
        self._command, self._passed, self._fine = LIMITS[resource]

    def __enter__(self) -> Alarm:
        self._node.ctl(self._command, self._passed)
        return self

    def clear(self) -> None:
        self._node.ctl(self._command, self._fine)

    def __exit__(self, *error: object) -> None:
        self.clear()


# -- alarms --------------------------------------------------------------------------------


def test_in_an_alarm_sends_time_out_and_say_why_and_go_on_afterwards(
    rabbit: Node, transports: Transports, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "amqp1_driver")
    apps = Apps(rabbit, transports, blocked_warning_interval=0.5)
    endpoint = Endpoint()
    apps.server("memory", endpoint)
    client = apps.client("memory")
    client.cast({}, "tell", text="before")
    assert endpoint.told.get(timeout=WAIT) == "before"
    with Alarm(rabbit) as alarm, Logged("RabbitMQ does in an alarm") as warned:
        found = outcome(lambda: client.prepare(timeout=2).call({}, "echo", text="x"))
        assert isinstance(found.error, om.MessagingTimeout)
        assert 1.9 < found.seconds < 4
        assert "alarm" in found.text
        warned.wait(WAIT)
        waiting = threading.Thread(target=lambda: client.cast({}, "tell", text="in the alarm"))
        with Logged("RabbitMQ does in an alarm") as warned_again:
            waiting.start()
            warned_again.wait(WAIT)
        with Logged("goes on: blocked for") as goes_on:
            alarm.clear()
            assert endpoint.told.get(timeout=WAIT) == "in the alarm"
            goes_on.wait(WAIT)
        waiting.join(WAIT)
    assert client.call({}, "echo", text="after") == "after"


def test_in_an_alarm_servers_go_on_reading(rabbit: Node, transports: Transports) -> None:
    apps = Apps(rabbit, transports)
    client = apps.client("reads")
    for number in range(50):
        client.cast({}, "tell", text=number)
    reader = Apps(rabbit, transports, rpc_server_credit=5)
    endpoint = Endpoint()
    reader.server("reads", endpoint, name="first")  # what is declared in an alarm would hang
    with Alarm(rabbit):
        assert sorted(endpoint.told.get(timeout=WAIT) for _ in range(50)) == list(range(50))


@pytest.mark.parametrize("resource", ["memory", "disk"])
def test_in_an_alarm_new_listeners_and_servers_start_and_read(
    rabbit: Node, transports: Transports, resource: str
) -> None:
    """What they read may be the reason of the alarm."""
    apps = Apps(rabbit, transports, default_send_timeout=60)
    topic = f"new-{resource}"
    client, notifier = apps.client(topic), apps.notifier(topic)
    for number in range(20):
        client.cast({}, "tell", text=number)
        notifier.info({}, "event", number)
    endpoint, events = Endpoint(), Endpoint()
    own = f"openstack:rpc:unicast:tests:{topic}:brand-new"
    with Events(rabbit, "queue.created") as created:
        with Alarm(rabbit, resource):
            with Logged("takes no declarations: it has closed its session's window") as warned:
                since = time.monotonic()
                apps.server(topic, endpoint, name="brand-new")
                apps.listener(topic, events)
                # not for as long as a subscription may take, 60 s
                assert time.monotonic() - since < WAIT
                warned.wait(WAIT)
            for told in (endpoint.told, events.told):
                assert sorted(told.get(timeout=WAIT) for _ in range(20)) == list(range(20))
            assert [own] not in rabbit.listed("list_queues", "name")
        created.wait_for({own})
    assert client.prepare(server="brand-new").call({}, "echo", text="after") == "after"


# -- queues that are deleted ----------------------------------------------------------------


def test_a_queue_deleted_under_its_reader_and_its_sender_is_there_again(
    rabbit: Node, transports: Transports
) -> None:
    apps = Apps(rabbit, transports)
    endpoint = Endpoint()
    apps.server("deleted", endpoint)
    apps.listener("deleted", endpoint)
    client, notifier = apps.client("deleted"), apps.notifier("deleted")
    client.cast({}, "tell", text=0)
    notifier.info({}, "event", 1)
    assert sorted(endpoint.told.get(timeout=WAIT) for _ in range(2)) == [0, 1]
    with Management(rabbit) as management:
        for name in (
            "openstack:rpc:anycast:tests:deleted",
            "openstack:rpc:unicast:tests:deleted:s",
            "openstack:notify:tests:deleted.info",
        ):
            management.delete(name)
        # the next message may come back, and fails then; the one after that never does
        outcome(lambda: client.cast({}, "tell", text=2))
        notifier.info({}, "event", 3)
        client.cast({}, "tell", text=4)
        notifier.info({}, "event", 5)
        told: list[Any] = []
        while not {4, 5} <= set(told):
            told.append(endpoint.told.get(timeout=WAIT))
        assert len(told) == len(set(told))
        transports.cleanup()
        management.delete("openstack:notify:tests:deleted.info")


def test_a_call_to_a_server_that_is_not_there_times_out(
    rabbit: Node, transports: Transports
) -> None:
    """As upstream's test_mandatory_call has it, which is for rabbit:// only."""
    client = Apps(rabbit, transports).client("absent", timeout=1).prepare(server="nobody")
    found = outcome(lambda: client.call({}, "echo", text="x"))
    assert isinstance(found.error, om.MessagingTimeout)
    assert "there is no queue of such a server" in found.text
    eager = om.get_rpc_client(
        transports.rpc(rabbit.url()),
        om.Target(exchange="tests", topic="absent", server="nobody"),
        timeout=60,
        transport_options=om.TransportOptions(at_least_once=True),
    )
    since = time.monotonic()
    found = outcome(lambda: eager.call({}, "echo", text="x"))
    assert isinstance(found.error, om.MessageUndeliverable)
    assert time.monotonic() - since < WAIT


# -- virtual hosts -----------------------------------------------------------------------------


@pytest.fixture
def vhost(rabbit: Node) -> Iterator[str]:
    rabbit.ctl("add_vhost", "prod/1")
    rabbit.ctl("set_permissions", "-p", "prod/1", "guest", ".*", ".*", ".*")
    yield "prod/1"
    rabbit.ctl("delete_vhost", "prod/1")


def test_real_virtual_hosts(rabbit: Node, vhost: str) -> None:
    transports = Transports()
    try:
        apps = Apps(Host(rabbit, "prod%2F1"), transports, pseudo_vhost=False)
        apps.server("vhost", Endpoint())
        assert apps.client("vhost").call({}, "echo", text="there") == "there"
        inside = {row[0] for row in rabbit.listed("list_queues", "name", vhost=vhost)}
        assert "openstack:rpc:anycast:tests:vhost" in inside
        assert not {row[0] for row in rabbit.listed("list_queues", "name") if "vhost" in row[0]}
    finally:
        transports.cleanup()


def test_an_unknown_virtual_host_is_named(rabbit: Node, transports: Transports) -> None:
    apps = Apps(Host(rabbit, "absent"), transports, pseudo_vhost=False)
    with Logged("virtual host 'absent'") as logged:
        client = apps.client("vhost", timeout=6)
        found = outcome(lambda: client.call({}, "echo", text="x"))
        logged.wait(WAIT)
    assert isinstance(found.error, om.MessagingTimeout)
    assert "virtual host 'absent'" in found.text


class Host:
    """A node by one of its virtual hosts."""

    def __init__(self, node: Node, name: str) -> None:
        self._node, self._name = node, name

    def url(self) -> str:
        return f"{self._node.url()}/{self._name}"


# -- many links, sessions -------------------------------------------------------------------


def test_more_than_256_links_on_one_connection(rabbit: Node, transports: Transports) -> None:
    endpoint = Endpoint()
    transport = transports.rpc(rabbit.url())
    servers = [
        om.get_rpc_server(
            transport,
            om.Target(exchange="many", topic=f"t{n}", server="s"),
            [endpoint],
            executor="threading",
        )
        for n in range(90)
    ]
    for server in servers:
        server.start()
    client = om.get_rpc_client(transport, om.Target(exchange="many", topic="t0"), timeout=WAIT)
    for number in range(90):
        assert client.prepare(topic=f"t{number}").call({}, "echo", text=str(number)) == (
            str(number)
        )
    rows = rabbit.listed("list_connections", "channels")
    consumers = rabbit.listed("list_consumers", "queue_name")
    assert len([row for row in consumers if ":many:" in row[0]]) == 270
    assert max(int(row[0]) for row in rows) <= 64
    stopping = [threading.Thread(target=server.stop) for server in servers]
    for one in stopping:
        one.start()
    for one in stopping:
        one.join(WAIT)
    transport.cleanup()
    left = {row[0] for row in rabbit.listed("list_queues", "name") if ":many:" in row[0]}
    assert len(left) == 180
    assert not {name for name in left if ":multicast:" in name}


def test_a_link_that_is_refused_harms_no_other(rabbit: Node, transports: Transports) -> None:
    """On 4.0 the whole session ends with it."""
    version = tuple(map(int, rabbit.ctl("version").strip().split(".")))
    assert profile_for(Peer("RabbitMQ", version)).sessions.per_receiver == (version < (4, 3))
    apps = Apps(rabbit, transports)
    endpoint = Endpoint()
    apps.server("harmless", endpoint)
    client = apps.client("harmless")
    with Management(rabbit) as other:
        # another connection's own: we may not read it
        name = "openstack:notify:tests:foreign.info"
        assert other.declare(name, exclusive=True, x_queue_type="classic") == "201"
        with Logged("foreign.info") as logged:
            transport = apps.transports.notification(rabbit.url())
            listener = om.get_notification_listener(
                transport,
                [om.Target(exchange="tests", topic="foreign")],
                [endpoint],
                executor="threading",
            )
            starting = threading.Thread(target=listener.start, daemon=True)
            starting.start()
            logged.wait(WAIT)
        assert client.call({}, "echo", text="unharmed") == "unharmed"
        client.cast({}, "tell", text="too")
        assert endpoint.told.get(timeout=WAIT) == "too"
    starting.join(WAIT)
    apps.notifier("foreign").info({}, "event", "at last")
    assert endpoint.told.get(timeout=WAIT) == "at last"
    transport.cleanup()
    with Management(rabbit) as management:
        management.delete(name)


# -- restarts ----------------------------------------------------------------------------------


def test_a_4_0_node_that_is_killed_and_started_again_loses_nothing(
    rabbit40: Node, worker: Callable[[str], Worker]
) -> None:
    def restart() -> None:
        rabbit40.kill()
        rabbit40.start()

    run = Run(worker, rabbit40.url())
    run.disturb(restart)
    result = run.stop()
    for kind in ("call", "cast", "notify"):
        assert run.lost(result, kind) == []
    run.close()


def test_quorum_queues_lose_nothing_in_a_restart(
    rabbit43: Node, worker: Callable[[str], Worker]
) -> None:
    def restart() -> None:
        rabbit43.kill()
        rabbit43.start()

    run = Run(
        worker,
        f"{rabbit43.url()}/?rpc_queue_type=quorum&notification_queue_type=quorum"
        "&pseudo_vhost=false",
    )
    run.disturb(restart)
    result = run.stop()
    for kind in ("call", "cast", "notify"):
        assert run.lost(result, kind) == []
    run.close()


# -- redelivery ------------------------------------------------------------------------------


class Slow(Endpoint):
    """Works on a message until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def info(
        self,
        ctxt: dict[str, Any],
        publisher: str,
        event: str,
        payload: Any,
        metadata: dict[str, Any],
    ) -> None:
        self.told.put(payload)
        self.go_on.wait(WAIT)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_what_comes_again_while_it_is_worked_on_is_worked_on_once(
    rabbit: Node, transports: Transports, kind: str
) -> None:
    apps = Apps(rabbit, transports, notification_queue_type=kind, connection_retry_interval=0.1)
    slow = Slow()
    apps.listener(f"again-{kind}", slow)
    notifier = apps.notifier(f"again-{kind}")
    notifier.info({}, "event", 1)
    assert slow.told.get(timeout=WAIT) == 1
    with Logged("was delivered again and is dropped") as dropped:
        rabbit.ctl("close_all_connections", "test")
        dropped.wait(WAIT)
    slow.go_on.set()
    notifier.info({}, "event", 2)
    assert slow.told.get(timeout=WAIT) == 2
    assert slow.told.empty()
