# SPDX-License-Identifier: Apache-2.0

"""The outline of encoded values (AMQP 1.0 part 1): where they end, and their parts still encoded.

A reader of the outline skips values without decoding them, which is much faster. Malformed input
raises :class:`~amqp1_driver.wire.types.WireError`.
"""

from __future__ import annotations

import struct

from .types import WireError

#: ``_FIXED``: high nibble of the constructor (1.2, figure 1.3) -> bytes of a fixed-width value.
#: ``_WHOLE``: constructor -> bytes of constructor and value, 0 if the width is not fixed.
_FIXED = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
_WHOLE = tuple(1 + _FIXED[code >> 4] if code >> 4 in _FIXED else 0 for code in range(256))
#: Width in bytes of the size prefix of variable-width, compound and array values.
_SIZED = {0xA: 1, 0xB: 4, 0xC: 1, 0xD: 4, 0xE: 1, 0xF: 4}
LIST, MAP = (0xC0, 0xD0), (0xC1, 0xD1)


def value_end(data: bytes, at: int) -> int:
    """Return the offset just behind the value that begins at ``at``."""
    try:
        constructor = data[at]
        end = at + _WHOLE[constructor]
        if end == at:
            if constructor == 0x00:
                return value_end(data, value_end(data, at + 1))
            width = _SIZED[constructor >> 4]
            end = at + 1 + width + int.from_bytes(data[at + 1 : at + 1 + width], "big")
    except (IndexError, KeyError, RecursionError) as exc:
        raise WireError(f"no AMQP value at offset {at}") from exc
    if end > len(data):
        raise WireError(f"the value at offset {at} ends {end - len(data)} bytes too late")
    return end


def read_descriptor(data: bytes, at: int) -> tuple[int, int]:
    """Return the numeric descriptor of the described value at ``at`` and the offset behind it.

    The result for a symbolic descriptor is -1: no section or performative has that number.
    """
    try:
        if data[at] != 0x00:
            raise WireError(f"no described value at offset {at}")
        kind = data[at + 1]
        if kind == 0x53:
            return data[at + 2], at + 3
        if kind == 0x80:
            return int(struct.unpack_from(">Q", data, at + 2)[0]), at + 10
    except (IndexError, struct.error) as exc:
        raise WireError(f"the descriptor at offset {at} is cut short") from exc
    return -1, value_end(data, at + 1)


def read_compound(data: bytes, at: int, kind: tuple[int, int] = LIST) -> tuple[list[bytes], int]:
    """Read the list (``LIST``) or map (``MAP``: keys and values in turn) at ``at``.

    :returns: the elements, still encoded, and the offset behind the list or map
    """
    end = value_end(data, at)
    short, long = kind
    constructor = data[at]
    if constructor == 0x45 and kind == LIST:
        return [], end
    if constructor == short and end - at >= 3:
        count, here = data[at + 2], at + 3
    elif constructor == long and end - at >= 9:
        count, here = int.from_bytes(data[at + 5 : at + 9], "big"), at + 9
    else:
        raise WireError(f"no {'list' if kind == LIST else 'map'} at offset {at}")
    elements = []
    for _ in range(count):
        if here >= end:
            break
        after = here + _WHOLE[data[here]]
        if after == here:
            after = value_end(data, here)
        elements.append(data[here:after])
        here = after
    if here != end or len(elements) < count or (kind == MAP and count % 2):
        raise WireError(f"the compound at offset {at} is not as long as it says")
    return elements, end


def read_bytes(value: bytes) -> bytes | None:
    """Return the contents of an encoded binary, string or symbol; None for null."""
    constructor = value[0]
    if constructor == 0x40:
        return None
    if constructor in (0xA0, 0xA1, 0xA3):
        return value[2:]
    if constructor in (0xB0, 0xB1, 0xB3):
        return value[5:]
    raise WireError(f"constructor {constructor:#04x} is neither binary, string nor symbol")


def read_uint(value: bytes) -> int | None:
    """Return the value of an encoded uint; None for null."""
    constructor = value[0]
    if constructor == 0x40:
        return None
    if constructor in (0x43, 0x52, 0x70):
        return int.from_bytes(value[1:], "big")
    raise WireError(f"constructor {constructor:#04x} is not a uint")


def write_uint(value: int) -> bytes:
    """Encode a uint in its shortest form, faster than :func:`~amqp1_driver.wire.types.encode`."""
    if value == 0:
        return b"\x43"
    return bytes((0x52, value)) if value < 256 else b"\x70" + struct.pack(">I", value)
