# SPDX-License-Identifier: Apache-2.0

"""Server side of the SASL layer (AMQP 1.0 part 5.3): ANONYMOUS, PLAIN, EXTERNAL.

Sans-I/O, on the bus thread. The bus has its own implementation because proton's server side asks
Cyrus, which requires a user database on disk. The class consumes bytes until the layer is done and
passes the rest on.
"""

from __future__ import annotations

import enum
import hmac
import struct
from collections.abc import Mapping

from .primitives import (
    Malformed,
    read_bytes,
    read_described_list,
    write_binary,
    write_described_list,
    write_symbols,
)

AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
_MECHANISMS, _INIT, _CHALLENGE, _RESPONSE, _OUTCOME = 0x40, 0x41, 0x42, 0x43, 0x44
_OK, _AUTH = 0, 1
#: SASL frames may not be larger than MIN-MAX-FRAME-SIZE, in bytes (5.3.1).
_MAX_FRAME = 512


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
    :param external: name from the TLS layer
    :param anonymous: further mechanisms, which accept every client without a name
    """

    def __init__(
        self,
        users: Mapping[str, str],
        external: str | None = None,
        anonymous: tuple[str, ...] = (),
    ) -> None:
        self._users = users
        self._external = external
        self._anonymous = anonymous
        self.mechanisms = self._offer()
        self.state = State.HEADER
        self.user: str | None = None
        self.mechanism: str | None = None
        self.output = bytearray()
        self._input = bytearray()

    def _offer(self) -> list[str]:
        offered = ["EXTERNAL"] if self._external is not None else []
        if self._users:
            offered.append("PLAIN")
        return offered + list(self._anonymous) or ["ANONYMOUS"]

    def feed(self, data: bytes) -> bytes:
        """Take input; once the state is DONE, return the bytes for the layer above."""
        if self.state is State.FAILED:
            return b""
        self._input += data
        try:
            while self.state not in (State.DONE, State.FAILED) and self._step():
                pass
        except Malformed:
            self.state = State.FAILED
        if self.state is not State.DONE:
            return b""
        rest = bytes(self._input)
        self._input.clear()
        return rest

    def _step(self) -> bool:
        """Process one header or frame; return False when more input is needed."""
        if self.state is State.HEADER:
            return self._header()
        if len(self._input) < 8:
            return False
        size, offset, kind = struct.unpack_from(">IBB", self._input)
        if kind != 1 or offset < 2 or not offset * 4 <= size <= _MAX_FRAME:
            raise Malformed("not a SASL frame")
        if len(self._input) < size:
            return False
        frame = bytes(self._input[offset * 4 : size])
        del self._input[:size]
        self._frame(frame)
        return True

    def _header(self) -> bool:
        if len(self._input) < 8:
            # A TLS hello or other foreign bytes: answer at once with the supported protocol (2.2).
            if not SASL_HEADER.startswith(self._input[:4]) and self._input:
                self._refuse_protocol()
            return False
        header = bytes(self._input[:8])
        if header == SASL_HEADER:
            del self._input[:8]
            self.output += SASL_HEADER
            self._send(_MECHANISMS, [write_symbols(self.mechanisms)])
            self.state = State.INIT
        elif header == AMQP_HEADER and self._optional:
            self.user = self._external
            self.state = State.DONE
        else:
            self._refuse_protocol()
        return True

    @property
    def _optional(self) -> bool:
        """Return whether a client may skip SASL.

        It may if no authentication is required or if its certificate has authenticated it already.
        """
        return self._external is not None or not (self._users or self._anonymous)

    def _refuse_protocol(self) -> None:
        self.output += SASL_HEADER
        self.state = State.FAILED

    def _frame(self, frame: bytes) -> None:
        performative = read_described_list(frame, 0)
        fields = [read_bytes(f) for f in performative.fields]
        if self.state is State.INIT and performative.code == _INIT and fields:
            self.mechanism = (fields[0] or b"").decode("ascii", "replace")
            self._answer(fields[1] if len(fields) > 1 else None)
        elif self.state is State.RESPONSE and performative.code == _RESPONSE and fields:
            self._answer(fields[0] or b"")
        else:
            raise Malformed("unexpected SASL frame")

    def _answer(self, response: bytes | None) -> None:
        """Check a response, or request one when the client sent none in its sasl-init."""
        if self.mechanism not in self.mechanisms:
            self._outcome(False)
        elif response is None and self.mechanism == "PLAIN":
            self.state = State.RESPONSE
            self._send(_CHALLENGE, [write_binary(b"")])
        elif self.mechanism == "PLAIN":
            self._outcome(self._plain(response or b""))
        else:
            self.user = self._external if self.mechanism == "EXTERNAL" else "anonymous"
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
        self._send(_OUTCOME, [bytes((0x50, _OK if ok else _AUTH))])
        if ok:
            # The AMQP header of the client follows the outcome (5.3.2).
            self.state = State.DONE
        else:
            self.user = None
            self.state = State.FAILED

    def _send(self, code: int, fields: list[bytes]) -> None:
        body = write_described_list(code, fields)
        self.output += struct.pack(">IBBH", len(body) + 8, 2, 1, 0) + body
