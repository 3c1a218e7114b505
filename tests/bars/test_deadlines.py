# SPDX-License-Identifier: Apache-2.0
"""Bar: whatever the bus does or does not do, a caller is back at its deadline, with the reason."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import oslo_messaging as om
import pytest

from amqp1_driver.testing.peer import ScriptedPeer
from tests.bars.ports import closed_port
from tests.bars.support import TOPIC, Outcome, Transports, outcome


@dataclass(frozen=True)
class Fault:
    """A bus that does not work: where it is, and what an error has to say about it."""

    host: str
    cause: str
    port: int = 5672
    #: where messages to an address could be sent to, the error names the address on the bus
    attached: bool = False

    @property
    def url(self) -> str:
        return f"amqp://{self.host}:{self.port}"


@contextlib.contextmanager
def unknown_name() -> Iterator[Fault]:
    yield Fault("no-such-host.invalid", "the host name does not resolve")


@contextlib.contextmanager
def hanging_resolver() -> Iterator[Fault]:
    """The lookup of one name never ends, as with a name server that is away."""
    real, forever = socket.getaddrinfo, threading.Event()

    def lookup(host: str | None, *arguments: object, **keywords: object) -> object:
        if host == "slow.example":
            forever.wait(60)
            raise socket.gaierror(socket.EAI_AGAIN, "the test is over")
        return real(host, *arguments, **keywords)  # type: ignore[arg-type]

    socket.getaddrinfo = lookup  # type: ignore[assignment]
    try:
        yield Fault("slow.example", "host name")
    finally:
        socket.getaddrinfo = real
        forever.set()


@contextlib.contextmanager
def closed() -> Iterator[Fault]:
    with closed_port() as sock:
        yield Fault("127.0.0.1", "Connection refused", sock.getsockname()[1])


@contextlib.contextmanager
def silent() -> Iterator[Fault]:
    """The kernel takes the connection; nobody ever answers."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield Fault("127.0.0.1", "waiting for SASL and AMQP Open", sock.getsockname()[1])


@contextlib.contextmanager
def never_opens() -> Iterator[Fault]:
    with ScriptedPeer(auto=True, product="qpid-cpp") as peer:
        peer.override(times=None).expect_open()
        yield Fault(peer.host, "waiting for SASL and AMQP Open", peer.port)


@contextlib.contextmanager
def never_attaches_replies() -> Iterator[Fault]:
    with ScriptedPeer(auto=True, product="qpid-cpp") as peer:
        peer.override(times=None).expect_attach(dynamic=True)
        peer.override(times=None).expect_detach()
        yield Fault(peer.host, "waiting for the reply link", peer.port)


@contextlib.contextmanager
def never_grants_credit() -> Iterator[Fault]:
    with ScriptedPeer(auto=True, product="qpid-cpp", credit=0) as peer:
        yield Fault(peer.host, "timed out waiting for credit", peer.port, attached=True)


@contextlib.contextmanager
def never_settles() -> Iterator[Fault]:
    with ScriptedPeer(auto=True, product="qpid-cpp") as peer:
        peer.override(times=None).expect_transfer().hold()
        yield Fault(peer.host, "timed out waiting for acknowledgement", peer.port, attached=True)


FAULTS = [
    unknown_name,
    hanging_resolver,
    closed,
    silent,
    never_opens,
    never_attaches_replies,
    never_grants_credit,
    never_settles,
]


@pytest.fixture(params=FAULTS, ids=lambda fault: fault.__name__)
def fault(request: pytest.FixtureRequest) -> Iterator[Fault]:
    with request.param() as one:
        yield one


def assert_names_all(text: str, fault: Fault, address: str) -> None:
    """Host, address, message-id and cause."""
    assert f"host={fault.host}:{fault.port}" in text
    assert f"address={address}" in text
    assert "message-id=" in text
    assert fault.cause in text


def in_threads(*works: Callable[[], object]) -> list[Outcome]:
    with ThreadPoolExecutor(len(works)) as pool:
        return [f.result(30) for f in [pool.submit(outcome, work) for work in works]]


def test_a_call_ends_with_messaging_timeout_at_its_deadline(
    fault: Fault, transports: Transports
) -> None:
    client = transports.client(fault.url)
    short, long = in_threads(
        lambda: client.prepare(timeout=0.3).call({}, "echo", text="short"),
        lambda: client.prepare(timeout=3).call({}, "echo", text="long"),
    )
    for one, limit in ((short, 0.3), (long, 3)):
        assert isinstance(one.error, om.MessagingTimeout)
        assert limit <= one.seconds <= limit + 0.5
        # known once there is a connection: routers and brokers have different ones
        assert_names_all(one.text, fault, "unicast.openstack.bars" if fault.attached else TOPIC)


def test_casts_and_fanouts_end_with_delivery_failure_at_the_default_timeout(
    fault: Fault, transports: Transports
) -> None:
    client = transports.client(fault.url, default_send_timeout=0.3)
    cast, fanout = in_threads(
        lambda: client.cast({}, "echo", text="cast"),
        lambda: client.prepare(fanout=True).cast({}, "echo", text="fanout"),
    )
    for one, prefix, suffix in ((cast, "unicast", ""), (fanout, "broadcast", ".all")):
        assert isinstance(one.error, om.MessageDeliveryFailure)
        assert 0.3 <= one.seconds <= 0.8
        assert_names_all(
            one.text, fault, f"{prefix}.openstack.bars{suffix}" if fault.attached else TOPIC
        )


def test_a_notification_ends_with_delivery_failure_at_the_default_timeout(
    fault: Fault, transports: Transports, caplog: pytest.LogCaptureFixture
) -> None:
    transport = transports.notification(fault.url, default_notify_timeout=0.3)
    notifier = om.Notifier(transport, "publisher", driver="messaging", topics=["events"])
    with caplog.at_level(logging.ERROR, "oslo_messaging.notify"):
        done = outcome(lambda: notifier.info({}, "event", {}))
    assert 0.3 <= done.seconds <= 0.8
    # the notifier logs what the driver raised and goes on
    errors = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert len(errors) == 1
    assert isinstance(errors[0], om.MessageDeliveryFailure)
    assert_names_all(
        str(errors[0]), fault, "unicast.openstack.events.info" if fault.attached else "events.info"
    )


def test_without_retries_a_cast_fails_as_soon_as_no_host_can_be_reached(
    transports: Transports,
) -> None:
    with closed() as one, closed() as other:
        url = f"amqp://127.0.0.1:{one.port},127.0.0.1:{other.port}"
        client = transports.client(url, retry=0)
        done = outcome(lambda: client.cast({}, "echo", text="once"))
    assert isinstance(done.error, om.MessageDeliveryFailure)
    assert "Connection refused" in done.text
    assert done.seconds <= 1
