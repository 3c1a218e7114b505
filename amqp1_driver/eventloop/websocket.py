# SPDX-License-Identifier: Apache-2.0

"""A byte stream over a WebSocket (RFC 6455), between a transport and its owner; loop thread.

wsproto implements the protocol. This module makes the request and turns messages into a stream;
the boundaries of messages mean nothing.
"""

from collections.abc import Sequence
from http.client import responses

import wsproto
from wsproto import events
from wsproto.connection import ConnectionState
from wsproto.utilities import ProtocolError

from amqp1_driver.eventloop.errors import ConnectError, Disconnected, join_host_port
from amqp1_driver.eventloop.timers import Timer
from amqp1_driver.eventloop.transport import Transport, TransportHandler
from amqp1_driver.exceptions import printable

#: largest message that we send, bytes of payload; at most one message is held masked and unsent
_CHUNK = 64 * 1024
#: bytes of a refusal's body that an error shows
_BODY = 200


class Codec:
    """The client's end of a WebSocket as bytes in, bytes out. Lives on the loop thread.

    ``output`` holds the bytes to send next. After feed(), ``opened`` is True if data may be sent.
    ``ended`` is None while more may come from the peer, else the reason why nothing more comes.

    :param host: value of the header Host, with the port if that is not 443
    :param subprotocols: the subprotocols on offer, the best first
    """

    def __init__(self, host: str, path: str, subprotocols: Sequence[str]) -> None:
        self._ws = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
        self._refusal = ""
        self._body = b""
        self._ping: events.Ping | None = None
        self.opened = False
        self.ended: str | None = None
        #: the subprotocol that the peer has chosen, None if none
        self.subprotocol: str | None = None
        request = events.Request(host=host, target=path, subprotocols=list(subprotocols))
        self.output = memoryview(self._ws.send(request))

    def feed(self, data: bytes) -> bytes:
        """Take bytes from the peer and return the data in them, which may be empty."""
        stream: list[bytes] = []
        try:
            self._ws.receive_data(data)
            for event in self._ws.events():
                self._on_event(event, stream)
                if self.ended is not None:
                    break
        # wsproto decodes headers of the answer as ASCII; UnicodeDecodeError is a ValueError
        except (ProtocolError, ValueError) as error:
            reason = printable(error)
            self.ended = f"it speaks no WebSocket ({reason})"
            if self.opened:
                self.ended = f"it broke the WebSocket protocol ({reason})"
        if not self.output:
            self.answer_ping()
        return b"".join(stream)

    def wrap(self, data: bytes | memoryview) -> None:
        """Put data as one message into the output, which must be empty."""
        self.output = memoryview(self._ws.send(events.BytesMessage(data=bytes(data))))

    def answer_ping(self) -> None:
        """Put the answer to the latest ping into the output, which must be empty.

        Earlier unanswered pings need no answer (RFC 6455, 5.5.3). So at most one pong is queued for
        a peer that sends pings and reads nothing.
        """
        ping, self._ping = self._ping, None
        if ping is not None and self.ended is None:
            self.output = memoryview(self._ws.send(ping.response()))

    def close(self) -> None:
        """Append a close frame with code 1000 to the output, without waiting for the answer."""
        if self.opened and self.ended is None:
            self._reply(events.CloseConnection(code=1000))
            self.ended = "closed"

    def _reply(self, event: events.Event) -> None:
        self.output = memoryview(bytes(self.output) + self._ws.send(event))

    def _on_event(self, event: events.Event, stream: list[bytes]) -> None:
        match event:
            case events.BytesMessage():
                stream.append(bytes(event.data))
            case events.AcceptConnection():
                self.opened = True
                self.subprotocol = event.subprotocol
            case events.Ping():
                self._ping = event
            case events.CloseConnection():
                self._on_close(event)
            case events.TextMessage():
                self.ended = "the peer sent text over the WebSocket"
            case events.RejectConnection():
                status = f"{event.status_code} {responses.get(event.status_code, '')}".rstrip()
                self._refusal = f"the WebSocket was refused: HTTP {status}"
                if not event.has_body:
                    self.ended = self._refusal
            case events.RejectData():
                self._body = (self._body + event.data)[:_BODY]
                if event.body_finished:
                    self.ended = self.refusal

    def _on_close(self, event: events.CloseConnection) -> None:
        # if wsproto does not understand a message, it makes a CloseConnection of it too, but stays
        # in the state OPEN
        what = f"the peer closed the WebSocket with code {event.code}"
        if self._ws.state is ConnectionState.OPEN:
            what = "it broke the WebSocket protocol"
        self._reply(event.response())
        self.ended = what + (f" ({printable(event.reason)})" if event.reason else "")

    @property
    def refusal(self) -> str | None:
        """Return the peer's refusal with the body received so far; None if it has not refused."""
        if not self._refusal:
            return None
        text = printable(" ".join(self._body.decode("utf-8", "replace").split()))
        return f"{self._refusal}: {text}" if text else self._refusal


class WebSocket:
    """A layer between an owner and a transport. Lives on the loop thread.

    The WebSocket looks like a transport to its owner, and like an owner to its transport.

    :param timeout: seconds for everything until the owner's connected() is called
    """

    def __init__(
        self,
        owner: TransportHandler,
        host: str,
        port: int,
        path: str,
        subprotocols: Sequence[str],
        timeout: float,
    ) -> None:
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
        #: set by the code that makes this object and the transport
        self.transport: Transport

    # -- the owner's calls -----------------------------------------------------------------

    def start(self) -> None:
        """Begin to connect; see Transport.start()."""
        self.transport.start()
        # the transport's own time-out comes first, so this one means the WebSocket
        self._timer = self.transport.guard.call_later(self._timeout, self._too_slow)

    def flush(self) -> None:
        """Send the output; see Transport.flush()."""
        self.transport.flush()

    def close(self) -> None:
        """Send the output, then a close frame, and close the transport.

        The close frame is left out if the socket does not take all output at once.
        """
        self.transport.flush()
        if self._codec is not None and not self._codec.output:
            self.transport.guard.run(self._codec.close)
        self.transport.close()

    # -- the transport's calls -------------------------------------------------------------

    def connected(self, description: str) -> None:
        """Request the WebSocket from the peer: TCP and TLS are up."""
        self._description = description
        host = self._host if self._port == 443 else join_host_port(self._host, self._port)
        self._codec = Codec(host, self._path, self._subprotocols)

    def data_received(self, data: bytes) -> None:
        """Take bytes from the peer, and pass the data in them on to the owner."""
        codec = self._codec
        if codec is None:
            return
        opened = codec.opened
        stream = codec.feed(data)
        if codec.opened and not opened:
            self._stop_timer()
            chosen = codec.subprotocol or "no subprotocol"
            self._owner.connected(f"{self._description}, WebSocket ({chosen})")
        if stream and self._codec is not None:
            self._owner.data_received(stream)
        if self._codec is None:
            return  # the owner has called close()
        if codec.ended is not None:
            self._fail(codec.ended)
        else:
            self.transport.flush()

    def pending_output(self) -> memoryview | bytes | None:
        """Return the masked bytes that wait, else the next message made of the owner's output."""
        codec = self._codec
        if codec is None:
            return None
        if not codec.output:
            codec.answer_ping()
        if not codec.output and codec.opened and codec.ended is None:
            data = self._owner.pending_output()
            if data:
                chunk = bytes(data[:_CHUNK])
                del data  # the owner cannot change its buffer while this view exists
                codec.wrap(chunk)
                self._owner.output_written(len(chunk))
        return codec.output

    def output_written(self, n: int) -> None:
        """Drop the first ``n`` bytes of the output, which the transport has taken."""
        if self._codec is not None:
            self._codec.output = self._codec.output[n:]

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass the end of the connection on to the owner.

        If the WebSocket has failed, the owner gets the error of the WebSocket: it says more than
        the error of TCP that follows.
        """
        try:
            codec, self._codec = self._codec, None
            self._stop_timer()
            if self._error is None and exc is not None and codec is not None and not codec.opened:
                reason = getattr(exc, "reason", None) or str(exc)
                self._error = ConnectError(
                    self._host, self._port, codec.refusal or f"no answer to the WebSocket: {reason}"
                )
        finally:
            self._owner.connection_lost(self._error or exc)

    # -- inner -----------------------------------------------------------------------------

    def _too_slow(self) -> None:
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
