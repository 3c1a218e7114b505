# SPDX-License-Identifier: Apache-2.0

"""The methods by which tests inspect and disturb a running bus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, TypeVar

from .addresses import normalise
from .behaviour import Behaviour
from .broker import Broker
from .counters import Counters
from .links import Consumer, Link, Producer
from .queues import Limits
from .server import Server

T = TypeVar("T")


@dataclass(frozen=True)
class LinkInfo:
    """A link attached to the bus.

    ``receiving``: the client is the receiver; ``credit``: the credit left now.
    """

    name: str
    address: str | None
    receiving: bool
    credit: int
    unsettled: int


@dataclass(frozen=True)
class ConnectionInfo:
    """A connection to the bus; ``container`` and ``hostname`` come from the peer's Open."""

    peer: str
    container: str | None
    hostname: str | None
    user: str | None
    mechanism: str | None
    links: tuple[LinkInfo, ...]


def _link_info(link: Link) -> LinkInfo:
    if isinstance(link, Consumer):
        return LinkInfo(link.name, link.address, True, link.credit, len(link.unsettled))
    assert isinstance(link, Producer)
    return LinkInfo(link.name, link.address, False, link.credit, link.held)


class Controls:
    """Base class of :class:`Bus` with the methods for tests.

    Call the methods from any thread except the bus thread, unless a method says otherwise.
    """

    _server: Server | None
    counters: Counters

    def _running(self) -> Server:
        if self._server is None:
            raise RuntimeError("the bus has not been started")
        return self._server

    def _call(self, function: Callable[[Server], T]) -> T:
        """Run a function on the bus thread and return its result."""
        server = self._running()
        return server.call(lambda: function(server))

    @property
    def connections(self) -> list[ConnectionInfo]:
        """Return the connections that are past SASL; the Open of a peer may still be missing."""
        return self._call(_connections)

    def queue_depth(self, address: str) -> int:
        """Return the number of messages held for an address.

        A held message waits, or is delivered and has no outcome.
        """
        return self._call(lambda server: server.behaviour.depth(address))

    def wait_until(self, condition: Callable[[Self], bool], timeout: float = 10.0) -> None:
        """Block until ``condition(bus)`` holds.

        The bus thread evaluates the condition after each step. The condition may use
        :attr:`counters`, :meth:`peek` and :meth:`peek_connections`.

        :param timeout: seconds
        :raises TimeoutError: the condition did not hold in time
        """
        self._running().wait_until(lambda: condition(self), timeout)

    def peek(self, address: str) -> int:
        """Return :meth:`queue_depth`, for use in a condition of :meth:`wait_until`."""
        return self._running().behaviour.depth(address)

    def peek_connections(self) -> list[ConnectionInfo]:
        """Return :attr:`connections`, for use in a condition of :meth:`wait_until`."""
        return _connections(self._running())

    def freeze(self) -> None:
        """Stop polling sockets and timers, like a stopped process; the sockets stay open."""
        self._call(lambda server: server.freeze(True))

    def thaw(self) -> None:
        """Undo :meth:`freeze`."""
        self._call(lambda server: server.freeze(False))

    def pause_credit(self, address: str | None = None) -> None:
        """Withhold and withdraw credit from the producers of an address; None = from all."""
        self._change_credit(lambda behaviour: behaviour.pause(address))

    def resume_credit(self, address: str | None = None) -> None:
        """Undo :meth:`pause_credit` for an address; None undoes every pause."""
        self._change_credit(lambda behaviour: behaviour.resume(address))

    def _change_credit(self, change: Callable[[Behaviour], None]) -> None:
        def work(server: Server) -> None:
            change(server.behaviour)
            for link in _links(server):
                if isinstance(link, Producer):
                    link.adjust()

        self._call(work)

    def limit_queue(self, address: str | None, limits: Limits | None) -> None:
        """Change watermarks while the broker runs, with effect at once; see :class:`Limits`.

        :param address: ADDRESS, ADDRESS::POOL or a topic's; None: all addresses without watermarks
            of their own
        :param limits: the new watermarks; None: the address gets the watermarks of all addresses
            again
        :raises ValueError: the bus is not a broker
        """
        behaviour = self._running().behaviour
        if not isinstance(behaviour, Broker):
            raise ValueError(f"a bus as {behaviour.mode} has no watermarks")
        self._call(lambda server: behaviour.limit(address, limits))

    def drop_connections(self) -> None:
        """Reset all connections; the bus still listens."""
        self._call(lambda server: server.drop_all())

    def close_connections(
        self,
        condition: str = "amqp:connection:forced",
        description: str = "closed by the administrator",
    ) -> None:
        """Close all connections cleanly with an error; the bus still listens."""
        self._call(lambda server: server.close_all(condition, description))

    def detach_links(
        self,
        address: str,
        condition: str = "amqp:resource-deleted",
        description: str = "the node has been deleted",
    ) -> int:
        """Detach all links at an address with an error; return the number of links."""

        def work(server: Server) -> int:
            wanted = normalise(address)
            links = [x for x in _links(server) if normalise(x.address or "") == wanted]
            for link in links:
                link.detach(condition, description)
            return len(links)

        return self._call(work)


def _links(server: Server) -> list[Link]:
    return [link for c in server.connections if c.engine for link in c.engine.links]


def _connections(server: Server) -> list[ConnectionInfo]:
    return [
        ConnectionInfo(
            c.peer,
            c.engine.remote_container,
            c.engine.remote_hostname,
            c.user,
            c.mechanism,
            tuple(_link_info(link) for link in c.engine.links),
        )
        for c in server.connections
        if c.engine is not None
    ]
