# SPDX-License-Identifier: Apache-2.0

"""The connection joined with a pyngus server: an implementation that knows nothing of ours."""

from __future__ import annotations

from typing import Any

import proton
import pyngus
import pytest

from .world import World


class Server(pyngus.ConnectionEventHandler, pyngus.SenderEventHandler, pyngus.ReceiverEventHandler):  # type: ignore[misc]
    """Echoes each message to its reply-to address; stands in for a ``PeerCore``."""

    def __init__(self) -> None:
        self.ending: str | None = None
        self.names: list[str] = []
        self.got: list[tuple[str, str]] = []
        self.senders: dict[str, Any] = {}
        self.outcomes: list[str] = []
        self.connection = pyngus.Container("server").create_connection(
            "server", self, {"x-server": True, "x-sasl-mechs": "ANONYMOUS", "x-require-auth": False}
        )
        self.connection.open()

    # -- as World uses a core -----------------------------------------------------------------

    def receive(self, data: bytes) -> bytes:
        while data:
            taken = self.connection.process_input(data)
            assert taken > 0
            data = data[taken:]
        return b""

    def take_output(self) -> bytes:
        self.connection.process(0)
        result = b""
        while self.connection.has_output > 0:
            data = bytes(self.connection.output_data())
            self.connection.output_written(len(data))
            result += data
        return result

    def connection_lost(self) -> None:
        self.connection.close_input()
        self.connection.close_output()

    # -- as pyngus calls -----------------------------------------------------------------------

    def connection_remote_closed(self, connection: Any, condition: Any) -> None:
        connection.close()

    def sender_requested(
        self, connection: Any, handle: Any, name: str, source: str | None, properties: Any
    ) -> None:
        address = source or f"dynamic-{len(self.senders)}"
        link = connection.accept_sender(handle, source_override=address, event_handler=self)
        self.senders[address] = link
        link.open()

    def receiver_requested(
        self, connection: Any, handle: Any, name: str, target: str | None, properties: Any
    ) -> None:
        self.names.append(name)
        link = connection.accept_receiver(handle, target_override=target, event_handler=self)
        link.open()
        link.add_capacity(2)

    def sender_remote_closed(self, link: Any, condition: Any) -> None:
        link.close()

    receiver_remote_closed = sender_remote_closed

    def message_received(self, link: Any, message: Any, handle: Any) -> None:
        self.got.append((message.address, message.body))
        link.add_capacity(1)
        if message.body == "refuse":
            link.message_rejected(handle, proton.Condition("amqp:not-allowed", "no"))
        elif message.body == "release":
            link.message_released(handle)
        elif message.body == "modify":
            link.message_modified(handle, True, False, None)
        else:
            link.message_accepted(handle)
        if message.reply_to:
            self.send(
                message.reply_to,
                proton.Message(body="echo " + message.body, correlation_id=message.id),
            )

    def send(self, address: str, message: Any) -> None:
        self.senders[address].send(
            message, lambda link, handle, state, info: self.outcomes.append(state)
        )


@pytest.fixture
def joined(path: Any) -> tuple[World, Server]:
    world = World(path)
    server = Server()
    world.peer.connect = lambda: server  # type: ignore[assignment, method-assign, return-value]
    world.start()
    assert world.state == "ready"
    return world, server


def test_calls_and_casts(joined):
    world, server = joined
    calls = [world.call(body=b"%d" % number) for number in range(10)]
    assert [op.future.value.body for op in calls] == [b"echo %d" % n for n in range(10)]
    assert world.cast(fanout=True).future.error is None
    assert server.got[-1] == ("broadcast.ex.topic.all", "body")
    assert server.outcomes == [pyngus.SenderLink.ACCEPTED] * 10


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"refuse", "DeliveryRejected"),
        (b"release", "DeliveryReleased"),
        (b"modify", "DeliveryModified"),
    ],
)
def test_outcomes(joined, body, error):
    world, _ = joined
    assert type(world.cast(body=body).future.error).__name__ == error


def test_large_messages(joined):
    world, _ = joined
    op = world.call(body=b"x" * 500000)
    assert op.future.value.body == b"echo " + b"x" * 500000


def test_subscriptions(joined):
    world, server = joined
    listener = world.listen(credit=10)
    assert (listener.ready, sorted(server.senders)) == (
        1,
        ["broadcast.ex.topic.all", "dynamic-0", "exclusive.ex.topic.server", "unicast.ex.topic"],
    )
    for number in range(30):
        server.send("unicast.ex.topic", proton.Message(body=f"m{number}"))
        world.run()
        world.settle(listener.deliveries[-1])
    assert listener.bodies == [b"m%d" % number for number in range(30)]
    assert server.outcomes == [pyngus.SenderLink.ACCEPTED] * 30


def test_close(joined):
    world, server = joined
    world.call()
    world.close()
    assert (world.state, world.closed, server.connection.active) == ("closed", 1, False)
