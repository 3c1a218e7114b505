# SPDX-License-Identifier: Apache-2.0

"""A guard that checks the peer's SASL frames (AMQP 1.0, 5.3) before proton; on the I/O thread.

With SCRAM the peer has to prove that it knows the password too: its second challenge contains a
signature (RFC 5802, section 3). proton has three gaps here:

- proton believes an outcome "ok" that comes without the signature;
- proton ignores the additional data of an outcome, where a peer may put the signature instead;
- proton reads an outcome without a code as "ok".

The guard therefore hands the frames to proton one by one. It turns a signature in the outcome into
the challenge that Cyrus SASL expects. It accepts "ok" only after Cyrus SASL has accepted two
challenges. Sans-I/O.
"""

import struct
from collections.abc import Callable
from typing import Any

from amqp1_driver import codec, exceptions

_HEADER = b"AMQP\x03\x01\x00\x00"
_SASL_FRAME = 1
_MECHANISMS, _CHALLENGE, _OUTCOME = 0x40, 0x42, 0x44
_OK = 0
#: Bytes. A real frame is far smaller; proton offers to receive 512 bytes.
_MAX_FRAME = 65536
#: SCRAM has two challenges: one with the salt, one with the signature of the server.
_SCRAM, _SCRAM_CHALLENGES = "SCRAM-", 2
#: Mechanisms that send the password, or an equivalent token, in clear.
CLEAR = frozenset({"PLAIN", "LOGIN", "XOAUTH2", "OAUTHBEARER"})

_UNPROVEN = (
    "the bus says ok to {mechanism} but has not proven that it knows the password: it "
    "may not be the bus that it claims to be"
)


class SaslGuard:
    """A filter between the bytes of the peer and proton until SASL is over.

    :param feed: hands bytes to proton
    :param sasl: proton's SASL object of the connection
    :param fail: gets the reason, once, if the guard refuses the exchange
    :param in_clear: gets the mechanism that is about to send the password in clear; None: the
        connection is encrypted, or there is no password
    :param done: the guard calls this when proton may get all further bytes directly
    """

    def __init__(
        self,
        feed: Callable[[Any], None],
        sasl: Any,
        fail: Callable[[str], None],
        in_clear: Callable[[str], None] | None,
        done: Callable[[], None],
    ) -> None:
        self._feed = feed
        self._sasl = sasl
        self._fail = fail
        self._in_clear = in_clear
        self._done = done
        self._input = b""
        self._begun = False
        self._offered = False
        self._over = False
        self._mechanism = ""
        self._challenges = 0

    def receive(self, data: Any) -> None:
        """Take bytes of the peer and pass on the frames that are valid."""
        if self._over:
            self._feed(data)
            return
        self._input += bytes(data)
        if not self._begun and not self._begin():
            return
        while not self._over and len(self._input) >= 8:
            size, doff, kind = struct.unpack_from(">IBB", self._input)
            if kind != _SASL_FRAME or doff < 2 or not doff * 4 <= size <= _MAX_FRAME:
                self._refuse("malformed SASL frame")
            elif len(self._input) < size:
                return
            else:
                frame, self._input = self._input[:size], self._input[size:]
                self._frame(frame, frame[doff * 4 :])

    def _begin(self) -> bool:
        """Pass on the protocol header.

        :returns: False until the header is complete, and for a header that is not SASL's
        """
        header = self._input[:8]
        if header != _HEADER[: len(header)]:
            self._pass_on()  # proton reports which protocol it is instead
            return False
        if len(header) < 8:
            return False
        self._begun = True
        self._input = self._input[8:]
        self._feed(header)
        return True

    def _frame(self, frame: bytes, body: bytes) -> None:
        """Check one frame and pass it on, or refuse the exchange."""
        if not body:
            return  # an empty frame only keeps the connection alive
        try:
            value, _ = codec.decode(body, 0)
            code, fields = value.descriptor, list(value.value)
        except (exceptions.DecodeError, AttributeError, TypeError) as error:
            self._refuse(f"malformed SASL frame: {error}")
            return
        if code not in (_CHALLENGE, _OUTCOME) if self._offered else code != _MECHANISMS:
            self._refuse(f"unexpected SASL frame {code!r}")
        elif code == _MECHANISMS:
            self._mechanisms(frame)
        elif code == _CHALLENGE:
            self._challenges += 1
            self._step(frame)
        else:
            self._outcome(fields)

    def _mechanisms(self, frame: bytes) -> None:
        """Let proton choose a mechanism; report a mechanism that shows the password."""
        self._offered = True
        if self._step(frame):
            self._mechanism = str(self._sasl.mech)
            if self._in_clear is not None and self._mechanism in CLEAR:
                self._in_clear(self._mechanism)

    def _step(self, frame: bytes) -> bool:
        """Let proton answer a frame.

        :returns: False if SASL has failed
        """
        self._feed(frame)
        if self._sasl.outcome is None:
            return True
        self._refuse(None)  # proton reports the reason
        return False

    def _outcome(self, fields: list[Any]) -> None:
        """Pass on the outcome, unless it is "ok" without the proof that SCRAM requires."""
        code = fields[0] if fields else None
        if type(code) is not int or not 0 <= code < 256:
            self._refuse("malformed SASL outcome")
            return
        if code == _OK and self._mechanism.startswith(_SCRAM):
            signature = fields[1] if len(fields) > 1 else None
            if self._challenges == 1 and isinstance(signature, bytes):
                # proton sends no response to this challenge: proton gets the outcome before the
                # engine asks for output.
                self._challenges = _SCRAM_CHALLENGES
                if not self._step(challenge(signature)):
                    return
            if self._challenges != _SCRAM_CHALLENGES:
                self._refuse(_UNPROVEN.format(mechanism=self._mechanism))
                return
        # not the frame of the peer: proton reads a code of another type as "ok"
        self._feed(outcome(code))
        self._pass_on()

    def _pass_on(self) -> None:
        """End the checks and pass on the remaining input."""
        self._over = True
        rest, self._input = self._input, b""
        self._done()
        if rest:
            self._feed(rest)

    def _refuse(self, reason: str | None) -> None:
        """Refuse the exchange and discard all further input.

        :param reason: None: proton reports the failure itself
        """
        self._over = True
        self._input = b""
        self._feed = _drop
        if reason is not None:
            self._fail(f"SASL: {reason}")


def challenge(data: bytes) -> bytes:
    """Return a sasl-challenge frame (5.3.3.3) with this data."""
    field = struct.pack(">BI", 0xB0, len(data)) + data
    return _frame(b"\x00\x53\x42\xd0" + struct.pack(">II", 4 + len(field), 1) + field)


def outcome(code: int) -> bytes:
    """Return a sasl-outcome frame (5.3.3.5) with this code."""
    return _frame(b"\x00\x53\x44\xc0\x03\x01\x50" + bytes([code]))


def _frame(body: bytes) -> bytes:
    return struct.pack(">IBBH", 8 + len(body), 2, _SASL_FRAME, 0) + body


def _drop(data: Any) -> None:
    """Discard input."""
