# SPDX-License-Identifier: Apache-2.0

"""The SASL mechanism EXTERNAL in front of an engine (AMQP 1.0, 5.3); on the I/O thread.

The identity is that of the TLS client certificate. proton would refuse the mechanism, because the
event loop does TLS and proton does not know of it. Therefore this module makes the exchange itself;
the exchange has only four frames. Sans-I/O.
"""

import struct
from typing import Any

from amqp1_driver import codec, exceptions

_HEADER = b"AMQP\x03\x01\x00\x00"
_SASL_FRAME = 1
_MECHANISMS, _OUTCOME = 0x40, 0x44
_MAX_FRAME = 4096


def _init(mechanism: bytes) -> bytes:
    """Make a frame sasl-init (5.3.3.2) with an empty initial response."""
    fields = b"\xa3" + bytes([len(mechanism)]) + mechanism + b"\xa0\x00"
    body = b"\x00\x53\x41\xc0" + bytes([1 + len(fields), 2]) + fields
    return struct.pack(">IBBH", 8 + len(body), 2, _SASL_FRAME, 0) + body


class ExternalSasl:
    """A proxy for an engine that passes bytes on once the peer has accepted SASL EXTERNAL.

    :param engine: an engine without SASL of its own
    :param handler: its ``engine_closed`` gets the reason if SASL fails
    :param anonymous: whether to accept ANONYMOUS if the peer does not offer EXTERNAL; TLS has
        identified us already
    """

    def __init__(self, engine: Any, handler: Any, anonymous: bool = False) -> None:
        self._anonymous = anonymous
        self._mechanism = "EXTERNAL"
        self._engine = engine
        self._handler = handler
        self._input = b""
        self._output = memoryview(_HEADER)
        self._done = False
        self._failed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    @property
    def sasl_over(self) -> bool:
        """Return whether SASL is over: all further bytes belong to the engine."""
        return self._done

    def receive(self, data: bytes) -> None:
        """Take bytes from the peer; discard them once SASL has failed."""
        if self._done:
            self._engine.receive(data)
            return
        self._input += bytes(data)
        if not self._failed:
            self._advance()

    def output(self) -> memoryview | None:
        """Return the bytes to send next, None if there are none."""
        if self._output:
            return self._output
        return self._engine.output() if self._done else None

    def output_written(self, count: int) -> bool:
        """Remove ``count`` bytes from the output: the socket has taken them.

        :returns: False if there is certainly no further output at present
        """
        if self._output:
            self._output = self._output[count:]
            return True
        return bool(self._engine.output_written(count))

    def process(self, now: float) -> float:
        """Run the engine's ``process``, but only after SASL.

        :returns: as the engine does; 0 (no deadline) during SASL
        """
        return float(self._engine.process(now)) if self._done else 0.0

    # -- inner ---------------------------------------------------------------

    def _advance(self) -> None:
        """Process the complete SASL frames of the input."""
        if self._input[:8] == _HEADER[: len(self._input[:8])]:
            start = 8
        else:
            self._fail(f"the peer does not offer SASL: {bytes(self._input[:8])!r}")
            return
        while len(self._input) >= start + 8:
            size, doff, kind = struct.unpack_from(">IBB", self._input, start)
            if kind != _SASL_FRAME or size < 8 or size > _MAX_FRAME or doff < 2:
                self._fail("malformed SASL frame")
                return
            if len(self._input) < start + size:
                return
            body = self._input[start + doff * 4 : start + size]
            self._input = self._input[:8] + self._input[start + size :]
            if self._frame(body):
                return

    def _frame(self, body: bytes) -> bool:
        """Process the body of one SASL frame.

        :returns: whether the exchange is over, with or without success
        """
        try:
            value, _ = codec.decode(body, 0)
        except exceptions.DecodeError as error:
            self._fail(f"malformed SASL frame: {error}")
            return True
        fields = getattr(value, "value", None)
        if not isinstance(fields, list):
            self._fail("malformed SASL frame: not a described list")
            return True
        code, first = value.descriptor, fields[0] if fields else None
        if code == _MECHANISMS:
            names = [str(n) for n in first] if isinstance(first, list) else [str(first or "")]
            if self._anonymous and "EXTERNAL" not in names and "ANONYMOUS" in names:
                self._mechanism = "ANONYMOUS"
            elif "EXTERNAL" not in names:
                self._fail(f"the peer offers {', '.join(names)} but not EXTERNAL")
                return True
            self._output = memoryview(bytes(self._output) + _init(self._mechanism.encode()))
            return False
        if code == _OUTCOME:
            if type(first) is int and first == 0:
                self._done = True
                rest, self._input = self._input[8:], b""
                if rest:
                    self._engine.receive(rest)
            else:
                self._fail(f"{self._mechanism} refused (code {'?' if first is None else first})")
            return True
        self._fail(f"unexpected SASL frame {code}")
        return True

    def _fail(self, reason: str) -> None:
        self._failed = True
        self._handler.engine_closed(
            "amqp:unauthorized-access", f"SASL: {exceptions.printable(reason)}"
        )
