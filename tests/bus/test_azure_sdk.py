# SPDX-License-Identifier: Apache-2.0

"""The embedded Service Bus and Microsoft's own client for it, azure-servicebus."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from azure.core.credentials import AccessToken, AzureNamedKeyCredential, AzureSasCredential
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
    TransportType,
)
from azure.servicebus.exceptions import (
    MessageSizeExceededError,
    ServiceBusAuthorizationError,
    ServiceBusError,
    SessionCannotBeLockedError,
)

from amqp1_driver.bus import Bus, Namespace, Rule

HOST = "ns.servicebus.windows.net"
KEY = "c2VjcmV0"
CONNECTION = f"Endpoint=sb://{HOST}/;SharedAccessKeyName=root;SharedAccessKey="
TCP, WEBSOCKET = TransportType.Amqp, TransportType.AmqpOverWebsocket
#: Else the SDK sleeps for a second now and then, and waits for input where none will come.
QUICK: dict[str, Any] = {"keep_alive": 0, "socket_timeout": 5}
both = pytest.mark.parametrize("transport", [TCP, WEBSOCKET], ids=["tcp", "websocket"])


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ca.pem and server.pem."""
    folder = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    issued = authority.issue_cert("localhost")
    issued.private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
    return folder


@pytest.fixture
def bus(certificates: Path) -> Iterator[Bus]:
    namespace = Namespace(
        queues=("q",),
        session_queues=("replies",),
        topics={"t": ("s1", "s2")},
        rules={"root": KEY, "reader": Rule(KEY, frozenset({"Listen"}))},
        jwt_secret="jwt-key",
    )
    certificate = str(certificates / "server.pem")
    with Bus("servicebus", tls_cert=certificate, websocket_port=0, namespace=namespace) as running:
        yield running


class Connect:
    """Makes clients of the SDK for the bus."""

    def __init__(self, bus: Bus, certificates: Path) -> None:
        self._bus = bus
        self._ca = str(certificates / "ca.pem")

    def options(self, transport: TransportType) -> dict[str, Any]:
        port = self._bus.websocket_port if transport is WEBSOCKET else self._bus.port
        return {
            "custom_endpoint_address": f"sb://localhost:{port}",
            "connection_verify": self._ca,
            "transport_type": transport,
            "retry_total": 0,
        }

    def __call__(self, transport: TransportType = TCP, key: str = KEY) -> ServiceBusClient:
        return ServiceBusClient.from_connection_string(CONNECTION + key, **self.options(transport))

    def by(self, credential: Any) -> ServiceBusClient:
        return ServiceBusClient(HOST, credential, **self.options(TCP))


@pytest.fixture
def connect(bus: Bus, certificates: Path) -> Connect:
    return Connect(bus, certificates)


def send(client: ServiceBusClient, *messages: ServiceBusMessage, topic: str = "") -> None:
    target = client.get_topic_sender if topic else client.get_queue_sender
    with target(topic or "q", **QUICK) as sender:
        for message in messages:
            sender.send_messages(message)


def one(receiver: Any) -> ServiceBusReceivedMessage:
    """The next message."""
    (message,) = receiver.receive_messages(max_message_count=1, max_wait_time=10)
    return message


@both
def test_the_sdk_sends_receives_and_completes(
    bus: Bus, connect: Connect, transport: TransportType
) -> None:
    with connect(transport) as client:
        sent = ServiceBusMessage("grüße", subject="s", message_id="id-1", reply_to="r")
        sent.application_properties = {"number": 1}
        send(client, sent)
        with client.get_queue_receiver("q", **QUICK) as receiver:
            message = one(receiver)
            assert str(message) == "grüße"
            assert (message.subject, message.message_id, message.reply_to) == ("s", "id-1", "r")
            assert message.application_properties == {b"number": 1}
            assert message.sequence_number == 1
            assert message.lock_token is not None
            locked_for = message.locked_until_utc - message.enqueued_time_utc
            assert 60 <= locked_for.total_seconds() < 70
            assert bus.queue_depth("q") == 1
            receiver.complete_message(message)
            bus.wait_until(lambda b: b.peek("q") == 0)


@both
def test_each_subscription_of_a_topic_gets_the_message(
    bus: Bus, connect: Connect, transport: TransportType
) -> None:
    with connect(transport) as client:
        send(client, ServiceBusMessage(b"to all"), topic="t")
        for subscription in ("s1", "s2"):
            with client.get_subscription_receiver("t", subscription, **QUICK) as receiver:
                message = one(receiver)
                assert b"".join(message.body) == b"to all"
                receiver.complete_message(message)
        bus.wait_until(lambda b: b.peek("t") == 0)


@both
def test_the_sdk_abandons_and_dead_letters(
    bus: Bus, connect: Connect, transport: TransportType
) -> None:
    with connect(transport) as client:
        send(client, ServiceBusMessage("bad"))
        with client.get_queue_receiver("q", **QUICK) as receiver:
            receiver.abandon_message(one(receiver))
            again = one(receiver)
            assert (str(again), again.delivery_count) == ("bad", 1)
            receiver.dead_letter_message(again, reason="why", error_description="because")
        letters = client.get_queue_receiver("q", sub_queue=ServiceBusSubQueue.DEAD_LETTER, **QUICK)
        with letters as receiver:
            letter = one(receiver)
            assert (letter.dead_letter_reason, letter.dead_letter_error_description) == (
                "why",
                "because",
            )
            assert letter.dead_letter_source == "q"
            receiver.complete_message(letter)
            bus.wait_until(lambda b: b.peek("q/$deadletterqueue") == 0)
    assert bus.queue_depth("q") == 0


@both
def test_a_message_of_many_frames_goes_both_ways(
    bus: Bus, connect: Connect, transport: TransportType
) -> None:
    body = bytes(range(256)) * 1000
    with connect(transport) as client:
        send(client, ServiceBusMessage(body))
        with client.get_queue_receiver("q", **QUICK) as receiver:
            message = one(receiver)
            assert b"".join(message.body) == body
            receiver.complete_message(message)


def test_the_sdk_renews_a_lock(connect: Connect) -> None:
    with connect() as client:
        send(client, ServiceBusMessage("slow"))
        with client.get_queue_receiver("q", **QUICK) as receiver:
            message = one(receiver)
            before = message.locked_until_utc
            assert receiver.renew_message_lock(message) > before
            receiver.complete_message(message)


def test_the_sdk_receives_and_deletes(bus: Bus, connect: Connect) -> None:
    with connect() as client:
        send(client, ServiceBusMessage("gone"))
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        with client.get_queue_receiver("q", receive_mode=mode, **QUICK) as receiver:
            assert str(one(receiver)) == "gone"
    assert bus.queue_depth("q") == 0


def test_a_batch_of_the_sdk_is_as_many_messages(bus: Bus, connect: Connect) -> None:
    with connect() as client:
        with client.get_queue_sender("q", **QUICK) as sender:
            sender.send_messages([ServiceBusMessage(str(number)) for number in range(3)])
        assert bus.queue_depth("q") == 3
        with client.get_queue_receiver("q", **QUICK) as receiver:
            seen = []
            while len(seen) < 3:
                message = one(receiver)
                seen.append((str(message), message.sequence_number))
                receiver.complete_message(message)
        assert seen == [("0", 1), ("1", 2), ("2", 3)]


def test_the_sdk_reads_a_session_and_renews_it(bus: Bus, connect: Connect) -> None:
    with connect() as client:
        with client.get_queue_sender("replies", **QUICK) as sender:
            sender.send_messages(ServiceBusMessage("for a", session_id="a"))
            sender.send_messages(ServiceBusMessage("for b", session_id="b"))
        with client.get_queue_receiver("replies", session_id="b", **QUICK) as receiver:
            before = receiver.session.locked_until_utc
            assert receiver.session.renew_lock() > before
            message = one(receiver)
            assert (str(message), message.session_id) == ("for b", "b")
            receiver.complete_message(message)
            second = client.get_queue_receiver("replies", session_id="b", **QUICK)
            with pytest.raises(SessionCannotBeLockedError), second:
                pass
        assert bus.queue_depth("replies") == 1


# -- refusals ----------------------------------------------------------------


def refused(client: ServiceBusClient, log: pytest.LogCaptureFixture) -> str:
    """What the SDK logs when it is refused; its exception does not tell."""
    with client, log.at_level("INFO", "azure"), pytest.raises(ServiceBusError):
        client.get_queue_sender("q", **QUICK).__enter__()
    found = [r.getMessage() for r in log.records if "TokenAuthFailure" in r.getMessage()]
    return found[0]


@both
def test_a_wrong_key_is_refused_at_once(
    connect: Connect, transport: TransportType, caplog: pytest.LogCaptureFixture
) -> None:
    began = time.monotonic()
    message = refused(connect(transport, "d3Jvbmc="), caplog)
    assert time.monotonic() - began < 2
    assert "Status code: 401" in message
    assert "InvalidSignature: The token has an invalid signature." in message


def test_a_key_that_may_not_send_is_refused_with_the_right_that_it_lacks(connect: Connect) -> None:
    needed = r"'Send' claim\(s\) are required to perform this operation"
    reader = AzureNamedKeyCredential("reader", KEY)
    with connect.by(reader) as client, pytest.raises(ServiceBusAuthorizationError, match=needed):
        send(client, ServiceBusMessage("no"))


def test_a_missing_entity_is_named(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    with connect() as client, caplog.at_level("INFO", "azure"), pytest.raises(ServiceBusError):
        client.get_queue_receiver("missing", **QUICK).__enter__()
    missing = f"The messaging entity 'sb://{HOST}/missing' could not be found"
    messages = [record.getMessage() for record in caplog.records]
    assert any("Status code: 404" in text and missing in text for text in messages)


def test_a_message_that_is_too_large_is_refused(bus: Bus, connect: Connect) -> None:
    large = ServiceBusMessage(b"x" * 300_000)
    with connect() as client, pytest.raises(MessageSizeExceededError):
        send(client, large)
    assert bus.queue_depth("q") == 0


# -- other tokens ------------------------------------------------------------


class Issuer:
    """A credential that gives out JSON Web Tokens signed with this key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        expires = int(time.time()) + 3600
        parts = [json.dumps(p).encode() for p in ({"alg": "HS256"}, {"exp": expires})]
        text = b".".join(base64.urlsafe_b64encode(p).rstrip(b"=") for p in parts)
        signature = base64.urlsafe_b64encode(hmac.digest(self._key, text, hashlib.sha256))
        return AccessToken((text + b"." + signature.rstrip(b"=")).decode(), expires)


#: For the whole namespace, until 2100, signed with OpenSSL.
FOREVER = (
    "SharedAccessSignature sr=sb%3A%2F%2Fns.servicebus.windows.net"
    "&sig=51WqF3k8TbVNrGUQ7ZYxNG2%2BIRbWVJ9DCd3RS%2BWBuPo%3D&se=4102444800&skn=root"
)


@pytest.mark.parametrize(
    "credential",
    [Issuer(b"jwt-key"), AzureSasCredential(FOREVER), AzureNamedKeyCredential("root", KEY)],
    ids=["jwt", "signature", "key"],
)
def test_every_kind_of_credential_is_good(connect: Connect, credential: Any) -> None:
    with connect.by(credential) as client:
        send(client, ServiceBusMessage("hello"))
        with client.get_queue_receiver("q", **QUICK) as receiver:
            message = one(receiver)
            assert str(message) == "hello"
            receiver.complete_message(message)


def test_a_token_of_somebody_else_is_refused(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    assert "InvalidSignature" in refused(connect.by(Issuer(b"other")), caplog)
