# SPDX-License-Identifier: Apache-2.0

"""Contract: limits and features of messages.  Nothing is buffered without bound, no success is
told that is none, and what the options promise is on the wire."""

from __future__ import annotations

import gzip
import json
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import oslo_messaging
import pytest

from amqp1_driver.testing import performatives as p
from amqp1_driver.testing.messages import Message, Properties
from tests.contract.apps import (
    PATIENCE,
    SLACK,
    Endpoint,
    Events,
    Stopwatch,
    answer,
    is_request,
    request,
    request_of,
)


def no_credit(peer) -> None:
    peer.override(times=None).expect_attach(role="sender").respond(credit=0)


def loop_of(transport):
    """The I/O thread of a transport, to hurt it."""
    return transport._driver._client._loop


# -- credit -----------------------------------------------------------------------------


@pytest.mark.parametrize("settled", [(), ("rpc-cast",)], ids=["unsettled", "pre-settled"])
def test_without_credit_a_cast_is_no_success(make_peer, make_app, settled):
    peer = make_peer()
    no_credit(peer)
    app = make_app(peer.url, default_send_timeout=0.3, pre_settled=list(settled))
    watch = Stopwatch()
    with pytest.raises(oslo_messaging.MessageDeliveryFailure, match="credit"):
        app.client().cast({}, "echo")
    assert 0.3 <= watch.seconds < 0.3 + SLACK
    assert peer.transfers == []


@pytest.mark.parametrize("settled", [(), ("rpc-cast",)], ids=["unsettled", "pre-settled"])
def test_a_cast_without_credit_survives_the_connection_and_is_sent_by_the_next(
    make_peer, make_app, settled
):
    peer = make_peer()
    peer.override(times=1).expect_attach(role="sender").respond(credit=0)
    app = make_app(peer.url, pre_settled=list(settled))
    cast = app.later(app.client(retry=-1).cast, {}, "echo", value=1)
    peer.wait_link("unicast.openstack.topic")
    peer.close("amqp:connection:forced", "restart")
    assert cast.result(PATIENCE) is None
    peer.wait_connections(2)
    assert len(peer.wait_transfers(1)) == 1


def test_senders_wait_for_a_full_queue_and_go_on_when_there_is_room(make_bus, make_app):
    bus = make_bus("broker", queue_capacity=10, queue_resume=5)
    app = make_app(bus.address)
    client = app.client()
    casts = [app.later(client.cast, {}, "echo", value=number) for number in range(40)]
    bus.wait_until(lambda seen: seen.peek("unicast.openstack.topic") >= 10)
    assert sum(cast.done() for cast in casts) <= 11
    endpoint = Endpoint()
    app.server(endpoint)
    assert [cast.result(PATIENCE) for cast in casts] == [None] * 40
    assert sorted(endpoint.take() for _ in range(40)) == list(range(40))


# -- size -------------------------------------------------------------------------------


def test_a_message_that_is_too_large_fails_at_once_and_names_size_and_limit(make_peer, make_app):
    peer = make_peer()
    app = make_app(peer.url, max_message_size=65536, compression="gzip")
    transport = app.transport()
    client = app.client(transport=transport)
    text = r"message of \d+ bytes is larger than the 65536 bytes that may be sent"
    watch = Stopwatch()
    for send in (client.call, client.cast):
        with pytest.raises(oslo_messaging.MessageDeliveryFailure, match=text):
            send({}, "echo", value="x" * 65536)  # compressed it would be small
    with pytest.raises(oslo_messaging.MessageDeliveryFailure, match=text):
        app.notify("x" * 65536, transport=transport)
    assert watch.seconds < 2
    assert peer.transfers == []


def test_what_the_bus_does_not_take_fails_at_once(make_peer, make_app):
    peer = make_peer()
    peer.override(times=None).expect_attach(role="sender").respond(max_message_size=1000)
    client = make_app(peer.url).client()
    watch = Stopwatch()
    with pytest.raises(
        oslo_messaging.MessageDeliveryFailure,
        match=r"message of \d+ bytes is larger than the 1000 bytes .*topic",
    ):
        client.call({}, "echo", value="x" * 1000)
    assert watch.seconds < 2
    client.cast({}, "echo", value="small")
    assert len(peer.wait_transfers(1)) == 1


def test_a_caller_learns_that_its_reply_is_too_large(make_bus, make_app, logged):
    class Large(Endpoint):
        def large(self, ctxt):
            return "x" * 70000

    app = make_app(make_bus("router").address, max_message_size=65536)
    app.server(Large())
    client = app.client()
    watch = Stopwatch()
    with pytest.raises(ValueError, match="reply of 70015 bytes is too large"):
        client.call({}, "large")
    assert watch.seconds < 2
    logged.wait("was not delivered")


def test_a_compressed_body_may_not_grow_beyond_the_limit(make_peer, make_app, logged):
    peer = make_peer()
    endpoint = Endpoint()
    make_app(peer.url, max_message_size=65536).server(endpoint)
    body = json.dumps({"request": {"method": "echo", "args": {"value": "x" * 65536}}})
    peer.send_transfer(
        "unicast.openstack.topic",
        Message(
            gzip.compress(body.encode()),
            kind="data",
            properties=Properties(content_encoding="gzip"),
        ),
    )
    peer.send_transfer("unicast.openstack.topic", request(value="small"))
    assert endpoint.take() == "small"
    peer.wait_settled(2)
    assert [type(sent.state) for sent in peer.sent] == [p.Rejected, p.Accepted]
    assert len(logged.said("gzip body has more than 65536 bytes")) == 1


# -- pre-settled kinds ------------------------------------------------------------------


def test_nothing_is_sent_settled_by_default(make_peer, make_app):
    peer = make_peer()
    peer.override(times=None).expect_transfer(address=is_request).call(
        lambda event: answer(event)
    ).accept()
    app = make_app(peer.url)
    transport = app.transport()
    app.server(Endpoint(), topic="served", transport=transport)
    client = app.client(transport=transport)
    client.call({}, "echo")
    client.cast({}, "echo")
    app.notify(transport=transport)
    peer.send_transfer("unicast.openstack.served", request(reply_to="callers/1"))
    peer.script.wait_for(
        lambda: [t for t in peer.script.transfers if t.address == "callers/1"],
        PATIENCE,
        "the reply",
    )
    assert {bool(f.performative.settled) for f in peer.frames(p.Transfer)} == {False}


def test_a_pre_settled_call_does_not_wait_for_an_acknowledgement(make_peer, make_app):
    peer = make_peer()
    peer.override(times=None).expect_transfer(address=is_request).call(
        lambda event: answer(event, "no disposition")
    )
    client = make_app(peer.url, pre_settled=["rpc-call"]).client()
    assert client.call({}, "echo") == "no disposition"
    (sent,) = peer.frames(p.Transfer)
    assert sent.performative.settled is True


@pytest.mark.parametrize("kind", ["rpc-cast", "notify", "rpc-reply"])
def test_each_kind_of_message_can_be_sent_settled_by_itself(make_peer, make_app, kind):
    peer = make_peer()
    app = make_app(peer.url, pre_settled=[kind])
    transport = app.transport()
    app.server(Endpoint(), topic="served", transport=transport)
    app.client(transport=transport).cast({}, "echo")
    app.notify(transport=transport)
    peer.send_transfer("unicast.openstack.served", request(reply_to="callers/1"))
    peer.wait_transfers(3)
    frames = {
        t.address: f.performative.settled is True
        for t, f in zip(peer.transfers, peer.frames(p.Transfer), strict=True)
    }
    kinds = {
        "rpc-cast": "unicast.openstack.topic",
        "rpc-reply": "callers/1",
        "notify": "unicast.openstack.events.info",
    }
    assert {address for address, settled in frames.items() if settled} == {kinds[kind]}


# -- bounds -----------------------------------------------------------------------------


def test_the_mailbox_is_bounded_and_senders_wait_for_room_until_their_deadline(make_peer, make_app):
    peer = make_peer()
    app = make_app(peer.url, mailbox_size=5)
    transport = app.transport()
    client = app.client(transport=transport, timeout=0.4)
    client.cast({}, "echo")
    loop = loop_of(transport)
    busy, release = threading.Event(), threading.Event()
    loop.post(lambda _: (busy.set(), release.wait(PATIENCE)))
    assert busy.wait(PATIENCE)
    watch = Stopwatch()
    calls = [app.later(client.call, {}, "echo") for _ in range(12)]
    for call in calls:
        with pytest.raises(oslo_messaging.MessagingTimeout):
            call.result(PATIENCE)
    assert 0.4 <= watch.seconds < 0.4 + 2 * SLACK
    release.set()
    client.prepare(timeout=PATIENCE).cast({}, "echo", value="after")
    # what was in time got in, but was given up before it could be sent
    assert len(peer.transfers) == 2


def test_a_reply_that_nobody_waits_for_any_more_is_settled_and_forgotten(
    make_peer, make_app, logged
):
    peer = make_peer()
    app = make_app(peer.url)
    client = app.client(timeout=0.2)
    with pytest.raises(oslo_messaging.MessagingTimeout):
        client.call({}, "echo")
    (sent,) = peer.transfers
    asked = sent.message.properties
    for correlation_id in (asked.message_id, "never seen", None, 7, b"x"):
        peer.send_transfer(
            asked.reply_to,
            Message(
                json.dumps({"response": 1}), properties=Properties(correlation_id=correlation_id)
            ),
        )
    peer.send_transfer(asked.reply_to, b"\xde\xad")
    peer.wait_settled(6)
    assert len(logged.said("nobody waits for it", logging.WARNING)) == 5
    assert len(logged.said("Undecodable reply")) == 1
    client.prepare(timeout=PATIENCE).cast({}, "echo")


@pytest.mark.parametrize(
    "reply",
    [
        Message("{"),
        Message("{}"),
        Message(5),
        Message('{"failure": "{"}'),
        Message('{"failure": 3}'),
    ],
    ids=str,
)
def test_a_reply_that_can_not_be_read_fails_its_call(make_peer, make_app, reply):
    from amqp1_driver.testing import reactions

    def react(event):
        asked = event.transfer.message.properties
        reply.properties = Properties(correlation_id=asked.message_id)
        reactions.transfer(event.core.find_link(asked.reply_to), reply)

    peer = make_peer()
    peer.override(times=None).expect_transfer(address=is_request).call(react).accept()
    watch = Stopwatch()
    with pytest.raises(oslo_messaging.MessageDeliveryFailure):
        make_app(peer.url).client().call({}, "echo")
    assert watch.seconds < 2


# -- the I/O thread ---------------------------------------------------------------------


def test_a_name_that_does_not_resolve_does_not_kill_the_io_thread(bus, make_app):
    app = make_app(f"amqp://no-such-host.invalid:1,127.0.0.1:{bus.port}")
    watch = Stopwatch()
    app.server(Endpoint())
    assert app.client().call({}, "echo", value="by the second host") == "by the second host"
    assert watch.seconds < 5


def test_a_lookup_that_never_ends_does_not_outlive_the_callers_deadline(make_app, monkeypatch):
    from amqp1_driver.eventloop import runtime

    release = threading.Event()
    monkeypatch.setattr(
        runtime.native("socket"), "getaddrinfo", lambda *_: release.wait(PATIENCE) and []
    )
    watch = Stopwatch()
    with pytest.raises(oslo_messaging.MessagingTimeout):
        make_app("amqp://slow.example").client(timeout=0.3).call({}, "echo")
    assert 0.3 <= watch.seconds < 0.3 + SLACK
    release.set()


def test_when_the_io_thread_dies_every_waiter_fails_at_once(make_peer, make_app):
    peer = make_peer()
    peer.override(times=None).expect_attach(
        role="sender", address="unicast.openstack.blocked"
    ).respond(credit=0)
    app = make_app(peer.url)
    transport = app.transport()
    answered, blocked = (app.client(topic, transport=transport) for topic in ("t", "blocked"))
    waiting = [app.later(client.call, {}, "echo") for client in (answered, blocked)]
    peer.wait_transfers(1)
    peer.wait_link("unicast.openstack.blocked")
    watch = Stopwatch()
    loop_of(transport).post(lambda _: 1 / 0)
    for call in waiting:
        with pytest.raises(oslo_messaging.MessageDeliveryFailure, match="ZeroDivisionError"):
            call.result(PATIENCE)
    assert watch.seconds < 2


def test_after_the_death_of_its_io_thread_a_transport_gets_another(make_peer, make_app):
    peer = make_peer()
    app = make_app(peer.url)
    transport = app.transport()
    client = app.client(transport=transport)
    client.cast({}, "echo")
    loop = loop_of(transport)
    died = threading.Event()
    loop.on_death(lambda _: died.set())
    loop.post(lambda _: 1 / 0)
    assert died.wait(PATIENCE)
    watch = Stopwatch()
    client.cast({}, "echo")
    assert watch.seconds < 2
    assert len(peer.transfers) == 2


def test_a_subscription_survives_the_death_of_its_io_thread(make_peer, make_app):
    peer = make_peer()
    app = make_app(peer.url)
    transport = app.transport()
    endpoint = Endpoint()
    app.server(endpoint, transport=transport)
    for number in range(2, 4):
        dying = loop_of(transport)
        dying.post(lambda _: 1 / 0)
        # until then it may still take the next request along
        dying._thread.join(PATIENCE)
        peer.wait_connections(number)
        peer.send_transfer(
            "unicast.openstack.topic",
            request(message_id=f"id-{number}", value=number, reply_to="callers/1"),
        )
        assert endpoint.take() == number
        peer.wait_transfers(number - 1)  # the replies


def test_messages_are_sent_and_settled_by_the_io_thread_or_who_stands_in_for_it(
    bus, make_app, monkeypatch
):
    from amqp1_driver.engine.connection import default_path

    seen = set()
    for name in ("settle", "send", "flow"):
        real = getattr(default_path(), name)

        def spy(*args, real=real, name=name):
            seen.add((name, loop_of(transport).in_loop()))
            return real(*args)

        monkeypatch.setattr(default_path(), name, spy)
    app = make_app(bus.address)
    transport = app.transport()
    app.server(Endpoint(), transport=transport)
    client = app.client(transport=transport)
    # the main thread never stands in
    with ThreadPoolExecutor(1) as other:
        assert other.submit(client.call, {}, "echo", value=1).result(PATIENCE) == 1
    assert client.call({}, "echo", value=2) == 2
    assert seen == {("settle", True), ("send", True), ("flow", True)}


def test_a_call_never_sleeps_or_polls_while_it_waits(app, monkeypatch):
    app.server(Endpoint())
    client = app.client()
    client.call({}, "echo")
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("slept"))
    times = []
    for number in range(100):
        watch = Stopwatch()
        assert client.call({}, "echo", value=number) == number
        times.append(watch.seconds)
    assert sorted(times)[50] < 0.05


# -- what is on the wire ----------------------------------------------------------------


def test_no_message_has_an_expiry_time_of_another_clock(make_peer, make_app):
    peer = make_peer()
    peer.override(times=None).expect_transfer(address=is_request).call(
        lambda event: answer(event)
    ).accept()
    app = make_app(peer.url)
    app.client().call({}, "echo")
    app.client().cast({}, "echo")
    app.notify()
    for sent in peer.transfers:
        expires = sent.message.properties.absolute_expiry_time
        assert expires is None or abs(expires / 1000 - time.time()) < 3600
    ttls = [t.message.header.ttl for t in peer.transfers]
    assert 0 < ttls[0] <= 10_000  # the call's timeout; a cast stays until somebody takes it
    assert ttls[1:] == [None, None]


def test_durable_where_the_bus_can_and_nobody_waits(make_peer, make_app):
    peer = make_peer(product="qpid-cpp")
    peer.override(times=None).expect_transfer(address=is_request).call(
        lambda event: answer(event)
    ).accept()
    app = make_app(peer.url)
    app.client().cast({}, "echo")
    app.client(fanout=True).cast({}, "echo")
    app.client().call({}, "echo")
    app.notify()
    assert [bool(t.message.header.durable) for t in peer.transfers] == [True, False, False, True]


@pytest.mark.parametrize("size, compressed", [(10, False), (50_000, True)])
def test_large_bodies_are_compressed_if_the_option_says_so(make_peer, make_app, size, compressed):
    peer = make_peer()
    make_app(peer.url, compression="gzip").client().cast({}, "echo", value="x" * size)
    (sent,) = peer.transfers
    assert (sent.message.properties.content_encoding == "gzip") is compressed
    body = gzip.decompress(sent.body) if compressed else sent.body
    assert json.loads(body)["request"]["args"]["value"] == "x" * size
    assert (len(sent.payload) < 1000) is (compressed or size < 1000)


def test_requests_replies_and_notifications_travel_compressed(bus, make_app):
    app = make_app(bus.address, compression="gzip", compression_threshold=0)
    app.server(Endpoint())
    events = Events()
    app.listener(events)
    assert app.client().call({}, "echo", value="x" * 100_000) == "x" * 100_000
    app.notify(["y"] * 1000)
    assert events.take() == ["y"] * 1000


def test_a_receiver_without_the_option_reads_what_is_compressed(bus, make_app):
    make_app(bus.address).server(Endpoint())
    client = make_app(bus.address, compression="gzip").client()
    assert client.call({}, "echo", value="x" * 100_000) == "x" * 100_000


def test_messages_larger_than_a_frame_are_whole(make_bus, make_app):
    bus = make_bus("router")
    app = make_app(bus.address, max_frame_size=4096)
    app.server(Endpoint())
    assert app.client().call({}, "echo", value="x" * 2_000_000) == "x" * 2_000_000


def test_the_body_of_a_server_from_before_is_read(make_peer, make_app):
    # as the removed driver encoded it: an envelope within the request
    peer = make_peer()
    events = Events()
    make_app(peer.url).listener(events)
    message = {
        "publisher_id": "p",
        "event_type": "k",
        "priority": "INFO",
        "payload": {"a": 1},
        "message_id": "m",
        "timestamp": "t",
    }
    body = {"request": {"oslo.version": "2.0", "oslo.message": json.dumps(message)}, "context": {}}
    peer.send_transfer("unicast.openstack.events.info", Message(json.dumps(body)))
    assert events.take() == {"a": 1}


def test_a_request_in_an_envelope_reaches_the_endpoint_without_it(make_peer, make_app):
    peer = make_peer()
    endpoint = Endpoint()
    make_app(peer.url).server(endpoint)
    plain = json.loads(request(value="inside").body)
    plain["request"] = {"oslo.version": "2.0", "oslo.message": json.dumps(plain["request"])}
    peer.send_transfer(
        "unicast.openstack.topic", Message(json.dumps(plain), properties=Properties(message_id="x"))
    )
    assert endpoint.take() == "inside"


@pytest.mark.parametrize("kind", ["value", "data"])
def test_a_body_may_be_text_or_data(make_peer, make_app, kind):
    peer = make_peer()
    endpoint = Endpoint()
    make_app(peer.url).server(endpoint)
    message = request(value="\u00fc")
    if kind == "data":
        message.kind, message.body = "data", message.body.encode()
    peer.send_transfer("unicast.openstack.topic", message)
    assert endpoint.take() == "\u00fc"


# -- nodes of RabbitMQ ------------------------------------------------------------------


def rabbit(make_peer, version: str = "4.3.0", fail: bool = False):
    """A peer that answers RabbitMQ's management requests, and refuses those for queues."""
    from amqp1_driver.testing import reactions

    def manage(event):
        asked = event.transfer.message.properties
        status = "409" if fail and asked.to.startswith("/queues") else "201"
        link = next(
            link
            for session in event.core.sessions.values()
            for link in session.links.values()
            if link.address == "/management" and not link.client_sends
        )
        reactions.transfer(
            link,
            Message(None, properties=Properties(correlation_id=asked.message_id, subject=status)),
            settled=True,
        )

    peer = make_peer(product="RabbitMQ", version=version)
    peer.override(times=None).expect_transfer(link="management-link-pair").call(manage)
    return peer


def management(peer) -> list[tuple[str, str, dict]]:
    return [
        (t.message.properties.subject, t.message.properties.to, t.body)
        for t in peer.transfers
        if t.link.name == "management-link-pair"
    ]


def test_the_queues_of_rpc_expire_and_those_of_notifications_stay(make_peer, make_app):
    peer = rabbit(make_peer)
    app = make_app(peer.url)
    app.server(Endpoint())
    app.listener(Events())
    queues = {
        to: body["arguments"] | {"exclusive": body["exclusive"]}
        for _, to, body in management(peer)
        if to.startswith("/queues/")
    }
    for to, facts in queues.items():
        if "notify" in to:
            assert "x-expires" not in facts, to
        else:
            assert facts.get("x-expires") == 1_800_000 or facts["exclusive"], to
    assert len(queues) == 5


@pytest.mark.parametrize("fail", [False, True])
def test_shared_nodes_are_declared_and_never_deleted(make_peer, make_app, fail):
    peer = rabbit(make_peer, fail=fail)
    app = make_app(peer.url, default_send_timeout=0.3)
    app.server(Endpoint())
    with pytest.raises(Exception) if fail else pytest.MonkeyPatch().context():
        app.notify(retry=0)
    peer.drop()
    peer.wait_connections(2)
    app.close()
    asked = management(peer)
    methods = {(method, to.split("/")[1]) for method, to, _ in asked}
    assert methods <= {
        ("PUT", "queues"),
        ("POST", "bindings"),
        ("GET", "queues"),
        ("DELETE", "queues"),
    }
    # what it deletes is the listener's own queue for fanouts
    assert all("%3Amulticast%3A" in to for method, to, _ in asked if method == "DELETE")


def test_replies_come_by_a_queue_that_goes_with_its_link(make_peer, make_app):
    peer = rabbit(make_peer)
    make_app(peer.url).server(Endpoint())
    (reply,) = [
        f.performative
        for f in peer.frames(p.Attach)
        if f.performative.source and f.performative.source.dynamic
    ]
    assert "rabbitmq:volatile-queue" in [str(c) for c in reply.source.capabilities]
    assert str(reply.source.expiry_policy) == "link-detach"


def test_requests_are_bodies_of_text(make_peer, make_app):
    peer = make_peer()
    make_app(peer.url).client().cast({"k": "v"}, "echo", value=1)
    (sent,) = peer.transfers
    assert (sent.message.kind, type(sent.body)) == ("value", str)
    assert request_of(sent)["context"] == {"k": "v"}
