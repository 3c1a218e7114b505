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


"""A byte stream over a WebSocket (RFC 6455), between a transport and its owner.

wsproto does the protocol; this module says what is asked for and turns messages into a stream:
where one message ends and the next begins means nothing. Lives on the loop thread.
"""

from collections.abc import Sequence
from http import HTTPStatus

import wsproto
from wsproto import events
from wsproto.connection import ConnectionState
from wsproto.utilities import ProtocolError

from amqp1_driver.eventloop.errors import ConnectError, Disconnected, join_host_port
from amqp1_driver.eventloop.handler import TransportHandler
from amqp1_driver.eventloop.loop import EventLoop
from amqp1_driver.eventloop.timers import Timer
from amqp1_driver.eventloop.transport import Transport

#: the largest message that is sent; as much is held masked and unsent
_CHUNK = 64 * 1024
#: what a refusal's body may hold that is worth showing
_BODY = 200


class Codec:
    """The client's end of a WebSocket as bytes in, bytes out.

    ``output`` is what is to be sent next. After feed() returned: ``opened`` tells whether data
    may be sent, ``ended`` says why nothing more will come, None while it may.

    :param host: with the port, if it is not 443; for the header Host
    :param subprotocols: that are offered, the best first
    """

    def __init__(self, host: str, path: str, subprotocols: Sequence[str]) -> None:
        self._ws = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
        self._refusal = ""
        self._body = b""
        self.opened = False
        self.ended: str | None = None
        #: the subprotocol that the peer has chosen
        self.subprotocol: str | None = None
        request = events.Request(host=host, target=path, subprotocols=list(subprotocols))
        self.output = memoryview(self._ws.send(request))

    def feed(self, data: bytes) -> bytes:
        """Bytes from the peer; returns the data in them."""
        stream: list[bytes] = []
        try:
            self._ws.receive_data(data)
            for event in self._ws.events():
                self._on_event(event, stream)
        except ProtocolError as error:
            self._end(f"it broke the WebSocket protocol ({error})" if self.opened
                      else f"it speaks no WebSocket ({error})")
        return stream[0] if len(stream) == 1 else b"".join(stream)

    def wrap(self, data: bytes | memoryview) -> None:
        """Data to the output, which is empty, as one message."""
        self.output = memoryview(self._ws.send(events.BytesMessage(data=bytes(data))))

    def close(self) -> None:
        """Say good-bye; not waited for."""
        if self.opened and self.ended is None:
            self._reply(events.CloseConnection(code=1000))
            self.ended = "closed"

    def _reply(self, event: events.Event) -> None:
        self.output = memoryview(bytes(self.output) + self._ws.send(event))

    def _end(self, reason: str) -> None:
        if self.ended is None:
            self.ended = reason

    def _on_event(self, event: events.Event, stream: list[bytes]) -> None:
        if isinstance(event, events.BytesMessage):
            if event.data:
                stream.append(bytes(event.data))
        elif isinstance(event, events.AcceptConnection):
            self.opened = True
            self.subprotocol = event.subprotocol
        elif isinstance(event, events.Ping):
            self._reply(event.response())
        elif isinstance(event, events.CloseConnection):
            self._on_close(event)
        elif isinstance(event, events.TextMessage):
            self._end("the peer sent text over the WebSocket")
        else:
            self._on_refusal(event)

    def _on_close(self, event: events.CloseConnection) -> None:
        # wsproto says so too of a message that it does not understand
        broken = self._ws.state is ConnectionState.OPEN
        if self.ended is None:
            self._reply(event.response())
        reason = f" ({event.reason})" if event.reason else ""
        self._end(f"it broke the WebSocket protocol{reason}" if broken else
                  f"the peer closed the WebSocket with code {event.code}{reason}")

    def _on_refusal(self, event: events.Event) -> None:
        if isinstance(event, events.RejectConnection):
            self._refusal = f"the WebSocket was refused: HTTP {status(event.status_code)}"
            if not event.has_body:
                self._end(self._refusal)
        elif isinstance(event, events.RejectData):
            self._body = (self._body + event.data)[:_BODY]
            if event.body_finished:
                self._end(self.refusal or "")

    @property
    def refusal(self) -> str | None:
        """What the peer said instead of opening, as far as it has come; None: nothing."""
        if not self._refusal:
            return None
        text = " ".join(self._body.decode("utf-8", "replace").split())
        return f"{self._refusal}: {text}" if text else self._refusal


def status(code: int) -> str:
    """``401 Unauthorized``."""
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return str(code)


class WebSocket:
    """Looks like a transport to the owner and like an owner to the transport.

    :param timeout: seconds for everything until connected() is called
    """

    def __init__(self, loop: EventLoop, owner: TransportHandler, host: str, port: int, path: str,
                 subprotocols: Sequence[str], timeout: float) -> None:
        self._loop = loop
        self._owner = owner
        self._host = host
        self._port = port
        self._path = path
        self._subprotocols = subprotocols
        self._timeout = timeout
        self._codec: Codec | None = None
        self._description = ""
        self._error: Exception | None = None
        self._timer: Timer | None = None
        self._deadline = 0.0
        #: set by whoever makes both
        self.transport: Transport

    # -- the owner's calls -----------------------------------------------------------------

    def start(self) -> None:
        """Begin to connect; see Transport.start()."""
        self._deadline = self._loop.now() + self._timeout
        self.transport.start()

    def flush(self) -> None:
        """Send what there is."""
        self.transport.flush()

    def close(self) -> None:
        """Send what is there, then say good-bye and close."""
        self.transport.flush()
        if self._codec is not None and not self._codec.output:
            self._codec.close()
        self.transport.close()

    # -- the transport's calls -------------------------------------------------------------

    def connected(self, description: str) -> None:
        """TCP and TLS are up: ask for the WebSocket."""
        self._description = description
        host = self._host if self._port == 443 else join_host_port(self._host, self._port)
        self._codec = Codec(host, self._path, self._subprotocols)
        self._timer = self._loop.call_at(self._deadline, self._too_slow)

    def data_received(self, data: bytes) -> None:
        """From the peer."""
        codec = self._codec
        if codec is None:
            return
        opened = codec.opened
        stream = codec.feed(data)
        if codec.opened and not opened:
            self._stop_timer()
            chosen = codec.subprotocol or "no subprotocol"
            self._owner.connected(f"{self._description}, WebSocket ({chosen})")
        if stream:
            self._owner.data_received(stream)
        if codec.ended is not None:
            self._fail(codec.ended)
        else:
            self.transport.flush()

    def pending_output(self) -> memoryview | bytes | None:
        """What is masked already, or the next message made of what the owner has."""
        codec = self._codec
        if codec is None:
            return None
        if not codec.output and codec.opened and codec.ended is None:
            data = self._owner.pending_output()
            if data:
                chunk = bytes(data[:_CHUNK])
                del data  # a view: the owner's buffer must be free to change
                codec.wrap(chunk)
                self._owner.output_written(len(chunk))
        return codec.output

    def output_written(self, n: int) -> None:
        """So much of it has gone."""
        if self._codec is not None:
            self._codec.output = self._codec.output[n:]

    def connection_lost(self, exc: Exception | None) -> None:
        """The end: what ended the WebSocket tells more than what ended TCP after it."""
        self._stop_timer()
        codec, self._codec = self._codec, None
        if self._error is None and exc is not None and codec is not None and not codec.opened:
            reason = getattr(exc, "reason", None) or str(exc)
            self._error = ConnectError(
                self._host, self._port, codec.refusal or f"no answer to the WebSocket: {reason}")
        self._owner.connection_lost(self._error or exc)

    # -- inner -----------------------------------------------------------------------------

    def _too_slow(self) -> None:
        self._timer = None
        refusal = self._codec.refusal if self._codec is not None else None
        self._fail(refusal or f"no answer to the WebSocket within {self._timeout:g} s")

    def _fail(self, reason: str) -> None:
        opened = self._codec is not None and self._codec.opened
        kind = Disconnected if opened else ConnectError
        self._error = kind(self._host, self._port, reason)
        self.transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
