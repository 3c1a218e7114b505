# SPDX-License-Identifier: Apache-2.0

"""The interface through which a transport calls its owner, on the loop thread."""

from typing import Protocol


class ByteStream(Protocol):
    """The engine behind a transport, which takes the input and makes the output."""

    def receive(self, data: bytes) -> None:
        """Take bytes from the peer; ``data`` is never empty."""

    def output(self) -> "memoryview | bytes | None":
        """Return the next output without consuming it; None or empty if there is none."""

    def output_written(self, n: int) -> bool:
        """Consume the first ``n`` bytes of output(), which the transport has taken.

        :returns: False if there is certainly no further output at present
        """


class TransportHandler(Protocol):
    """An owner of a transport. The transport calls these methods on the loop thread."""

    def connected(self, description: str) -> None:
        """Begin to use the byte stream: TCP is up, and TLS if the owner asked for TLS.

        :param description: for logs
        """

    def data_received(self, data: bytes) -> None:
        """Take bytes from the peer; ``data`` is never empty."""

    def pending_output(self) -> "memoryview | bytes | None":
        """Return the next output without consuming it; None or empty if there is none."""

    def output_written(self, n: int) -> None:
        """Consume the first ``n`` bytes of pending_output(), which the transport has taken."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection. The transport calls this exactly once.

        :param exc: None after close(); otherwise ConnectError, TlsError, Disconnected, or
            LoopClosed if the loop has ended
        """
