#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""SASL EXTERNAL in front of an engine (AMQP 1.0, 5.3).

The identity is that of the TLS client certificate.  TLS is done outside of
proton, which therefore does not know that there is one and would refuse the
mechanism; the exchange is four frames, so it is made here.

Sans-I/O; lives on the I/O thread.
"""

import struct
from typing import Any

from amqp1_driver import codec, exceptions

_HEADER = b"AMQP\x03\x01\x00\x00"
_SASL_FRAME = 1
_MECHANISMS, _OUTCOME = 0x40, 0x44
_MAX_FRAME = 4096
# sasl-init (0x41): list8 of mechanism and an empty initial response
_INIT_BODY = b"\x00\x53\x41\xc0\x0d\x02\xa3\x08EXTERNAL\xa0\x00"
_INIT = struct.pack(">IBBH", 8 + len(_INIT_BODY), 2, _SASL_FRAME, 0) + _INIT_BODY


class ExternalSasl:
    """Looks like the engine behind it; passes bytes on once the peer has agreed.

    :param engine: an engine without SASL of its own
    :param handler: told of a refusal
    """

    def __init__(self, engine: Any, handler: Any) -> None:
        self._engine = engine
        self._handler = handler
        self._input = b""
        self._output = memoryview(_HEADER)
        self._done = False
        self._failed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def receive(self, data: bytes) -> None:
        if self._done:
            self._engine.receive(data)
            return
        self._input += bytes(data)
        if not self._failed:
            self._advance()

    def output(self) -> memoryview | None:
        if self._output:
            return self._output
        return self._engine.output() if self._done else None

    def output_written(self, count: int) -> None:
        if self._output:
            self._output = self._output[count:]
        else:
            self._engine.output_written(count)

    def process(self, now: float) -> float:
        return float(self._engine.process(now)) if self._done else 0.0

    # -- inner ---------------------------------------------------------------

    def _advance(self) -> None:
        if self._input[:8] == _HEADER[:len(self._input[:8])]:
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
            body = self._input[start + doff * 4:start + size]
            self._input = self._input[:8] + self._input[start + size:]
            if self._frame(body):
                return

    def _frame(self, body: bytes) -> bool:
        """One SASL frame; True when the exchange is over."""
        try:
            value, _ = codec.decode(body, 0)
            code, fields = value.descriptor, value.value
        except (exceptions.DecodeError, AttributeError) as error:
            self._fail(f"malformed SASL frame: {error}")
            return True
        if code == _MECHANISMS:
            offered = fields[0] if fields else []
            names = [str(n) for n in offered] if isinstance(offered, list) else [str(offered)]
            if "EXTERNAL" not in names:
                self._fail(f"the peer offers {', '.join(names)} but not EXTERNAL")
                return True
            self._output = memoryview(bytes(self._output) + _INIT)
            return False
        if code == _OUTCOME:
            if fields and fields[0] == 0:
                self._done = True
                rest, self._input = self._input[8:], b""
                if rest:
                    self._engine.receive(rest)
            else:
                self._fail(f"EXTERNAL refused (code {fields[0] if fields else '?'})")
            return True
        self._fail(f"unexpected SASL frame {code!r}")
        return True

    def _fail(self, reason: str) -> None:
        self._failed = True
        self._handler.engine_closed("amqp:unauthorized-access", f"SASL: {reason}")
