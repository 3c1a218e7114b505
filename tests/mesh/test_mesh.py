# SPDX-License-Identifier: Apache-2.0

"""Three real routers: servers on one, clients on another, and some of them killed or frozen."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import oslo_messaging as om
import pytest

from tests.bars.support import Transports, outcome
from tests.bars.test_restarts import Run
from tests.bars.workers import Worker
from tests.mesh.routers import Mesh, Process

Start = Callable[[str], Worker]
Measured = Callable[[str], None]

#: oslo.messaging's RPC timeout in these tests, seconds
TIMEOUT = 20.0


class Endpoint:
    """Tells which messages came, and keeps those it is told to keep until they are let go."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.came: queue.Queue[Any] = queue.Queue()
        self.let_go = threading.Event()

    def note(self, ctxt: dict[str, Any], text: str) -> None:
        self.came.put(text)

    def keep(self, ctxt: dict[str, Any], text: str) -> str:
        self.came.put(text)
        assert self.let_go.wait(60)
        return text

    def who(self, ctxt: dict[str, Any]) -> str:
        return self.name

    def info(self, messages: list[dict[str, Any]]) -> None:
        self.came.put([message["payload"] for message in messages])


class Keeper:
    """Takes a notification and keeps it."""

    def __init__(self) -> None:
        self.came: queue.Queue[Any] = queue.Queue()
        self.let_go = threading.Event()

    def info(
        self,
        ctxt: dict[str, Any],
        publisher: str,
        event: str,
        payload: Any,
        metadata: dict[str, Any],
    ) -> None:
        self.came.put(payload)
        assert self.let_go.wait(60)


def test_a_fanout_reaches_the_servers_of_all_routers(mesh: Mesh, transports: Transports) -> None:
    endpoints = [Endpoint(name) for name in ("a", "b", "c")]
    for number, endpoint in enumerate(endpoints):
        transports.serve(mesh.url(number), name=endpoint.name, endpoint=endpoint)
    client = transports.client(mesh.url(0), timeout=TIMEOUT)
    # each waits until the news of that server has come
    assert [client.prepare(server=name).call({}, "who") for name in "abc"] == ["a", "b", "c"]
    client.prepare(fanout=True).cast({}, "note", text="all")
    assert [endpoint.came.get(timeout=10) for endpoint in endpoints] == ["all"] * 3


def test_a_fanout_to_nobody_is_done_soon_and_the_next_one_at_once(
    mesh: Mesh, transports: Transports, measured: Measured
) -> None:
    client = transports.client(mesh.url(0)).prepare(fanout=True)
    first = outcome(lambda: client.cast({}, "note", text="1"))
    second = outcome(lambda: client.cast({}, "note", text="2"))
    measured(f"{first.seconds:.3f} s, then {second.seconds:.3f} s")
    assert (first.error, second.error) == (None, None)
    assert first.seconds < 3
    assert second.seconds < 0.5


def test_who_must_reach_somebody_is_told_soon_that_nobody_is_there(
    mesh: Mesh, transports: Transports, measured: Measured
) -> None:
    options = om.TransportOptions(at_least_once=True)
    client = om.get_rpc_client(
        transports.rpc(mesh.url(0)), om.Target(topic="nobody"), transport_options=options
    )
    told = [outcome(lambda: client.cast({}, "note", text="1")) for _ in range(2)]
    measured(", then ".join(f"{one.seconds:.3f} s" for one in told))
    assert [type(one.error) for one in told] == [om.exceptions.MessageUndeliverable] * 2
    assert told[0].seconds < 3
    assert told[1].seconds < 0.5


def test_who_must_reach_somebody_reaches_a_server_that_has_only_just_come(
    mesh: Mesh, transports: Transports
) -> None:
    """Its router knows it already, the client's does not."""
    options = om.TransportOptions(at_least_once=True)
    client = om.get_rpc_client(
        transports.rpc(mesh.url(2)),
        om.Target(topic="news"),
        timeout=TIMEOUT,
        transport_options=options,
    )
    assert isinstance(
        outcome(lambda: client.prepare(topic="nobody").cast({}, "x")).error,
        om.exceptions.MessageUndeliverable,
    )  # so it is connected
    endpoint = Endpoint("new")
    transports.serve(mesh.url(0), topic="news", endpoint=endpoint)
    assert client.call({}, "who") == "new"


def test_a_server_at_work_keeps_no_fanout_waiting(mesh: Mesh, transports: Transports) -> None:
    """Though a router tells the outcome when the last reader has settled."""
    endpoint = Endpoint()
    transports.serve(mesh.url(0), endpoint=endpoint, pool=1)
    client = transports.client(mesh.url(2), timeout=TIMEOUT)
    client.cast({}, "keep", text="work")
    assert endpoint.came.get(timeout=TIMEOUT) == "work"
    told = outcome(lambda: client.prepare(fanout=True).cast({}, "note", text="all"))
    assert (told.error, endpoint.came.empty()) == (None, True)
    assert told.seconds < 5
    endpoint.let_go.set()
    assert endpoint.came.get(timeout=TIMEOUT) == "all"


def test_a_listener_that_collects_a_batch_keeps_no_notifier_waiting(
    mesh: Mesh, transports: Transports
) -> None:
    endpoint = Endpoint()
    listener = om.get_batch_notification_listener(
        transports.notification(mesh.url(0)),
        [om.Target(topic="events")],
        [endpoint],
        executor="threading",
        batch_size=3,
        batch_timeout=60,
    )
    listener.start()
    notifier = om.Notifier(
        transports.notification(mesh.url(2)),
        "publisher",
        driver="messaging",
        topics=["events"],
        retry=0,
    )
    for number in range(2):
        notifier.info({}, "event", number)
    assert endpoint.came.empty()
    notifier.info({}, "event", 2)
    assert endpoint.came.get(timeout=10) == [0, 1, 2]
    listener.stop()
    listener.wait()


def test_a_call_is_answered_though_the_router_of_its_server_is_killed_meanwhile(
    mesh: Mesh, transports: Transports, measured: Measured
) -> None:
    """The caller's address lives on the caller's router: the reply takes the other way."""
    endpoint = Endpoint("only")
    transports.serve(mesh.url(0, 1), endpoint=endpoint, host_selection="ordered")
    client = transports.client(mesh.url(2), timeout=30)
    answers: queue.Queue[Any] = queue.Queue()
    caller = threading.Thread(
        target=lambda: answers.put(outcome(lambda: client.call({}, "keep", text="work")))
    )
    caller.start()
    assert endpoint.came.get(timeout=TIMEOUT) == "work"
    # the acknowledgement of the one goes before the reply to the other
    assert client.call({}, "who") == "only"
    mesh.routers[0].kill()
    since = time.monotonic()
    endpoint.let_go.set()
    told = answers.get(timeout=40)
    caller.join()
    measured(f"answered {time.monotonic() - since:.2f} s after the kill")
    assert (told.error, told.value, endpoint.came.empty()) == (None, "work", True)


def test_what_is_under_way_to_a_router_that_is_killed_fails_at_once(
    mesh: Mesh, transports: Transports, measured: Measured
) -> None:
    """The listener has it and has not settled: the sender's router tells MODIFIED."""
    endpoint = Keeper()
    listener = om.get_notification_listener(
        transports.notification(mesh.url(0)),
        [om.Target(topic="events")],
        [endpoint],
        executor="threading",
    )
    listener.start()
    transport = transports.notification(mesh.url(2))
    ends: queue.Queue[Any] = queue.Queue()
    message = {
        "event_type": "e",
        "publisher_id": "p",
        "payload": 1,
        "message_id": "1",
        "timestamp": "",
        "priority": "INFO",
    }
    sender = threading.Thread(
        target=lambda: ends.put(
            outcome(
                lambda: transport._send_notification(
                    om.Target(topic="events.info"), {}, message, version=2.0, retry=0
                )
            )
        )
    )
    sender.start()
    assert endpoint.came.get(timeout=TIMEOUT) == 1
    since = time.monotonic()
    mesh.routers[0].kill()
    told = ends.get(timeout=TIMEOUT)
    sender.join()
    seconds = time.monotonic() - since
    measured(f"{seconds:.2f} s after the kill: {told.text}")
    endpoint.let_go.set()
    assert isinstance(told.error, om.exceptions.MessageDeliveryFailure)
    assert "modified" in told.text
    assert seconds < 5
    listener.stop()
    listener.wait()


def settled(run: Run, measured: Measured) -> None:
    """Nothing hung, nothing that was acknowledged is lost, nothing came twice."""
    result = run.stop()
    measured(run.summary(result))
    for kind in ("call", "cast", "notify"):
        assert run.lost(result, kind) == []
    assert run.server.do("repeated") == {}
    run.close()


def restart(router: Process) -> None:
    router.kill()
    router.start()


@pytest.mark.parametrize(
    ("server", "client", "victims"),
    [
        ((0,), (1, 2), (1, 2)),
        ((0, 1), (2,), (0, 1)),
    ],
    ids=["client", "server"],
)
def test_a_router_is_killed_and_those_on_it_go_to_another_one(
    mesh: Mesh,
    worker: Start,
    measured: Measured,
    server: tuple[int, ...],
    client: tuple[int, ...],
    victims: tuple[int, ...],
) -> None:
    run = Run(worker, mesh.url(*server), mesh.url(*client))
    for number in victims:
        run.disturb(mesh.routers[number].kill)
        mesh.routers[number].start()
    settled(run, measured)


@pytest.mark.parametrize(
    ("server", "client", "victim"),
    [
        ((0,), (1, 2), 1),
        ((0, 1), (2,), 0),
    ],
    ids=["client", "server"],
)
def test_a_router_is_frozen_and_goes_on_later(
    mesh: Mesh,
    worker: Start,
    measured: Measured,
    server: tuple[int, ...],
    client: tuple[int, ...],
    victim: int,
) -> None:
    """The idle timeout notices; what the router held is late, but does not come twice."""
    run = Run(worker, mesh.url(*server), mesh.url(*client), idle_timeout=2.0)
    run.disturb(mesh.routers[victim].freeze)
    run.disturb(mesh.routers[victim].go_on)
    settled(run, measured)
