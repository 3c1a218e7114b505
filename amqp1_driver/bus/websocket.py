# SPDX-License-Identifier: Apache-2.0

"""Server side of AMQP over WebSocket (OASIS "AMQP WebSocket Binding" 1.0), on the bus thread.

Sans-I/O: wsproto implements RFC 6455. This module decides which requests to accept and converts
between messages and the AMQP byte stream. AMQP frames and WebSocket messages need not begin at the
same byte.
"""

from __future__ import annotations

from urllib.parse import unquote

from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

#: Path of Azure Service Bus.
PATH = "/$servicebus/websocket"
#: Subprotocol of the OASIS binding, and its former name.
SUBPROTOCOLS = ("amqp", "AMQPWSB10")
#: Close codes (RFC 6455 7.4.1).
_NORMAL, _UNSUPPORTED, _PROTOCOL_ERROR = 1000, 1003, 1002


class WebSocketServer:
    """One WebSocket. :meth:`feed` bytes, :meth:`wrap` AMQP bytes, send :attr:`output`."""

    def __init__(self) -> None:
        self._ws = WSConnection(ConnectionType.SERVER)
        self.output = bytearray()
        #: True once refused, closed by either side or broken: send the output, then end.
        self.ended = False
        #: Reason of a refusal or failure, for logs and tests; None = there was none.
        self.problem: str | None = None

    def feed(self, data: bytes) -> bytes:
        """Take input, answer control frames in it, and return the AMQP bytes in it."""
        plain = bytearray()
        if self.ended or not data:
            return b""
        try:
            self._ws.receive_data(data)
            for event in self._ws.events():
                self._on_event(event, plain)
        except (RemoteProtocolError, ValueError) as exc:
            # ValueError: wsproto decodes the values of some headers as ASCII
            self._broken(exc)
        return bytes(plain)

    def _on_event(self, event: Event, plain: bytearray) -> None:
        if isinstance(event, BytesMessage):
            # Pass on parts of a message at once: nothing waits for the rest of the message.
            plain += event.data
        elif isinstance(event, Request):
            self._request(event)
        elif isinstance(event, Ping):
            self.output += self._ws.send(event.response())
        elif isinstance(event, CloseConnection):
            self._closed(event)
        elif isinstance(event, TextMessage):
            self._give_up(_UNSUPPORTED, "AMQP needs binary messages")

    def _closed(self, event: CloseConnection) -> None:
        """Handle a close frame, or a violation of RFC 6455 with the close code from wsproto."""
        if self._ws.state is ConnectionState.REMOTE_CLOSING:
            self.output += self._ws.send(event.response())
        elif self._ws.state is ConnectionState.OPEN:
            self._give_up(int(event.code), event.reason or "not a WebSocket frame")
        self.ended = True

    def _request(self, request: Request) -> None:
        path = unquote(request.target.partition("?")[0]).rstrip("/")
        offered = [name for name in SUBPROTOCOLS if name in request.subprotocols]
        if path.lower() != PATH:
            self._refuse(404, f"nothing is served at {path or '/'}")
        elif not offered:
            self._refuse(400, "the subprotocol amqp was not offered")
        else:
            self.output += self._ws.send(AcceptConnection(subprotocol=offered[0]))

    def _refuse(self, status: int, problem: str) -> None:
        headers = [(b"content-length", b"0"), (b"connection", b"close")]
        self.output += self._ws.send(RejectConnection(status_code=status, headers=headers))
        self.ended = True
        self.problem = problem

    def _broken(self, error: Exception) -> None:
        if self._ws.connection is None:
            # Not a WebSocket handshake, perhaps not even HTTP.
            self.output += b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
        self._give_up(_PROTOCOL_ERROR, str(error))

    def _give_up(self, code: int, problem: str) -> None:
        self._close(code, problem)
        self.ended = True
        self.problem = problem

    def wrap(self, data: bytes | bytearray) -> None:
        """Append AMQP bytes to the output as one binary message."""
        if self._ws.state is ConnectionState.OPEN:
            self.output += self._ws.send(BytesMessage(data=bytes(data)))

    def close(self) -> None:
        """Send a close frame: no more output will come; idempotent."""
        self._close(_NORMAL, None)

    def _close(self, code: int, reason: str | None) -> None:
        if self._ws.connection is None or self._ws.state is not ConnectionState.OPEN:
            return
        try:
            self.output += self._ws.send(CloseConnection(code=code, reason=reason))
        except LocalProtocolError:
            pass
