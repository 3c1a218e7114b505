# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.
"""RabbitMQ: alarms, deleted queues, virtual hosts, many links, restarts; on running nodes."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import oslo_messaging as om
import pytest

from amqp1_driver.addressing.peer import Peer, choose
from tests.bars.support import Logged, Transports, outcome
from tests.bars.test_restarts import Run
from tests.bars.workers import Worker
from tests.buses.rabbit import WAIT, Apps, Management, Node

pytestmark = pytest.mark.rabbitmq


class Endpoint:
    """Takes down what it is told."""

    def __init__(self) -> None:
        self.told: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def echo(self, ctxt: dict[str, Any], text: str) -> str:
        return text

    def tell(self, ctxt: dict[str, Any], text: Any) -> None:
        self.told.put(text)

    def info(self, ctxt: dict[str, Any], publisher: str, event: str, payload: Any,
             metadata: dict[str, Any]) -> None:
        self.told.put(payload)


class Alarm:
    """A memory alarm while the context lasts, or until it is cleared."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def __enter__(self) -> Alarm:
        self._node.ctl("set_vm_memory_high_watermark", "0.000001")
        return self

    def clear(self) -> None:
        self._node.ctl("set_vm_memory_high_watermark", "0.6")

    def __exit__(self, *error: object) -> None:
        self.clear()


# -- alarms --------------------------------------------------------------------------------


def test_in_an_alarm_sends_time_out_and_say_why_and_go_on_afterwards(
        rabbit: Node, transports: Transports, caplog: pytest.LogCaptureFixture) -> None:
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
        waiting = threading.Thread(
            target=lambda: client.cast({}, "tell", text="in the alarm"))
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


# -- queues that are deleted ----------------------------------------------------------------


def test_a_queue_deleted_under_its_reader_and_its_sender_is_there_again(
        rabbit: Node, transports: Transports) -> None:
    apps = Apps(rabbit, transports)
    endpoint = Endpoint()
    apps.server("deleted", endpoint)
    apps.listener("deleted", endpoint)
    client, notifier = apps.client("deleted"), apps.notifier("deleted")
    client.cast({}, "tell", text=0)
    notifier.info({}, "event", 1)
    assert sorted(endpoint.told.get(timeout=WAIT) for _ in range(2)) == [0, 1]
    with Management(rabbit) as management:
        for name in ("openstack:rpc:anycast:tests:deleted",
                     "openstack:rpc:unicast:tests:deleted:s",
                     "openstack:notify:tests:deleted.info"):
            management.delete(name)
        # neither fails: the queue is declared again before the message is sent again
        client.cast({}, "tell", text=2)
        notifier.info({}, "event", 3)
        assert sorted(endpoint.told.get(timeout=WAIT) for _ in range(2)) == [2, 3]
        transports.cleanup()
        management.delete("openstack:notify:tests:deleted.info")


def test_no_sender_fails_while_a_queue_is_deleted_again_and_again(
        rabbit43: Node, transports: Transports) -> None:
    apps = Apps(rabbit43, transports)
    apps.server("again", Endpoint())
    client = apps.client("again", timeout=WAIT, retry=0)
    sent = threading.Semaphore(0)
    errors: list[BaseException | None] = []
    done = threading.Event()

    def send() -> None:
        while not done.is_set():
            errors.append(outcome(lambda: client.cast({}, "tell", text="x")).error)
            sent.release()

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with Management(rabbit43) as management:
            for _ in range(20):
                for _ in range(20):
                    assert sent.acquire(timeout=WAIT)
                management.delete("openstack:rpc:anycast:tests:again")
    finally:
        done.set()
        sender.join(WAIT)
    assert len(errors) > 400
    assert [error for error in errors if error is not None] == []


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
    servers = [om.get_rpc_server(transport, om.Target(exchange="many", topic=f"t{n}", server="s"),
                                 [endpoint], executor="threading") for n in range(90)]
    for server in servers:
        server.start()
    client = om.get_rpc_client(transport, om.Target(exchange="many", topic="t0"), timeout=WAIT)
    for number in range(90):
        assert client.prepare(topic=f"t{number}").call({}, "echo", text=str(number)) == (
            str(number))
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
    assert not {row[0] for row in rabbit.listed("list_queues", "name") if ":many:" in row[0]}


def test_a_link_that_is_refused_harms_no_other(rabbit: Node, transports: Transports) -> None:
    """On 4.0 the whole session ends with it."""
    version = tuple(map(int, rabbit.ctl("version").strip().split(".")))
    assert choose(Peer("RabbitMQ", version)).session_per_receiver == (version < (4, 3))
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
                transport, [om.Target(exchange="tests", topic="foreign")], [endpoint],
                executor="threading")
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
        rabbit40: Node, worker: Callable[[str], Worker]) -> None:
    def restart() -> None:
        rabbit40.kill()
        rabbit40.start()

    run = Run(worker, rabbit40.url())
    run.disturb(restart)
    result = run.stop()
    for kind in ("call", "cast", "notify"):
        assert run.lost(result, kind) == []
    run.close()


def test_quorum_queues_lose_nothing_in_a_restart(rabbit43: Node,
                                                 worker: Callable[[str], Worker]) -> None:
    def restart() -> None:
        rabbit43.kill()
        rabbit43.start()

    run = Run(worker, f"{rabbit43.url()}/?rpc_queue_type=quorum&notification_queue_type=quorum"
              "&pseudo_vhost=false")
    run.disturb(restart)
    result = run.stop()
    for kind in ("call", "cast", "notify"):
        assert run.lost(result, kind) == []
    run.close()
