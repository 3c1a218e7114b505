# SPDX-License-Identifier: Apache-2.0

"""Plain proton clients joined to the bus's engine in memory: no socket, no thread, no sleep.

The clients use proton's wrapper objects, not the C calls that the bus uses.
"""

from __future__ import annotations

import heapq
from typing import Any

from proton import (
    Collector,
    Condition,
    Connection,
    Delivery,
    Endpoint,
    Event,
    Link,
    Message,
    Session,
    Transport,
)

from amqp1_driver.bus.behaviour import Behaviour
from amqp1_driver.bus.broker import Broker
from amqp1_driver.bus.counters import Counters
from amqp1_driver.bus.engine import Engine
from amqp1_driver.bus.namespace import Namespace
from amqp1_driver.bus.queues import Limits
from amqp1_driver.bus.router import Router
from amqp1_driver.bus.servicebus import ServiceBus


class Sending:
    """A client's sending link."""

    def __init__(self, client: Client, link: Any) -> None:
        self.client = client
        self.link = link
        self._tags = 0

    @property
    def credit(self) -> int:
        self.client.bus.settle()
        return int(self.link.credit)

    def send(
        self, message: Message | bytes | bytearray | str = "hello", *, settled: bool = False
    ) -> Any:
        """Send now, whatever the credit; returns proton's delivery."""
        if isinstance(message, str):
            message = Message(body=message)
        data = message.encode() if isinstance(message, Message) else message
        self._tags += 1
        delivery = self.link.delivery(f"{self._tags}")
        self.link.stream(data)
        self.link.advance()
        if settled:
            delivery.settle()
        self.client.bus.settle()
        return delivery

    def close(self) -> None:
        self.link.close()
        self.client.bus.settle()


class Receiving:
    """A client's receiving link; ``arrived`` holds (delivery, message) not yet settled."""

    def __init__(self, client: Client, link: Any) -> None:
        self.client = client
        self.link = link
        self.arrived: list[tuple[Any, Message]] = []
        self.raw: list[bytes] = []

    @property
    def address(self) -> str:
        return str(self.link.remote_source.address)

    @property
    def bodies(self) -> list[Any]:
        return [message.body for _, message in self.arrived]

    def flow(self, credit: int) -> None:
        self.link.flow(credit)
        self.client.bus.settle()

    def drain(self, credit: int) -> None:
        self.link.drain(credit)
        self.client.bus.settle()

    def settle(self, state: int, **details: Any) -> Message:
        """Settle the oldest delivery that is held; returns its message."""
        delivery, message = self.arrived.pop(0)
        for name, value in details.items():
            setattr(delivery.local, name, value)
        if state:
            delivery.update(state)
        delivery.settle()
        self.client.bus.settle()
        return message

    def accept(self) -> Message:
        return self.settle(Delivery.ACCEPTED)

    def release(self) -> Message:
        return self.settle(Delivery.RELEASED)

    def reject(self, name: str = "test:bad", description: str = "no good") -> Message:
        return self.settle(Delivery.REJECTED, condition=Condition(name, description))

    def modify(self, *, failed: bool = False, undeliverable: bool = False) -> Message:
        return self.settle(Delivery.MODIFIED, failed=failed, undeliverable=undeliverable)

    def close(self) -> None:
        self.link.close()
        self.client.bus.settle()


class Client:
    """One client connection and the bus's engine at the other end of it."""

    def __init__(self, bus: MemoryBus, name: str, user: str | None = None) -> None:
        self.bus = bus
        self.connection = Connection()
        self.connection.container = name
        self.connection.hostname = "vhost"
        self._collector = Collector()
        self.connection.collect(self._collector)
        self.transport = Transport()
        self.transport.bind(self.connection)
        self.connection.open()
        self.session = self.new_session()
        self.engine = Engine(
            bus.behaviour,
            container="the-bus",
            version="0",
            idle_timeout=16.0,
            touched=lambda: None,
            user=user,
        )
        self._receiving: dict[str, Receiving] = {}
        self._links = 0
        self._wire = bytearray()
        #: the client does not read
        self.stalled = False
        bus.clients.append(self)
        bus.settle()

    def new_session(self) -> Any:
        session = self.connection.session()
        session.open()
        return session

    def sender(self, address: str | None, session: Any = None, **modes: int) -> Sending:
        self._links += 1
        link = (session or self.session).sender(f"s{self._links}")
        link.target.address = address
        self._open(link, modes)
        return Sending(self, link)

    def receiver(
        self,
        address: str | None,
        credit: int = 10,
        *,
        dynamic: bool = False,
        session: Any = None,
        filters: dict[Any, Any] | None = None,
        **modes: int,
    ) -> Receiving:
        self._links += 1
        link = (session or self.session).receiver(f"r{self._links}")
        link.source.address = address
        link.source.dynamic = dynamic
        if filters is not None:
            link.source.filter.put_dict(filters)
        receiving = self._receiving[link.name] = Receiving(self, link)
        if credit:
            link.flow(credit)
        self._open(link, modes)
        return receiving

    def _open(self, link: Any, modes: dict[str, Any]) -> None:
        for name, value in modes.items():
            setattr(link, name, value)
        link.open()
        self.bus.settle()

    def close(self) -> None:
        self.connection.close()
        self.bus.settle()

    def vanish(self) -> None:
        """The TCP connection is lost."""
        self.bus.clients.remove(self)
        self.engine.lost()
        self.bus.settle()

    # -- moving bytes --------------------------------------------------------

    def exchange(self) -> bool:
        """Move what either side has to say; False when both are silent."""
        moved = bool(self._wire)
        self.engine.feed(bytes(self._wire))
        self._wire.clear()
        self.engine.process()
        while not self.stalled and (output := self.engine.output()):
            size = min(len(output), self.transport.capacity())
            self.transport.push(bytes(output[:size]))
            self.engine.sent(size)
            self._process()
            moved = True
        self.write()
        return moved or bool(self._wire)

    def write(self) -> None:
        """Put what the client has to say on the wire; the bus has not read it yet."""
        while (size := self.transport.pending()) > 0:
            self._wire += self.transport.peek(size) or b""
            self.transport.pop(size)

    def _process(self) -> None:
        while (event := self._collector.peek()) is not None:
            if event.type == Event.DELIVERY:
                self._on_delivery(event.delivery)
            elif event.type in (Event.LINK_REMOTE_CLOSE, Event.LINK_REMOTE_DETACH):
                event.link.close()
            elif event.type == Event.CONNECTION_REMOTE_CLOSE:
                event.connection.close()
            self._collector.pop()

    def _on_delivery(self, delivery: Any) -> None:
        link = delivery.link
        if not link.is_receiver or not delivery.readable or delivery.partial:
            return
        data = link.recv(delivery.pending)
        link.advance()
        message = Message()
        message.decode(data)
        receiving = self._receiving[link.name]
        receiving.raw.append(bytes(data))
        receiving.arrived.append((delivery, message))


class MemoryBus:
    """A behaviour, its clients and a clock that stands still until told."""

    def __init__(
        self, mode: str, limits: Limits | None = None, namespace: Namespace | None = None
    ) -> None:
        self.now = 1000.0
        self.counters = Counters()
        self.behaviour: Behaviour
        if mode == "router":
            self.behaviour = Router(self.counters, self._clock)
        elif namespace is not None:
            self.behaviour = ServiceBus(self.counters, namespace, self._clock, self._wall)
        else:
            self.behaviour = Broker(self.counters, self._clock, limits or Limits())
        self.behaviour.call_at = self._call_at
        self.clients: list[Client] = []
        self._timers: list[tuple[float, int, Any]] = []

    def _clock(self) -> float:
        return self.now

    def _call_at(self, when: float, function: Any) -> None:
        heapq.heappush(self._timers, (when, len(self._timers), function))

    def _wall(self) -> float:
        """2023-11-14T22:13:20Z when the clock is at its beginning."""
        return 1_699_999_000.0 + self.now

    def client(self, name: str = "client", user: str | None = None) -> Client:
        return Client(self, name, user)

    def settle(self) -> None:
        """Exchange bytes until nobody has anything to say."""
        while any([client.exchange() for client in self.clients]):
            pass

    def advance(self, seconds: float) -> None:
        """Let time pass and run the timers that are due."""
        self.now += seconds
        while self._timers and self._timers[0][0] <= self.now:
            heapq.heappop(self._timers)[2]()
        self.settle()


def outcome(delivery: Any) -> Any:
    """What the sender was told: a state, or None while there is no outcome."""
    if not delivery.settled:
        return None
    return delivery.remote_state


def is_open(endpoint: Link | Session | Connection) -> bool:
    """True while both sides have the endpoint open."""
    return bool(endpoint.state == Endpoint.LOCAL_ACTIVE | Endpoint.REMOTE_ACTIVE)
