# SPDX-License-Identifier: Apache-2.0

"""Contract: receiving.  Subscriptions, credit, settlement, replies, what can't be read."""

from __future__ import annotations

import gzip
import json
import logging
import os
import queue
import threading

import oslo_messaging
import proton
import pytest
from oslo_messaging import NotificationResult
from proton.utils import BlockingConnection, SendException

from amqp1_driver import flow
from amqp1_driver.testing import performatives as p
from amqp1_driver.testing.messages import Header, Message, Properties
from tests.contract.apps import (
    PATIENCE,
    SLACK,
    Batches,
    Endpoint,
    Events,
    Stopwatch,
    request,
    request_of,
)

TARGET = oslo_messaging.Target(topic="topic", server="server")


def receiving(bus) -> list[str]:
    """Addresses that clients of the bus receive from, reply addresses apart."""
    return sorted(
        link.address
        for connection in bus.connections
        for link in connection.links
        if link.receiving and "temp" not in link.address
    )


def poller(app, transport=None):
    """The listener as oslo.messaging's adapter sees it, without the adapter."""
    adapter = (transport or app.transport())._driver.listen(TARGET, 1, None)
    return adapter._poll_style_listener


# -- subscriptions ----------------------------------------------------------------------


def test_an_rpc_server_reads_its_name_its_topic_and_the_fanout_on_a_broker(broker, make_app):
    make_app(broker.address).server(Endpoint())
    assert receiving(broker) == [
        "broadcast.openstack.topic.all",
        "exclusive.openstack.topic.server",
        "unicast.openstack.topic",
    ]


def test_an_rpc_server_reads_its_name_its_topic_and_the_fanout_on_a_router(router, make_app):
    make_app(router.address).server(Endpoint())
    assert receiving(router) == [
        "openstack.org/om/rpc/anycast/openstack/topic",
        "openstack.org/om/rpc/multicast/openstack/topic",
        "openstack.org/om/rpc/unicast/openstack/topic/server",
    ]


def test_a_notification_listener_reads_one_address_per_priority(broker, make_app):
    make_app(broker.address).listener(Events())
    assert receiving(broker) == ["unicast.openstack.events.error", "unicast.openstack.events.info"]


def test_a_notification_listener_reads_the_exchange_of_its_target(app, bus):
    app.listener(Events(), exchange="nova")
    assert all(
        "nova" in address
        and "openstack.events" not in address
        and "openstack/events" not in address
        for address in receiving(bus)
    )


def test_the_exchange_of_a_target_keeps_notifications_apart(app):
    own, other = Events(), Events()
    transport = app.notification_transport()
    app.listener(other, exchange="other", transport=transport)
    app.listener(own, transport=transport)  # exchange openstack, that of the notifier
    app.notifier(transport=transport).info({}, "kind", 1)
    assert own.take() == 1
    assert other.seen.empty()


def test_priorities_reach_their_own_endpoints(app):
    events = Events()
    app.listener(events)
    notifier = app.notifier()
    notifier.error({}, "kind", 1)
    assert events.take() == ("error", 1)
    notifier.info({}, "kind", 2)
    assert events.take() == 2


def test_two_targets_of_one_listener_are_both_read(app):
    events = Events()
    transport = app.notification_transport()
    listener = oslo_messaging.get_notification_listener(
        transport,
        [oslo_messaging.Target(topic="one"), oslo_messaging.Target(topic="two")],
        [events],
        executor="threading",
    )
    listener.start()
    try:
        app.notify(1, topic="one", transport=transport)
        app.notify(2, topic="two", transport=transport)
        assert sorted([events.take(), events.take()]) == [1, 2]
    finally:
        listener.stop()
        listener.wait()


# -- pools ------------------------------------------------------------------------------


def test_each_pool_gets_every_notification_once(broker, make_app):
    app = make_app(broker.address)
    first, second, plain = Events(), Events(), Events()
    app.listener(first, pool="first")
    app.listener(second, pool="second")
    app.listener(plain)
    notifier = app.notifier()
    for number in range(5):
        notifier.info({}, "kind", number)
    for events in (first, second, plain):
        assert sorted(events.take() for _ in range(5)) == [0, 1, 2, 3, 4]
        assert events.seen.empty()


def test_the_listeners_of_a_pool_share_its_notifications(broker, make_app):
    app = make_app(broker.address)
    both = Events()
    app.listener(both, pool="pool")
    app.listener(both, pool="pool")
    notifier = app.notifier()
    for number in range(10):
        notifier.info({}, "kind", number)
    assert sorted(both.take() for _ in range(10)) == list(range(10))
    assert both.seen.empty()


def test_a_pool_on_a_bus_that_stores_nothing_is_not_implemented(router, make_app):
    app = make_app(router.address)
    transport = app.notification_transport()
    listener = oslo_messaging.get_notification_listener(
        transport,
        [oslo_messaging.Target(topic="events")],
        [Events()],
        executor="threading",
        pool="pool",
    )
    watch = Stopwatch()
    with pytest.raises(NotImplementedError, match="embedded router"):
        listener.start()
    assert watch.seconds < 2


# -- batches ----------------------------------------------------------------------------


def test_a_full_batch_is_delivered_at_once(app):
    batches = Batches()
    app.listener(batches, batch=3, batch_timeout=PATIENCE)
    transport = app.notification_transport()
    watch = Stopwatch()
    sent = [app.later(app.notify, number, transport=transport) for number in range(3)]
    assert sorted(batches.take()) == [0, 1, 2]
    assert watch.seconds < 2
    assert [one.result(PATIENCE) for one in sent] == [None] * 3


def test_an_incomplete_batch_is_delivered_when_its_time_is_over(app):
    batches = Batches()
    app.listener(batches, batch=100, batch_timeout=0.3)
    transport = app.notification_transport()
    watch = Stopwatch()
    sent = [app.later(app.notify, number, transport=transport) for number in range(2)]
    assert sorted(batches.take()) == [0, 1]
    assert 0.3 <= watch.seconds < 0.3 + 2 * SLACK
    assert [one.result(PATIENCE) for one in sent] == [None] * 2


def test_a_batch_larger_than_the_credit_still_fills(broker, make_app):
    app = make_app(broker.address, notify_server_credit=5)
    batches = Batches()
    app.listener(batches, batch=20, batch_timeout=PATIENCE)
    transport = app.notification_transport()
    watch = Stopwatch()
    for number in range(20):
        app.notify(number, transport=transport)
    assert batches.take() == list(range(20))
    assert watch.seconds < 5


# -- settlement and credit --------------------------------------------------------------


def test_the_request_is_acknowledged_before_it_is_dispatched(app):
    endpoint = Endpoint()
    app.server(endpoint)
    app.client().cast({}, "wait", value=1)  # a router answers when the server does
    assert endpoint.take() == 1
    assert not endpoint.gate.is_set()
    endpoint.gate.set()


def test_credit_is_given_again_when_messages_are_settled_and_not_when_they_arrive(broker, make_app):
    release = threading.Event()
    events = Events(lambda payload: release.wait(PATIENCE) and None)
    app = make_app(broker.address, notify_server_credit=10)
    app.listener(events)
    transport = app.notification_transport()
    for number in range(30):
        app.notify(number, transport=transport)
    assert sorted(events.take() for _ in range(10)) == list(range(10))
    address = "unicast.openstack.events.info"
    links = [
        link
        for connection in broker.connections
        for link in connection.links
        if link.receiving and link.address == address
    ]
    assert [(link.credit, link.unsettled) for link in links] == [(0, 10)]
    assert broker.queue_depth(address) == 30
    with pytest.raises(queue.Empty):
        events.take(timeout=0.1)
    release.set()
    assert sorted(events.take() for _ in range(20)) == list(range(10, 30))
    broker.wait_until(lambda seen: seen.peek(address) == 0)


def test_credit_comes_back_once_less_than_half_is_left_and_to_the_full_level(make_peer, make_app):
    peer = make_peer()
    app = make_app(peer.url, rpc_server_credit=10)
    listener = poller(app)
    link = peer.wait_link("unicast.openstack.topic")
    peer.wait_frames(p.Flow, 4)  # the reply link and three of the server
    for number in range(6):
        peer.send_transfer(link, request(message_id=f"id-{number}"))
    messages = [listener.poll(PATIENCE)[0] for _ in range(6)]
    for message in messages[:5]:
        message.acknowledge()
    peer.wait_settled(5)
    assert link.credit == 4  # five still count: half of ten is no reason yet
    messages[5].acknowledge()
    peer.script.wait_for(lambda: link.credit == 10, PATIENCE, "credit 10")


def test_stalls_for_want_of_credit_are_counted_and_logged_at_debug(make_peer, make_app, logged):
    peer = make_peer()
    app = make_app(peer.url, rpc_server_credit=2)
    listener = poller(app)
    for number in range(2):
        peer.send_transfer("unicast.openstack.topic", request(message_id=f"id-{number}"))
    for _ in range(2):
        listener.poll(PATIENCE)[0].acknowledge()
    peer.wait_settled(2)
    assert listener.subscription.stalls == 1
    text = "Credit stall 1 on unicast.openstack.topic"
    assert len(logged.said(text, logging.DEBUG)) == 1
    assert logged.said(text, logging.INFO) == []


def test_the_reply_link_has_credit_of_its_own_and_never_runs_dry(bus, make_app):
    app = make_app(bus.address, reply_link_credit=4)
    app.server(Endpoint())
    client = app.client()
    calls = [app.later(client.call, {}, "echo", value=number) for number in range(60)]
    assert [call.result(PATIENCE) for call in calls] == list(range(60))


def credits_granted(peer, count: int) -> list[int]:
    """Of the first flows of the links, in any order."""

    def granted():
        return [
            flow.performative.link_credit
            for flow in peer.frames(p.Flow)
            if flow.performative.handle is not None
        ]

    peer.script.wait_for(lambda: len(granted()) >= count, PATIENCE, f"{count} flows")
    return sorted(granted())


def test_the_default_credits_are_200_for_replies_and_100_for_each_rpc_subscription(
    make_peer, make_app
):
    peer = make_peer()
    make_app(peer.url).server(Endpoint())
    assert credits_granted(peer, 4) == [100, 100, 100, 200]


def test_the_default_credit_is_100_for_each_notification_subscription(make_peer, make_app):
    peer = make_peer()
    make_app(peer.url).listener(Events())
    assert credits_granted(peer, 3) == [100, 100, 200]


# -- poll, acknowledge, requeue, reply, heartbeat ---------------------------------------


def test_acknowledge_accepts_and_requeue_releases(make_peer, make_app):
    peer = make_peer()
    listener = poller(make_app(peer.url))
    for number in range(2):
        peer.send_transfer("unicast.openstack.topic", request(message_id=f"id-{number}"))
    first, second = (listener.poll(PATIENCE)[0] for _ in range(2))
    first.acknowledge()
    second.requeue()
    peer.wait_settled(2)
    assert [type(sent.state) for sent in peer.sent] == [p.Accepted, p.Released]


@pytest.mark.parametrize("message_id", [None, 7, b"x", "text"], ids=repr)
def test_a_message_with_any_id_can_be_settled(make_peer, make_app, message_id):
    peer = make_peer()
    listener = poller(make_app(peer.url))
    for _ in range(2):
        peer.send_transfer("unicast.openstack.topic", request(message_id=message_id))
    listener.poll(PATIENCE)[0].acknowledge()
    listener.poll(PATIENCE)[0].requeue()
    peer.wait_settled(2)
    assert [type(sent.state) for sent in peer.sent] == [p.Accepted, p.Released]


def test_an_acknowledgement_right_before_cleanup_still_gets_to_the_bus(make_peer, make_app):
    # acknowledge() hands it to the I/O thread, in order: it is not waited for, nor lost
    peer = make_peer()
    app = make_app(peer.url)
    transport = app.transport()
    listener = poller(app, transport)
    for number in range(20):
        peer.send_transfer("unicast.openstack.topic", request(message_id=f"id-{number}"))
    for _ in range(20):
        listener.poll(PATIENCE)[0].acknowledge()
    transport.cleanup()
    peer.wait_settled(20)
    assert {type(sent.state) for sent in peer.sent} == {p.Accepted}


def test_nothing_of_an_incoming_message_ever_raises(make_peer, make_app):
    peer = make_peer()
    app = make_app(peer.url)
    transport = app.transport()
    listener = poller(app, transport)
    for number in range(4):
        peer.send_transfer(
            "unicast.openstack.topic",
            request(message_id=f"id-{number}", reply_to="peer/dynamic/77"),
        )
    messages = [listener.poll(PATIENCE)[0] for _ in range(4)]
    peer.drop()
    messages[0].acknowledge()
    messages[0].acknowledge()
    messages[1].requeue()
    messages[1].heartbeat()
    messages[1].reply("value")
    messages[1].reply("again")
    transport.cleanup()
    messages[2].acknowledge()
    messages[2].heartbeat()
    messages[2].reply(object())
    messages[3].requeue()
    assert listener.poll(0.01) == []
    listener.stop()
    listener.cleanup()
    assert listener.poll(0.01) == []


def test_poll_without_messages_returns_an_empty_list_after_its_timeout(make_peer, make_app):
    listener = poller(make_app(make_peer().url))
    watch = Stopwatch()
    assert listener.poll(0.15) == []
    assert 0.15 <= watch.seconds < 0.15 + SLACK


def test_stop_wakes_a_poll_without_timeout(make_peer, make_app):
    app = make_app(make_peer().url)
    listener = poller(app)
    polled = app.later(listener.poll)
    listener.stop()
    assert polled.result(PATIENCE) == []


def test_after_stop_poll_returns_what_has_come_and_then_an_empty_list(make_peer, make_app):
    peer = make_peer()
    app = make_app(peer.url)
    listener = poller(app)
    for number in range(3):
        peer.send_transfer("unicast.openstack.topic", request(message_id=f"id-{number}"))
    first = listener.poll(PATIENCE)
    peer.script.wait_for(lambda: len(peer.sent) == 3, PATIENCE, "three sent")
    second = listener.poll(PATIENCE)
    third = listener.poll(PATIENCE)
    listener.stop()
    assert [m.msg_id for batch in (first, second, third) for m in batch] == ["id-0", "id-1", "id-2"]
    assert listener.poll() == []


def test_what_nobody_has_polled_goes_back_to_the_bus_at_cleanup(broker, make_app):
    app = make_app(broker.address)
    transport = app.transport()
    listener = poller(app, transport)
    client = app.client()
    for number in range(3):
        client.cast({}, "echo", value=number)
    broker.wait_until(
        lambda seen: any(link.unsettled == 3 for c in seen.peek_connections() for link in c.links)
    )
    listener.stop()
    listener.cleanup()
    taken = Endpoint()
    app.server(taken, server="another")
    assert sorted(taken.take() for _ in range(3)) == [0, 1, 2]


def test_replies_are_sent_between_stop_and_cleanup(app):
    endpoint = Endpoint()
    server = app.server(endpoint)
    call = app.later(app.client().call, {}, "wait", value="in time")
    endpoint.take()
    server.stop()
    endpoint.gate.set()
    assert call.result(PATIENCE) == "in time"
    server.wait()


def test_a_stopped_server_takes_no_more_and_another_does(app):
    one, two = Endpoint(), Endpoint()
    first = app.server(one, server="one")
    app.server(two, server="two")
    first.stop()
    first.wait()
    client = app.client()
    for number in range(10):
        assert client.call({}, "echo", value=number) == number
    assert [two.take() for _ in range(10)] == list(range(10))
    assert one.seen.empty()


def test_a_heartbeat_is_a_settled_message_without_body_and_never_waits(make_peer, make_app):
    peer = make_peer()
    app = make_app(peer.url)
    listener = poller(app)
    body = {"request": {"method": "echo", "args": {}}, "context": {}, "call_monitor_timeout": 20}
    peer.send_transfer(
        "unicast.openstack.topic",
        Message(
            json.dumps(body), properties=Properties(message_id="id-1", reply_to="peer/dynamic/77")
        ),
    )
    (message,) = listener.poll(PATIENCE)
    assert message.client_timeout == 20
    message.heartbeat()
    (sent,) = peer.wait_transfers(1)
    assert (sent.settled, sent.message.kind, sent.body) == (True, "value", None)
    assert sent.message.properties.correlation_id == "id-1"
    assert sent.message.properties.to == "peer/dynamic/77"
    assert 0 < sent.message.header.ttl <= 20_000


@pytest.mark.parametrize("message_id", ["a text", 7, b"\x00\xff"], ids=repr)
def test_a_reply_has_the_message_id_of_its_request_as_correlation_id(
    make_peer, make_app, message_id
):
    peer = make_peer()
    make_app(peer.url).server(Endpoint())
    peer.send_transfer(
        "unicast.openstack.topic",
        request(message_id=message_id, reply_to="peer/dynamic/9", value="v"),
    )
    (sent,) = peer.wait_transfers(1)
    assert sent.message.properties.correlation_id == message_id
    assert request_of(sent) == {"response": "v"}
    assert sent.address == "peer/dynamic/9"


# -- failed replies ---------------------------------------------------------------------


def ask(peer, reply_to: str, message_id: str = "id-1") -> None:
    peer.send_transfer(
        "unicast.openstack.topic", request(message_id=message_id, reply_to=reply_to, value=1)
    )


def test_a_failed_reply_is_logged_as_an_error_and_does_not_raise(make_peer, make_app, logged):
    peer = make_peer()
    peer.override(times=None).expect_transfer().reject("amqp:not-allowed", "no replies")
    app = make_app(peer.url)
    listener = poller(app)
    ask(peer, "peer/dynamic/77")
    (message,) = listener.poll(PATIENCE)
    message.reply("value")
    peer.wait_transfers(1)
    app.close()
    (said,) = logged.said()
    assert "id-1" in said and "peer/dynamic/77" in said and f"127.0.0.1:{peer.port}" in said
    assert "no replies" in said


def test_a_dead_reply_address_costs_one_more_attempt_and_is_remembered(make_peer, make_app, logged):
    peer = make_peer()
    peer.override(times=None).expect_transfer(address="dead/1").release()
    app = make_app(peer.url)
    listener = poller(app)
    for number in range(3):
        ask(peer, "dead/1", f"id-{number}")
    ask(peer, "alive/1", "id-3")
    first, second, third, other = (listener.poll(PATIENCE)[0] for _ in range(4))
    watch = Stopwatch()
    first.reply(1)
    peer.wait_transfers(2)  # the reply and one more try
    logged.wait("id-0")
    second.reply(2)
    third.reply(3)
    other.reply(4)
    assert watch.seconds < 2
    sent = peer.wait_transfers(3)
    assert [t.address for t in sent] == ["dead/1", "dead/1", "alive/1"]
    said = logged.said()
    assert len(said) == 3 and all("dead/1" in text for text in said)
    assert "id-1" in said[1] and "id-2" in said[2]


def test_a_reply_without_credit_ends_at_its_own_timeout(make_peer, make_app, logged):
    peer = make_peer(offered_capabilities=())
    peer.override(times=None).expect_attach(role="sender").respond(credit=0)
    app = make_app(peer.url, default_reply_timeout=0.2)
    listener = poller(app)
    ask(peer, "full/1")
    (message,) = listener.poll(PATIENCE)
    watch = Stopwatch()
    message.reply(1)
    assert watch.seconds < 0.2  # nobody waits for it
    peer.wait_link("full/1")
    (said,) = logged.wait()
    assert "id-1" in said and "full/1" in said


def test_no_more_replies_than_the_backlog_wait_unsent(make_peer, make_app):
    peer = make_peer(offered_capabilities=())
    peer.override(times=None).expect_attach(role="sender").respond(credit=0)
    app = make_app(peer.url, reply_backlog=3, default_reply_timeout=0.4)
    listener = poller(app)
    for number in range(4):
        ask(peer, "full/1", f"id-{number}")
    messages = [listener.poll(PATIENCE)[0] for _ in range(4)]
    watch = Stopwatch()
    for message in messages[:3]:
        message.reply(1)
    assert watch.seconds < 0.2
    messages[3].reply(1)  # has to wait, as long as a reply may take
    assert 0.3 <= watch.seconds < 0.4 + 2 * SLACK


# -- what can't be read -----------------------------------------------------------------

UNREADABLE = {
    "no message": b"\x00\x53\x75\xff\xff",
    "random bytes": b"\xde\xad\xbe\xef",
    "empty": b"",
    "no body": Message(None, kind=None, properties=Properties(message_id="x")),
    "null body": Message(None, properties=Properties(message_id="x")),
    "a list as message-id": request(message_id=[1]),
    "a map as message-id": request(message_id={"a": 1}),
    "number as body": Message(42),
    "map as body": Message({"request": {}}),
    "no JSON": Message("{"),
    "JSON but no object": Message("[1, 2]"),
    "no request in it": Message('{"context": {}}'),
    "bad context": Message('{"request": {}, "context": 3}'),
    "bad envelope": Message('{"request": {"oslo.version": "2.0", "oslo.message": "{"}}'),
    "a list as request": Message('{"request": [1]}'),
    "null as request": Message('{"request": null}'),
    "a string as request": Message('{"request": "x"}'),
    "a number as request": Message('{"request": 1}'),
    "a list in the envelope": Message(
        '{"request": {"oslo.version": "2.0", "oslo.message": "[1]"}}'
    ),
    "no UTF-8": Message(b"\xff\xfe", kind="data"),
    "no gzip": Message(b"no gzip at all", properties=Properties(content_encoding="gzip")),
    "a gzip bomb": Message(
        gzip.compress(b" " * (80 << 20), 1), properties=Properties(content_encoding="gzip")
    ),
    "deep nesting": Message('{"request": ' + "[" * 100_000 + "]" * 100_000 + "}"),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_an_undecodable_message_is_rejected_and_the_listener_goes_on(
    make_peer, make_app, logged, what
):
    peer = make_peer()
    endpoint = Endpoint()
    make_app(peer.url).server(endpoint)
    peer.send_transfer("unicast.openstack.topic", UNREADABLE[what])
    peer.send_transfer("unicast.openstack.topic", request(value="readable"))
    assert endpoint.take() == "readable"
    peer.wait_settled(2)
    assert [type(sent.state) for sent in peer.sent] == [p.Rejected, p.Accepted]
    (said,) = logged.said()
    assert "unicast.openstack.topic" in said and f"127.0.0.1:{peer.port}" in said


def test_of_many_undecodable_messages_a_few_are_logged_and_all_give_their_credit_back(
    make_peer, make_app, logged
):
    # 100 is the credit of a subscription: if each message kept one, nothing came after 100
    count = 10_000 if os.environ.get("AMQP1_LONG") == "1" else 500
    peer = make_peer()
    endpoint = Endpoint()
    app = make_app(peer.url)
    server = app.server(endpoint)
    for _ in range(count):
        peer.send_transfer("unicast.openstack.topic", UNREADABLE["a list as request"])
    for number in range(100):
        peer.send_transfer(
            "unicast.openstack.topic", request(value=number, message_id=f"id-{number}")
        )
    assert sorted(endpoint.take() for _ in range(100)) == list(range(100))
    peer.wait_settled(count + 100, 60)
    assert [type(sent.state) for sent in peer.sent[:count]] == [p.Rejected] * count
    assert [type(sent.state) for sent in peer.sent[count:]] == [p.Accepted] * 100
    assert flow.control(server).counters()["unsettled"] == 0
    assert flow.control(server).credit == 100
    said = logged.said("request is a JSON list, not an object")
    assert len(said) == 10
    assert "on unicast.openstack.topic at 127.0.0.1:" in said[0]


def test_bad_requests_among_calls_cost_no_call(make_peer, make_app):
    """Six bad requests before each call, in all three times the credit of the subscription."""
    peer = make_peer()
    server = make_app(peer.url).server(Endpoint())
    bad = [UNREADABLE[name] for name in UNREADABLE if name.endswith((" as request", "envelope"))]
    for number in range(50):
        for message in bad:
            peer.send_transfer("unicast.openstack.topic", message)
        peer.send_transfer(
            "unicast.openstack.topic",
            request(value=number, message_id=f"id-{number}", reply_to="caller"),
        )
    answered = {
        sent.message.properties.correlation_id: request_of(sent) for sent in peer.wait_transfers(50)
    }
    assert answered == {f"id-{number}": {"response": number} for number in range(50)}
    peer.wait_settled(350)
    assert [type(sent.state) for sent in peer.sent] == ([p.Rejected] * 6 + [p.Accepted]) * 50
    assert flow.control(server).counters()["unsettled"] == 0


def test_an_expiry_time_is_honoured_on_service_bus_only(make_peer, make_app):
    """Elsewhere a server with a wrong clock would reject what the bus has accepted."""
    peer = make_peer()
    endpoint = Endpoint()
    make_app(peer.url).server(endpoint)
    late = request(value="late")
    late.properties.absolute_expiry_time = 1000  # of 1970
    peer.send_transfer("unicast.openstack.topic", late)
    assert endpoint.take() == "late"
    peer.wait_settled(1)
    assert [type(sent.state) for sent in peer.sent] == [p.Accepted]


NO_NOTIFICATIONS = {
    "no object": '{"request": [1]}',
    "no object in the envelope": '{"request": {"oslo.version": "2.0", "oslo.message": "[1]"}}',
    "a priority that is no text": '{"request": {"priority": null, "payload": 1}}',
    "no request": "{}",
}


@pytest.mark.parametrize("what", NO_NOTIFICATIONS)
def test_a_bad_notification_does_not_cost_the_rest_of_its_batch(make_peer, make_app, logged, what):
    peer = make_peer()
    batches = Batches()
    make_app(peer.url).listener(batches, batch=10, batch_timeout=PATIENCE)
    address = "unicast.openstack.events.info"
    good = {
        "publisher_id": "p",
        "event_type": "e",
        "message_id": "1",
        "timestamp": "t",
        "priority": "INFO",
    }
    for number in range(11):
        body = (
            NO_NOTIFICATIONS[what]
            if number == 3
            else json.dumps({"request": {**good, "payload": number}, "context": {}})
        )
        peer.send_transfer(address, Message(body, properties=Properties(message_id=f"i{number}")))
    assert batches.take() == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]
    peer.wait_settled(11)
    assert [type(sent.state) for sent in peer.sent] == (
        [p.Accepted] * 3 + [p.Rejected] + [p.Accepted] * 7
    )
    assert (
        len(logged.said("Undecodable message i3 on unicast.openstack.events.info at 127.0.0.1"))
        == 1
    )


@pytest.mark.parametrize("what", NO_NOTIFICATIONS)
def test_a_bad_notification_is_rejected_and_the_listener_goes_on(make_peer, make_app, logged, what):
    peer = make_peer()
    events = Events()
    make_app(peer.url).listener(events, requeue=True)
    peer.send_transfer(
        "unicast.openstack.events.info",
        Message(NO_NOTIFICATIONS[what], properties=Properties(message_id="bad")),
    )
    peer.send_transfer(
        "unicast.openstack.events.info",
        Message('{"request": {"priority": "INFO", "payload": "good"}}'),
    )
    assert events.take() == "good"
    peer.wait_settled(2)
    assert [type(sent.state) for sent in peer.sent] == [p.Rejected, p.Accepted]
    assert len(logged.said()) == 1


def test_after_the_reply_there_is_no_heartbeat_and_the_watchdog_of_the_call_ends(
    make_peer, make_app
):
    """oslo.messaging starts a thread for a call with a monitor, and never ends it where no
    endpoint has the method; it ends by itself when a heartbeat raises."""
    peer = make_peer()
    app = make_app(peer.url)
    app.server(Endpoint())
    threads = threading.active_count()
    for number in range(5):
        body = {
            "request": {"method": "missing", "args": {}},
            "context": {},
            "call_monitor_timeout": 2,
        }
        asked = Properties(message_id=f"id-{number}", reply_to="peer/dynamic/77")
        peer.send_transfer("unicast.openstack.topic", Message(json.dumps(body), properties=asked))
    peer.wait_transfers(5)
    watch = Stopwatch()
    for thread in threading.enumerate():
        if "_watchdog" in thread.name:
            thread.join(PATIENCE)
    assert watch.seconds < 5
    assert threading.active_count() <= threads + 10  # the workers of the server


def test_a_poison_message_is_not_redelivered_and_the_listener_lives(bus, make_app):
    app = make_app(bus.address)
    endpoint = Endpoint()
    app.server(endpoint)
    address = (
        "unicast.openstack.topic"
        if bus.mode == "broker"
        else "openstack.org/om/rpc/anycast/openstack/topic"
    )
    connection = BlockingConnection(bus.address, timeout=PATIENCE)
    try:
        sender = connection.create_sender(address)
        try:
            sender.send(proton.Message(body="poison"), timeout=PATIENCE)
        except SendException as error:
            assert bus.mode == "router" and error.state == proton.Delivery.REJECTED
    finally:
        connection.close()
    assert app.client().call({}, "echo", value="alive") == "alive"
    bus.wait_until(lambda seen: seen.counters.dispositions["rejected"] == 1)
    assert bus.queue_depth(address) == 0


def test_an_endpoint_that_raises_does_not_get_its_notification_again(app, bus):
    def explode(payload):
        raise RuntimeError("poison")

    events = Events(explode)
    app.listener(events)
    transport = app.notification_transport()
    app.notify("poison", transport=transport)
    app.notify("next", transport=transport)
    assert {events.take(), events.take()} == {"poison", "next"}
    bus.wait_until(lambda seen: seen.counters.dispositions["accepted"] >= 2)
    assert events.seen.empty()


# -- requeue and duplicates -------------------------------------------------------------


def test_a_requeued_notification_comes_again(broker, make_app):
    app = make_app(broker.address)
    results = iter(
        [NotificationResult.REQUEUE, NotificationResult.REQUEUE, NotificationResult.HANDLED]
    )
    events = Events(lambda payload: next(results))
    app.listener(events, requeue=True)
    app.notify("again")
    assert [events.take() for _ in range(3)] == ["again"] * 3
    broker.wait_until(lambda seen: seen.peek("unicast.openstack.events.info") == 0)
    assert broker.counters.dispositions["released"] == 2


def test_a_requeued_notification_goes_back_to_its_sender_on_a_router(router, make_app):
    app = make_app(router.address)
    app.listener(Events(lambda payload: NotificationResult.REQUEUE), requeue=True)
    with pytest.raises(oslo_messaging.MessageDeliveryFailure, match="released"):
        app.notify("again")


def again(message: Message, count: int) -> Message:
    message.header = Header(delivery_count=count)
    return message


def test_a_redelivered_duplicate_is_dropped_and_not_rejected(make_peer, make_app):
    peer = make_peer()
    endpoint = Endpoint()
    make_app(peer.url).server(endpoint)
    peer.send_transfer("unicast.openstack.topic", request(message_id="id-1", value="once"))
    peer.send_transfer(
        "unicast.openstack.topic", again(request(message_id="id-1", value="once"), 1)
    )
    peer.send_transfer("unicast.openstack.topic", request(message_id="id-2", value="next"))
    assert {endpoint.take(), endpoint.take()} == {"once", "next"}
    peer.wait_settled(3)
    assert [type(sent.state) for sent in peer.sent] == [p.Accepted] * 3
    assert endpoint.seen.empty()


def test_a_first_delivery_that_is_marked_as_redelivered_is_no_duplicate(make_peer, make_app):
    # another consumer had it before, and died
    peer = make_peer()
    endpoint = Endpoint()
    make_app(peer.url).server(endpoint)
    peer.send_transfer(
        "unicast.openstack.topic", again(request(message_id="id-1", value="taken over"), 3)
    )
    assert endpoint.take() == "taken over"


def test_equal_ids_of_different_senders_are_no_duplicates(make_peer, make_app):
    peer = make_peer()
    endpoint = Endpoint()
    make_app(peer.url).server(endpoint)
    for value in ("one", "two"):
        peer.send_transfer("unicast.openstack.topic", request(message_id="1", value=value))
    assert {endpoint.take(), endpoint.take()} == {"one", "two"}


@pytest.mark.parametrize(
    "result, times", [(NotificationResult.HANDLED, 1), (NotificationResult.REQUEUE, 2)]
)
def test_a_message_in_work_when_the_connection_went_is_settled_when_its_work_is_done(
    broker, make_app, logged, result, times
):
    release, results = threading.Event(), iter([result, NotificationResult.HANDLED])
    events = Events(lambda payload: release.wait(PATIENCE) and next(results))
    app = make_app(broker.address)
    transport = app.notification_transport()
    app.listener(events, transport=transport, requeue=True)
    app.notify("once")
    assert events.take() == "once"
    broker.drop_connections()  # not settled: the broker delivers it again
    logged.wait("was delivered again", logging.WARNING)
    assert broker.counters.dispositions["accepted"] == 0
    assert events.seen.empty()
    release.set()
    for _ in range(times - 1):
        assert events.take() == "once"
    broker.wait_until(lambda seen: seen.peek("unicast.openstack.events.info") == 0)
    assert broker.counters.dispositions["accepted"] == 1
    assert events.seen.empty()


def test_a_message_whose_work_was_done_when_it_came_again_is_dropped(make_peer, make_app):
    peer = make_peer()
    listener = poller(make_app(peer.url))
    peer.send_transfer("unicast.openstack.topic", request(message_id="id-1"))
    (message,) = listener.poll(PATIENCE)
    peer.drop()
    peer.wait_connections(2)
    message.acknowledge()  # over a link that has gone
    peer.send_transfer("unicast.openstack.topic", again(request(message_id="id-1"), 1))
    peer.send_transfer("unicast.openstack.topic", request(message_id="id-2"))
    assert [m.msg_id for m in listener.poll(PATIENCE)] == ["id-2"]
    peer.wait_settled(1)
    assert type(peer.sent[1].state) is p.Accepted


def test_a_requeued_message_is_no_duplicate_after_a_reconnect(make_peer, make_app):
    peer = make_peer()
    listener = poller(make_app(peer.url))
    peer.send_transfer("unicast.openstack.topic", request(message_id="id-1"))
    listener.poll(PATIENCE)[0].requeue()
    peer.wait_settled(1)
    peer.drop()
    peer.wait_connections(2)
    peer.send_transfer("unicast.openstack.topic", again(request(message_id="id-1"), 1))
    assert [m.msg_id for m in listener.poll(PATIENCE)] == ["id-1"]


def test_the_duplicate_filter_can_be_turned_off(make_peer, make_app):
    peer = make_peer()
    endpoint = Endpoint()
    make_app(peer.url, duplicate_window=0).server(endpoint)
    for count in (0, 1):
        peer.send_transfer(
            "unicast.openstack.topic", again(request(message_id="id-1", value="twice"), count)
        )
    assert [endpoint.take(), endpoint.take()] == ["twice", "twice"]


def test_a_listener_whose_endpoints_take_no_priority_starts_and_hears_nothing(app):
    """As with oslo.messaging's other drivers."""

    class Deaf:
        def heard(self) -> None: ...

    listener = app.listener(Deaf())
    listener.stop()
    listener.wait()
