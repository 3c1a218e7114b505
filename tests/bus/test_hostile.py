# SPDX-License-Identifier: Apache-2.0

"""Hostile peers of the bus: each costs its own connection, and the others go on."""

from __future__ import annotations

import errno
import logging
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from proton import Message
from proton.utils import BlockingConnection

from amqp1_driver.bus import Bus, connection, server
from amqp1_driver.bus import engine as bus_engine
from amqp1_driver.bus.broker import Broker
from amqp1_driver.bus.connection import SocketConnection
from amqp1_driver.bus.counters import Counters
from amqp1_driver.bus.engine import Engine
from amqp1_driver.bus.links import UNSENT_LIMIT
from amqp1_driver.bus.queues import Limits
from amqp1_driver.bus.sasl import SaslServer
from amqp1_driver.bus.server import Server
from amqp1_driver.testing import performatives as p
from amqp1_driver.testing.frames import Frame, FrameReader
from tests.bus.memory import MemoryBus

TIMEOUT = 20
ROOT = Path(__file__).resolve().parents[2]
AMQP = b"AMQP\x00\x01\x00\x00"
SASL = b"AMQP\x03\x01\x00\x00"
h = bytes.fromhex


def frame(performative: bytes, channel: int = 0, kind: int = 0) -> bytes:
    return struct.pack(">IBBH", len(performative) + 8, 2, kind, channel) + performative


def listed(code: int, *fields: bytes) -> bytes:
    """A performative (a described list)."""
    body = b"".join(fields)
    return (
        b"\x00\x53"
        + bytes([code])
        + b"\xd0"
        + struct.pack(">II", len(body) + 4, len(fields))
        + body
    )


def text(data: bytes, code: int = 0xA1) -> bytes:
    return bytes([code, len(data)]) + data


UINT_MAX = h("70 ffffffff")
#: container-id "x"
OPEN = frame(listed(0x10, text(b"x")))
#: next-outgoing-id 0, windows 100
BEGIN = frame(listed(0x11, h("40"), h("43"), h("52 64"), h("52 64")))
SOURCE = h("00 53 28") + b"\xc0\x04\x01" + text(b"q")
TARGET = h("00 53 29") + b"\xc0\x04\x01" + text(b"q")


def attach(
    name: bytes,
    handle: bytes = h("43"),
    role: bytes = h("42"),
    *,
    source: bytes = SOURCE,
    target: bytes = TARGET,
    rest: tuple[bytes, ...] = (),
) -> bytes:
    return frame(
        listed(
            0x12,
            name,
            handle,
            role,
            h("40"),
            h("40"),
            source,
            target,
            h("40"),
            h("40"),
            h("43"),
            *rest,
        )
    )


SENDER = attach(text(b"s"))
RECEIVER = attach(text(b"r"), role=h("41"))
CREDIT = frame(listed(0x13, h("43"), h("52 64"), h("43"), h("52 64"), h("43"), h("43"), h("52 0a")))


def transfer(
    handle: bytes = h("43"),
    tag: bytes = text(b"t", 0xA0),
    body: bytes = b"\x00",
    more: bytes = h("42"),
) -> bytes:
    return frame(listed(0x14, handle, h("43"), tag, h("43"), h("42"), more) + body)


NOT_UTF8 = text(b"\xff\xfe")
DEEP_MAP = b"\xd1" + struct.pack(">II", 4 + 3 * 5000, 2) + b"\x40" + b"\xc0\xff\x01" * 5000
#: a map of 2^31 items in no bytes
HUGE_MAP = h("d1 00000004 80000000")
LOOKED = SENDER + transfer()

FRAMES = {
    "a link whose name is not UTF-8": attach(NOT_UTF8),
    "a link without a name": attach(h("40")),
    "a link named by a number": attach(h("43")),
    "a source that is not UTF-8": attach(
        text(b"r"), role=h("41"), source=h("00 53 28") + b"\xc0\x05\x01" + NOT_UTF8
    ),
    "a target that is not UTF-8": attach(
        text(b"s"), target=h("00 53 29") + b"\xc0\x05\x01" + NOT_UTF8
    ),
    "a source that is a string": attach(text(b"r"), role=h("41"), source=text(b"q")),
    "the largest handle": attach(text(b"s"), UINT_MAX),
    "a handle twice": SENDER + attach(text(b"t")),
    "a name twice": SENDER + attach(text(b"s"), h("52 01")),
    "properties of 2^31 items": attach(text(b"s"), rest=(h("40"), h("40"), h("40"), HUGE_MAP)),
    "properties that are deep": attach(text(b"s"), rest=(h("40"), h("40"), h("40"), DEEP_MAP)),
    "a channel that was not begun": SENDER.replace(h("02 00 0000"), h("02 00 00ff"), 1),
    "the largest channel": BEGIN.replace(h("02 00 0000"), h("02 00 ffff"), 1),
    "a session twice": BEGIN,
    "windows of 2^32 - 1": frame(listed(0x11, h("40"), UINT_MAX, UINT_MAX, UINT_MAX, UINT_MAX), 1),
    "a session that answers another": frame(
        listed(0x11, h("60 ffff"), h("43"), h("43"), h("43")), 1
    ),
    "a flow for no link": frame(listed(0x13, h("40"), h("43"), h("43"), h("43"), UINT_MAX)),
    "a flow of texts": frame(listed(0x13, text(b"a"), text(b"b"), text(b"c"), text(b"d"))),
    "a flow without fields": frame(listed(0x13)),
    "credit of 2^32 - 1": RECEIVER
    + frame(listed(0x13, h("43"), UINT_MAX, UINT_MAX, UINT_MAX, h("43"), UINT_MAX, UINT_MAX)),
    "a transfer for no link": transfer(),
    "a transfer on a receiving link": RECEIVER + transfer(),
    "a transfer without a tag": SENDER + transfer(tag=h("40")),
    "an empty transfer": SENDER + transfer(body=b""),
    "a transfer of no message": LOOKED,
    "transfers of one tag": SENDER + transfer() + transfer(),
    "a transfer behind all credit": SENDER + transfer() * 2000,
    "a disposition for all": RECEIVER
    + CREDIT
    + frame(listed(0x15, h("41"), h("43"), UINT_MAX, h("41"), h("00 53 25 45"))),
    "a disposition of a string": RECEIVER
    + CREDIT
    + frame(listed(0x15, h("41"), h("43"), h("43"), h("41"), text(b"no"))),
    "detach of no link": frame(listed(0x16, h("43"), h("41"))),
    "detach with a broken error": SENDER
    + frame(listed(0x16, h("43"), h("41"), h("00 53 1d") + b"\xc0\x05\x01" + NOT_UTF8)),
    "end of no session": frame(listed(0x17), 9),
    "close with a broken error": frame(
        listed(0x18, h("00 53 1d") + b"\xc0\x05\x01" + text(b"\xff\xfe", 0xA3))
    ),
    "a second open": OPEN,
    "no performative": frame(h("00 53 77 45")),
    "a performative that is a string": frame(text(b"hello")),
    "a frame that is too large": h("7fffffff 02 00 0000"),
    "a frame that is too small": h("00000003 02 00 0000"),
    "a SASL frame": frame(listed(0x41, text(b"ANONYMOUS", 0xA3)), kind=1),
}

SASL_FRAMES = {
    "an outcome": frame(listed(0x44, h("50 00")), kind=1),
    "an init without fields": frame(listed(0x41), kind=1),
    "a mechanism that is a number": frame(listed(0x41, h("43")), kind=1),
    "a mechanism that is a list": frame(listed(0x41, h("45")), kind=1),
    "a mechanism that is not ASCII": frame(listed(0x41, text(b"\xff\x80", 0xA3)), kind=1),
    "a response that is a string": frame(
        listed(0x41, text(b"PLAIN", 0xA3), text(b"\0a\0b")), kind=1
    ),
    "an init that is a map": frame(h("00 53 41 c1 01 00"), kind=1),
    "nested descriptors": frame(b"\x00" * 400, kind=1),
    "an AMQP frame": OPEN,
}


@pytest.fixture(params=["router", "broker"])
def bus(request: pytest.FixtureRequest) -> Iterator[Bus]:
    with Bus(request.param) as running:
        yield running


class Bystander:
    """A good client that was there before, and works afterwards."""

    def __init__(self, bus: Bus, **options: Any) -> None:
        self._bus = bus
        self.connection = BlockingConnection(
            bus.address, timeout=TIMEOUT, reconnect=False, **options
        )
        self._receiver = self.connection.create_receiver("bystander", credit=10)
        self._sender = self.connection.create_sender("bystander")

    def works(self) -> None:
        """Over the old connection and over a new one."""
        delivery = self._sender.link.send(Message(body="still here"))
        assert self._receiver.receive(timeout=TIMEOUT).body == "still here"
        self._receiver.accept()
        self.connection.wait(lambda: delivery.settled, timeout=TIMEOUT)
        BlockingConnection(self._bus.address, timeout=TIMEOUT, reconnect=False).close()
        self.connection.close()


def say(port: int, data: bytes) -> bytes:
    """Say something, end the stream, and return what is answered until the end of the other."""
    answer = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as sock:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while chunk := sock.recv(65536):
                answer += chunk
    except OSError:
        pass  # reset, before or after the end of this side
    return answer


@pytest.mark.parametrize("name", FRAMES)
def test_a_hostile_frame_costs_its_connection_only(bus: Bus, name: str) -> None:
    bystander = Bystander(bus)
    say(bus.port, AMQP + OPEN + BEGIN + FRAMES[name])
    bystander.works()


@pytest.mark.parametrize("name", SASL_FRAMES)
def test_a_hostile_sasl_frame_costs_its_connection_only(name: str) -> None:
    with Bus("router", users={"a": "b"}) as bus:
        say(bus.port, SASL + SASL_FRAMES[name] + AMQP + OPEN)
        good = BlockingConnection(
            bus.address,
            timeout=TIMEOUT,
            reconnect=False,
            user="a",
            password="b",
            allowed_mechs="PLAIN",
        )
        good.close()


def test_frames_of_random_bytes_cost_their_connections_only(bus: Bus) -> None:
    source = random.Random(5)
    frames = [OPEN, BEGIN, *FRAMES.values()]
    bystander = Bystander(bus)
    for _ in range(300):
        data = bytearray(b"".join(source.choices(frames, k=3)))
        for _ in range(source.randrange(1, 5)):
            data[source.randrange(len(data))] = source.randrange(256)
        say(bus.port, AMQP + OPEN + BEGIN + bytes(data[:20_000]))
    bystander.works()


@pytest.mark.parametrize(
    "name",
    [
        "Sec-WebSocket-Protocol",
        "Connection",
        "Upgrade",
        "Sec-WebSocket-Extensions",
        "Sec-WebSocket-Key",
        "Host",
    ],
)
def test_a_websocket_request_that_is_not_ascii_is_refused(name: str) -> None:
    with Bus("router", websocket_port=0) as bus:
        lines = {
            "Host": "bus",
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Protocol": "amqp",
        }
        lines[name] = lines.get(name, "") + "\xff"
        request = [
            "GET /$servicebus/websocket HTTP/1.1",
            *(f"{key}: {value}" for key, value in lines.items()),
            "",
            "",
        ]
        bystander = Bystander(bus)
        assert bus.websocket_port is not None
        answer = say(bus.websocket_port, "\r\n".join(request).encode("latin-1"))
        assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 101 "))
        bystander.works()


@pytest.mark.parametrize(
    "owner, name",
    [
        (SaslServer, "feed"),
        (Engine, "feed"),
        (Engine, "process"),
        (Engine, "output"),
        (Engine, "tick"),
        (Engine, "sent"),
        (Engine, "end_of_input"),
        (Engine, "lost"),
        (SocketConnection, "on_readable"),
        (SocketConnection, "pump"),
        (SocketConnection, "on_writable"),
        (SocketConnection, "_linger"),
        (Engine, "_on_open"),
        (Engine, "_give_up"),
    ],
)
def test_a_callback_that_raises_costs_one_connection(
    bus: Bus, owner: Any, name: str, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    bystander = Bystander(bus)
    original, raised = getattr(owner, name), []
    assert bus._server is not None
    spared = [
        part for connection in bus._server.connections for part in (connection, connection.engine)
    ]  # type: ignore[union-attr]

    def once(self: Any, *arguments: Any) -> Any:
        if not raised and not any(self is part for part in spared):
            raised.append(name)
            raise RuntimeError("a defect")
        return original(self, *arguments)

    if name == "on_writable":
        # no socket is full here: it is called in place of the other
        monkeypatch.setattr(owner, "on_readable", owner.on_writable)
    monkeypatch.setattr(owner, name, once)
    if name == "on_writable":
        monkeypatch.setattr(owner, "on_readable", once)
    close = b"" if name == "end_of_input" else frame(listed(0x18))
    say(
        bus.port, SASL + frame(listed(0x41, text(b"ANONYMOUS", 0xA3)), kind=1) + AMQP + OPEN + close
    )
    monkeypatch.undo()
    assert raised == [name]
    bus.wait_until(lambda b: len(b.peek_connections()) == 1, TIMEOUT)
    bystander.works()
    (record, *_) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert record.getMessage().startswith("The connection from 127.0.0.1:")
    assert record.getMessage().endswith("has failed and is closed")
    assert record.exc_info[0] is RuntimeError


def test_a_timer_that_raises_costs_nothing(bus: Bus, caplog: Any) -> None:
    bystander = Bystander(bus)
    ran = []

    def defect() -> None:
        ran.append(1)
        raise RuntimeError("a defect")

    assert bus._server is not None
    bus._server.post(lambda: bus._server.call_at(0.0, defect))  # type: ignore[union-attr]
    bus._server.post(defect)
    bus.wait_until(lambda _: len(ran) == 2, TIMEOUT)
    bystander.works()
    assert len([r for r in caplog.records if r.levelno == logging.ERROR]) == 2


# -- the Open frame ------------------------------------------------------------------------------


def opened(port: int, idle_time_out: int) -> list[Any]:
    """Open with this idle-time-out and use the connection; returns the bus's frames."""
    reader = FrameReader()
    fields = (text(b"x"), h("40"), h("40"), h("40"), h("70") + struct.pack(">I", idle_time_out))
    reader.feed(say(port, AMQP + frame(listed(0x10, *fields)) + BEGIN + SENDER))
    found = []
    while (each := reader.next()) is not None:
        found.append(each)
    return [each.performative for each in found if isinstance(each, Frame)]


@pytest.mark.parametrize("milliseconds", [1, 99])
def test_an_idle_time_out_too_short_to_keep_is_refused(bus: Bus, milliseconds: int) -> None:
    """2.4.5: close, with an error that says why."""
    bystander = Bystander(bus)
    answers = opened(bus.port, milliseconds)
    assert isinstance(answers[0], p.Open)
    assert isinstance(answers[-1], p.Close)
    assert answers[-1].error.condition == "amqp:not-implemented"
    assert answers[-1].error.description == (
        f"an idle-time-out of {milliseconds} ms is below the 100 ms that are supported"
    )
    bus.wait_until(lambda b: len(b.peek_connections()) == 1, TIMEOUT)
    bystander.works()


@pytest.mark.parametrize("milliseconds", [0, 100])
def test_an_idle_time_out_of_a_tenth_of_a_second_and_none_are_kept(
    bus: Bus, milliseconds: int
) -> None:
    answers = opened(bus.port, milliseconds)
    assert [type(each) for each in answers[:3]] == [p.Open, p.Begin, p.Attach]


# -- texts that a peer chose in the log ----------------------------------------------------------


@pytest.mark.parametrize(
    "address, shown",
    [
        ("a\nCRITICAL forged", r"a\nCRITICAL forged"),
        ("a\x1b[2J\r\x07b", r"a\x1b[2J\r\x07b"),
        ("a\u202eb\u2028c", r"a\u202eb\u2028c"),
        ("grüße", "grüße"),
        ("q" * 1001, "q" * 1000 + "... (1001 characters)"),
    ],
)
def test_the_name_of_a_full_queue_stays_on_its_line(
    address: str, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    memory = MemoryBus("broker", Limits(capacity=1, resume=0))
    client = memory.client()
    client.sender(address).send()
    client.receiver(address).accept()
    client.sender(address).send()
    memory.advance(10)
    full = r"is full: it has 1 messages, \d+ bytes \(limits: .*\); no credit for 2 producer\(s\)"
    name = f"Queue {re.escape(shown)} "
    said = [r.getMessage() for r in caplog.records if r.name == "amqp1_driver.bus.broker"]
    assert len(said) == 3
    assert re.fullmatch(name + full.replace("for 2", "for 1"), said[0])
    assert re.fullmatch(name + r"takes messages again: .*, and was full for 0\.0 s", said[1])
    assert re.fullmatch(name + "was full 2 times within 10 s, and is now", said[2])


def test_names_of_links_stay_on_their_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    memory = MemoryBus("broker")
    client = memory.client()
    link = client.session.sender("s\n\x1b[31m")
    link.target.address = "q\nERROR"
    link.open()
    memory.settle()
    monkeypatch.setattr(memory.behaviour, "producer_detached", lambda producer: 1 / 0)
    client.close()
    (record,) = caplog.records
    assert record.getMessage() == r"Giving up the link s\n\x1b[31m to q\nERROR has failed"


def test_all_of_the_bus_logs_in_that_way() -> None:
    folder = Path(bus_engine.__file__).parent
    users = [path.name for path in folder.glob("*.py") if "getLogger" in path.read_text()]
    assert users == ["log.py"]


# -- what ends the thread ends the process -------------------------------------------------------


def test_the_end_of_the_thread_is_told(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    told = []
    with Bus("router") as bus:
        bus.on_death = told.append
        monkeypatch.setattr(Server, "_check_waiters", lambda self: 1 / 0)
        assert say(bus.port, AMQP) == b""
        assert bus._thread is not None
        bus._thread.join(TIMEOUT)
    assert [type(error) for error in told] == [ZeroDivisionError]
    assert "The thread of the bus has ended by a defect" in caplog.text


def test_a_process_whose_thread_ends_says_so_and_exits_1() -> None:
    program = """
import sys
from amqp1_driver.bus.server import Server
from amqp1_driver.testing import performatives as p
from amqp1_driver.testing.frames import Frame, FrameReader
from amqp1_driver.cli.main import main
Server._check_waiters = lambda self: 1 / 0
sys.exit(main(["bus", "--listen", "127.0.0.1:0"]))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().split()[2].rpartition(":")[2])
        socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT).close()
        _, errors = process.communicate(timeout=TIMEOUT)
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
    assert process.returncode == 1
    assert "The thread of the bus has ended by a defect" in errors
    assert "ZeroDivisionError" in errors
    assert errors.splitlines()[-1] == "amqp1 bus: the bus has died: division by zero"


# -- time and memory -----------------------------------------------------------------------------


class FakeHost:
    """What a connection needs of the server, with a clock that stands still."""

    def __init__(self) -> None:
        self.users: dict[str, str] = {}
        self.time = 100.0
        self.timers: list[tuple[float, Any]] = []
        self.watched: list[tuple[bool, bool]] = []
        self.behaviour = Broker(Counters())

    def new_engine(self, touched: Any, user: Any) -> Engine:
        return Engine(
            self.behaviour,
            container="bus",
            version="1",
            idle_timeout=16.0,
            touched=touched,
            user=user,
        )

    def now(self) -> float:
        return self.time

    def call_at(self, when: float, function: Any, connection: Any = None) -> None:
        self.timers.append((when, function))

    def touch(self, connection: SocketConnection) -> None:
        pass

    def watch(self, connection: SocketConnection, reading: bool, writing: bool) -> None:
        self.watched.append((reading, writing))

    def forget(self, connection: SocketConnection) -> None:
        pass

    def advance(self, seconds: float) -> None:
        self.time += seconds
        due, self.timers = self.timers, []
        for when, function in due:
            if when <= self.time:
                function()
            else:
                self.timers.append((when, function))


class Dialogue:
    """A connection of the bus on one end of a pair of sockets, and the client on the other."""

    def __init__(self) -> None:
        self.host = FakeHost()
        self.client, sock = socket.socketpair()
        self.client.settimeout(TIMEOUT)
        sock.setblocking(False)
        self.connection = SocketConnection(self.host, sock, "peer:1", None)

    def say(self, data: bytes) -> None:
        self.client.sendall(data)
        self.connection.on_readable()
        self.connection.pump()

    def close(self) -> None:
        self.connection.close()
        self.client.close()


@pytest.mark.parametrize("data", [b"", SASL, AMQP, AMQP + OPEN[:5]])
def test_a_peer_that_does_not_open_in_time_is_dropped(data: bytes, caplog: Any) -> None:
    caplog.set_level(logging.INFO)
    there = Dialogue()
    if data:
        there.say(data)
    there.host.advance(9.9)
    assert not there.connection.closed
    there.host.advance(0.2)
    assert there.connection.closed
    assert "The connection from peer:1 is closed: no Open within 10 s" in caplog.text
    there.close()


def test_a_peer_that_has_opened_is_not_dropped() -> None:
    there = Dialogue()
    there.say(AMQP + OPEN)
    there.host.advance(10.1)
    assert not there.connection.closed
    there.close()


def test_a_peer_that_does_not_read_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says would only make answers that nobody takes."""
    there = Dialogue()
    there.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    there.say(AMQP + OPEN)
    there.connection._out += bytes(connection.PENDING_LIMIT + 1_000_000)
    there.connection.pump()
    assert there.host.watched[-1] == (False, True)
    taken = 0
    while there.host.watched[-1] != (True, False):
        taken += len(there.client.recv(65536))
        there.connection.on_writable()
    assert taken > 1_000_000
    there.close()


def test_messages_for_a_client_that_never_reads_are_bounded() -> None:
    """It has given credit for all of them."""
    bus = MemoryBus("broker")
    writer, reader = bus.client("writer"), bus.client("reader")
    sending = writer.sender("q")
    receiving = reader.receiver("q", credit=1_000_000)
    reader.stalled = True
    body = Message(body="x" * 100_000)
    for _ in range(3 * UNSENT_LIMIT // 100_000):
        sending.send(body)
    assert UNSENT_LIMIT <= reader.engine.unsent <= UNSENT_LIMIT + 200_000
    assert len(receiving.arrived) == 0
    reader.stalled = False
    bus.settle()
    assert len(receiving.arrived) == 3 * UNSENT_LIMIT // 100_000


def test_links_and_sessions_of_a_connection_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_engine, "MAX_LINKS", 3)
    bus = MemoryBus("broker")
    client = bus.client()
    kept = [client.sender("q") for _ in range(3)]
    refused = client.sender("q")
    assert refused.link.remote_condition.name == "amqp:resource-limit-exceeded"
    assert [link.link.remote_condition for link in kept] == [None] * 3
    kept[0].close()
    assert client.sender("q").link.remote_condition is None


def test_without_descriptors_the_bus_waits_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(server, "ACCEPT_PAUSE", 0.1)
    asked = []
    accept = Server._take

    def take(listener: Any) -> Any:
        asked.append(1)
        if len(asked) == 1:
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(listener)

    with Bus("router") as bus:
        monkeypatch.setattr(Server, "_take", staticmethod(take))
        client = BlockingConnection(bus.address, timeout=TIMEOUT, reconnect=False)
        assert len(asked) == 2
        assert "No connection can be accepted for 0.1 s: [Errno 24] Too many open files" in (
            caplog.text
        )
        client.close()
