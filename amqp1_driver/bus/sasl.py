# SPDX-License-Identifier: Apache-2.0

"""Server side of the SASL layer (AMQP 1.0 part 5.3): ANONYMOUS, PLAIN, EXTERNAL.

Sans-I/O, on the bus thread. The bus has its own implementation because proton's server side asks
Cyrus, which requires a user database on disk. The class consumes bytes until the layer is done and
passes the rest on.
"""

from __future__ import annotations

import enum
import hmac
from collections.abc import Mapping

from amqp1_driver.wire.frames import AMQP_HEADER, SASL, SASL_HEADER, Frame, FrameReader, Header
from amqp1_driver.wire.performatives import (
    Composite,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)
from amqp1_driver.wire.types import Array, WireError

_OK, _AUTH = 0, 1
#: SASL frames may not be larger than MIN-MAX-FRAME-SIZE, in bytes (5.3.1).
_MAX_FRAME = 512
#: Constructor of the symbols in sasl-mechanisms: sym8 (1.6.21).
_SYM8 = 0xA3


class State(enum.Enum):
    """State of the SASL layer; DONE and FAILED are final."""

    HEADER = "waiting for the protocol header"
    INIT = "waiting for sasl-init"
    RESPONSE = "waiting for sasl-response"
    DONE = "authenticated, or no SASL asked"
    FAILED = "refused: send what is pending, then close"


class SaslServer:
    """The SASL layer of one connection.

    Without users and without a client certificate the server accepts every client (ANONYMOUS).

    :param users: name -> password
    :param external: name from the TLS layer; an attribute, because the layer may find it later
    :param anonymous: further mechanisms, which accept every client without a name
    """

    def __init__(
        self,
        users: Mapping[str, str],
        external: str | None = None,
        anonymous: tuple[str, ...] = (),
    ) -> None:
        self._users = users
        self.external = external
        self._anonymous = anonymous
        self.state = State.HEADER
        self.user: str | None = None
        self.mechanism: str | None = None
        self.output = bytearray()
        self._frames = FrameReader(_MAX_FRAME)

    @property
    def mechanisms(self) -> list[str]:
        """Return the mechanisms that the server offers."""
        offered = ["EXTERNAL"] if self.external is not None else []
        if self._users:
            offered.append("PLAIN")
        return offered + list(self._anonymous) or ["ANONYMOUS"]

    def feed(self, data: bytes) -> bytes:
        """Take input; once the state is DONE, return the bytes for the layer above."""
        if self.state is State.FAILED:
            return b""
        self._frames.feed(data)
        try:
            self._read()
        except WireError:
            self.state = State.FAILED
        return self._frames.drain() if self.state is State.DONE else b""

    def _read(self) -> None:
        if self.state is State.HEADER and not self._header():
            return
        while self.state in (State.INIT, State.RESPONSE):
            frame = self._frames.next()
            if frame is None:
                return
            self._on_frame(frame)

    def _header(self) -> bool:
        """Process the protocol header; return False when more input is needed."""
        head = self._frames.peek(8)
        # A TLS hello or other foreign bytes: answer at once with the supported protocol (2.2).
        if len(head) < 8 and b"AMQP".startswith(head[:4]):
            return False
        if head == SASL_HEADER.encode():
            self._frames.next()
            self.output += head
            self._send(SaslMechanisms(sasl_server_mechanisms=Array(_SYM8, self.mechanisms)))
            self.state = State.INIT
        elif head == AMQP_HEADER.encode() and (
            self.external is not None or not (self._users or self._anonymous)
        ):
            # A client may skip SASL if its certificate or nothing has to authenticate it.
            self.user = self.external
            self.state = State.DONE
        else:
            self.output += SASL_HEADER.encode()
            self.state = State.FAILED
        return True

    def _on_frame(self, frame: Header | Frame) -> None:
        got = frame.performative if isinstance(frame, Frame) else None
        if self.state is State.INIT and isinstance(got, SaslInit):
            self.mechanism = got.mechanism
            self._answer(got.initial_response)
        elif self.state is State.RESPONSE and isinstance(got, SaslResponse):
            self._answer(got.response)
        else:
            raise WireError(f"unexpected SASL frame: {frame}")

    def _answer(self, response: bytes | None) -> None:
        """Check a response, or request one when the client sent none in its sasl-init."""
        if self.mechanism not in self.mechanisms:
            self._outcome(False)
        elif response is None and self.mechanism == "PLAIN":
            self.state = State.RESPONSE
            self._send(SaslChallenge(challenge=b""))
        elif self.mechanism == "PLAIN":
            self._outcome(self._plain(response or b""))
        else:
            self.user = self.external if self.mechanism == "EXTERNAL" else "anonymous"
            self._outcome(True)

    def _plain(self, response: bytes) -> bool:
        """Check a PLAIN response (RFC 4616): authzid NUL authcid NUL password."""
        parts = response.split(b"\0")
        if len(parts) != 3:
            return False
        name = parts[1].decode("utf-8", "replace")
        expected = self._users.get(name)
        self.user = name
        return expected is not None and hmac.compare_digest(expected.encode(), parts[2])

    def _outcome(self, ok: bool) -> None:
        self._send(SaslOutcome(outcome=_OK if ok else _AUTH))
        if ok:
            # The AMQP header of the client follows the outcome (5.3.2).
            self.state = State.DONE
        else:
            self.user = None
            self.state = State.FAILED

    def _send(self, performative: Composite) -> None:
        self.output += Frame(0, performative, type=SASL).encode()
