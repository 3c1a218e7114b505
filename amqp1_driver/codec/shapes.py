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

"""Decoding by recognition: messages of one link look alike.

Of what one kind of sender writes only the time-to-live, the ids, the reply address and the body
differ from message to message, and all but the body mostly have the same length. Once one such
message has been decoded, the next is taken apart by one call into C and one comparison of all
that stands between, a sixth of the work. Whatever does not look the same is decoded in full.
"""

import struct
from collections.abc import Callable
from typing import Any

from amqp1_driver.codec.decoder import skip
from amqp1_driver.codec.reader import USUAL_HEADER, Message, decode_message, open_list

_HEADER, _PROPERTIES, _DATA, _VALUE = 0x70, 0x73, 0x75, 0x77
_STR8 = 0xA1
#: short and long form of strings and of binaries (1.6.19, 1.6.20)
_FORMS = {0xA1: (0xA1, 0xB1), 0xB1: (0xA1, 0xB1), 0xA0: (0xA0, 0xB0), 0xB0: (0xA0, 0xB0)}
#: fields of the properties that differ, by position (3.2.4)
_MESSAGE_ID, _REPLY_TO, _CORRELATION_ID = 0, 4, 5
_VARYING = (_MESSAGE_ID, _REPLY_TO, _CORRELATION_ID)
#: what is between the header of a request and its fields: tells lengths apart
_KEY = slice(13, 21)
#: shapes that are kept
_LIMIT = 64
#: messages decoded in full before another shape is learned, at most
_PATIENCE = 1024
#: a body of so many bytes is not copied
_LARGE = 65536

Span = tuple[int, int]


class Outline:
    """Where in an encoded message that is known to be well-formed the differing parts are.

    Spans are offsets of the content, empty for what is not there.
    """

    def __init__(self, data: bytes) -> None:
        #: of time-to-live, message-id, reply-to and correlation-id, in this order
        self.spans: list[Span] = []
        #: offset of the body's value, 0: this message has no shape
        self.body = 0
        at, section = 0, 0
        ttl: Span = (0, 0)
        fields: dict[int, Span] = {}
        while at < len(data) and data[at:at + 2] == b"\x00\x53":
            section, at = data[at + 2], at + 3
            if section in (_VALUE, _DATA):
                break
            if (section == _HEADER and data[at:at + 3] == b"\xc0\x08\x03"
                    and data[at + 3:at + 6] in USUAL_HEADER):
                ttl = at + 6, at + 10
            elif section == _PROPERTIES:
                fields = _strings(data, at)
            at = skip(data, at)
        if section in (_VALUE, _DATA) and fields and data[at] in _FORMS:
            self.body = at
        self.spans = [ttl, *(fields.get(n, (0, 0)) for n in _VARYING)]


def _strings(data: bytes, at: int) -> dict[int, Span]:
    """The content of those fields that differ and are short strings."""
    count, at, _ = open_list(data, at)
    found = {}
    for number in range(min(count, _CORRELATION_ID + 1)):
        end = skip(data, at)
        if number in _VARYING and data[at] == _STR8 and end > at + 2:
            found[number] = at + 2, end
        at = end
    return found


class Shape:
    """Messages that differ from one that was decoded in nothing but what ``outline`` names."""

    __slots__ = ("alike", "fields", "id_at", "long", "short", "size", "unpack")

    def __init__(self, data: bytes, message: Message, outline: Outline) -> None:
        pieces, alike, at = [">"], [], 0
        for number, (start, end) in enumerate(outline.spans):
            if end:
                # of a string the length in front is among what has to be alike
                alike.append(data[at:start])
                pieces += f"{start - at}s", "I" if number == 0 else f"{end - start}s"
                at = end
            else:
                alike.append(b"")
                pieces += "0s", "0s"
        alike.append(data[at:outline.body])
        pieces.append(f"{outline.body - at}s")
        form = struct.Struct("".join(pieces))
        self.unpack: Callable[[bytes], tuple[Any, ...]] = form.unpack_from
        self.alike = tuple(alike)
        self.size = form.size
        self.short, self.long = _FORMS[data[outline.body]]
        differing = ("body", "ttl_ms") if outline.spans[0][1] else ("body",)
        self.fields = {name: value for name, value in vars(message).items()
                       if name not in differing}
        self.id_at = outline.spans[1][0] - 2, outline.spans[1][1]


class Decoder:
    """Decodes the messages of a link as :func:`decode_message` does, by what it has seen.

    Any thread: two at once may learn the same twice.
    """

    def __init__(self) -> None:
        self._shapes: dict[bytes, Shape] = {}
        self._pause = 0
        self._patience = 1
        self._used = True

    def decode(self, data: bytes) -> Message:
        """One complete message.

        :raises DecodeError: it is malformed
        """
        shape = self._shapes.get(data[_KEY])
        if shape is not None and len(data) > shape.size + 1:
            parts = shape.unpack(data)
            if parts[::2] == shape.alike:
                message = _alike(shape, data, parts)
                if message is not None:
                    self._used = True
                    return message
        message = decode_message(data)
        if self._pause:
            self._pause -= 1
        else:
            self._learn(data, message)
        return message

    def _learn(self, data: bytes, message: Message) -> None:
        # what was learned last has been of no use: these messages may all be different
        self._patience = 1 if self._used else min(2 * self._patience, _PATIENCE)
        self._pause, self._used = self._patience - 1, False
        outline = Outline(data)
        if outline.body:
            if len(self._shapes) >= _LIMIT:
                self._shapes.clear()
            self._shapes[data[_KEY]] = Shape(data, message, outline)


def _alike(shape: Shape, data: bytes, parts: tuple[Any, ...]) -> Message | None:
    """The message, None if its body is not as usual."""
    at = shape.size
    code = data[at]
    if code == shape.short:
        start = at + 2
        end = start + data[at + 1]
    elif code == shape.long:
        start = at + 5
        end = start + int.from_bytes(data[at + 1:start], "big")
    else:
        return None
    if end != len(data):
        return None
    _, ttl, _, message_id, _, reply_to, _, correlation_id, _ = parts
    fields = shape.fields.copy()
    try:
        if message_id:
            fields["message_id"] = str(message_id, "utf-8")
            first, behind = shape.id_at
            fields["message_id_raw"] = data[first:behind]
        if reply_to:
            fields["reply_to"] = str(reply_to, "utf-8")
        if correlation_id:
            fields["correlation_id"] = str(correlation_id, "utf-8")
    except UnicodeDecodeError:
        return None  # decoded in full it says where
    if ttl:
        fields["ttl_ms"] = ttl
    fields["body"] = data[start:end] if end - start < _LARGE else memoryview(data)[start:end]
    message = Message()
    message.__dict__ = fields
    return message
