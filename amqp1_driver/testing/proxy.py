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
"""A TCP proxy on loopback that can break what runs through it."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Literal, Self

from amqp1_driver.testing.forwarder import BUFFER, DOWN, UP, Forwarder

Direction = Literal["up", "down", "both"]


class FaultProxy:
    """Forwards connections to `upstream_host`:`upstream_port`, with faults on command.

    Listens on 127.0.0.1:`port` from construction on; a context manager. One thread of its own
    moves the bytes; all methods may be called from any other thread and have taken effect when
    they return. `wait_...` raise TimeoutError after `timeout` seconds. OSError if the port cannot
    be had.
    """

    def __init__(self, upstream_host: str, upstream_port: int, port: int = 0) -> None:
        self._forwarder = Forwarder((upstream_host, upstream_port), port)
        self.port = self._forwarder.port

    # -- faults ---------------------------------------------------------------------------

    def cut(self) -> None:
        """Resets all connections, both sides of each; new ones are still taken."""
        self._forwarder.call(self._forwarder.cut)

    def refuse(self) -> None:
        """Closes the port: new connections are refused. Those that are up stay."""
        self._forwarder.call(self._forwarder.stop_listening)

    def accept_again(self) -> None:
        """Opens the port again."""
        self._forwarder.call(self._forwarder.start_listening)

    def freeze(self, direction: Direction = "both") -> None:
        """Forwards nothing in that direction; connections stay up, TCP fills up behind it."""
        self._forwarder.call(lambda: self._forwarder.frozen.update(_directions(direction)))

    def thaw(self, direction: Direction = "both") -> None:
        """Goes on, with nothing lost."""
        self._forwarder.call(
            lambda: self._forwarder.frozen.difference_update(_directions(direction))
        )

    def delay_bytes(self, count: int, direction: Direction = "both") -> None:
        """Keeps back the last `count` bytes of each stream until more follow; 0 ends it.

        `count` is at most half of BUFFER. So the peers see frames cut anywhere.
        """
        if not 0 <= count <= BUFFER // 2:
            raise ValueError(f"count must be 0 to {BUFFER // 2}, not {count}")
        self._forwarder.call(
            lambda: self._forwarder.held_back.update(dict.fromkeys(_directions(direction), count))
        )

    def cut_after(self, count: int, direction: Literal["up", "down"] = "up") -> None:
        """Resets, once, the connection on which the `count`-th byte from now on is forwarded.

        The bytes before are forwarded; see `wait_cut`.
        """
        self._forwarder.call(lambda: self._forwarder.cut_at.update({direction: count}))

    def stop(self) -> None:
        """Closes everything; may be called more than once."""
        self._forwarder.end()

    @property
    def chunk_size(self) -> int:
        """Bytes per write at most; 1 delivers byte by byte."""
        return self._forwarder.chunk_size

    @chunk_size.setter
    def chunk_size(self, size: int) -> None:
        self._forwarder.chunk_size = size

    # -- what goes on -----------------------------------------------------------------------

    @property
    def connections(self) -> int:
        """Connections that are up."""
        with self._forwarder.changed:
            return sum(not pair.connecting for pair in self._forwarder.pairs)

    @property
    def accepted(self) -> int:
        """Connections of clients so far."""
        with self._forwarder.changed:
            return self._forwarder.accepted

    @property
    def forwarded(self) -> dict[str, int]:
        """Bytes so far, "up" and "down"."""
        with self._forwarder.changed:
            return dict(self._forwarder.forwarded)

    def wait_connections(self, count: int, timeout: float = 10.0) -> None:
        """Until at least `count` connections are up; for 0, until none is."""
        self._wait(
            lambda: self.connections >= count if count else not self._forwarder.pairs,
            timeout,
            f"{count} connections",
        )

    def wait_accepted(self, count: int, timeout: float = 10.0) -> None:
        """Until clients have connected `count` times in all."""
        self._wait(
            lambda: self._forwarder.accepted >= count, timeout, f"{count} connections in all"
        )

    def wait_cut(self, count: int = 1, timeout: float = 10.0) -> None:
        """Until `cut_after` has struck `count` times in all."""
        self._wait(lambda: self._forwarder.cuts >= count, timeout, f"{count} cuts")

    def wait_forwarded(
        self, count: int, direction: Literal["up", "down"] = "up", timeout: float = 10.0
    ) -> None:
        """Until `count` bytes in all have been forwarded in that direction."""
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
