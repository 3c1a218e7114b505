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

"""Server side of AMQP over WebSocket (OASIS "AMQP WebSocket Binding" 1.0), on the bus thread.

Sans-I/O: wsproto does RFC 6455, this module says which requests are welcome and turns messages
into the byte stream that AMQP is. AMQP frames and WebSocket messages need not begin together.
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

#: Where Azure Service Bus listens.
PATH = "/$servicebus/websocket"
#: Of the OASIS binding, and the name that it had before.
SUBPROTOCOLS = ("amqp", "AMQPWSB10")
#: Close codes (RFC 6455 7.4.1).
_NORMAL, _UNSUPPORTED, _PROTOCOL_ERROR = 1000, 1003, 1002


class WebSocketServer:
    """One WebSocket. :meth:`feed` bytes, :meth:`wrap` bytes of AMQP, send :attr:`output`."""

    def __init__(self) -> None:
        self._ws = WSConnection(ConnectionType.SERVER)
        self.output = bytearray()
        #: Refused, closed by either side, or broken: send the output, then end.
        self.ended = False
        #: Why it was refused or given up, for logs and tests; None = it was not.
        self.problem: str | None = None

    def feed(self, data: bytes) -> bytes:
        """Take input; returns the bytes of AMQP in it. Control frames are answered."""
        plain = bytearray()
        if self.ended or not data:
            return b""
        try:
            self._ws.receive_data(data)
            for event in self._ws.events():
                self._on_event(event, plain)
        except RemoteProtocolError as exc:
            self._broken(exc)
        return bytes(plain)

    def _on_event(self, event: Event, plain: bytearray) -> None:
        if isinstance(event, BytesMessage):
            # Parts of a message come as they arrive: nothing waits for the rest of it.
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
        """A close frame has come, or wsproto has met what RFC 6455 forbids and names the code."""
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

    def _broken(self, error: RemoteProtocolError) -> None:
        if self._ws.connection is None:
            # Not a WebSocket handshake, perhaps no HTTP at all.
            self.output += b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
        self._give_up(_PROTOCOL_ERROR, str(error))

    def _give_up(self, code: int, problem: str) -> None:
        self._close(code, problem)
        self.ended = True
        self.problem = problem

    def wrap(self, data: bytes | bytearray) -> None:
        """Put bytes of AMQP into the output as one binary message."""
        if self._ws.state is ConnectionState.OPEN:
            self.output += self._ws.send(BytesMessage(data=bytes(data)))

    def close(self) -> None:
        """Say that nothing more will come; idempotent."""
        self._close(_NORMAL, None)

    def _close(self, code: int, reason: str | None) -> None:
        if self._ws.connection is None or self._ws.state is not ConnectionState.OPEN:
            return
        try:
            self.output += self._ws.send(CloseConnection(code=code, reason=reason))
        except LocalProtocolError:
            pass
