# SPDX-License-Identifier: Apache-2.0

"""Contract: sending.  Calls, casts, notifications; timeouts, retries, outcomes, errors."""

from __future__ import annotations

import logging
import queue
import socket
import threading

import oslo_messaging
import pytest
from oslo_messaging.transport import TransportOptions

from amqp1_driver.testing import performatives as p
from amqp1_driver.testing.proxy import FaultProxy
from tests.contract.apps import (
    PATIENCE,
    SLACK,
    Endpoint,
    Events,
    OwnError,
    Stopwatch,
    Unspeakable,
    answer,
    is_request,
    request_of,
)

CONTEXT = {
    "user": "an ümläut",
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "nested": {"list": [1, None, True], "empty": {}},
    "_unique_id": "kept",
    "": "no name",
}


def closed_port() -> int:
    """A port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


# -- what is sent and comes back --------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -1,
        3.5,
        "",
        "text",
        "\u20ac \U0001f600",
        [],
        {},
        [1, [2, {"x": None}]],
        {"a": {"b": []}},
        "x" * 300_000,
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_call_returns_what_the_server_returned(app, value):
    app.server(Endpoint())
    assert app.client().call({}, "echo", value=value) == value


def test_a_cast_reaches_one_server_of_the_topic(app):
    one, two = Endpoint(), Endpoint()
    app.server(one, server="one")
    app.server(two, server="two")
    client = app.client()
    for number in range(10):
        client.cast({}, "echo", value=number)
    # a fence: calls to both are served after what was cast before
    seen = []
    while len(seen) < 10:
        for endpoint in (one, two):
            try:
                seen.append(endpoint.seen.get(timeout=0.01))
            except queue.Empty:
                continue
    assert sorted(seen) == list(range(10))


def test_a_message_to_a_server_reaches_that_server(app):
    one, two = Endpoint(), Endpoint()
    app.server(one, server="one")
    app.server(two, server="two")
    client = app.client()
    client.prepare(server="two").cast({}, "echo", value="for two")
    assert two.take() == "for two"
    assert client.prepare(server="two").call({}, "echo", value="too") == "too"
    assert client.prepare(server="one").call({}, "echo", value="one") == "one"
    assert one.take() == "one"


def test_a_fanout_reaches_every_server_once(app):
    endpoints = [Endpoint() for _ in range(3)]
    for number, endpoint in enumerate(endpoints):
        app.server(endpoint, server=f"server-{number}")
    client = app.client(fanout=True)
    client.cast({}, "echo", value="all")
    client.cast({}, "echo", value="again")
    for endpoint in endpoints:
        assert {endpoint.take(), endpoint.take()} == {"all", "again"}
        assert endpoint.seen.empty()


def test_the_context_is_carried_verbatim_with_unknown_keys(app):
    endpoint = Endpoint()
    app.server(endpoint)
    app.client().call(CONTEXT, "echo")
    assert endpoint.contexts.get(timeout=PATIENCE) == CONTEXT


def test_the_context_of_a_notification_is_carried_verbatim(app):
    seen: queue.SimpleQueue = queue.SimpleQueue()

    class Watch:
        def info(self, ctxt, publisher, kind, payload, metadata):
            seen.put(ctxt)

    app.listener(Watch())
    app.notify({}, CONTEXT)
    assert seen.get(timeout=PATIENCE) == CONTEXT


def test_rpc_exchanges_are_kept_apart(app):
    one, two = Endpoint(), Endpoint()
    app.server(one, exchange="first")
    app.server(two, exchange="second")
    assert app.client(exchange="second").call({}, "echo", value=2) == 2
    assert app.client(exchange="first").call({}, "echo", value=1) == 1
    assert (one.take(), two.take()) == (1, 2)


# -- remote errors ----------------------------------------------------------------------


def test_an_exception_of_an_allowed_module_is_raised_as_itself(app):
    app.server(Endpoint())
    client = app.client(transport=app.transport(allowed_remote_exmods=["tests.contract.apps"]))
    with pytest.raises(OwnError, match="it went wrong"):
        client.call({}, "fail")


def test_an_exception_of_another_module_is_raised_as_a_remote_error(app):
    app.server(Endpoint())
    client = app.client(transport=app.transport(allowed_remote_exmods=["nova.exception"]))
    with pytest.raises(oslo_messaging.RemoteError, match="it went wrong") as caught:
        client.call({}, "fail")
    assert caught.value.exc_type == "OwnError"
    assert "in fail" in str(caught.value)  # its traceback


def test_a_missing_method_is_a_remote_error_of_the_caller(app):
    app.server(Endpoint())
    with pytest.raises(oslo_messaging.RemoteError) as caught:
        app.client().call({}, "no_such_method")
    assert caught.value.exc_type == "NoSuchMethod"


@pytest.mark.parametrize(
    "value",
    [
        Unspeakable(ValueError("no")),
        Unspeakable(KeyError("no")),
        Unspeakable(RecursionError("no")),
        threading.Lock(),
        {(1, 2): 3},
        b"\xff",
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_reply_that_json_cannot_carry_fails_the_call_and_not_the_server(app, value):
    class Bad(Endpoint):
        def bad(self, ctxt):
            return value

    app.server(Bad())
    client = app.client()
    watch = Stopwatch()
    with pytest.raises(ValueError, match="can't be encoded"):
        client.call({}, "bad")
    assert watch.seconds < 2
    assert client.call({}, "echo", value="still there") == "still there"


def test_an_exception_that_json_cannot_carry_fails_the_call_in_time_too(app):
    class Bad(Endpoint):
        def bad(self, ctxt):
            raise OwnError(b"\xff")

    app.server(Bad())
    watch = Stopwatch()
    with pytest.raises(ValueError, match="can't be encoded"):
        app.client().call({}, "bad")
    assert watch.seconds < 2


def test_a_request_that_json_cannot_carry_fails_at_once(app):
    app.server(Endpoint())
    client = app.client()
    circle: list = []
    circle.append(circle)
    with pytest.raises((ValueError, RecursionError)):
        client.call({}, "echo", value=circle)
    assert client.call({}, "echo", value="still there") == "still there"


@pytest.mark.parametrize("ctxt", [[1], "context", 7, threading.Lock()], ids=repr)
def test_a_context_that_is_no_object_fails_at_its_sender_and_nothing_is_sent(
    make_peer, make_app, ctxt
):
    # else the bus would take the message, and its listener reject it
    peer = make_peer()
    app = make_app(peer.url)
    transport = app.transport()
    client = app.client(transport=transport)
    for send in (client.call, client.cast):
        with pytest.raises(ValueError, match=r"request to topic: .*JSON"):
            send(ctxt, "echo")
    with pytest.raises(ValueError, match=r"notification to events.info: .*JSON"):
        app.notify(ctxt=ctxt, transport=transport)
    client.cast({}, "echo")
    assert len(peer.wait_transfers(1)) == 1


# -- timeouts ---------------------------------------------------------------------------


def _nobody_answers(make_peer):
    return make_peer().url


def _no_credit(make_peer):
    peer = make_peer()
    peer.override(times=None).expect_attach(role="sender").respond(credit=0)
    return peer.url


def _no_acknowledgement(make_peer):
    peer = make_peer()
    peer.override(times=None).expect_transfer(address=is_request).hold()
    return peer.url


def _silent_peer(make_peer):
    peer = make_peer()
    peer.override(times=None).expect_header().silence()
    return peer.url


def _closed_port(make_peer):
    return f"amqp://127.0.0.1:{closed_port()}"


def _no_such_name(make_peer):
    return "amqp://no-such-host.invalid"


@pytest.mark.parametrize(
    "fault",
    [_nobody_answers, _no_credit, _no_acknowledgement, _silent_peer, _closed_port, _no_such_name],
)
def test_a_call_ends_with_messaging_timeout_when_its_timeout_is_over(make_peer, make_app, fault):
    client = make_app(fault(make_peer)).client(timeout=0.4)
    watch = Stopwatch()
    with pytest.raises(oslo_messaging.MessagingTimeout):
        client.call({}, "echo")
    assert 0.4 <= watch.seconds < 0.4 + SLACK


@pytest.mark.parametrize(
    "fault", [_no_credit, _no_acknowledgement, _silent_peer, _closed_port, _no_such_name]
)
def test_without_a_timeout_of_the_caller_it_is_a_delivery_failure(make_peer, make_app, fault):
    client = make_app(fault(make_peer), default_send_timeout=0.4).client()
    watch = Stopwatch()
    with pytest.raises(oslo_messaging.MessageDeliveryFailure):
        client.cast({}, "echo")
    assert 0.4 <= watch.seconds < 0.4 + SLACK


@pytest.mark.parametrize("fault", [_no_credit, _no_acknowledgement, _closed_port])
def test_a_notification_has_a_timeout_of_its_own(make_peer, make_app, fault):
    app = make_app(fault(make_peer), default_notify_timeout=0.3)
    watch = Stopwatch()
    with pytest.raises(oslo_messaging.MessageDeliveryFailure):
        app.notify()
    assert 0.3 <= watch.seconds < 0.3 + SLACK


def test_a_deadline_is_not_rounded_to_whole_seconds(make_peer, make_app):
    client = make_app(make_peer().url).client(timeout=0.15)
    client.cast({}, "echo")  # connects
    watch = Stopwatch()
    with pytest.raises(oslo_messaging.MessagingTimeout):
        client.call({}, "echo")
    assert 0.15 <= watch.seconds < 0.5


def test_a_timeout_names_host_address_and_message_id(make_peer, make_app):
    peer = make_peer()
    with pytest.raises(oslo_messaging.MessagingTimeout) as caught:
        make_app(peer.url).client(timeout=0.3).call({}, "echo")
    (sent,) = peer.wait_transfers(1)
    said = str(caught.value)
    assert f"127.0.0.1:{peer.port}" in said
    assert "unicast.openstack.topic" in said
    assert sent.message.properties.message_id in said
    assert "reply" in said


@pytest.mark.parametrize(
    "fault, doing",
    [
        (_no_credit, "credit"),
        (_no_acknowledgement, "acknowledgement"),
        (_silent_peer, "connection"),
    ],
)
def test_a_timeout_says_what_was_waited_for(make_peer, make_app, fault, doing):
    with pytest.raises(oslo_messaging.MessagingTimeout, match=doing):
        make_app(fault(make_peer)).client(timeout=0.2).call({}, "echo")


def test_a_message_that_nobody_waits_for_any_more_is_not_sent(make_peer, make_app):
    peer = make_peer()
    peer.override(times=1).expect_attach(role="sender").respond(credit=0)
    client = make_app(peer.url).client(timeout=0.2)
    with pytest.raises(oslo_messaging.MessagingTimeout):
        client.call({}, "echo", value="too late")
    peer.grant(10, "unicast.openstack.topic")
    client.prepare(timeout=PATIENCE).cast({}, "echo", value="in time")
    assert [request_of(t)["request"]["args"]["value"] for t in peer.wait_transfers(1)] == [
        "in time"
    ]


# -- retry ------------------------------------------------------------------------------


@pytest.mark.parametrize("retry", [None, -1])
def test_without_a_limit_of_retries_a_message_waits_for_the_bus(bus, make_app, stack, retry):
    proxy = stack.enter_context(FaultProxy("127.0.0.1", bus.port))
    endpoint = Endpoint()
    make_app(bus.address).server(endpoint)
    app = make_app(f"amqp://127.0.0.1:{proxy.port}")
    proxy.refuse()
    sent = app.later(app.client(retry=retry).call, {}, "echo", value="patient")
    with pytest.raises(queue.Empty):
        endpoint.take(timeout=0.2)
    proxy.accept_again()
    assert sent.result(PATIENCE) == "patient"


def test_with_retry_0_the_first_failure_ends_it(make_app):
    client = make_app(f"amqp://127.0.0.1:{closed_port()}").client(retry=0)
    watch = Stopwatch()
    with pytest.raises(oslo_messaging.MessageDeliveryFailure):
        client.cast({}, "echo")
    assert watch.seconds < SLACK


@pytest.mark.parametrize("retry, attempts", [(0, 1), (1, 2), (3, 4)])
def test_with_retry_n_a_refused_link_is_tried_n_times_more(make_peer, make_app, retry, attempts):
    peer = make_peer()
    peer.override(times=None).expect_attach(
        role="sender", address="unicast.openstack.topic"
    ).refuse("amqp:resource-limit-exceeded", "full")
    with pytest.raises(oslo_messaging.MessageDeliveryFailure, match="full"):
        make_app(peer.url).client(retry=retry).cast({}, "echo")
    attached = [
        f
        for f in peer.frames(p.Attach)
        if f.performative.role == p.SENDER
        and f.performative.target.address == "unicast.openstack.topic"
    ]
    assert len(attached) == attempts


def test_a_failure_that_no_retry_can_mend_ends_it_at_once(make_peer, make_app):
    peer = make_peer()
    peer.override(times=None).expect_transfer(address=is_request).reject(
        "amqp:not-allowed", "never"
    )
    with pytest.raises(oslo_messaging.MessageDeliveryFailure, match="never"):
        make_app(peer.url).client(retry=-1).cast({}, "echo")
    assert len(peer.transfers) == 1


@pytest.mark.parametrize("kind", ["call", "cast", "notification"])
def test_a_message_in_doubt_fails_and_is_never_sent_again(make_peer, make_app, kind):
    peer = make_peer()
    peer.override(times=1).expect_transfer().hold()
    app = make_app(peer.url)
    transport = app.transport()
    client = app.client(retry=-1, transport=transport)
    send = {
        "call": lambda: client.call({}, "echo", value="doubtful"),
        "cast": lambda: client.cast({}, "echo", value="doubtful"),
        "notification": lambda: app.notify(transport=transport),
    }[kind]
    sent = app.later(send)
    peer.wait_transfers(1)
    peer.drop()
    with pytest.raises(oslo_messaging.MessageDeliveryFailure, match="doubt"):
        sent.result(PATIENCE)
    client.cast({}, "echo", value="afterwards")
    last = peer.transfers[-1]
    assert request_of(last)["request"]["args"]["value"] == "afterwards"
    assert len(peer.transfers) == 2


def test_what_was_not_sent_when_the_connection_went_is_sent_over_the_next(make_peer, make_app):
    peer = make_peer()
    peer.override(times=1).expect_attach(role="sender").respond(credit=0)
    app = make_app(peer.url)
    sent = app.later(app.client(retry=-1, timeout=None).cast, {}, "echo", value="kept")
    peer.wait_link("unicast.openstack.topic")
    peer.drop()
    assert sent.result(PATIENCE) is None
    assert [request_of(t)["request"]["args"]["value"] for t in peer.transfers] == ["kept"]


# -- outcomes ---------------------------------------------------------------------------


def test_a_cast_returns_when_the_bus_has_taken_the_message_and_not_before(make_peer, make_app):
    peer = make_peer()
    peer.override(times=None).expect_transfer().hold()
    app = make_app(peer.url)
    sent = app.later(app.client().cast, {}, "echo")
    (held,) = peer.wait_transfers(1)
    assert not held.settled
    assert not sent.done()
    peer.settle(held)
    assert sent.result(PATIENCE) is None


def test_a_notification_blocks_until_the_bus_owns_it(make_peer, make_app):
    peer = make_peer()
    peer.override(times=None).expect_transfer().hold()
    app = make_app(peer.url)
    sent = app.later(app.notify)
    (held,) = peer.wait_transfers(1)
    assert not held.settled
    assert not sent.done()
    peer.settle(held)
    assert sent.result(PATIENCE) is None


OUTCOMES = {
    "released": p.Released(),
    "modified": p.Modified(),
    "modified, delivery failed": p.Modified(delivery_failed=True),
    "modified, undeliverable": p.Modified(undeliverable_here=True),
    "rejected": p.Rejected(error=p.Error(condition="amqp:not-allowed", description="no")),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("kind", ["call", "cast", "notification"])
def test_a_negative_outcome_is_a_delivery_failure(make_peer, make_app, kind, outcome):
    peer = make_peer()
    peer.override(times=None).expect_transfer().settle(OUTCOMES[outcome])
    app = make_app(peer.url)
    watch = Stopwatch()
    with pytest.raises(oslo_messaging.MessageDeliveryFailure):
        if kind == "notification":
            app.notify()
        else:
            getattr(app.client(), kind)({}, "echo")
    assert watch.seconds < 2
    assert len(peer.transfers) == 1


def test_a_rejection_names_its_condition_and_description(make_peer, make_app):
    peer = make_peer()
    peer.override().expect_transfer().reject("amqp:not-allowed", "not you")
    with pytest.raises(oslo_messaging.MessageDeliveryFailure, match=r"amqp:not-allowed.*not you"):
        make_app(peer.url).client().cast({}, "echo")


@pytest.mark.parametrize("outcome", ["released", "modified"])
def test_resend_released_sends_again_what_was_certainly_not_processed(make_peer, make_app, outcome):
    peer = make_peer()
    peer.override(times=2).expect_transfer().settle(OUTCOMES[outcome])
    make_app(peer.url, resend_released=True).client().cast({}, "echo")
    ids = [t.message.properties.message_id for t in peer.transfers]
    assert len(ids) == 3 and len(set(ids)) == 1


@pytest.mark.parametrize(
    "outcome", ["modified, delivery failed", "modified, undeliverable", "rejected"]
)
def test_resend_released_sends_nothing_else_again(make_peer, make_app, outcome):
    peer = make_peer()
    peer.override(times=1).expect_transfer().settle(OUTCOMES[outcome])
    with pytest.raises(oslo_messaging.MessageDeliveryFailure):
        make_app(peer.url, resend_released=True).client().cast({}, "echo")
    assert len(peer.transfers) == 1


def test_resend_released_keeps_to_the_retries(make_peer, make_app):
    peer = make_peer()
    peer.override(times=None).expect_transfer().release()
    with pytest.raises(oslo_messaging.MessageDeliveryFailure):
        make_app(peer.url, resend_released=True).client(retry=1).cast({}, "echo")
    assert len(peer.transfers) == 2


# -- at_least_once ----------------------------------------------------------------------


def assert_undeliverable(client: object, topic: str) -> None:
    watch = Stopwatch()
    with pytest.raises(oslo_messaging.MessageUndeliverable) as caught:
        client.call({}, "echo", value=1)  # type: ignore[attr-defined]
    error = caught.value
    assert watch.seconds < 2
    assert not isinstance(error, oslo_messaging.MessagingException)
    assert (error.exchange, error.routing_key) == ("openstack", topic)
    assert error.message["method"] == "echo"
    assert isinstance(error.exception, Exception)


def test_at_least_once_and_nobody_there_is_message_undeliverable(router, make_app):
    assert_undeliverable(
        make_app(router.address).client(transport_options=TransportOptions(at_least_once=True)),
        "topic",
    )


@pytest.mark.parametrize("condition", ["released", "not-found"])
def test_at_least_once_and_the_message_comes_back_is_message_undeliverable(
    make_peer, make_app, condition
):
    peer = make_peer()
    outcome = (
        p.Released()
        if condition == "released"
        else p.Rejected(error=p.Error(condition="amqp:not-found"))
    )
    peer.override(times=None).expect_transfer().settle(outcome)
    assert_undeliverable(
        make_app(peer.url).client(transport_options=TransportOptions(at_least_once=True)), "topic"
    )


def test_at_least_once_and_somebody_there_is_an_ordinary_call(app):
    app.server(Endpoint())
    client = app.client(transport_options=TransportOptions(at_least_once=True))
    assert client.call({}, "echo", value="taken") == "taken"
    client.cast({}, "echo", value="too")


# -- form of messages -------------------------------------------------------------------


@pytest.mark.parametrize("version, enveloped", [(1.0, False), (2.0, True)])
def test_version_2_of_a_notification_has_an_envelope(make_peer, make_app, version, enveloped):
    peer = make_peer()
    make_app(peer.url).notify({"a": 1}, {"k": 1}, version=version)
    (sent,) = peer.wait_transfers(1)
    found = request_of(sent)
    assert found["context"] == {"k": 1}
    assert ("oslo.message" in found["request"]) is enveloped
    if enveloped:
        assert found["request"]["oslo.version"] == "2.0"
    else:
        assert found["request"]["payload"] == {"a": 1}


def test_a_notification_goes_to_the_address_of_its_priority(make_peer, make_app):
    peer = make_peer()
    notifier = make_app(peer.url).notifier()
    notifier.info({}, "kind", {})
    notifier.error({}, "kind", {})
    notifier.sample({}, "kind", {})
    assert [t.address for t in peer.wait_transfers(3)] == [
        "unicast.openstack.events.info",
        "unicast.openstack.events.error",
        "unicast.openstack.events.sample",
    ]


def test_a_call_carries_what_its_server_needs_to_answer(make_peer, make_app):
    peer = make_peer()
    peer.override(times=None).expect_transfer(address=is_request).call(
        lambda event: answer(event, "done")
    ).accept()
    client = make_app(peer.url).client(call_monitor_timeout=20)
    assert client.call({}, "echo", value=1) == "done"
    (sent,) = peer.transfers
    assert request_of(sent) == {
        "request": {"method": "echo", "args": {"value": 1}},
        "context": {},
        "call_monitor_timeout": 20,
    }
    assert sent.message.properties.reply_to == "peer/dynamic/1"
    assert 9_000 < sent.message.header.ttl <= 10_000
    assert sent.message.properties.message_id
    assert sent.address == "unicast.openstack.topic"


def test_a_cast_wants_no_reply(make_peer, make_app):
    peer = make_peer()
    make_app(peer.url).client().cast({}, "echo")
    (sent,) = peer.wait_transfers(1)
    assert sent.message.properties.reply_to is None


def test_message_ids_are_unique_among_transports(make_peer, make_app):
    peer = make_peer()
    app = make_app(peer.url)
    for client in (app.client(), app.client()):
        for _ in range(5):
            client.cast({}, "echo")
    ids = {t.message.properties.message_id for t in peer.wait_transfers(10)}
    assert len(ids) == 10


# -- call monitoring --------------------------------------------------------------------


def test_heartbeats_keep_a_long_call_waiting(bus, make_app):
    app = make_app(bus.address)
    endpoint = Endpoint()
    app.server(endpoint)
    client = app.client(call_monitor_timeout=2, timeout=PATIENCE)
    watch = Stopwatch()
    call = app.later(client.call, {}, "wait", value="at last")
    # the dispatcher sends one a second
    bus.wait_until(lambda seen: seen.counters.presettled_in >= 3, PATIENCE)
    assert watch.seconds > 2
    endpoint.gate.set()
    assert call.result(PATIENCE) == "at last"


def test_a_server_without_signs_of_life_is_given_up_after_the_monitor_timeout(make_peer, make_app):
    client = make_app(make_peer().url).client(call_monitor_timeout=0.3, timeout=PATIENCE)
    watch = Stopwatch()
    with pytest.raises(oslo_messaging.MessagingTimeout, match="sign of life"):
        client.call({}, "echo")
    assert 0.3 <= watch.seconds < 0.3 + SLACK


def test_heartbeats_do_not_prolong_the_timeout_of_the_call(make_peer, make_app):
    from amqp1_driver.testing import reactions
    from amqp1_driver.testing.messages import Message, Properties

    def beat(event):
        asked = event.transfer.message.properties
        reactions.transfer(
            event.core.find_link(asked.reply_to),
            Message(None, properties=Properties(correlation_id=asked.message_id)),
            settled=True,
        )

    peer = make_peer()
    peer.override(times=None).expect_transfer(address=is_request).call(beat).accept()
    client = make_app(peer.url).client(call_monitor_timeout=0.4, timeout=0.6)
    watch = Stopwatch()
    with pytest.raises(oslo_messaging.MessagingTimeout):
        client.call({}, "echo")
    assert 0.4 <= watch.seconds < 0.6 + SLACK


# -- many at once -----------------------------------------------------------------------


def test_threads_get_their_own_replies(app):
    app.server(Endpoint())
    client = app.client()
    calls = [
        app.later(lambda n=n: [client.call({}, "echo", value=(n, i)) for i in range(10)])
        for n in range(16)
    ]
    for number, call in enumerate(calls):
        assert call.result(PATIENCE) == [[number, i] for i in range(10)]


def test_a_blocked_address_does_not_hold_up_the_others(make_peer, make_app):
    peer = make_peer()
    peer.override(times=None).expect_attach(
        role="sender", address="unicast.openstack.slow"
    ).respond(credit=0)
    app = make_app(peer.url)
    transport = app.transport()
    blocked = [
        app.later(app.client("slow", transport=transport).cast, {}, "echo") for _ in range(5)
    ]
    peer.wait_link("unicast.openstack.slow")
    client = app.client("fast", transport=transport)
    watch = Stopwatch()
    for _ in range(50):
        client.cast({}, "echo")
    assert watch.seconds < 2
    assert not any(cast.done() for cast in blocked)
    peer.grant(5, "unicast.openstack.slow")
    assert [cast.result(PATIENCE) for cast in blocked] == [None] * 5


def test_an_address_without_credit_is_named_in_a_repeated_warning(make_peer, make_app, logged):
    peer = make_peer()
    peer.override(times=None).expect_attach(role="sender").respond(credit=0)
    app = make_app(peer.url, blocked_warning_interval=0.05)
    cast = app.later(app.client().cast, {}, "echo")
    said = logged.wait("blocked", logging.WARNING, count=2)
    assert f"unicast.openstack.topic on 127.0.0.1:{peer.port} blocked" in said[0]
    peer.grant(1, "unicast.openstack.topic")
    assert cast.result(PATIENCE) is None


def test_a_notifier_reaches_a_listener(app):
    events = Events()
    app.listener(events)
    app.notifier().info({}, "kind", {"a": 1})
    assert events.take() == {"a": 1}
