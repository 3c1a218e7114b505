# SPDX-License-Identifier: Apache-2.0

"""A message that never ends costs no more memory than the limit that was announced (2.7.3)."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import proton
import pytest

from amqp1_driver.testing import performatives as p
from amqp1_driver.testing.fixture import BusProcess
from amqp1_driver.testing.peer import ScriptedPeer
from tests.bars.workers import Worker

MIB = 1 << 20
LIMIT = 16 * MIB
#: what the process may take beside the limit
BESIDE = 16 * MIB
#: an amqp-value of a string of two GiB
HEAD = b"\x00\x53\x77\xb1\x7f\xff\xff\xff"
ADDRESS = "unicast.openstack.endless.info"


class Endless(ScriptedPeer):
    """Sends a message that never ends, and does not heed the Detach."""

    def next_link(self, before: Any = None) -> Any:
        """The link on which the listener reads, once it is another one than before."""

        def look() -> Any:
            core = self.script.core
            sessions = core.sessions.values() if core is not None else ()
            newest = [
                link
                for session in sessions
                for link in session.links.values()
                if ADDRESS in link.name and link.credit and link is not before
            ]
            return newest[-1] if newest else None

        return self.script.wait_for(look, 60.0, f"another link to {ADDRESS}")

    def stream(self, link: Any, size: int) -> None:
        """Queue so many bytes of it."""
        with self.script.changed:
            session = link.session
            number, session.next_delivery_id = (
                session.next_delivery_id,
                session.next_delivery_id + 1,
            )
            session.core.send(
                p.Transfer(
                    handle=link.handle,
                    delivery_id=number,
                    delivery_tag=b"%d" % number,
                    message_format=0,
                    settled=False,
                    more=True,
                ),
                session.our_channel,
                HEAD,
            )
            for _ in range(size // 65536):
                session.core.send(
                    p.Transfer(handle=link.handle, more=True), session.our_channel, bytes(65536)
                )
        self.script.wake()


@pytest.mark.parametrize("path", ["speedups", "deliveries"])
def test_an_endless_message_costs_a_client_no_more_than_the_limit(
    worker: Callable[[str], Worker], long_form: bool, path: str, measured: Callable[[str], None]
) -> None:
    with Endless(auto=True, product="qpid-cpp") as peer:
        # it answers no Detach: links that have ended pile up
        peer.override(None).expect_detach().call(lambda event: None)
        client = worker("client")
        client.do("use_path", name=path)
        client.do(
            "open",
            url=peer.url,
            topic="endless",
            options={"max_message_size": LIMIT, "link_retry_delay": 0.1},
        )
        client.do("serve", name="only")
        before = client.do("reset_peak")
        rounds = 10 if long_form else 3
        link = peer.next_link()
        for _ in range(rounds):
            peer.stream(link, 64 * MIB)
            link = peer.next_link(link)
        growth = client.do("peak") - before
        measured(f"{growth / MIB:.1f} MiB for messages of which {64 * rounds} MiB came")
        assert growth < LIMIT + BESIDE
        errors = [entry.performative.error for entry in peer.frames(p.Detach)]
        assert {error.condition for error in errors if error} == {"amqp:link:message-size-exceeded"}
        client.do("close")


def _peak(pid: int, reset: bool = False) -> int:
    """Most bytes resident since the last reset; with a reset those resident now."""
    if reset:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    name = "VmRSS:" if reset else "VmHWM:"
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


class RawSender:
    """proton on a socket: sends as much of one message as it is told to."""

    def __init__(self, port: int, address: str | None) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 30)
        self._transport = proton.Transport()
        self._transport.sasl().allowed_mechs("ANONYMOUS")
        self._connection, self._collector = proton.Connection(), proton.Collector()
        self._connection.collect(self._collector)
        self._connection.container = "endless"
        self._transport.bind(self._connection)
        self._connection.open()
        session = self._connection.session()
        session.open()
        self.link = session.sender("endless")
        if address:
            self.link.target.address = address
        self.link.open()
        while not self.link.credit:
            self._receive()
        self.link.delivery("1")

    def _write(self) -> None:
        while (size := self._transport.pending()) > 0:
            data = bytes(self._transport.peek(size))
            self._socket.sendall(data)
            self._transport.pop(len(data))

    def _receive(self) -> None:
        self._write()
        data = self._socket.recv(65536)
        assert data, "the bus has closed the connection"
        while data:
            room = self._transport.capacity()
            self._transport.push(data[:room])
            data = data[room:]
        while self._collector.peek() is not None:
            self._collector.pop()

    def send(self, size: int) -> None:
        """So many bytes more."""
        for _ in range(size // 65536):
            self.link.send(bytes(65536))
            self._write()

    def wait_detached(self) -> str:
        """The condition with which the bus has ended the link."""
        while not self.link.state & proton.Endpoint.REMOTE_CLOSED:
            self._receive()
        return str(self.link.remote_condition.name)

    def close(self) -> None:
        self._socket.close()


# a router gives credit for an address to which it has a way only
@pytest.mark.parametrize(("mode", "address"), [("router", None), ("broker", "endless")])
def test_an_endless_message_costs_the_embedded_bus_no_more_than_the_limit(
    mode: str, address: str | None, measured: Callable[[str], None]
) -> None:
    with BusProcess(mode) as bus:
        assert bus.pid is not None
        with contextlib.closing(RawSender(bus.port, address)) as sender:
            assert sender.link.remote_max_message_size == 64 * MIB
            before = _peak(bus.pid, reset=True)
            sender.send(256 * MIB)
            assert sender.wait_detached() == "amqp:link:message-size-exceeded"
            growth = _peak(bus.pid) - before
        measured(f"{growth / MIB:.1f} MiB for a message of which 256 MiB came")
        assert growth < 64 * MIB + BESIDE
