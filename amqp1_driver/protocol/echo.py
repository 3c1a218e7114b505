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

"""Echoes (AMQP 1.0, 2.7.4), which proton neither asks for nor tells of.

A peer answers a Flow frame that has its ``echo`` set with one of its own: then everything that
it sent before has come, and the frame says how many messages it has *available*.  Brokers answer
at once even where draining would have to wait until all credit is used up.

Proton writes no ``echo``: a Flow frame of its own is given one on its way out.  Of frames that
come in it keeps no ``available``: while an answer is awaited, and no longer, proton is asked for
its documented trace, which names all fields.  Sans-I/O; I/O thread only.
"""

import logging
import re
from collections import Counter, deque
from functools import partial
from typing import Any

import proton

LOG = logging.getLogger(__name__)

#: how a Flow frame (2.7.4) begins: descriptor, as proton writes it
_FLOW = b"\x00\x53\x13"
_LIST8, _LIST32 = 0xC0, 0xD0
_TRUE, _FALSE = b"\x41", b"\x42"
_RECEIVED = re.compile(r"<- @flow\(19\) \[(.*)\]")
_AVAILABLE = re.compile(r"\bavailable=(0x[0-9a-f]+|\d+)")
#: what nobody has asked for is forgotten beyond so many
_KEPT = 100


class Echo:
    """Asks for echoes on one connection, of which it keeps no reference."""

    def __init__(self) -> None:
        self._available: deque[int] = deque(maxlen=_KEPT)
        self._asking: Counter[int] = Counter()
        #: bytes that have left proton, to be sent before all others
        self.staged = b""

    def ask(self, link: Any, credit: int = 0) -> None:
        """Send the state of a receiving link with a question for an answer.

        :param credit: change of the link's credit that goes with it, negative to take it back
        """
        connection = link.connection
        if not self._asking:
            self._watch(connection, True)
        self._asking[id(link)] += 1
        before = _collect(connection)  # so that what comes next begins with a frame
        if credit:
            link.grant(credit)
        link._pn_link.drain(0)  # has proton write a Flow frame whatever the credit
        question = _collect(connection)
        try:
            question = with_echo(question)
        except ValueError as error:
            # it goes as it is: the link is drained then, or there is no answer
            LOG.warning("A Flow frame can't be given an echo: %s", error)
        link.grant(0)  # and takes that back, without another
        self.staged += before + question

    def answered(self, link: Any) -> int | None:
        """A Flow frame of the peer for a link.

        :returns: messages available to it, None if the peer does not say or was not asked
        """
        if id(link) not in self._asking:
            return None
        available = self._available.popleft() if self._available else None
        self._asking[id(link)] -= 1
        if not self._asking[id(link)]:
            self.forget(link)
        return available

    def forget(self, link: Any) -> None:
        """A link waits for no answer any more."""
        if id(link) in self._asking:
            del self._asking[id(link)]
            if not self._asking:
                self._watch(link.connection, False)
                self._available.clear()

    def written(self, count: int) -> None:
        """So many of the staged bytes were sent."""
        self.staged = self.staged[count:]

    def _watch(self, connection: Any, on: bool) -> None:
        transport = connection.pn_transport
        if transport is None or connection.traced:
            return  # the operator reads the trace
        if on:
            transport.tracer = partial(_trace, self._available)
        transport.trace(proton.Transport.TRACE_FRM if on else proton.Transport.TRACE_OFF)


def _collect(connection: Any) -> bytes:
    """All output that proton has."""
    parts = []
    path = connection.path
    while (data := path.output(connection)) is not None and len(data):
        parts.append(bytes(data))
        path.output_written(connection, len(data))
    return b"".join(parts)


def _trace(found: deque[int], transport: Any, message: str) -> None:
    flow = _RECEIVED.search(message)
    # only the sending end of a link says what it has
    available = flow and _AVAILABLE.search(flow.group(1))
    if available:
        found.append(int(available.group(1), 0))


def with_echo(frames: bytes) -> bytes:
    """Whole frames, of which the last Flow that drains shall ask for an echo instead.

    :raises ValueError: there is none, or none that can be read
    """
    at, found = 0, None
    while at < len(frames):
        size = int.from_bytes(frames[at:at + 4], "big")
        body = at + 4 * frames[at + 4]
        if frames[body:body + 3] == _FLOW and frames[at:at + size].endswith(_TRUE):
            found = at, size, body
        at += max(size, 8)
    if found is None:
        raise ValueError("no Flow frame to ask with")
    at, size, body = found
    fields = _longer(frames[body + 3:at + size])
    frame = (size + 1).to_bytes(4, "big") + frames[at + 4:body + 3] + fields
    return frames[:at] + frame + frames[at + size:]


def _longer(fields: bytes) -> bytes:
    """The list of a Flow's fields, of which drain is the last: false, with a true echo after it."""
    width = {_LIST8: 1, _LIST32: 4}.get(fields[0])
    if width is None:
        raise ValueError(f"a list with type code {fields[0]:#x}")
    size = int.from_bytes(fields[1:1 + width], "big") + 1
    count = int.from_bytes(fields[1 + width:1 + 2 * width], "big") + 1
    return (fields[:1] + size.to_bytes(width, "big") + count.to_bytes(width, "big")
            + fields[1 + 2 * width:-1] + _FALSE + _TRUE)
