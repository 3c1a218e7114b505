# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy on loopback that injects faults into its connections."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Literal, Self

from amqp1_driver.testing.forwarder import BUFFER, DOWN, UP, Forwarder

Direction = Literal["up", "down", "both"]


class FaultProxy:
    """A proxy to ``upstream_host``:``upstream_port`` that injects faults on command.

    The proxy listens on 127.0.0.1:``port`` from construction on. It is a context manager. A
    separate thread moves the bytes. Any other thread may call the methods; a method returns after
    it has taken effect. The ``wait_...`` methods raise TimeoutError after ``timeout`` seconds.

    :raises OSError: the port is not available
    """

    def __init__(self, upstream_host: str, upstream_port: int, port: int = 0) -> None:
        self._forwarder = Forwarder((upstream_host, upstream_port), port)
        self.port = self._forwarder.port

    # -- faults ---------------------------------------------------------------------------

    def cut(self) -> None:
        """Reset all connections on both sides; the proxy still accepts new ones."""
        self._forwarder.call(self._forwarder.cut)

    def refuse(self) -> None:
        """Close the port to refuse new connections; existing connections stay up."""
        self._forwarder.call(self._forwarder.stop_listening)

    def accept_again(self) -> None:
        """Open the port again."""
        self._forwarder.call(self._forwarder.start_listening)

    def freeze(self, direction: Direction = "both") -> None:
        """Forward nothing in that direction; connections stay up and TCP buffers fill up."""
        self._forwarder.call(lambda: self._forwarder.frozen.update(_directions(direction)))

    def thaw(self, direction: Direction = "both") -> None:
        """Resume forwarding, without loss of bytes."""
        self._forwarder.call(
            lambda: self._forwarder.frozen.difference_update(_directions(direction))
        )

    def delay(self, seconds: float, direction: Direction = "both") -> None:
        """Hold every byte for that many seconds; 0 ends it. At most BUFFER bytes are in flight."""
        self._forwarder.call(
            lambda: self._forwarder.latency.update(dict.fromkeys(_directions(direction), seconds))
        )

    def throttle(self, rate: int, direction: Direction = "both") -> None:
        """Pass at most ``rate`` bytes per second on each connection; 0 removes the limit."""
        self._forwarder.call(
            lambda: self._forwarder.rate.update(dict.fromkeys(_directions(direction), rate))
        )

    def abandon(self) -> None:
        """Let the upstream of each connection vanish without a FIN or RST to the client.

        The proxy still forwards new connections.
        """
        self._forwarder.call(self._forwarder.abandon)

    def bury(self) -> None:
        """Reset the connections left open by ``abandon``."""
        self._forwarder.call(self._forwarder.bury)

    def delay_bytes(self, count: int, direction: Direction = "both") -> None:
        """Hold back the last ``count`` bytes of each stream until more bytes follow; 0 ends this.

        The peers thus receive frames cut at any byte.

        :param count: at most half of BUFFER
        :raises ValueError: ``count`` is out of range
        """
        if not 0 <= count <= BUFFER // 2:
            raise ValueError(f"count must be 0 to {BUFFER // 2}, not {count}")
        self._forwarder.call(
            lambda: self._forwarder.held_back.update(dict.fromkeys(_directions(direction), count))
        )

    def cut_after(self, count: int, direction: Literal["up", "down"] = "up") -> None:
        """Reset, once, the connection that forwards the ``count``-th byte from now on.

        The proxy forwards the bytes before; see ``wait_cut``.
        """
        self._forwarder.call(lambda: self._forwarder.cut_at.update({direction: count}))

    def stop(self) -> None:
        """Close all sockets and end the thread; idempotent."""
        self._forwarder.end()

    @property
    def chunk_size(self) -> int:
        """Return the maximum number of bytes per write; 1 delivers byte by byte."""
        return self._forwarder.chunk_size

    @chunk_size.setter
    def chunk_size(self, size: int) -> None:
        self._forwarder.chunk_size = size

    # -- what goes on -----------------------------------------------------------------------

    @property
    def connections(self) -> int:
        """Return the number of connections that are up."""
        with self._forwarder.changed:
            return sum(not pair.connecting for pair in self._forwarder.pairs)

    @property
    def accepted(self) -> int:
        """Return the number of client connections so far."""
        with self._forwarder.changed:
            return self._forwarder.accepted

    @property
    def forwarded(self) -> dict[str, int]:
        """Return the number of bytes forwarded so far, by "up" and "down"."""
        with self._forwarder.changed:
            return dict(self._forwarder.forwarded)

    def wait_connections(self, count: int, timeout: float = 10.0) -> None:
        """Wait until at least ``count`` connections are up; for 0, until none is up."""
        self._wait(
            lambda: self.connections >= count if count else not self._forwarder.pairs,
            timeout,
            f"{count} connections",
        )

    def wait_accepted(self, count: int, timeout: float = 10.0) -> None:
        """Wait until clients have connected ``count`` times in all."""
        self._wait(
            lambda: self._forwarder.accepted >= count, timeout, f"{count} connections in all"
        )

    def wait_cut(self, count: int = 1, timeout: float = 10.0) -> None:
        """Wait until ``cut_after`` has reset ``count`` connections in all."""
        self._wait(lambda: self._forwarder.cuts >= count, timeout, f"{count} cuts")

    def wait_forwarded(
        self, count: int, direction: Literal["up", "down"] = "up", timeout: float = 10.0
    ) -> None:
        """Wait until the proxy has forwarded ``count`` bytes in all in that direction."""
        self._wait(lambda: self._forwarder.forwarded[direction] >= count, timeout, f"{count} bytes")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _wait(self, ready: Callable[[], bool], timeout: float, what: str) -> None:
        with self._forwarder.changed:
            if not self._forwarder.changed.wait_for(ready, timeout):
                raise TimeoutError(f"{what}: not within {timeout} s")


def _directions(direction: str) -> tuple[str, ...]:
    return (UP, DOWN) if direction == "both" else (direction,)
