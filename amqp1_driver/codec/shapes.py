# SPDX-License-Identifier: Apache-2.0

"""Fast decoder for messages of the same shape as an earlier one. Pure, for any thread.

The messages of one kind of sender differ only in the time-to-live, the ids, the reply address and
the body. All of these but the body mostly have the same length. After the decoder has decoded one
such message in full, one call of ``struct`` splits the next one, and one comparison checks that
all bytes between the differing fields are the same. That is a sixth of the work. The decoder
decodes every message of another shape in full.
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
#: positions of the properties that differ from message to message (3.2.4)
_MESSAGE_ID, _REPLY_TO, _CORRELATION_ID = 0, 4, 5
_VARYING = (_MESSAGE_ID, _REPLY_TO, _CORRELATION_ID)
#: bytes between the header of a request and its fields; they hold sizes: key of the shape
_KEY = slice(13, 21)
#: most shapes that a decoder keeps
_LIMIT = 64
#: most messages that a decoder decodes in full before it learns another shape
_PATIENCE = 1024
#: the decoder does not copy a body of at least this many bytes
_LARGE = 65536

Span = tuple[int, int]


class Outline:
    """The offsets of the differing parts in one encoded, well-formed message.

    A span has the offsets of a part's content; (0, 0) for a part that the message lacks.
    """

    def __init__(self, data: bytes) -> None:
        #: spans of time-to-live, message-id, reply-to and correlation-id, in this order
        self.spans: list[Span] = []
        #: offset of the body's value; 0: no shape can be learned from this message
        self.body = 0
        at, section, before = 0, 0, 0
        ttl: Span = (0, 0)
        fields: dict[int, Span] = {}
        while at < len(data) and data[at : at + 2] == b"\x00\x53":
            before, section, at = section, data[at + 2], at + 3
            if section <= before:
                break  # a section twice or in another order: learn no shape
            if section in (_VALUE, _DATA):
                # The body must be last: Shape.decode() refuses messages with bytes behind it.
                if fields and data[at] in _FORMS and skip(data, at) == len(data):
                    self.body = at
                break
            if (
                section == _HEADER
                and data[at : at + 3] == b"\xc0\x08\x03"
                and data[at + 3 : at + 6] in USUAL_HEADER
            ):
                ttl = at + 6, at + 10
            elif section == _PROPERTIES:
                fields = _strings(data, at)
            at = skip(data, at)
        self.spans = [ttl, *(fields.get(n, (0, 0)) for n in _VARYING)]


def _strings(data: bytes, at: int) -> dict[int, Span]:
    """Return, by position, the spans of the differing fields that are short strings."""
    count, at, _ = open_list(data, at)
    found = {}
    for number in range(min(count, _CORRELATION_ID + 1)):
        end = skip(data, at)
        if number in _VARYING and data[at] == _STR8 and end > at + 2:
            found[number] = at + 2, end
        at = end
    return found


class Shape:
    """The shape of messages that differ from a decoded one only in the parts of ``outline``."""

    __slots__ = ("alike", "fields", "id_at", "long", "short", "size", "unpack")

    def __init__(self, data: bytes, message: Message, outline: Outline) -> None:
        pieces, alike, at = [">"], [], 0
        for number, (start, end) in enumerate(outline.spans):
            if end:
                # The length byte of a string belongs to the bytes that must be the same.
                alike.append(data[at:start])
                pieces += f"{start - at}s", "I" if number == 0 else f"{end - start}s"
                at = end
            else:
                alike.append(b"")
                pieces += "0s", "0s"
        alike.append(data[at : outline.body])
        pieces.append(f"{outline.body - at}s")
        form = struct.Struct("".join(pieces))
        self.unpack: Callable[[bytes], tuple[Any, ...]] = form.unpack_from
        self.alike = tuple(alike)
        self.size = form.size
        self.short, self.long = _FORMS[data[outline.body]]
        differing = ("body", "ttl_ms") if outline.spans[0][1] else ("body",)
        self.fields = {
            name: value for name, value in vars(message).items() if name not in differing
        }
        self.id_at = outline.spans[1][0] - 2, outline.spans[1][1]

    def decode(self, data: bytes) -> Message | None:
        """Decode a message of this shape.

        :returns: None if the message has another shape, or needs the full decoder for its body or
            a text
        """
        at, size = self.size, len(data)
        if size <= at + 1:
            return None
        parts = self.unpack(data)
        code = data[at]
        if parts[::2] != self.alike:
            return None
        if code == self.short:
            start = at + 2
            end = start + data[at + 1]
        elif code == self.long:
            start = at + 5
            end = start + int.from_bytes(data[at + 1 : start], "big")
        else:
            return None
        if end != size:
            return None
        _, ttl, _, message_id, _, reply_to, _, correlation_id, _ = parts
        fields = {**self.fields}
        try:
            if message_id:
                fields["message_id"] = str(message_id, "utf-8")
                first, behind = self.id_at
                fields["message_id_raw"] = data[first:behind]
            if reply_to:
                fields["reply_to"] = str(reply_to, "utf-8")
            if correlation_id:
                fields["correlation_id"] = str(correlation_id, "utf-8")
        except UnicodeDecodeError:
            return None  # the error of the full decoder has the offset
        if ttl:
            fields["ttl_ms"] = ttl
        fields["body"] = data[start:end] if end - start < _LARGE else memoryview(data)[start:end]
        message = Message()
        message.__dict__ = fields
        return message


class Decoder:
    """A decoder for the messages of one link, with the results of :func:`decode_message`.

    For any thread; two threads at once may learn the same shape twice.
    """

    def __init__(self) -> None:
        self._shapes: dict[bytes, Shape] = {}
        self._pause = 0
        self._patience = 1
        self._used = True

    def decode(self, data: bytes) -> Message:
        """Decode one complete message.

        :raises DecodeError: the message is malformed
        """
        shape = self._shapes.get(data[_KEY])
        if shape is not None and (message := shape.decode(data)) is not None:
            self._used = True
            return message
        message = decode_message(data)
        if self._pause:
            self._pause -= 1
        else:
            self._learn(data, message)
        return message

    def _learn(self, data: bytes, message: Message) -> None:
        # If no message had the shape learned last, all may differ: double the pause.
        self._patience = 1 if self._used else min(2 * self._patience, _PATIENCE)
        self._pause, self._used = self._patience - 1, False
        outline = Outline(data)
        if outline.body:
            if len(self._shapes) >= _LIMIT:
                self._shapes.clear()
            self._shapes[data[_KEY]] = Shape(data, message, outline)
