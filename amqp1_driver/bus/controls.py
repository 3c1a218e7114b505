# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What tests can see of a running bus, and do to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from .addresses import normalise
from .behaviour import Behaviour
from .counters import Counters
from .links import Consumer, Link, Producer
from .server import Server


@dataclass(frozen=True)
class LinkInfo:
    """A link attached to the bus. ``receiving``: the client receives on it; credit as it is now."""

    name: str
    address: str | None
    receiving: bool
    credit: int
    unsettled: int


@dataclass(frozen=True)
class ConnectionInfo:
    """A connection to the bus; ``container`` and ``hostname`` as in the peer's Open."""

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
    """Half of :class:`Bus`: for tests. From any thread but the bus's own, unless it says so."""

    _server: Server | None
    counters: Counters

    def _running(self) -> Server:
        if self._server is None:
            raise RuntimeError("the bus has not been started")
        return self._server

    @property
    def connections(self) -> list[ConnectionInfo]:
        """The connections that are open at AMQP level."""
        server = self._running()
        found: list[ConnectionInfo] = server.call(lambda: _connections(server))
        return found

    def queue_depth(self, address: str) -> int:
        """Messages held for an address: waiting, or delivered without an outcome."""
        server = self._running()
        depth: int = server.call(lambda: server.behaviour.depth(address))
        return depth

    def wait_until(self, condition: Callable[[Self], bool], timeout: float = 10.0) -> None:
        """Block until ``condition(bus)`` holds; it is evaluated after each step of the bus, on
        its thread, and may look at :attr:`counters` and :meth:`peek`. Raises TimeoutError."""
        self._running().wait_until(lambda: condition(self), timeout)

    def peek(self, address: str) -> int:
        """:meth:`queue_depth` for use in a condition of :meth:`wait_until`."""
        return self._running().behaviour.depth(address)

    def peek_connections(self) -> list[ConnectionInfo]:
        """:attr:`connections` for use in a condition of :meth:`wait_until`."""
        return _connections(self._running())

    def freeze(self) -> None:
        """Stop looking at sockets and timers, as a stopped process; they stay open."""
        server = self._running()
        server.call(lambda: server.freeze(True))

    def thaw(self) -> None:
        """End of :meth:`freeze`."""
        server = self._running()
        server.call(lambda: server.freeze(False))

    def pause_credit(self, address: str | None = None) -> None:
        """Give no credit to producers of this address (None: all), and withdraw what they have."""
        self._change_credit(lambda behaviour: behaviour.pause(address))

    def resume_credit(self, address: str | None = None) -> None:
        """End of :meth:`pause_credit`; None ends every pause."""
        self._change_credit(lambda behaviour: behaviour.resume(address))

    def _change_credit(self, change: Callable[[Behaviour], None]) -> None:
        server = self._running()

        def work() -> None:
            change(server.behaviour)
            for link in _links(server):
                if isinstance(link, Producer):
                    link.adjust()

        server.call(work)

    def drop_connections(self) -> None:
        """Reset all connections; the bus goes on listening."""
        server = self._running()
        server.call(server.drop_all)

    def close_connections(
        self,
        condition: str = "amqp:connection:forced",
        description: str = "closed by the administrator",
    ) -> None:
        """Close all connections cleanly with an error; the bus goes on listening."""
        server = self._running()
        server.call(lambda: server.close_all(condition, description))

    def detach_links(
        self,
        address: str,
        condition: str = "amqp:resource-deleted",
        description: str = "the node has been deleted",
    ) -> int:
        """Detach all links at an address with an error; returns how many there were."""
        server = self._running()

        def work() -> int:
            wanted = normalise(address)
            links = [x for x in _links(server) if normalise(x.address or "") == wanted]
            for link in links:
                link.detach(condition, description)
            return len(links)

        count: int = server.call(work)
        return count


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
