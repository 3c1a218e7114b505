# SPDX-License-Identifier: Apache-2.0

"""The hook for flow control, by the objects that oslo.messaging gives to an application."""

from __future__ import annotations

import queue
import threading

import oslo_messaging
import pytest

from amqp1_driver import exceptions, flow
from tests.contract.apps import PATIENCE, Batches, Endpoint, Events

EVENTS = "unicast.openstack.events.info"


def waiting(broker, count: int) -> None:
    """Until so many messages are in the queue of the notifications."""
    broker.wait_until(lambda bus: bus.peek(EVENTS) == count, PATIENCE)


def credits(connections, address: str) -> list[int]:
    return [
        link.credit
        for connection in connections
        for link in connection.links
        if link.receiving and link.address == address
    ]


def credit(broker, address: str) -> int:
    (found,) = credits(broker.connections, address)
    return found


def granted(broker, count: int) -> None:
    """Until the reader of the notifications has so much credit."""
    broker.wait_until(lambda bus: credits(bus.peek_connections(), EVENTS) == [count], PATIENCE)


def test_a_paused_listener_gets_nothing_until_it_is_resumed(broker, make_app):
    app, events = make_app(broker.address), Events()
    control = flow.control(app.listener(events))
    app.notify("before")
    assert events.take() == "before"
    assert control.pause() is True
    assert (control.paused, credit(broker, EVENTS)) == (True, 0)
    for number in range(3):
        app.notify(number)
    waiting(broker, 3)
    control.resume()
    assert [events.take() for _ in range(3)] == [0, 1, 2]
    assert control.paused is False


def test_a_paused_rpc_server_leaves_its_work_to_the_others(broker, make_app):
    app = make_app(broker.address)

    class Who:
        def __init__(self, name):
            self.name = name

        def who(self, ctxt):
            return self.name

    controls = {name: flow.control(app.server(Who(name), server=name)) for name in ("a", "b")}
    client = app.client()
    assert {client.call({}, "who") for _ in range(4)} == {"a", "b"}
    assert controls["a"].pause() is True
    assert [client.call({}, "who") for _ in range(4)] == ["b"] * 4
    controls["a"].resume()
    assert controls["b"].pause() is True
    assert [client.call({}, "who") for _ in range(4)] == ["a"] * 4


def test_credit_is_set_while_a_listener_runs(broker, make_app):
    app, events = make_app(broker.address), Events()
    control = flow.control(app.listener(events))
    assert control.credit == 100
    granted(broker, 100)
    assert control.set_credit(3) == 3
    granted(broker, 3)
    app.notify("one")
    assert events.take()
    waiting(broker, 0)  # it is settled
    assert control.set_credit(50) == 50
    assert control.counters() == {
        "credit": 50,
        "backlog": None,
        "stalls": 0,
        "received": 1,
        "unsettled": 0,
    }


def test_of_two_that_compete_the_one_with_more_credit_gets_more(broker, make_app):
    """Both work off nothing: what they hold shows how much they were given."""
    app = make_app(broker.address)
    target = oslo_messaging.Target(topic="events")
    listeners = [
        app.notification_transport()._driver.listen_for_notifications(
            [(target, "info")], None, 1, None
        )
        for _ in range(2)
    ]
    for listener, wanted in zip(listeners, (1, 7), strict=True):
        flow.control(listener).set_credit(wanted)
    for number in range(20):
        app.notify(number)
    held = []
    for listener, wanted in zip(listeners, (1, 7), strict=True):
        batch = listener.listener.poll(timeout=PATIENCE, batch_size=wanted, batch_timeout=PATIENCE)
        assert listener.listener.poll(timeout=0) == []
        held.append(len(batch))
    assert held == [1, 7]
    for listener in listeners:
        listener.listener.stop()
        listener.listener.cleanup()


def test_the_credit_of_a_listener_for_batches_is_never_below_two_of_them(broker, make_app):
    control = flow.control(make_app(broker.address).listener(Batches(), batch=10, batch_timeout=1))
    assert control.set_credit(1) == 20


def test_a_bus_that_does_not_tell_has_no_backlog(broker, make_app):
    control = flow.control(make_app(broker.address).listener(Events()))
    assert (control.ask_backlog(), control.backlog) == (None, None)


def test_no_credit_at_all_is_an_error_that_tells_of_pause(broker, make_app):
    control = flow.control(make_app(broker.address).listener(Events()))
    with pytest.raises(ValueError, match=r"a credit of 0 would never .* pause"):
        control.set_credit(0)


def test_a_server_that_was_not_started_is_an_error(broker, make_app):
    app = make_app(broker.address)
    server = oslo_messaging.get_rpc_server(
        app.transport(), oslo_messaging.Target(topic="topic", server="server"), [Endpoint()]
    )
    with pytest.raises(ValueError, match="was it started"):
        flow.control(server)


def test_a_listener_that_has_stopped_can_be_asked_but_not_told(broker, make_app):
    listener = make_app(broker.address).listener(Events())
    control = flow.control(listener)
    listener.stop()
    for act in (control.pause, control.resume, control.ask_backlog, lambda: control.set_credit(5)):
        with pytest.raises(exceptions.Closed, match="the listener was stopped"):
            act()
    listener.wait()
    assert (control.credit, control.paused, control.backlog) == (0, False, None)
    assert control.counters() == {"credit": 0, "backlog": None}


def test_listeners_that_follow_each_other_get_all_in_order(broker, make_app):
    """What was on its way to the first when it was stopped is worked off there."""
    app = make_app(broker.address)
    target = oslo_messaging.Target(topic="events")
    seen: queue.Queue[int] = queue.Queue()

    def listen() -> tuple[flow.Listener, threading.Thread]:
        adapter = app.notification_transport()._driver.listen_for_notifications(
            [(target, "info")], None, 1, None
        )

        def work() -> None:
            while batch := adapter.listener.poll():
                seen.put(batch[0].message["payload"])
                batch[0].acknowledge()

        thread = threading.Thread(target=work)
        thread.start()
        return adapter.listener, thread

    listener, thread = listen()
    transport = app.notification_transport()
    sending = app.later(lambda: [app.notify(number, transport=transport) for number in range(300)])
    got = []
    for _ in range(3):
        got += [seen.get(timeout=PATIENCE) for _ in range(60)]
        listener.stop()
        thread.join(PATIENCE)
        listener.cleanup()
        listener, thread = listen()
    got += [seen.get(timeout=PATIENCE) for _ in range(120)]
    sending.result(PATIENCE)
    listener.stop()
    thread.join(PATIENCE)
    listener.cleanup()
    assert (got, seen.empty()) == (list(range(300)), True)


@pytest.mark.parametrize("window", [1, 4])
def test_messages_that_are_larger_than_the_sessions_window_come_whole(bus, make_app, window):
    app = make_app(bus.address, session_window=window, max_frame_size=16384)
    app.server(Endpoint())
    client = app.client()
    for size in (1048576, 10, 1048576):
        assert client.call({}, "echo", value="x" * size) == "x" * size


# -- a full target ----------------------------------------------------------------------


def full(broker, app, senders: int):
    """A queue that takes nothing, with so many threads that wait to send to it."""
    broker.pause_credit("unicast.openstack.full.info")
    transport = app.notification_transport()
    waiting = [
        app.later(app.notify, number, topic="full", transport=transport, retry=0)
        for number in range(senders)
    ]
    app.notify("so that they wait", topic="other", transport=transport)
    return transport, waiting


def test_a_full_target_holds_up_no_other(broker, make_app):
    app = make_app(broker.address, default_notify_timeout=60)
    app.listener(Events(), topic="other")
    counted = []
    for senders in (0, 20):
        transport, waiting = full(broker, app, senders)
        before = broker.counters.messages_in
        for number in range(100):
            app.notify(number, topic="other", transport=transport)
        counted.append(broker.counters.messages_in - before)
        assert [future.done() for future in waiting] == [False] * senders
    assert counted == [100, 100]
    broker.resume_credit("unicast.openstack.full.info")
    for future in waiting:
        assert future.result(PATIENCE) is None


def test_senders_to_a_full_target_fail_at_their_deadline_unsent(broker, make_app):
    app = make_app(broker.address, default_notify_timeout=0.5)
    _, waiting = full(broker, app, 3)
    for future in waiting:
        with pytest.raises(oslo_messaging.MessageDeliveryFailure, match="credit"):
            future.result(PATIENCE)
    assert broker.queue_depth("unicast.openstack.full.info") == 0
