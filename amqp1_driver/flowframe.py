# SPDX-License-Identifier: Apache-2.0

"""Flow and Attach frames (AMQP 1.0, 2.7.3 and 2.7.4) in the bytes of a connection.

Proton neither reads nor writes ``echo``, and does not expose the handle of a link. Both are in the
bytes that proton takes and gives. No I/O; lives on the connection's I/O thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

#: first bytes of the performative of a Flow frame: descriptor 0x13 as a smallulong
FLOW = b"\x00\x53\x13"
_LAST = FLOW[-1]
_ATTACH = b"\x00\x53\x12"
_DESCRIPTOR = 3
#: bytes of a frame's header: size, data offset, type and channel (2.3.1)
_HEADER = 8
#: bytes 4 and 5 of a header: data offset of two words, and the type of AMQP frames (2.3.1)
_AMQP = b"\x02\x00"
#: type code of a list -> bytes of its size field, and of its count field
_LISTS = {0xC0: 1, 0xD0: 4}
_NULL, _TRUE, _FALSE, _UINT = b"\x40", b"\x41", b"\x42", b"\x70"
_BOOLEAN_TRUE = b"\x56\x01"
#: upper half of a type code -> bytes of a value of a fixed width (1.2)
_FIXED = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
#: upper half of a type code -> bytes of the size field before a value of a variable width
_VARIABLE = {0xA: 1, 0xB: 4, 0xC: 1, 0xD: 4, 0xE: 1, 0xF: 4}
#: indexes of fields in a Flow; the fields before ``handle`` are about the session
_HANDLE, _DRAIN, _ECHO = 4, 8, 9
#: most possible places that one search examines: for Flow frames in received bytes, and for
#: Attach frames in bytes to be sent
_MOST_FLOWS, _MOST_ATTACHES = 200, 1000
#: most bytes of a Flow frame from its first byte to the end of ``echo``
MAX_ECHO_PREFIX = _HEADER + _DESCRIPTOR + 9 + _DRAIN * 5 + 2 * 2


def echoes(data: bytes, seen: int = 0) -> Iterator[bool]:
    """Find the Flow frames that ask for an echo; yield for each whether it is about a link.

    A place counts as a frame if descriptor, list and header agree on its size. The data need
    not contain the rest of a frame behind its ``echo``.

    :param seen: length of the part of ``data`` that was searched before; a frame whose ``echo``
        lies in that part does not count again
    """
    for at in _places(data, FLOW, _MOST_FLOWS):
        fields, end = _fields(data, at, _ECHO + 1)
        if end > seen and len(fields) > _ECHO and fields[_ECHO] in (_TRUE, _BOOLEAN_TRUE):
            yield fields[_HANDLE] != _NULL


class EchoRequests:
    """A search for Flow frames that ask for an echo, in a stream that comes in pieces."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def read(self, data: bytes) -> tuple[bool, ...]:
        """Search the next bytes of the stream; return what :func:`echoes` yields for them."""
        rest = self._rest
        self._rest = (rest + data[-MAX_ECHO_PREFIX:])[-MAX_ECHO_PREFIX:]
        # searching for one byte is fast even in a large message
        if _LAST in data or _LAST in rest:
            return tuple(echoes(rest + data, len(rest)))
        return ()


def handles(data: bytes, *, sender: bool) -> dict[bytes, int | None]:
    """Find the handles that Attach frames assign to links.

    :param sender: whether to find the frames of senders (True) or those of receivers (False)
    :returns: handles by link name; None for a name that several frames have
    """
    roles = (_FALSE, b"\x56\x00") if sender else (_TRUE, _BOOLEAN_TRUE)
    found: dict[bytes, int | None] = {}
    for at in _places(data, _ATTACH, _MOST_ATTACHES):
        fields, _ = _fields(data, at, 3)
        if len(fields) == 3 and fields[2] in roles:
            name = _text(fields[0])
            number = int.from_bytes(fields[1][1:], "big")
            found[name] = None if name in found else number
    return found


def drain_to_echo(frames: bytes) -> bytes:
    """Change the last Flow that has ``drain`` set: set ``echo`` instead.

    :param frames: whole frames
    :returns: the frames with that change
    :raises ValueError: there is no such Flow
    """
    at, fields = _last(frames, _drains)
    return _with(frames, at, [*fields[:_DRAIN], _FALSE, _TRUE])


def drain_to_state(frames: bytes) -> bytes:
    """Change the last Flow that has ``drain`` set: remove ``drain`` and ``echo``.

    The frame then only reports the state of the link.

    :param frames: whole frames
    :returns: the frames with that change
    :raises ValueError: there is no such Flow
    """
    at, fields = _last(frames, _drains)
    return _with(frames, at, fields[:_DRAIN])


def add_link_state(
    frames: bytes, number: int, count: int, credit: int, available: int | None = None
) -> bytes:
    """Change the last Flow that is about a session only: add the state of a link.

    :param frames: whole frames
    :param number: handle of the link at this end
    :param count: delivery-count
    :param credit: link-credit
    :param available: messages that wait; None: leave the field out
    :returns: the frames with that change
    :raises ValueError: there is no such Flow
    """
    at, fields = _last(frames, lambda fields: len(fields) == _HANDLE)
    said = [number, count, credit] if available is None else [number, count, credit, available]
    numbers = [_UINT + (value & 0xFFFFFFFF).to_bytes(4, "big") for value in said]
    return _with(frames, at, fields + numbers)


def _places(data: bytes, descriptor: bytes, most: int) -> Iterator[int]:
    """Find the first ``most`` places of a descriptor; a message may be full of such bytes."""
    at = -1
    for _ in range(most):
        at = data.find(descriptor, at + 1)
        if at < 0:
            return
        yield at


def _drains(fields: list[bytes]) -> bool:
    return len(fields) == _DRAIN + 1 and fields[_DRAIN] in (_TRUE, _BOOLEAN_TRUE)


def _last(frames: bytes, wanted: Callable[[list[bytes]], bool]) -> tuple[int, list[bytes]]:
    """Find the last Flow whose fields satisfy ``wanted``.

    :returns: offset of the frame, and its fields
    :raises ValueError: there is no such Flow
    """
    at, found = 0, None
    while at + _HEADER <= len(frames):
        if frames.startswith(FLOW, at + _HEADER):
            fields, _ = _fields(frames, at + _HEADER, _ECHO + 2)
            if wanted(fields):
                found = at, fields
        at += max(int.from_bytes(frames[at : at + 4], "big"), _HEADER)
    if found is None:
        raise ValueError("no Flow frame that can be changed")
    return found


def _with(frames: bytes, at: int, fields: list[bytes]) -> bytes:
    """Replace the Flow frame that begins at ``at`` by one with these fields."""
    values = b"".join(fields)
    # at most eleven fields, all of them numbers or booleans, are fewer than 255 bytes
    body = FLOW + bytes([0xC0, len(values) + 1, len(fields)]) + values
    frame = (_HEADER + len(body)).to_bytes(4, "big") + frames[at + 4 : at + _HEADER] + body
    return frames[:at] + frame + frames[at + int.from_bytes(frames[at : at + 4], "big") :]


def _fields(data: bytes, at: int, most: int) -> tuple[list[bytes], int]:
    """Read the first fields of a performative, each in its encoded form.

    :param at: offset of the performative's descriptor
    :param most: most fields to read
    :returns: the fields, and the offset of their end; no fields if header and list disagree about
        the size, because then there is no frame at this place
    """
    begin = at - _HEADER
    width = _LISTS.get(data[at + _DESCRIPTOR], 0) if len(data) > at + _DESCRIPTOR else 0
    first = at + _DESCRIPTOR + 1
    place = first + 2 * width
    if begin < 0 or not width or len(data) < place or data[begin + 4 : begin + 6] != _AMQP:
        return [], at
    end = first + width + int.from_bytes(data[first : first + width], "big")
    if begin + int.from_bytes(data[begin : begin + 4], "big") != end:
        return [], at
    fields: list[bytes] = []
    for _ in range(min(most, int.from_bytes(data[first + width : place], "big"))):
        after = _end(data, place)
        if after > min(end, len(data)):
            break
        fields.append(data[place:after])
        place = after
    return fields, place


def _end(data: bytes, at: int) -> int:
    """Return the offset at which a value ends; one past the end of ``data`` if unknown."""
    if at >= len(data):
        return at + 1
    kind = data[at] >> 4
    if kind in _FIXED:
        return at + 1 + _FIXED[kind]
    width = _VARIABLE.get(kind, 0)
    if not width or at + 1 + width > len(data):
        return len(data) + 1
    return at + 1 + width + int.from_bytes(data[at + 1 : at + 1 + width], "big")


def _text(field: bytes) -> bytes:
    """Return the bytes of an encoded string; no bytes if the value has another type."""
    return field[2:] if field[0] == 0xA1 else field[5:] if field[0] == 0xB1 else b""
