# SPDX-License-Identifier: Apache-2.0

"""The driver and Microsoft's client library exchange messages through the embedded Service Bus.

What is on the wire is therefore what Service Bus users expect, and the bus is held by both.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType

from amqp1_driver.bus import Bus, Namespace
from tests.contract.apps import App, Endpoint, Events

KEY = "c2VjcmV0"
ANY = "openstack--rpc--any--openstack--topic"
ONE = "openstack--rpc--one--openstack--topic--server"
ALL = "openstack--rpc--all--openstack--topic"
EVENTS = "openstack--notify--openstack--events.info"
ERRORS = "openstack--notify--openstack--events.error"
REPLY = "openstack--reply"
NAMESPACE = Namespace(
    queues=(ANY, ONE),
    session_queues=(REPLY,),
    topics={ALL: ("server",), EVENTS: ("default", "audit"), ERRORS: ("default",)},
    rules={"root": KEY},
)
NOTIFICATION = {
    "message_id": "1",
    "publisher_id": "sdk",
    "event_type": "kind",
    "priority": "INFO",
    "timestamp": "2026-01-01 00:00:00",
}
QUICK: dict[str, Any] = {"keep_alive": 0, "socket_timeout": 5}
transports = pytest.mark.parametrize("transport", ["tcp", "websocket"], indirect=True)


class World:
    """The bus, an application that uses the driver, and a client of the SDK."""

    def __init__(self, folder: Path, transport: str) -> None:
        authority = trustme.CA()
        ca, certificate = str(folder / "ca.pem"), str(folder / "server.pem")
        authority.cert_pem.write_to_path(ca)
        issued = authority.issue_cert("localhost")
        issued.private_key_and_cert_chain_pem.write_to_path(certificate)
        self.bus = Bus(
            "servicebus", tls_cert=certificate, websocket_port=0, namespace=NAMESPACE
        ).start()
        websocket = transport == "websocket"
        port = self.bus.websocket_port if websocket else self.bus.port
        self.app = App(
            f"amqp://root:{KEY}@localhost:{port}/",
            addressing_mode="servicebus",
            ssl_ca_file=ca,
            transport=transport,
        )
        self.sdk = ServiceBusClient.from_connection_string(
            f"Endpoint=sb://localhost/;SharedAccessKeyName=root;SharedAccessKey={KEY}",
            custom_endpoint_address=f"sb://localhost:{port}",
            connection_verify=ca,
            transport_type=TransportType.AmqpOverWebsocket if websocket else TransportType.Amqp,
            retry_total=0,
        )

    def close(self) -> None:
        self.sdk.close()
        self.app.close()
        self.bus.stop()


@pytest.fixture
def transport(request: pytest.FixtureRequest) -> str:
    return str(getattr(request, "param", "tcp"))


@pytest.fixture
def world(tmp_path: Path, transport: str) -> Iterator[World]:
    world = World(tmp_path, transport)
    yield world
    world.close()


def receive(receiver: Any) -> Any:
    """The next message, completed."""
    (message,) = receiver.receive_messages(max_message_count=1, max_wait_time=10)
    receiver.complete_message(message)
    return message


def text(message: Any) -> Any:
    """The JSON that is the body, an amqp-value string."""
    assert message.body_type is AmqpMessageBodyType.VALUE
    return json.loads(message.body)


def value(body: Any, **properties: Any) -> AmqpAnnotatedMessage:
    """A message whose body is an amqp-value string, as the driver has it."""
    return AmqpAnnotatedMessage(value_body=json.dumps(body), properties=properties)


@transports
def test_the_sdk_reads_a_notification_of_the_driver(world: World) -> None:
    world.app.notify({"id": 7, "name": "grüße"})
    with world.sdk.get_subscription_receiver(EVENTS, "audit", **QUICK) as receiver:
        message = receive(receiver)
    envelope = text(message)["request"]
    assert envelope["oslo.version"] == "2.0"
    notification = json.loads(envelope["oslo.message"])
    assert notification["event_type"] == "kind"
    assert notification["payload"] == {"id": 7, "name": "grüße"}
    assert message.delivery_count == 0
    world.bus.wait_until(lambda bus: bus.peek(EVENTS + "/subscriptions/audit") == 0)


@transports
def test_the_driver_reads_a_notification_of_the_sdk(world: World) -> None:
    events = Events()
    world.app.listener(events)
    body = {"request": {**NOTIFICATION, "payload": {"from": "the SDK"}}, "context": {}}
    with world.sdk.get_topic_sender(EVENTS, **QUICK) as sender:
        sender.send_messages(value(body, message_id="one"))
        assert events.take() == {"from": "the SDK"}
        # Most users of the SDK send data, and several messages in a batch.
        data = [ServiceBusMessage(json.dumps(body), message_id=f"n{n}") for n in range(2)]
        sender.send_messages(data)
        assert [events.take(), events.take()] == [{"from": "the SDK"}, {"from": "the SDK"}]
    world.bus.wait_until(lambda bus: bus.peek(EVENTS + "/subscriptions/default") == 0)


def test_the_driver_rejects_what_has_expired_and_says_so(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """absolute-expiry-time (3.2.4): as in the page about Service Bus, "Duplicates and expiry"."""
    events = Events()
    world.app.listener(events)
    now = time.time()
    with world.sdk.get_topic_sender(EVENTS, **QUICK) as sender:
        for name, seconds in [("late", -3600), ("early", 3600)]:
            body = {"request": {**NOTIFICATION, "payload": name}, "context": {}}
            expiry = round((now + seconds) * 1000)
            sender.send_messages(value(body, message_id=name, absolute_expiry_time=expiry))
    assert events.take() == "early"
    assert events.seen.empty()
    ours = EVENTS + "/subscriptions/default"
    dead = ours + "/$deadletterqueue"
    world.bus.wait_until(lambda bus: (bus.peek(ours), bus.peek(dead)) == (0, 1))
    (said,) = [text for text in caplog.messages if "had expired" in text]
    assert re.fullmatch(
        rf"Message late on {re.escape(EVENTS)}/Subscriptions/default at localhost:\d+ had expired "
        r"36\d\d\.\d s before it came and is rejected; if its sender still waits, compare the "
        r"clocks of the two hosts",
        said,
    )


def test_the_sdk_answers_a_call_of_the_driver_in_its_session(world: World) -> None:
    called = world.app.later(world.app.client().call, {"user": "me"}, "echo", value=3)
    with world.sdk.get_queue_receiver(ANY, **QUICK) as receiver:
        request = receive(receiver)
    body = text(request)
    assert body["context"] == {"user": "me"}
    assert (body["request"]["method"], body["request"]["args"]) == ("echo", {"value": 3})
    entity, _, session = request.reply_to.partition("#")
    assert entity == REPLY
    reply = value(
        {"response": "answered by the SDK"}, correlation_id=request.message_id, group_id=session
    )
    with world.sdk.get_queue_sender(REPLY, **QUICK) as sender:
        sender.send_messages(reply)
    assert called.result(10) == "answered by the SDK"


def test_the_sdk_calls_a_server_of_the_driver(world: World) -> None:
    endpoint = Endpoint()
    world.app.server(endpoint)
    request = {"method": "echo", "args": {"value": 5}, "namespace": None, "version": "1.0"}
    call = value(
        {"request": request, "context": {}}, message_id="call-1", reply_to=f"{REPLY}#of-the-sdk"
    )
    with world.sdk.get_queue_sender(ONE, **QUICK) as sender:
        sender.send_messages(call)
    with world.sdk.get_queue_receiver(REPLY, session_id="of-the-sdk", **QUICK) as receiver:
        reply = receive(receiver)
    assert text(reply) == {"response": 5}
    assert reply.correlation_id == "call-1"


def test_the_driver_alone_calls_casts_and_fans_out(world: World) -> None:
    endpoint = Endpoint()
    world.app.server(endpoint)
    client = world.app.client()
    assert client.call({}, "echo", value=1) == 1
    assert endpoint.take() == 1
    client.cast({}, "echo", value=2)
    assert endpoint.take() == 2
    client.prepare(fanout=True).cast({}, "echo", value=3)
    assert endpoint.take() == 3
    client.prepare(server="server").cast({}, "echo", value=4)
    assert endpoint.take() == 4
    world.bus.wait_until(lambda bus: not any(bus.peek(name) for name in (ANY, ONE, ALL, REPLY)))
