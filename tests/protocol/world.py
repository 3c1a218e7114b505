# SPDX-License-Identifier: Apache-2.0

"""The protocol joined in memory with a scripted peer: no socket, no thread, no sleep.

The peer has a codec of its own (``amqp1_driver.testing``), so that both sides cannot be wrong
together. Time is a fake clock that only :meth:`World.advance` moves; it fires the timers of the
protocol one by one, as a loop would.
"""

from __future__ import annotations

import heapq
import itertools
import random
from typing import Any

from amqp1_driver import codec, exceptions
from amqp1_driver.addressing.base import AddressConfig, Destination, Service
from amqp1_driver.addressing.context import BusContext
from amqp1_driver.connection.connection import Connection
from amqp1_driver.connection.operation import Kind, Payload, Reply, Request
from amqp1_driver.connection.receiver import Delivery
from amqp1_driver.connection.subscription import Subscription
from amqp1_driver.engine.connection import Engine
from amqp1_driver.engine.security import engine_properties
from amqp1_driver.options import Host, Settings, default_settings
from amqp1_driver.policy.deadline import Deadline
from amqp1_driver.policy.outcome import Outcome
from amqp1_driver.policy.retry import Backoff, Retry
from amqp1_driver.testing import performatives as p
from amqp1_driver.testing import reactions
from amqp1_driver.testing.clock import FakeClock
from amqp1_driver.testing.core import PeerCore
from amqp1_driver.testing.messages import Message, Properties
from amqp1_driver.testing.peer import Event, Link, Peer, ReceivedTransfer

#: rounds of exchange after which the two sides evidently never come to rest
LIMIT = 3000


class Waiter:
    """Stands in for the future of an application thread: the first completion counts."""

    def __init__(self) -> None:
        self.done = False
        self.value: Any = None
        self.error: BaseException | None = None

    def _end(self) -> bool:
        first, self.done = not self.done, True
        return first

    def set_result(self, value: Any) -> bool:
        if self._end():
            self.value = value
            return True
        return False

    def set_exception(self, error: BaseException) -> bool:
        if self._end():
            self.error = error
            return True
        return False


class Timer:
    """One call in the future."""

    def __init__(self, timers: Timers, when: float, fn: Any) -> None:
        self.when = when
        self.fn = fn
        self._timers = timers

    def cancel(self) -> None:
        self._timers.live.discard(self)

    @property
    def due(self) -> bool:
        return self in self._timers.live


class Timers:
    """Timers in the order of their time; ``live`` are those still to come."""

    def __init__(self) -> None:
        self.live: set[Timer] = set()
        self._heap: list[tuple[float, int, Timer]] = []
        self._count = itertools.count()

    def add(self, when: float, fn: Any) -> Timer:
        timer = Timer(self, when, fn)
        self.live.add(timer)
        heapq.heappush(self._heap, (when, next(self._count), timer))
        return timer

    def next(self) -> Timer | None:
        while self._heap and not self._heap[0][2].due:
            heapq.heappop(self._heap)
        return self._heap[0][2] if self._heap else None

    def pop(self) -> Timer:
        timer = heapq.heappop(self._heap)[2]
        self.live.discard(timer)
        return timer


class FakePort:
    """The world as :class:`Connection` sees it; records what it asks for."""

    virtual_host: str | None = None
    observer: Any = None

    def __init__(self, world: World) -> None:
        self.rng = random.Random(7)
        self.timers = Timers()
        self.connects: list[Host] = []
        self.disconnects = 0
        #: where tokens come from, on a bus that wants them
        self.tokens: Any = None
        self._world = world

    def now(self) -> float:
        return self._world.clock()

    def call_later(self, delay: float, fn: Any) -> Timer:
        assert delay >= 0
        return self.timers.add(self.now() + delay, fn)

    wall_clock = now

    def token_source(self, host: Host) -> Any:
        return self.tokens

    def linger(self) -> None:
        """``run`` calls ``process`` until nothing moves."""

    def connect(self, host: Host) -> None:
        self.connects.append(host)
        self._world.connecting = host

    def disconnect(self) -> None:
        self.disconnects += 1
        self._world.hang_up()

    def new_engine(self, host: Host, handler: Any) -> Any:
        return self._world.new_engine(host, handler)


class Listener:
    """A listener's delivery queue and what it was told."""

    def __init__(self, subscription: Any = None) -> None:
        self.subscription: Subscription = subscription
        self.deliveries: list[Delivery] = []
        self.ready = 0
        self.errors: list[BaseException] = []

    def deliver(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)

    def set_result(self, value: None) -> bool:
        self.ready += 1
        return self.ready == 1

    def set_exception(self, error: BaseException) -> bool:
        self.errors.append(error)
        return True

    def interrupt(self) -> None:
        """Wake the reader; nobody waits here."""

    @property
    def bodies(self) -> list[bytes]:
        return [codec.decode_message(d.data).body for d in self.deliveries]


class World:
    """A connection, the hosts it may connect to (all are one scripted peer), and time.

    :param path: module that serves deliveries
    :param hosts: how many; they are named ``host0:5672`` and so on
    :param peer: what the peer says of itself, see ``testing.peer.Defaults``
    :param abrupt: the peer's end of the TCP connection is seen in the same turn of the loop
        as its last bytes, as with TLS
    :param virtual_host: of the Open frame
    :param settings: options that differ from their defaults
    """

    def __init__(
        self,
        path: Any = None,
        *,
        hosts: int = 1,
        peer: dict[str, Any] | None = None,
        abrupt: bool = False,
        engine: Any = None,
        virtual_host: str | None = None,
        **settings: Any,
    ) -> None:
        settings = {"idle_timeout": 0.0, "host_selection": "ordered", **settings}
        if "product" not in (peer or {}):
            # short addresses, where the bus is no matter
            settings.setdefault("addressing_mode", "legacy")
        self.settings: Settings = default_settings(**settings)
        self.clock = FakeClock(1000.0)
        self.peer = Peer(auto=True, **(peer or {}))
        self.port = FakePort(self)
        self.port.virtual_host = virtual_host
        self.hosts = tuple(Host(f"host{n}", 5672) for n in range(hosts))
        #: by host: "up" (default), "refuse" or "silent"
        self.modes: dict[str, str] = {}
        self.connecting: Host | None = None
        self.core: PeerCore | None = None
        self.contexts: list[BusContext | None] = []
        self.closed = 0
        self._abrupt = abrupt
        self._path = path
        self._engine = engine
        self._ids = itertools.count(1)
        self._tick = 0.0
        self._inbox = bytearray()
        #: whether what the peer sends comes byte by byte
        self.piecewise = False
        self.connection = Connection(
            self.port,
            self.hosts,
            self.settings,
            AddressConfig.from_settings(self.settings, None, "openstack"),
            "unique",
            self.contexts.append,
        )

    # -- the network -------------------------------------------------------------

    def new_engine(self, host: Host, handler: Any) -> Any:
        if self._engine is not None:
            return self._engine(host, handler)
        properties = {**engine_properties(self.settings, host, self.port.virtual_host)}
        return Engine("container", properties, handler, path=self._path)

    def start(self) -> World:
        """Start, and go on until nothing moves any more: usually READY."""
        self.connection.start()
        return self.run()

    def hang_up(self) -> None:
        """Our side lets go of the TCP connection, after sending what there is to send."""
        self.connecting = None
        core = self.core
        if core is not None:
            self.flush()
            self.core = None
            core.connection_lost()

    def drop(self, error: exceptions.AmqpError | None = None) -> World:
        """The TCP connection breaks."""
        core, self.core = self.core, None
        assert core is not None
        core.connection_lost()
        self.connection.transport_lost(error or exceptions.ConnectionLost("reset by peer"))
        return self.run()

    def run(self) -> World:
        """Carry bytes to and fro until both sides are at rest."""
        for _ in range(LIMIT):
            if not self._turn():
                if self.peer.script.failure is not None:
                    raise self.peer.script.failure
                return self
        raise AssertionError("the two sides never come to rest")

    def _turn(self) -> bool:
        moved = self._connect()
        self._tick = self.connection.process()
        core = self.core
        if core is None:
            return moved
        moved = self.flush() or moved
        data = bytes(self._inbox) + core.take_output()
        self._inbox.clear()
        if data and self.connection.engine is not None:
            for part in [data[n : n + 1] for n in range(len(data))] if self.piecewise else [data]:
                self.connection.data_received(part)
            moved = True
            if not self._abrupt:
                self._tick = self.connection.process()
        if self.core is core and core.ending:
            self.core = None
            core.connection_lost()
            self.connection.transport_lost(
                exceptions.ConnectionLost("closed by the peer", host=self.connection.host)
            )
            moved = True
        return moved

    def _connect(self) -> bool:
        host = self.connecting
        mode = self.modes.get(str(host), "up")
        if host is None or mode == "silent":
            return False
        self.connecting = None
        if mode == "refuse":
            self.connection.transport_lost(exceptions.ConnectionFailed("refused", host=str(host)))
        else:
            self._inbox.clear()
            self.core = self.peer.connect()
            self.connection.transport_up()
        return True

    def flush(self) -> bool:
        """Our output goes to the peer, whose answers wait in the inbox."""
        moved, core = False, self.core
        assert core is not None
        engine: Any = self.connection.engine
        while engine is not None:
            data = engine.output()
            if data is None or not len(data):
                break
            moved = True
            sent = bytes(data)
            self._inbox += core.receive(sent)
            if not engine.output_written(len(sent)):
                assert not engine.output(), "the transport would not have asked for this"
        return moved

    # -- time --------------------------------------------------------------------

    def advance(self, seconds: float) -> World:
        """Let time pass; timers fire in their order, each at its time."""
        until = self.clock() + seconds
        for _ in range(LIMIT):
            timer = self.port.timers.next()
            when = timer.when if timer is not None else until + 1
            if self.connection.engine is not None and self._tick:
                when = min(when, max(self._tick, self.clock()))
            if when > until:
                self.clock.advance(max(0.0, until - self.clock()))
                return self.run()
            self.clock.advance(max(0.0, when - self.clock()))
            if timer is not None and timer.when <= when:
                self.port.timers.pop().fn()
            self.run()
        raise AssertionError("timers fire without end")

    # -- sending -----------------------------------------------------------------

    def request(
        self,
        kind: Kind,
        topic: str = "topic",
        *,
        server: str | None = None,
        fanout: bool = False,
        body: bytes = b"body",
        timeout: float = 30.0,
        retry: int | None = None,
        settled: bool = False,
    ) -> Request:
        """An operation as the client makes it, not sent yet."""
        service = Service.NOTIFY if kind is Kind.NOTIFY else Service.RPC
        now = self.clock()
        op = Request(
            Payload(kind, f"m{next(self._ids)}", body, settled),
            Destination(service, "ex", topic, server, fanout),
            Deadline.after(timeout, now),
            Retry.of(retry, Backoff(0.2, 2.0, 10.0)),
            Waiter(),
            ttl=kind is Kind.CALL,
        )
        if self.context is not None:
            op.bind(self.context, now)
        return op

    def send(self, op: Any) -> Any:
        self.connection.send(op)
        self.run()
        return op

    def call(self, topic: str = "topic", **kw: Any) -> Request:
        return self.send(self.request(Kind.CALL, topic, **kw))  # type: ignore[no-any-return]

    def cast(self, topic: str = "topic", **kw: Any) -> Request:
        return self.send(self.request(Kind.CAST, topic, **kw))  # type: ignore[no-any-return]

    def request_pair(self, *retries: int | None) -> list[Request]:
        """Casts with each of these retries, handed over at once."""
        ops = [self.request(Kind.CAST, retry=retry) for retry in retries]
        for op in ops:
            self.connection.send(op)
        return ops

    def make_reply(
        self,
        address: str = "caller",
        *,
        kind: Kind = Kind.REPLY,
        retry: int = 1,
        timeout: float = 10.0,
        body: bytes = b"answer",
    ) -> tuple[Reply, list[Any]]:
        """A reply and the list of errors (or None) that it ends with."""
        ends: list[Any] = []
        op = Reply(
            Payload(kind, "their-id", body, settled=kind is Kind.HEARTBEAT),
            address,
            codec.primitives.encode("their-id"),
            Deadline.after(timeout, self.clock()),
            Retry.of(retry, Backoff(0.2, 2.0, 10.0)),
            on_end=lambda op, error: ends.append(error),
        )
        if self.context is not None:
            op.bind(self.context, self.clock())
        return op, ends

    def reply(self, address: str = "caller", **kw: Any) -> list[Any]:
        op, ends = self.make_reply(address, **kw)
        self.send(op)
        return ends

    @property
    def context(self) -> BusContext | None:
        return self.contexts[-1] if self.contexts else None

    @property
    def state(self) -> str:
        return self.connection.state.value

    # -- receiving ---------------------------------------------------------------

    def listen(
        self,
        topic: str = "topic",
        server: str | None = "server",
        *,
        credit: int = 100,
        pool: str | None = None,
        service: Service = Service.RPC,
        batched: bool = False,
    ) -> Listener:
        listener = Listener()
        listener.subscription = Subscription(
            destinations=(Destination(service, "ex", topic, server),),
            pool=pool,
            unique=f"u{next(self._ids)}",
            credit=credit,
            batched=batched,
            sink=listener,
            ready=listener,
        )
        self.connection.subscribe(listener.subscription)
        self.run()
        return listener

    def settle(self, delivery: Delivery, outcome: Outcome | None = None) -> None:
        delivery.outcome = outcome
        self.connection.settle(delivery)
        self.run()

    def close(self) -> World:
        def closed() -> None:
            self.closed += 1

        self.connection.close(closed)
        return self.run()

    # -- the peer ------------------------------------------------------------------

    def hold(self) -> None:
        """The peer settles nothing by itself from now on."""
        self.peer.override(None).expect_transfer().hold()

    def outcome(self, state: Any, index: int = -1) -> World:
        """The peer settles a delivery that it held."""
        reactions.settle(self.peer.transfers[index], state)
        return self.run()

    def no_credit(self, address: str | None = None) -> None:
        """The peer grants no credit to senders from now on."""
        match = {} if address is None else {"address": address}
        self.peer.override(None).expect_attach(role="sender", **match).respond(credit=0)

    def grant(self, credit: int, address: str) -> World:
        self.peer.grant(credit, address)
        return self.run()

    def link(self, address: str) -> Link:
        """The peer's view of the newest link of an address."""
        return self.peer.wait_link(address, 0)

    def arrive(
        self, address: str, body: str = "hello", *, link: Link | None = None, **kw: Any
    ) -> World:
        """A message for one of our receivers, if there is credit."""
        message = kw.pop("message", None)
        message = Message(body) if message is None else message
        found = link or next(
            link
            for link in reversed(self.peer.links)
            if link.address == address and not link.client_sends
        )
        reactions.transfer(found, message, **kw)
        return self.run()

    def answer(
        self, op: Request, body: Any = "answer", *, kind: str | None = "value", **kw: Any
    ) -> World:
        """The reply to a call."""
        message = Message(body, kind=kind, properties=Properties(correlation_id=op.message_id))
        assert self.context is not None
        return self.arrive(self.context.reply_address, message=message, **kw)

    def sent(self) -> list[tuple[str, Any]]:
        """Address and body of all that the peer was sent."""
        return [(t.address, t.body) for t in self.peer.transfers]

    def attaches(self, role: str | None = None) -> list[p.Attach]:
        entries = [entry.performative for entry in self.peer.frames(p.Attach)]
        wanted = {None: (False, True), "sender": (False,), "receiver": (True,)}[role]
        return [attach for attach in entries if attach.role in wanted]

    def address(self, op: Request) -> str:
        return str(op.address)


class Broker:
    """RabbitMQ's management node on top of a scripted peer.

    ``requests`` are (method, path, body); ``answers`` may hold another status per path or
    method, or None for no answer; ``bodies`` those of answers, by path or method and path.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.requests: list[tuple[str, str, Any]] = []
        self.answers: dict[str, str | None] = {}
        self.bodies: dict[str, Any] = {}
        self.late: list[tuple[Event, ReceivedTransfer, str]] = []
        world.peer.override(None).expect_transfer(address="/management").call(self._serve)

    @property
    def paths(self) -> list[str]:
        return [path for _, path, _ in self.requests]

    def _serve(self, event: Event) -> None:
        transfer = event.transfer
        assert transfer is not None and transfer.settled
        properties = transfer.message.properties
        self.requests.append((properties.subject or "", properties.to, transfer.body))
        method = properties.subject or ""
        status = self.answers.get(method, self.answers.get(properties.to, "201"))
        if status is None:
            self.late.append((event, transfer, "201" if method[:1] == "P" else "200"))
        else:
            self._respond(event, transfer, status)

    def _respond(self, event: Event, transfer: ReceivedTransfer, status: str) -> None:
        assert event.session is not None and event.link is not None
        properties = transfer.message.properties
        back = next(
            link
            for link in event.session.links.values()
            if link.name == event.link.name and not link.client_sends
        )
        assert properties.reply_to == "$me" and back.credit > 0
        body = self.bodies.get(
            f"{properties.subject} {properties.to}", self.bodies.get(properties.to)
        )
        message = Message(
            body, properties=Properties(subject=status, correlation_id=properties.message_id)
        )
        reactions.transfer(back, message, settled=True)

    def answer_late(self) -> World:
        """Answer now what was left without an answer."""
        late, self.late = self.late, []
        for event, transfer, status in late:
            self._respond(event, transfer, status)
        return self.world.run()


def rabbitmq(path: Any = None, version: str = "4.3.0", **kw: Any) -> tuple[World, Broker]:
    """A world whose peer says it is RabbitMQ; not started."""
    world = World(
        path,
        peer={
            "product": "RabbitMQ",
            "version": version,
            "offered_capabilities": ("LINK_PAIR_V1_0", "ANONYMOUS-RELAY"),
        },
        **kw,
    )
    return world, Broker(world)
