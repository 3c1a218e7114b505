# SPDX-License-Identifier: Apache-2.0
"""What Apache Qpid Broker-J does, as far as the driver goes by it."""

from __future__ import annotations

from typing import Any

import pytest
from proton import Endpoint, Message
from proton.utils import ConnectionClosed, LinkDetached

from tests.buses.javabus import JavaBus
from tests.buses.raw import TIMEOUT, Raw


class Management:
    """Requests to ``$management``, as its documentation has them."""

    def __init__(self, raw: Raw) -> None:
        self._replies = raw.receiver("$management", target="$me")
        self._sender = raw.sender("$management")
        self._raw = raw

    def ask(self, operation: str, kind: str, body: Any, **properties: str) -> int:
        """The status code."""
        self._raw.send(
            self._sender,
            body,
            id="1",
            reply_to="$me",
            properties={"operation": operation, "type": f"org.apache.qpid.{kind}", **properties},
        )
        reply = self._replies.receive(10)
        self._replies.accept()
        return int(reply.properties["statusCode"])

    def queue(self, name: str, **attributes: Any) -> int:
        return self.ask("CREATE", "Queue", {"name": name, "object-path": name, **attributes})

    def bind(self, queue: str, key: str) -> int:
        return self.ask(
            "bind",
            "Exchange",
            None,
            index="object-path",
            key="amq.direct",
            destination=queue,
            bindingKey=key,
        )


def test_it_says_who_it_is(brokerj: JavaBus) -> None:
    with Raw(brokerj.port) as raw:
        assert raw.open.remote_properties["product"] == "Apache Qpid Broker-J Core"
        assert raw.open.remote_properties["version"] >= "9.2"
        assert "ANONYMOUS-RELAY" in raw.open.remote_offered_capabilities
        assert raw.open.transport.remote_channel_max == 255


def test_a_host_that_it_does_not_know_as_its_own_is_refused(brokerj: JavaBus) -> None:
    with pytest.raises(ConnectionClosed, match="Unknown hostname in connection open"):
        Raw(brokerj.port, virtual_host="bus.example.org")


def test_links_to_what_is_missing_are_refused_and_nothing_else_suffers(brokerj: JavaBus) -> None:
    with Raw(brokerj.port) as raw:
        assert raw.refusal(raw.sender, "missing") == "amqp:not-found"
        assert raw.refusal(raw.receiver, "missing") == "amqp:not-found"
        assert raw.receiver(None).link.remote_source.address.startswith("TempQueue")


def test_the_relay_goes_for_one_unknown_address_unless_outcomes_are_named(brokerj: JavaBus) -> None:
    with Raw(brokerj.port) as raw:
        assert raw.send(raw.sender(None), address="missing") == ("detached", "amqp:not-found")
        relay = raw.sender(None, outcomes=True)
        assert raw.send(relay, address="missing") == ("rejected", "amqp:not-found")
        receiver = raw.receiver(None)
        address = receiver.link.remote_source.address
        assert raw.send(relay, "reply", address=address) == ("accepted", None)
        assert receiver.receive(10).body == "reply"


def test_queues_are_declared_and_bound_by_management(brokerj: JavaBus) -> None:
    with Raw(brokerj.port) as raw:
        management = Management(raw)
        assert management.queue("raw:a", durable=True) == 201
        assert management.queue("raw:a", durable=False) == 409
        assert management.bind("raw:a", "key") == 200
        assert management.bind("raw:a", "key") == 200
        assert management.bind("missing", "key") == 400
        raw.send(raw.sender("amq.direct/key", outcomes=True), "routed")
        assert raw.receiver("raw:a").receive(10).body == "routed"


def test_what_goes_to_a_key_without_queue_is_accepted(brokerj: JavaBus) -> None:
    with Raw(brokerj.port) as raw:
        sender = raw.sender("amq.direct/none", outcomes=True)
        assert raw.send(sender, "lost") == ("accepted", None)


def test_credit_for_a_refused_link_ends_the_session(brokerj: JavaBus) -> None:
    raw = Raw(brokerj.port)
    receiver = raw.blocking.container.create_receiver(raw.open, "missing")
    receiver.flow(1)
    with pytest.raises(LinkDetached):
        raw.blocking.wait(lambda: False, timeout=TIMEOUT)
    # a frame of this session that is under way then is an error of the connection to proton
    session = receiver.session
    raw.blocking.wait(lambda: session.state & Endpoint.REMOTE_CLOSED, timeout=TIMEOUT)
    assert session.remote_condition.name == "amqp:session:unattached-handle"


def test_a_queue_goes_with_its_last_reader_and_takes_its_senders_along(brokerj: JavaBus) -> None:
    with Raw(brokerj.port) as raw:
        Management(raw).queue("raw:b", lifetimePolicy="DELETE_ON_NO_OUTBOUND_LINKS")
        sender = raw.sender("raw:b", outcomes=True)
        try:
            raw.receiver("raw:b").close()
            assert raw.send(sender) == ("detached", "amqp:resource-deleted")
        except LinkDetached as told:  # before the reader's end was answered
            assert str(told.condition) == "amqp:resource-deleted"


def test_an_exclusive_queue_is_for_one_connection(brokerj: JavaBus) -> None:
    with Raw(brokerj.port) as raw, Raw(brokerj.port) as other:
        Management(raw).queue(
            "raw:c", exclusive="CONNECTION", lifetimePolicy="DELETE_ON_CONNECTION_CLOSE"
        )
        assert raw.receiver("raw:c").link.remote_source.address == "raw:c"
        assert other.refusal(other.receiver, "raw:c") == "amqp:resource-locked"


def test_to_a_full_queue_credit_is_taken_back(brokerj: JavaBus) -> None:
    with Raw(brokerj.port) as raw:
        management = Management(raw)
        management.queue(
            "raw:d", maximumQueueDepthMessages=10, overflowPolicy="PRODUCER_FLOW_CONTROL"
        )
        management.queue("raw:e")
        sender, other = raw.sender("raw:d"), raw.sender("raw:e")
        assert sender.credit == 20000
        for _ in range(11):
            raw.send(sender)
        assert raw.credit_is(sender, lambda credit: credit <= 0)
        assert raw.send(other) == ("accepted", None)
        receiver = raw.receiver("raw:d")
        for _ in range(11):
            receiver.receive(10)
            receiver.accept()
        assert raw.credit_is(sender, lambda credit: credit > 0)


def test_a_message_that_was_given_back_comes_again(brokerj: JavaBus) -> None:
    with Raw(brokerj.port) as raw:
        Management(raw).queue("raw:f")
        raw.send(raw.sender("raw:f"), "again")
        receiver = raw.receiver("raw:f")
        first: Message = receiver.receive(10)
        receiver.release(delivered=True)
        second: Message = receiver.receive(10)
        assert (first.body, second.body) == ("again", "again")
