# SPDX-License-Identifier: Apache-2.0

"""Contract: processes.  Forks, eventlet, and what is left over after cleanup."""

from __future__ import annotations

import gc
import json
import os
import threading
import weakref

import oslo_messaging
import pytest

from amqp1_driver.bus import Bus
from tests.contract import apps
from tests.contract.apps import PATIENCE, App, Endpoint, Events, Stopwatch
from tests.contract.test_loading import run_script
from tests.contract.test_sending import closed_port


def fork(bus, when: str) -> dict:
    """What a script that forks has seen of a bus with a server on it."""
    with App(bus.address) as app:
        app.server(Endpoint())
        seen = json.loads(run_script("fork.py", bus.address, when))
        return seen | {"connections": bus.counters.connections}


@pytest.fixture(scope="module", params=["router", "broker"])
def forked(request) -> dict:
    """Of a process that forked after it had used its transport."""
    with Bus(request.param) as bus:
        return fork(bus, "after")


def test_a_process_forked_before_the_first_use_has_a_connection_of_its_own(bus):
    seen = fork(bus, "before")
    assert seen["child"]["answers"] and seen["parent"]["answers"]
    assert seen["child"]["address"] != seen["parent"]["address"]


def test_a_process_forked_after_use_has_a_connection_and_a_reply_address_of_its_own(forked):
    assert all(forked[who]["answers"] for who in ("before", "child", "parent"))
    assert forked["before"]["address"] == forked["parent"]["address"]
    assert forked["before"]["address"] != forked["child"]["address"]
    assert forked["connections"] == 3  # the server's, the parent's, the child's


def test_a_child_leaves_no_threads_and_descriptors_over(forked):
    assert forked["child"]["threads"] == []
    assert forked["child"]["descriptors"] <= 0


def test_a_child_does_not_disturb_the_server_of_its_parent(broker):
    seen = fork(broker, "server")
    assert seen["child"]["answers"]
    assert seen["served by the parent"]


def test_reply_addresses_are_unique_among_transports(app):
    app.server(Endpoint())
    addresses = set()
    for _ in range(4):
        transport = app.transport()
        app.client(transport=transport).call({}, "echo")
        addresses.add(transport._driver._client.context.reply_address)
    assert len(addresses) == 4


@pytest.fixture(scope="module")
def green() -> dict:
    with Bus("broker") as bus, apps.peer() as silent:
        silent.override(times=None).expect_header().silence()
        return json.loads(run_script("green.py", bus.address, f"127.0.0.1:{silent.port}"))


def test_calls_casts_and_notifications_work_in_a_process_patched_by_eventlet(green):
    assert (green["call"], green["cast"], green["notification"]) == (
        "a call",
        "a cast",
        "a notification",
    )
    assert green["calls"] == list(range(200))


def test_under_eventlet_a_blocked_call_does_not_block_the_hub(green):
    assert green["slow"] == "slow"
    assert green["ticks during a slow call"] >= 10
    assert green["ticks during a time-out"] >= 10
    assert 0.5 <= green["timed out after"] < 1.0


def test_under_eventlet_a_name_lookup_does_not_block_the_hub(green):
    assert green["ticks during a lookup"] >= 10


def test_under_eventlet_no_thread_is_left_over(green):
    assert green["threads"] == []


# -- nothing is left over ---------------------------------------------------------------


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def work(app: App) -> None:
    """Everything once: calls, casts, fanout, notifications, a timeout, an error."""
    endpoint, events = Endpoint(), Events()
    app.server(endpoint)
    app.listener(events)
    client = app.client()
    for number in range(20):
        assert client.call({}, "echo", value=number) == number
    client.cast({}, "echo")
    client.prepare(fanout=True).cast({}, "echo")
    with pytest.raises(oslo_messaging.RemoteError):
        client.call({}, "expected")
    with pytest.raises(oslo_messaging.MessagingTimeout):
        client.prepare(server="nobody", timeout=0.1).call({}, "echo")
    app.notifier().info({}, "kind", {})
    events.take()


@pytest.mark.parametrize("fault", ["none", "bus gone", "nobody there"])
def test_no_thread_and_no_descriptor_is_left_over_after_cleanup(bus, fault):
    threads, before = set(threading.enumerate()), descriptors()
    if fault == "nobody there":
        app = App(f"amqp://127.0.0.1:{closed_port()}")
        with pytest.raises(oslo_messaging.MessagingTimeout):
            app.client(timeout=0.1).call({}, "echo")
    else:
        app = App(bus.address)
        work(app)
    if fault == "bus gone":
        bus.drop_connections()
        before = None
    app.close()
    bus.wait_until(lambda seen: not seen.peek_connections())
    assert set(threading.enumerate()) == threads
    if before is not None:
        assert descriptors() == before


def test_no_reference_to_a_transport_is_left_over_after_cleanup(bus):
    app = App(bus.address)
    work(app)
    clients = [transport._driver._client for transport in app._transports]
    left = [
        weakref.ref(thing)
        for client in clients
        if client is not None
        for thing in (client, client._connection, client._connection.engine, client._loop)
    ]
    left += [weakref.ref(transport._driver) for transport in app._transports]
    app.close()
    del app, clients
    gc.collect()
    assert [ref() for ref in left if ref() is not None] == []


def test_no_reference_is_left_over_after_many_connections(make_peer, make_app):
    peer = make_peer()
    app = make_app(peer.url)
    transport = app.transport()
    client = app.client(transport=transport)
    app.server(Endpoint(), transport=transport)
    engines = []
    for number in range(1, 6):
        client.cast({}, "echo")
        engines.append(weakref.ref(transport._driver._client._connection.engine))
        peer.drop()
        peer.wait_connections(number + 1)
    client.cast({}, "echo")
    gc.collect()
    assert [ref() for ref in engines if ref() is not None] == []


def test_no_timer_is_left_over_after_many_calls(app):
    app.server(Endpoint())
    transport = app.transport()
    client = app.client(transport=transport)
    client.call({}, "echo")
    timers = transport._driver._client._loop._timers
    for number in range(300):
        client.call({}, "echo", value=number)
    assert len(timers.heap) < 20


def test_no_call_and_no_reply_is_remembered_after_its_end(app):
    app.server(Endpoint())
    transport = app.transport()
    client = app.client(transport=transport)
    for number in range(50):
        client.call({}, "echo", value=number)
    with pytest.raises(oslo_messaging.MessagingTimeout):
        client.prepare(server="nobody", timeout=0.1).call({}, "echo")
    driver = transport._driver._client
    seen = app.later(lambda: None)
    seen.result()
    done = threading.Event()
    driver._loop.post(lambda _: done.set())
    assert done.wait(PATIENCE)
    live = driver._connection._live
    assert dict(live.reply_link.waiting) == {}
    assert [s for s in live.router._senders.values() if s.unsettled] == []


def test_cleanup_ends_in_time_whatever_the_bus_does(make_peer, make_app):
    peer = make_peer()
    app = make_app(peer.url)
    app.client().cast({}, "echo")
    peer.silence()
    watch = Stopwatch()
    app.close()
    assert watch.seconds < 6


def test_a_transport_can_be_used_again_after_cleanup(app):
    app.server(Endpoint())
    transport = app.transport()
    client = app.client(transport=transport)
    assert client.call({}, "echo", value=1) == 1
    transport.cleanup()
    assert client.call({}, "echo", value=2) == 2


def test_callers_that_wait_when_the_transport_is_cleaned_up_fail_at_once(make_peer, make_app):
    peer = make_peer()
    app = make_app(peer.url)
    transport = app.transport()
    call = app.later(app.client(transport=transport).call, {}, "echo")
    peer.wait_transfers(1)
    watch = Stopwatch()
    transport.cleanup()
    with pytest.raises(oslo_messaging.MessageDeliveryFailure):
        call.result(PATIENCE)
    assert watch.seconds < 3
