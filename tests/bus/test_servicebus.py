# SPDX-License-Identifier: Apache-2.0

"""The embedded Service Bus: entities, locks, dead letters, sessions, requests about locks."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from proton import Delivery, Described, Link, Message, symbol

from amqp1_driver.bus.namespace import Namespace

from .memory import Client, MemoryBus, is_open, outcome

NAMESPACE = Namespace(
    queues=("q",),
    session_queues=("replies",),
    topics={"Topic": ("One", "two"), "deaf": ()},
    rules={"all": "key"},
    lock_duration=30.0,
    max_delivery_count=3,
    max_message_size=10_000,
)
SESSION = symbol("com.microsoft:session-filter")
LOST = "com.microsoft:message-lock-lost"


@pytest.fixture
def bus() -> MemoryBus:
    return MemoryBus("servicebus", namespace=NAMESPACE)


@pytest.fixture
def client(bus: MemoryBus) -> Client:
    return bus.client(user="all")


def refusal(link: Any) -> str:
    return str(link.link.remote_condition.name)


def texts(message: Message) -> dict[str, Any]:
    """Message annotations with strings for symbols."""
    return {str(k): v for k, v in (message.annotations or {}).items()}


# -- entities ----------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        "missing",
        "topic/subscriptions/three",
        "topic/one",
        "q/$deadletter",
        "$unknown",
    ],
)
def test_an_entity_that_is_missing_is_refused(client: Client, address: str) -> None:
    for link in (client.sender(address), client.receiver(address)):
        assert refusal(link) == "amqp:not-found"
        description = link.link.remote_condition.description
        assert f"The messaging entity '{address}' could not be found. TrackingId:" in description


@pytest.mark.parametrize("address", [None, "topic/subscriptions/one", "q/$DeadLetterQueue"])
def test_nothing_can_be_sent_to_what_is_for_readers(client: Client, address: str | None) -> None:
    assert refusal(client.sender(address)) == "amqp:not-allowed"


def test_a_topic_cannot_be_read(client: Client) -> None:
    assert refusal(client.receiver("topic")) == "amqp:not-allowed"


def test_there_are_no_dynamic_nodes(client: Client) -> None:
    assert refusal(client.receiver(None, dynamic=True)) == "amqp:not-implemented"


def test_each_subscription_of_a_topic_gets_a_copy_and_its_readers_share_it(
    bus: MemoryBus, client: Client
) -> None:
    sender = client.sender("TOPIC")
    for number in range(4):
        sender.send(str(number))
    assert bus.behaviour.depth("topic/Subscriptions/two") == 4
    assert bus.behaviour.depth("topic") == 8
    first, second = (
        client.receiver("topic/Subscriptions/ONE", 2),
        client.receiver("sb://ns.example/topic/subscriptions/one", 2),
    )
    assert sorted(first.bodies + second.bodies) == ["0", "1", "2", "3"]


def test_a_topic_without_subscriptions_takes_messages_and_forgets_them(client: Client) -> None:
    assert outcome(client.sender("deaf").send()) == Delivery.ACCEPTED


def test_links_are_told_how_large_a_message_may_be_and_more_is_refused(client: Client) -> None:
    sender = client.sender("q")
    assert sender.link.remote_max_message_size == 10_000
    assert client.receiver("q", 0).link.remote_max_message_size == 10_000
    assert outcome(sender.send("x" * 9_900)) == Delivery.ACCEPTED
    delivery = sender.send("x" * 10_000)
    assert outcome(delivery) == Delivery.REJECTED
    assert delivery.remote.condition.name == "amqp:link:message-size-exceeded"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"junk",
        bytes.fromhex("005370c0"),
        bytes.fromhex("00537245 005377a1026869"),
    ],
)
def test_what_is_no_message_is_refused(client: Client, data: bytes) -> None:
    delivery = client.sender("q").send(data or bytearray())
    assert outcome(delivery) == Delivery.REJECTED
    assert delivery.remote.condition.name == "amqp:decode-error"


# -- what the service adds to a message -----------------------------------------


def test_a_message_comes_with_the_annotations_of_the_service(client: Client) -> None:
    message = Message(body={"a": [1]}, subject="s", id="1", priority=7, durable=True)
    message.properties = {"mine": 1}
    message.annotations = {symbol("x-opt-partition-key"): "p", symbol("x-opt-sequence-number"): -1}
    client.sender("q").send(message)
    receiver = client.receiver("q")
    received = receiver.arrived[0][1]
    assert (received.body, received.subject, received.id) == ({"a": [1]}, "s", "1")
    assert (received.priority, received.durable) == (7, True)
    assert received.properties == {"mine": 1}
    assert texts(received) == {
        "x-opt-partition-key": "p",
        "x-opt-sequence-number": 1,
        "x-opt-enqueued-time": 1_700_000_000_000,
        "x-opt-locked-until": 1_700_000_030_000,
    }


def test_receive_and_delete_locks_nothing(bus: MemoryBus, client: Client) -> None:
    client.sender("q").send("gone")
    receiver = client.receiver("q", snd_settle_mode=Link.SND_SETTLED)
    assert receiver.bodies == ["gone"]
    assert "x-opt-locked-until" not in texts(receiver.arrived[0][1])
    assert bus.behaviour.depth("q") == 0


def test_a_message_without_application_properties_keeps_its_body_bytes(client: Client) -> None:
    # no section but an amqp-value "hi"
    client.sender("q").send(bytes.fromhex("005377a1026869"))
    receiver = client.receiver("q")
    assert receiver.raw[0].endswith(bytes.fromhex("005377a1026869"))
    # a header with first-acquirer false and delivery-count 0, then annotations
    assert receiver.raw[0].startswith(bytes.fromhex("005370c00605404040424300 5372d1"))


# -- peek-lock ---------------------------------------------------------------


def test_a_completed_message_is_gone(bus: MemoryBus, client: Client) -> None:
    client.sender("q").send()
    client.receiver("q").accept()
    assert bus.behaviour.depth("q") == 0


def test_an_abandoned_message_comes_again_until_it_is_dead(bus: MemoryBus, client: Client) -> None:
    client.sender("q").send("bad")
    receiver = client.receiver("q")
    counts = [receiver.modify(failed=True).delivery_count for _ in range(3)]
    assert counts == [0, 1, 2]
    assert bus.behaviour.depth("q") == 0
    dead = client.receiver("q/$DeadLetterQueue")
    assert dead.bodies == ["bad"]
    assert dead.arrived[0][1].properties == {
        "DeadLetterReason": "MaxDeliveryCountExceeded",
        "DeadLetterErrorDescription": "Message could not be consumed after 3 delivery attempts.",
    }
    assert texts(dead.arrived[0][1])["x-opt-deadletter-source"] == "q"
    assert dead.arrived[0][1].delivery_count == 3
    for _ in range(5):
        dead.modify(failed=True)
    assert dead.bodies == ["bad"]
    dead.accept()
    assert bus.behaviour.depth("q/$deadletterqueue") == 0


def test_a_released_message_comes_again_and_is_not_counted(client: Client) -> None:
    client.sender("q").send()
    receiver = client.receiver("q")
    assert [receiver.release().delivery_count for _ in range(5)] == [0, 0, 0, 0, 0]


def test_a_rejected_message_is_a_dead_letter_with_the_error_as_its_reason(
    bus: MemoryBus, client: Client
) -> None:
    client.sender("topic").send("poison")
    client.receiver("topic/subscriptions/one").reject("test:bad", "no good")
    dead = client.receiver("topic/subscriptions/one/$deadletterqueue")
    assert dead.arrived[0][1].properties == {
        "DeadLetterReason": "test:bad",
        "DeadLetterErrorDescription": "no good",
    }
    assert bus.behaviour.depth("topic/subscriptions/one") == 0
    assert bus.behaviour.depth("topic/subscriptions/two") == 1


def test_a_deferred_message_is_not_given_to_anybody(bus: MemoryBus, client: Client) -> None:
    client.sender("q").send()
    receiver = client.receiver("q")
    receiver.modify(failed=True, undeliverable=True)
    bus.advance(100)
    assert receiver.arrived == []
    assert bus.behaviour.depth("q") == 1


def test_a_lock_runs_out_and_the_message_goes_to_the_next(bus: MemoryBus, client: Client) -> None:
    client.sender("q").send("slow")
    first = client.receiver("q", 1)
    second = client.receiver("q", 1)
    bus.advance(29.9)
    assert second.bodies == []
    bus.advance(0.1)
    assert second.bodies == ["slow"]
    assert second.arrived[0][1].delivery_count == 1
    first.accept()  # too late: changes nothing
    assert bus.behaviour.depth("q") == 1
    second.accept()
    assert bus.behaviour.depth("q") == 0
    bus.advance(60)
    assert (first.arrived, second.arrived) == ([], [])


def test_locks_that_run_out_count_as_failed_deliveries(bus: MemoryBus, client: Client) -> None:
    client.sender("q").send("slow")
    client.receiver("q", 10)
    for _ in range(3):
        bus.advance(30)
    assert bus.behaviour.depth("q") == 0
    assert client.receiver("q/$deadletterqueue").bodies == ["slow"]


def test_a_lock_outlives_link_and_connection(bus: MemoryBus, client: Client) -> None:
    client.sender("q").send("kept")
    lost = bus.client(user="all")
    assert lost.receiver("q").bodies == ["kept"]
    lost.vanish()
    receiver = client.receiver("q")
    bus.advance(29.9)
    assert receiver.bodies == []
    bus.advance(0.1)
    assert receiver.bodies == ["kept"]


def test_an_outcome_after_the_lock_is_answered_to_who_settles_second(
    bus: MemoryBus, client: Client
) -> None:
    sender = client.sender("q")
    sender.send("in time")
    sender.send("late")
    receiver = client.receiver("q", 2, rcv_settle_mode=Link.RCV_SECOND)
    in_time, late = (delivery for delivery, _ in receiver.arrived)
    in_time.update(Delivery.ACCEPTED)
    bus.settle()
    assert (in_time.settled, in_time.remote_state) == (True, Delivery.ACCEPTED)
    bus.advance(30)
    late.update(Delivery.ACCEPTED)
    bus.settle()
    assert (late.settled, late.remote_state) == (True, Delivery.REJECTED)
    assert late.remote.condition.name == LOST
    assert bus.behaviour.depth("q") == 1


@pytest.mark.parametrize("state", [Delivery.MODIFIED, Delivery.REJECTED, Delivery.RELEASED])
def test_every_outcome_is_echoed_without_an_error(
    bus: MemoryBus, client: Client, state: int
) -> None:
    client.sender("q").send()
    receiver = client.receiver("q", 1, rcv_settle_mode=Link.RCV_SECOND)
    delivery = receiver.arrived[0][0]
    delivery.update(state)
    bus.settle()
    assert (delivery.settled, delivery.remote_state) == (True, state)
    assert delivery.remote.condition is None


def test_an_expired_message_is_dropped(bus: MemoryBus, client: Client) -> None:
    client.sender("topic").send(Message(body="old", ttl=5))
    bus.advance(5.1)
    assert bus.behaviour.depth("topic") == 0
    assert bus.counters.expired == 2


# -- requests about locks --------------------------------------------------------


class Manager:
    """A pair of links to an entity's $management."""

    def __init__(self, client: Client, entity: str) -> None:
        self._requests = client.sender(f"{entity}/$management")
        self._replies = client.receiver(f"{entity}/$management")

    def ask(self, operation: str, body: Any) -> tuple[int, Any, str | None]:
        """Status, body and error condition."""
        message = Message(body=body, id="1")
        message.properties = {"operation": f"com.microsoft:{operation}"}
        self._requests.send(message)
        reply = self._replies.accept()
        assert reply.correlation_id == "1"
        properties = reply.properties
        return int(properties["statusCode"]), reply.body, properties.get("errorCondition")


def only_lock(bus: MemoryBus, entity: str) -> uuid.UUID:
    queue: Any = bus.behaviour
    (token,) = queue._queues[entity]._by_token
    assert isinstance(token, uuid.UUID)
    return token


def test_a_lock_is_renewed(bus: MemoryBus, client: Client) -> None:
    client.sender("q").send()
    receiver = client.receiver("q", 1)
    manager = Manager(client, "q")
    bus.advance(20)
    status, body, error = manager.ask("renew-lock", {"lock-tokens": [only_lock(bus, "q")]})
    assert (status, error) == (200, None)
    assert body == {"expirations": [1_700_000_050_000]}
    bus.advance(29.9)
    receiver.accept()
    assert bus.behaviour.depth("q") == 0


def test_a_lock_that_is_not_held_is_not_renewed(bus: MemoryBus, client: Client) -> None:
    manager = Manager(client, "q")
    status, _, error = manager.ask("renew-lock", {"lock-tokens": [uuid.UUID(int=1)]})
    assert (status, error) == (410, LOST)
    assert manager.ask("renew-lock", {})[0] == 410


def test_a_message_is_completed_by_its_lock_after_the_link_is_gone(
    bus: MemoryBus, client: Client
) -> None:
    client.sender("topic").send()
    client.receiver("topic/subscriptions/one").close()
    token = only_lock(bus, "topic/subscriptions/one")
    manager = Manager(client, "topic/subscriptions/one")
    body = {"lock-tokens": [token], "disposition-status": "completed"}
    assert manager.ask("update-disposition", body)[0] == 200
    assert bus.behaviour.depth("topic/subscriptions/one") == 0
    assert manager.ask("update-disposition", body)[2] == LOST


def test_a_message_is_abandoned_or_buried_by_its_lock(bus: MemoryBus, client: Client) -> None:
    client.sender("q").send()
    receiver = client.receiver("q", 2)
    manager = Manager(client, "q")
    body = {"lock-tokens": [only_lock(bus, "q")], "disposition-status": "abandoned"}
    assert manager.ask("update-disposition", body)[0] == 200
    assert [m.delivery_count for _, m in receiver.arrived] == [0, 1]
    body = {
        "lock-tokens": [only_lock(bus, "q")],
        "disposition-status": "suspended",
        "deadletter-reason": "why",
        "deadletter-description": "because",
    }
    assert manager.ask("update-disposition", body)[0] == 200
    dead = client.receiver("q/$deadletterqueue")
    assert dead.arrived[0][1].properties == {
        "DeadLetterReason": "why",
        "DeadLetterErrorDescription": "because",
    }


def test_other_requests_are_not_implemented(client: Client) -> None:
    manager = Manager(client, "q")
    assert manager.ask("peek-message", {})[0] == 501
    assert manager.ask("renew-session-lock", {"session-id": "a"})[0] == 410


# -- sessions ----------------------------------------------------------------


def in_session(session_id: str, body: str = "hello") -> Message:
    return Message(body=body, group_id=session_id)


def test_a_receiver_gets_the_messages_of_its_session_only(client: Client) -> None:
    a = client.receiver("replies", filters={SESSION: "a"})
    sender = client.sender("replies")
    sender.send(in_session("a", "for a"))
    sender.send(in_session("b", "for b"))
    assert a.bodies == ["for a"]
    b = client.receiver("replies", filters={SESSION: Described(SESSION, "b")})
    assert b.bodies == ["for b"]
    assert str(b.link.remote_source.address) == "replies"


def test_a_session_is_for_one_receiver_at_a_time(bus: MemoryBus, client: Client) -> None:
    first = client.receiver("replies", filters={SESSION: "a"})
    second = client.receiver("replies", filters={SESSION: "a"})
    assert refusal(second) == "com.microsoft:session-cannot-be-locked"
    client.sender("replies").send(in_session("a"))
    first.close()
    third = client.receiver("replies", filters={SESSION: "a"})
    assert [m.delivery_count for _, m in third.arrived] == [1]
    third.accept()
    assert bus.behaviour.depth("replies") == 0


def test_the_lock_of_a_session_is_lost_unless_it_is_renewed(bus: MemoryBus, client: Client) -> None:
    receiver = client.receiver("replies", filters={SESSION: "a"})
    until = {str(k): v for k, v in receiver.link.remote_properties.items()}
    # 2023-11-14T22:13:50Z in ticks of 100 ns since year 1
    assert until == {"com.microsoft:locked-until-utc": 638355968300000000}
    client.sender("replies").send(in_session("a"))
    manager = Manager(client, "replies")
    bus.advance(20)
    status, body, _ = manager.ask("renew-session-lock", {"session-id": "a"})
    assert (status, body) == (200, {"expiration": 1_700_000_050_000})
    bus.advance(29.9)
    assert is_open(receiver.link)
    assert len(receiver.arrived) == 1
    bus.advance(0.1)
    assert refusal(receiver) == "com.microsoft:session-lock-lost"
    assert manager.ask("renew-session-lock", {"session-id": "a"})[0] == 410
    assert manager.ask("renew-session-lock", {"session-id": "b"})[0] == 410
    assert client.receiver("replies", filters={SESSION: "a"}).bodies == ["hello"]


def test_any_free_session_with_messages_can_be_asked_for(client: Client) -> None:
    assert refusal(client.receiver("replies", filters={SESSION: None})) == "com.microsoft:timeout"
    sender = client.sender("replies")
    sender.send(in_session("a", "1"))
    sender.send(in_session("b", "2"))
    first = client.receiver("replies", filters={SESSION: None})
    second = client.receiver("replies", filters={SESSION: None})
    assert first.bodies + second.bodies == ["1", "2"]
    echoed = second.link.remote_source.filter
    echoed.rewind()
    echoed.next()
    assert {str(k): v for k, v in echoed.get_dict().items()} == {
        "com.microsoft:session-filter": "b"
    }
    assert refusal(client.receiver("replies", filters={SESSION: None})) == "com.microsoft:timeout"


def test_without_a_session_nothing_goes_in_or_out(client: Client) -> None:
    delivery = client.sender("replies").send("lost")
    assert outcome(delivery) == Delivery.REJECTED
    assert delivery.remote.condition.name == "amqp:not-allowed"
    assert refusal(client.receiver("replies")) == "amqp:not-allowed"


def test_dead_letters_of_all_sessions_are_in_one_queue(bus: MemoryBus, client: Client) -> None:
    sender = client.sender("replies")
    for session_id in ("a", "b"):
        sender.send(in_session(session_id, session_id))
        client.receiver("replies", filters={SESSION: session_id}).reject()
    assert client.receiver("replies/$deadletterqueue").bodies == ["a", "b"]
    assert bus.behaviour.depth("replies") == 0
