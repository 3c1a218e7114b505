# SPDX-License-Identifier: Apache-2.0

"""Fuzz targets: one function of bytes for each place where a stranger's bytes come in.

A target raises for a finding: an exception that the code under test may not raise, two answers
where there is one right one, a caller that waits past its deadline. Everything is in memory; the
clock is a fake one.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import struct
from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from oslo_messaging import TransportURL
from oslo_messaging.transport import InvalidTransportURL

from amqp1_driver import codec, options
from amqp1_driver.bus.behaviour import Behaviour
from amqp1_driver.bus.broker import Broker
from amqp1_driver.bus.counters import Counters
from amqp1_driver.bus.engine import Engine as BusEngine
from amqp1_driver.bus.queues import Limits
from amqp1_driver.bus.router import Router
from amqp1_driver.bus.sasl import SaslServer, State
from amqp1_driver.bus.websocket import WebSocketServer
from amqp1_driver.connection.operation import Kind
from amqp1_driver.connection.receiver import Delivery
from amqp1_driver.engine.connection import Engine
from amqp1_driver.engine.deliveries import ProtonDeliveries
from amqp1_driver.engine.sasl_external import ExternalSasl
from amqp1_driver.engine.security import engine_properties
from amqp1_driver.engine.speedups import SpeedupDeliveries
from amqp1_driver.eventloop.tunnel import ProxyParameters, Tunnel, TunnelError
from amqp1_driver.eventloop.websocket import Codec as WebSocketClient
from amqp1_driver.exceptions import DecodeError
from amqp1_driver.pipeline.collect.decode import Decoder as CollectDecoder
from amqp1_driver.pipeline.collect.rows import row_of
from amqp1_driver.pipeline.spool.rows import to_batch
from amqp1_driver.policy.outcome import Outcome
from amqp1_driver.policy.redirect import Redirect
from tests.fuzz import values
from tests.fuzz.choices import Choices
from tests.protocol.world import World


@dataclasses.dataclass(frozen=True)
class Target:
    """One place where a stranger's bytes come in.

    :param run: called with an input; raises for a finding
    :param length: of an input at most, bytes
    """

    run: Callable[[bytes], None]
    length: int = 2048


# -- codec ---------------------------------------------------------------------------------


def _state(message: codec.Message) -> Any:
    """The content of a message, comparable although NaN is not itself."""
    found = {name: value for name, value in vars(message).items()}
    body = found.get("body")
    found["body"] = bytes(body) if isinstance(body, memoryview) else body
    return repr(sorted(found.items()))


def _messages(data: bytes) -> list[bytes]:
    """The input as messages: as it is, or made of choices; the second often like the first."""
    choices = Choices(data)
    how = choices.byte()
    if how & 1:
        rest = choices.rest()
        half = len(rest) // 2
        return [rest, rest[:half], rest[half:], rest]
    found = []
    made = values.usual_message if how & 0x80 else values.message
    while choices and len(found) < 8:
        found.append(made(choices))
    return found + found[:1]


def decode_messages(data: bytes) -> None:
    """The decoder that has seen other messages agrees with the one that has seen none."""
    learned = codec.Decoder()
    for message in _messages(data):
        try:
            expected = _state(codec.decode_message(message))
        except DecodeError:
            expected = None
        try:
            found = _state(learned.decode(message))
        except DecodeError:
            found = None
        assert found == expected, (message, found, expected)
        if expected is not None:
            try:
                assert isinstance(codec.decode_message(message).application_properties, dict)
            except DecodeError:
                pass


def bodies(data: bytes) -> None:
    """A request that is taken is one that oslo.messaging can serve; a reply is a value or an
    exception, and never one that ends a process."""
    choices = Choices(data)
    body = values.json_text(choices) if choices.byte() & 1 else choices.rest()
    try:
        request = codec.load_request(body)
        assert isinstance(request.ctxt, dict)
        assert isinstance(request.message, dict)
    except DecodeError:
        pass
    try:
        codec.load_reply(body, ["builtins", "oslo_messaging.exceptions"])
    except Exception as error:
        assert not isinstance(error, MemoryError | RecursionError), body
    for encoding in ("gzip", None):
        try:
            codec.decompress(body, encoding)
        except DecodeError:
            pass


class _Receiver:
    """As much of a receiver as a delivery names."""

    address = "notifications.info"
    host = "host:5672"


_RECEIVER: Any = _Receiver()

# -- the collector ---------------------------------------------------------------------------


def collected(data: bytes) -> None:
    """Each message is a row, and rows are a batch of the spool."""
    decode = CollectDecoder().decode
    rows = [
        row_of(Delivery(_RECEIVER, None, 0, message), 1.7e9, decode) for message in _messages(data)
    ]
    if rows:
        to_batch(rows, 1)


# -- frames into the driver --------------------------------------------------------------------


def frames(path: Any, data: bytes) -> None:
    """Whatever the peer sends on a connection that is ready costs that connection at most:
    everybody who waits is told by his deadline, and the next connection serves."""
    choices = Choices(data)
    world = World(path).start()
    listener = world.listen(credit=5)
    call = world.call(timeout=20.0)  # accepted, and not answered
    cast = world.request(Kind.CAST, timeout=20.0)
    world.connection.send(cast)  # handed over, and not settled
    connection, core = world.connection, world.core
    engine = connection.engine
    assert core is not None and engine is not None
    while choices and connection.engine is engine:
        if choices.byte() >= 0x10:
            connection.data_received(values.frame(choices, values.TRANSPORT))
        else:
            connection.data_received(choices.take(choices.byte()))
        connection.process()
        _discard(engine, connection)
    for delivery in listener.deliveries[:3]:
        delivery.outcome = Outcome.ACCEPTED
        connection.settle(delivery)
    connection.process()
    if world.core is core:
        world.drop()
    world.peer.script.failure = None
    world.advance(60.0)
    assert call.future.done and cast.future.done, "a caller waits past its deadline"
    assert world.state == "ready", world.state
    again = world.cast("another")
    assert again.future.done and again.future.error is None, again.future.error
    world.close()  # else proton keeps all of it, and the fuzzer runs out of memory
    assert connection.engine is None


def _discard(engine: Any, connection: Any) -> None:
    """The peer's end reads and forgets."""
    for _ in range(64):
        if connection.engine is not engine:
            return
        data = engine.output()
        if data is None or not len(data):
            return
        size = len(data)
        del data
        engine.output_written(size)
        connection.process()
    raise AssertionError("output without end")


class _Handler:
    """Hears what an engine says of its connection."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def engine_opened(self, peer: Any) -> None:
        assert str(peer)
        self.heard.append("opened")

    def engine_failed(self, reason: str) -> None:
        self.heard.append("failed")

    def engine_closed(self, name: str | None, description: str | None) -> None:
        self.heard.append("closed")

    def engine_redirected(self, redirect: Redirect) -> str | None:
        return None

    def engine_in_clear(self, mechanism: str) -> None:
        self.heard.append("in clear")


_HEADERS = (b"AMQP\x03\x01\x00\x00", b"AMQP\x00\x01\x00\x00", b"AMQP\x02\x01\x00\x00")


def sasl(data: bytes) -> None:
    """Whatever the peer sends while SASL is under way, and instead of an Open frame."""
    choices = Choices(data)
    how = choices.byte()
    settings = options.default_settings(sasl_mechanisms="EXTERNAL" if how & 1 else "")
    host = options.Host("host", 5672, *(("user", "secret") if how & 2 else ()))
    handler = _Handler()
    engine: Any = Engine("container", engine_properties(settings, host, None), handler)
    if how & 1:
        engine = ExternalSasl(engine, handler)
    engine.open()
    try:
        engine.process(1.0)
        engine.receive(choices.one_of(_HEADERS))
        for _ in range(12):
            if not choices or "closed" in handler.heard or "failed" in handler.heard:
                break
            what = choices.byte()
            if what < 0x10:
                engine.receive(choices.take(choices.byte()))
            else:
                sasl_frame = what < 0xC0
                codes = values.SASL if sasl_frame else values.TRANSPORT
                engine.receive(values.frame(choices, codes, 1 if sasl_frame else 0))
            engine.process(1.0)
            out = engine.output()
            if out is not None and len(out):
                size = len(out)
                del out
                engine.output_written(size)
    finally:
        engine.destroy()


# -- streams -------------------------------------------------------------------------------------

_ANSWER = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Protocol: amqp\r\n"
)
_LINES = (
    b"HTTP/1.1 101 x\r\n",
    b"HTTP/1.1 401 Unauthorized\r\n",
    b"HTTP/1.0 200\r\n",
    b"Upgrade: websocket\r\n",
    b"Connection: upgrade\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: -1\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Sec-WebSocket-Protocol: \xe9",
    b"Sec-WebSocket-Extensions: permessage-deflate\r\n",
    b"Sec-WebSocket-Extensions: \xff\r\n",
    b"Sec-WebSocket-Accept: x\r\n",
    b"\r\n",
    b"\r\n\r\n",
    b"GET / HTTP/1.1\r\n",
    b"Host: h\r\n",
    b"GET /$servicebus/websocket HTTP/1.1\r\n",
    b"Sec-WebSocket-Protocol: amqp\r\n",
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
    b"Sec-WebSocket-Version: 13\r\n",
    b"Sec-WebSocket-Key: \xe9\r\n",
    b": \r\n",
)


def _http(choices: Choices) -> bytes:
    parts = []
    for _ in range(choices.byte() & 15):
        parts.append(
            choices.one_of(_LINES) if choices.byte() & 7 else choices.take(choices.byte() & 31)
        )
    return b"".join(parts)


def _websocket_frame(choices: Choices, masked: bool) -> bytes:
    """One frame of RFC 6455, 5.2, not always a legal one."""
    first = choices.one_of((0x82, 0x02, 0x00, 0x80, 0x81, 0x88, 0x89, 0x8A, 0xC2, choices.byte()))
    data = choices.take(choices.byte() & 0x7F)
    if first in (0x88,) and data:
        data = struct.pack(">H", 1000 + len(data)) + data
    mask = 0x80 if masked ^ (choices.byte() > 0xF0) else 0
    size = (
        bytes((mask | len(data),))
        if choices.byte() < 0xF0
        else (bytes((mask | 127,)) + choices.take(8).ljust(8, b"\x00"))
    )
    return bytes((first,)) + size + (bytes(4) if mask else b"") + data


def websocket_client(data: bytes) -> None:
    """Whatever comes instead of, or over, a WebSocket: data, or a reason why it has ended."""
    choices = Choices(data)
    ws = WebSocketClient("bus.example.org", "/$servicebus/websocket", ["amqp"])
    if choices.byte() & 1:
        request = bytes(ws.output)
        server = WebSocketServer()
        assert server.feed(request) == b""
        ws.feed(bytes(server.output))
        assert ws.opened
        ws.output = memoryview(b"")
    while choices and ws.ended is None:
        ws.feed(_websocket_frame(choices, False) if ws.opened else _http(choices))
        assert len(ws.output) < 4096
        if choices.byte() & 1:
            ws.output = memoryview(b"")
            if ws.opened and ws.ended is None:
                ws.wrap(b"data")
    assert ws.refusal is None or "\x1b" not in ws.refusal
    ws.close()


def tunnel(data: bytes) -> None:
    """An HTTP proxy's answer is a way through, a wait for more, or an error that says why."""
    choices = Choices(data)
    way = Tunnel(ProxyParameters("proxy", 3128, "user", "secret"), "bus.example.org", 5671)
    try:
        while choices and not way.established:
            way.feed(_http(choices) if choices.byte() & 1 else choices.take(choices.byte()))
    except TunnelError as error:
        assert "secret" not in str(error)


# -- the embedded bus --------------------------------------------------------------------------


def _bus_engine(behaviour: Behaviour, name: str) -> BusEngine:
    return BusEngine(
        behaviour, container=name, version="0", idle_timeout=16.0, touched=lambda: None
    )


def _behaviour(broker: bool, counters: Counters) -> Behaviour:
    clock = lambda: 1000.0  # noqa: E731
    behaviour = Broker(counters, clock, Limits(20)) if broker else Router(counters, clock)
    behaviour.call_at = lambda when, fn: None
    return behaviour


def bus(data: bytes) -> None:
    """One client's frames do not end the bus, nor the next client's connection."""
    choices = Choices(data)
    counters = Counters()
    behaviour = _behaviour(bool(choices.byte() & 1), counters)
    engines = [_bus_engine(behaviour, f"bus-{n}") for n in range(2)]
    for engine in engines:
        engine.feed(
            b"AMQP\x00\x01\x00\x00"
            + _frame(0x10, b"\xa1\x05hello")
            + _frame(0x11, b"\x40\x43\x70\x00\x00\xff\xff\x52\x64")
        )
        _drain(engine)
    there = list(engines)
    while choices and there:
        who = choices.byte()
        engine = there[who % len(there)]
        data = (
            values.frame(choices, values.TRANSPORT)
            if who >= 0x10
            else (choices.take(choices.byte()))
        )
        try:
            engine.feed(data)
        except UnicodeDecodeError:
            # proton's own, for a name that is not UTF-8: SocketConnection ends that connection
            there.remove(engine)
            engine.lost()
        for other in there:
            other.process()
            _drain(other)
    for engine in there:
        engine.end_of_input()
        engine.lost()
    third = _bus_engine(behaviour, "bus-3")
    third.feed(b"AMQP\x00\x01\x00\x00" + _frame(0x10, b"\xa1\x05hello"))
    assert third.output() is not None
    third.lost()


def _frame(code: int, fields: bytes) -> bytes:
    """A frame of short fields (2.3, 1.6.22), on channel 0."""
    count = {0x10: 1, 0x11: 4}[code]
    body = b"\x00\x53" + bytes((code, 0xC0, len(fields) + 1, count)) + fields
    return struct.pack(">IBBH", len(body) + 8, 2, 0, 0) + body


def _drain(engine: BusEngine) -> None:
    for _ in range(64):
        output = engine.output()
        if not output:
            return
        engine.sent(len(output))
        engine.process()
    raise AssertionError("output without end")


def bus_streams(data: bytes) -> None:
    """What comes before AMQP on the embedded bus: SASL and WebSocket."""
    choices = Choices(data)
    if choices.byte() & 1:
        server = WebSocketServer()
        while choices and not server.ended:
            server.feed(_http(choices) if choices.byte() & 1 else _websocket_frame(choices, True))
        server.wrap(b"data")
        server.close()
        return
    layer = SaslServer({"user": "secret"}, "name" if choices.byte() & 1 else None, ())
    layer.feed(choices.one_of(_HEADERS))
    while choices and layer.state not in (State.DONE, State.FAILED):
        layer.feed(
            values.frame(choices, values.SASL, 1)
            if choices.byte() & 7
            else choices.take(choices.byte())
        )
    assert layer.state is not State.DONE or layer.user != "user" or b"secret" in data


# -- configuration ---------------------------------------------------------------------------------

_NAMES = sorted(option.dest for option in options.OPTS)
_URL_WORDS = (
    "amqp://",
    "amqp+x://",
    "user",
    ":",
    "@",
    "/",
    ",",
    "[::1]",
    "localhost",
    "5672",
    "65536",
    "-1",
    "?",
    "&",
    "=",
    "%2F",
    "%",
    "%zz",
    "#",
    "vhost",
    "ssl=true",
    "ssl_ca_file=/nowhere",
    "true",
    "1e400",
    "nan",
    "inf",
    "0",
    "-5",
    "x",
    "\u00e9",
    "\x00",
    "\udc80",
    " ",
    "servicebus",
    "addressing_mode=",
    "pre_settled=",
    "websocket_path=",
    "proxy=",
    "http://p:1",
    "sb.servicebus.windows.net",
    "telemetry=",
    ";",
    "'",
)


def urls(data: bytes) -> None:
    """A transport URL is read, or the error is one that names the option or the URL; the
    password is not in it."""
    choices = Choices(data)
    words = []
    while choices and len(words) < 40:
        what = choices.byte()
        if what < 0xA0:
            words.append(_URL_WORDS[what % len(_URL_WORDS)])
        elif what < 0xD0:
            words.append(choices.one_of(_NAMES))
        else:
            words.append(choices.take(what & 15).decode("latin-1"))
    text = "amqp://u:qsecretq@" + "".join(words)
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[], default_config_dirs=[])
    try:
        url = TransportURL.parse(conf, text)
    except (InvalidTransportURL, ValueError):
        return  # oslo.messaging's own
    try:
        settings = options.load(conf, url)
        for host in options.hosts(url, settings):
            assert "qsecretq" not in repr(host)
            engine_properties(settings, host, options.virtual_host(url))
    except options.InvalidOption as error:
        assert str(error)
        assert "u:qsecretq" not in str(error), error
    assert "u:qsecretq" not in options.redacted(url)


def redirects(data: bytes) -> None:
    """The map of a redirect is read, whatever is in it."""
    choices = Choices(data)
    try:
        info, _ = codec.decode(values.value(choices), 0)
    except DecodeError:
        return
    host = options.Host("host", 5672, "user", "secret")
    redirect = Redirect.parse(info)
    redirect.refusal(bool(choices.byte() & 1))
    assert "secret" not in repr(redirect.target(host))


TARGETS: dict[str, Target] = {
    "codec": Target(decode_messages),
    "bodies": Target(bodies),
    "collector": Target(collected),
    "frames-compiled": Target(functools.partial(frames, SpeedupDeliveries())),
    "frames-public": Target(functools.partial(frames, ProtonDeliveries())),
    "sasl": Target(sasl),
    "websocket": Target(websocket_client),
    "tunnel": Target(tunnel),
    "bus": Target(bus),
    "bus-streams": Target(bus_streams),
    "urls": Target(urls, 256),
    "redirects": Target(redirects, 256),
}


def _any(data: bytes) -> None:
    """Run the target that the first byte names."""
    target = list(TARGETS.values())[data[0] % len(TARGETS)] if data else Target(redirects)
    target.run(data[1 : target.length + 1])


#: all targets in one process, which saves the start of each
ALL = Target(_any)


def quiet() -> None:
    """Formatting log lines is part of what is tested; writing them is not."""
    root = logging.getLogger()
    root.handlers = [_Formatting()]
    root.setLevel(logging.DEBUG)


class _Formatting(logging.Handler):
    """Makes the text of each record and drops it.

    A record with a traceback is a finding where it says that an error was internal.
    """

    def emit(self, record: logging.LogRecord) -> None:
        record.getMessage()

    def handleError(self, record: logging.LogRecord) -> None:
        raise AssertionError(f"a log line can't be formatted: {record.msg!r} {record.args!r}")
