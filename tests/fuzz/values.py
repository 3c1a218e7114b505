# SPDX-License-Identifier: Apache-2.0

"""Make values, messages and frames of AMQP 1.0 from the bytes of a fuzzer.

A fuzzer that mutates bytes alone hardly ever gets past the size of the first frame. So the bytes
are read as choices: which performative, how many fields, which type. Most choices are legal,
some are not (a size that lies, a code that no type has). The encoder is this module's own: it
has to be able to write what the driver's would refuse to.
"""

from __future__ import annotations

import struct

from tests.fuzz.choices import Choices

#: performatives of the transport (2.7), of SASL (5.3.3), delivery states (3.4), other types
TRANSPORT = (0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18)
SASL = (0x40, 0x41, 0x42, 0x43, 0x44)
STATES = (0x23, 0x24, 0x25, 0x26, 0x27)
DESCRIPTORS = (*TRANSPORT, *STATES, 0x1D, 0x28, 0x29, 0x2B, 0x30, 0x34, 0x35, 0x70, 0x77)
SECTIONS = (0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78)

_TEXTS = (
    b"",
    b"a",
    b"amqp:internal-error",
    b"amqp:link:redirect",
    b"amqp:connection:redirect",
    b"amqp:not-found",
    b"amqp:resource-deleted",
    b"ANONYMOUS-RELAY",
    b"PLAIN",
    b"EXTERNAL",
    b"ANONYMOUS",
    b"SCRAM-SHA-256",
    b"hostname",
    b"network-host",
    b"port",
    b"address",
    b"product",
    b"RabbitMQ",
    b"version",
    b"4.3.0",
    b"4.0.5",
    b"qpid-cpp",
    b"skupper-router",
    b"apache-activemq-artemis",
    b"queue",
    b"reply.1",
    b"unique",
    b"m1",
    b"gzip",
    b"application/json",
    b"\xff\xfe",
    b"line\nbreak\x1b[31m",
    b"x" * 300,
    b"200",
    b"declare-1",
    b"status-code",
    b"x-opt-enqueued-time",
    b"/queues/q",
    b"amqp:accepted:list",
)
_NUMBERS = (
    0,
    1,
    2,
    3,
    5,
    10,
    100,
    127,
    128,
    255,
    256,
    511,
    512,
    4096,
    16384,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
_DEEPEST = 6


def number(choices: Choices) -> int:
    """Return a number at which something often changes, or any of 16 bits."""
    if choices.byte() & 0xC0:
        return choices.one_of(_NUMBERS)
    return choices.number(2)


def text(choices: Choices) -> bytes:
    """Return a text that means something somewhere, or any bytes."""
    if choices.byte() & 0xC0:
        return choices.one_of(_TEXTS)
    return choices.take(choices.byte() & 0x1F)


def value(choices: Choices, depth: int = 0) -> bytes:
    """Return one encoded value (1.6); now and then no legal one."""
    kind = choices.byte() % 24
    if kind >= 20 and depth >= _DEEPEST:
        kind = 0
    if kind == 0:
        return b"\x40"
    if kind == 1:
        return choices.one_of((b"\x41", b"\x42", b"\x56\x00", b"\x56\x01", b"\x56\x02"))
    if kind in (2, 3):
        n = number(choices) & 0xFFFFFFFF
        return b"\x43" if n == 0 else b"\x52" + bytes((n,)) if n < 256 else b"\x70" + _u32(n)
    if kind in (4, 5):
        n = number(choices) & 0xFFFFFFFFFFFFFFFF
        return (
            b"\x44"
            if n == 0
            else b"\x53" + bytes((n,))
            if n < 256
            else (b"\x80" + struct.pack(">Q", n))
        )
    if kind == 6:
        return b"\x50" + bytes((number(choices) & 0xFF,))
    if kind == 7:
        return b"\x60" + struct.pack(">H", number(choices) & 0xFFFF)
    if kind == 8:
        n = number(choices) & 0xFFFFFFFF
        return choices.one_of(
            (
                b"\x71" + _u32(n),
                b"\x54" + bytes((n & 0xFF,)),
                b"\x81" + struct.pack(">q", n - 2**31),
                b"\x55\xff",
                b"\x51\x80",
                b"\x61\x80\x00",
                b"\x73" + _u32(n),
            )
        )
    if kind == 9:
        return b"\x83" + struct.pack(">Q", number(choices) & 0xFFFFFFFFFFFFFFFF)
    if kind == 10:
        return choices.one_of(
            (
                b"\x72\x7f\xc0\x00\x00",
                b"\x82" + b"\x7f\xf0" + bytes(6),
                b"\x98" + bytes(16),
                b"\x74" + bytes(4),
                b"\x84" + bytes(8),
                b"\x94" + bytes(16),
            )
        )
    if kind in (11, 12, 13):
        return _variable(0xA3, text(choices))
    if kind in (14, 15, 16):
        return _variable(0xA1, text(choices))
    if kind in (17, 18):
        return _variable(0xA0, text(choices))
    if kind == 19:
        # a code that no type has, or a size that lies
        return choices.one_of(
            (
                b"\x00",
                b"\x99",
                b"\xb0\xff\xff\xff\xff",
                b"\xa1\xff",
                b"\xc0\x00\x05",
                b"\xd0\x00\x00\x00\x02\x00\x00\x00\xff",
                b"\xf0\x00\x00\x00\x09\x00\x00\x00\x05\xa3\x01a",
                b"\xe0\x02\x01",
                b"\xc1\x03\x01\x40\x40",
            )
        )
    if kind == 20:
        return described(choices, choices.one_of(DESCRIPTORS), depth)
    if kind == 21:
        return compound(0xC0, [value(choices, depth + 1) for _ in range(choices.byte() & 7)])
    if kind == 22:
        return compound(0xC1, [value(choices, depth + 1) for _ in range((choices.byte() & 3) * 2)])
    items = [text(choices) for _ in range(choices.byte() & 3)]
    body = b"".join(struct.pack(">I", len(item)) + item for item in items)
    return b"\xf0" + _u32(len(body) + 5) + _u32(len(items)) + b"\xb3" + body


def described(choices: Choices, descriptor: int, depth: int = 0) -> bytes:
    """Return a described list of some fields."""
    fields = [value(choices, depth + 1) for _ in range(choices.byte() % 15)]
    return b"\x00\x53" + bytes((descriptor,)) + compound(0xC0, fields)


def compound(code: int, items: list[bytes]) -> bytes:
    """Return a list (0xC0) or map (0xC1) of encoded items."""
    body = b"".join(items)
    if len(body) < 255 and len(items) < 256:
        return bytes((code, len(body) + 1, len(items))) + body
    return bytes((code + 0x10,)) + _u32(len(body) + 4) + _u32(len(items)) + body


def frame(choices: Choices, codes: tuple[int, ...], kind: int = 0) -> bytes:
    """Return a frame (2.3): type ``kind``, with one of these performatives.

    Two times in three its fields are of the types that the performative has; the numbers are
    those of a young connection, so that handles and delivery ids often exist.
    """
    how = choices.byte()
    code = choices.one_of(codes)
    fields = _FIELDS.get(code, "")
    body = (
        b"\x00\x53" + bytes((code,)) + compound(0xC0, [_field(choices, f) for f in fields])
        if how % 3
        else described(choices, code)
    )
    if code == 0x14 or how & 0x40:
        body += message(choices) if how & 0x20 else choices.take(choices.byte())
    if how == 0xFF:
        body = choices.take(64)
    size = len(body) + 8
    if how == 0xFE:
        size = number(choices) & 0xFFFFFFFF
    doff = 2 if how != 0xFD else choices.byte()
    channel = choices.byte() & 3 if how != 0xFC else number(choices) & 0xFFFF
    return _u32(size & 0xFFFFFFFF) + bytes((doff, kind)) + struct.pack(">H", channel) + body


# u: small uint, b: boolean, s: string, y: symbol, n: null or anything, *: anything, o: source or
# target, e: error, d: delivery state, t: delivery tag, S: settle mode, m: map
_FIELDS = {
    0x10: "ssuuunnyyym",
    0x11: "nuuuunnm",
    0x12: "sububboo*buu*m",
    0x13: "uuuuuuuubbm",
    0x14: "uutubbbdbbb",
    0x15: "buubdb",
    0x16: "ube",
    0x17: "e",
    0x18: "e",
    0x40: "y",
    0x41: "yts",
    0x42: "t",
    0x43: "t",
    0x44: "ut",
}


def _field(choices: Choices, kind: str) -> bytes:
    how = choices.byte()
    if how > 0xE8:
        return value(choices, 1)
    if how > 0xD8:
        return b"\x40"
    if kind == "u":
        n = how & 3 if how < 0xB0 else number(choices) & 0xFFFFFFFF
        return b"\x43" if n == 0 else b"\x52" + bytes((n,)) if n < 256 else b"\x70" + _u32(n)
    if kind == "b":
        return b"\x41" if how & 1 else b"\x42"
    if kind == "s":
        return _variable(0xA1, text(choices))
    if kind == "y":
        return _variable(0xA3, text(choices))
    if kind == "t":
        return _variable(0xA0, text(choices))
    if kind == "d":
        return described(choices, choices.one_of(STATES), 2)
    if kind == "e":
        error = [
            _variable(0xA3, text(choices)),
            _variable(0xA1, text(choices)),
            compound(0xC1, [value(choices, 3) for _ in range((how & 3) * 2)]),
        ]
        return b"\x00\x53\x1d" + compound(0xC0, error)
    if kind == "o":
        terminus = [_variable(0xA1, text(choices))] + [value(choices, 3) for _ in range(how & 7)]
        return b"\x00\x53" + bytes((0x28 + (how & 1),)) + compound(0xC0, terminus)
    if kind == "m":
        return compound(0xC1, [value(choices, 2) for _ in range((how & 3) * 2)])
    return value(choices, 1)


def message(choices: Choices) -> bytes:
    """Return an encoded message (3.2): some sections, in any order."""
    parts = []
    for _ in range(1 + (choices.byte() & 3)):
        code = choices.one_of(SECTIONS)
        head = b"\x00\x53" + bytes((code,))
        if code in (0x70, 0x73):
            parts.append(
                head + compound(0xC0, [value(choices, 2) for _ in range(choices.byte() % 14)])
            )
        elif code in (0x71, 0x72, 0x74, 0x78):
            parts.append(
                head + compound(0xC1, [value(choices, 2) for _ in range((choices.byte() & 3) * 2)])
            )
        elif code == 0x75:
            parts.append(head + _variable(0xA0, json_text(choices)))
        else:
            parts.append(
                head
                + (_variable(0xA1, json_text(choices)) if choices.byte() & 1 else value(choices, 1))
            )
    return b"".join(parts)


#: sections as senders of this driver's kind write them: header with a time-to-live, properties,
#: application properties, body, footer
_USUAL = (
    bytes.fromhex("005370c00803404070000003e8"),
    bytes.fromhex("005373c01005a1026d3140a10171a10173a1026d31"),
    bytes.fromhex("005373d00000001700000006a1026d3240a10171a10173a1027231a1026d31"),
    bytes.fromhex("005374c10a02a1016ba10476616c31"),
    bytes.fromhex("005377a1027b7d"),
    bytes.fromhex("005375a0027b7d"),
    bytes.fromhex("005378c10100"),
)


def usual_message(choices: Choices) -> bytes:
    """Return an encoded message of usual sections, in any order, with one byte changed."""
    data = bytearray(b"".join(choices.one_of(_USUAL) for _ in range(1 + (choices.byte() & 3))))
    if choices.byte() & 1:
        data[choices.byte() % len(data)] = choices.byte()
    return bytes(data)


_JSON = (
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b'"',
    b'"request"',
    b'"context"',
    b'"response"',
    b'"failure"',
    b'"oslo.message"',
    b'"oslo.version"',
    b'"2.0"',
    b'"method"',
    b'"args"',
    b"null",
    b"true",
    b"1",
    b"-1e999",
    b"1e5",
    b"NaN",
    b'"\\ud800"',
    b'"call_monitor_timeout"',
    b'"{}"',
    b'"class"',
    b'"module"',
    b'"builtins"',
    b'"Exception"',
    b'"KeyError"',
    b'"kwargs"',
    b'"tail"',
    b'"message"',
    b"{}",
    b"[]",
    b'{"request": ',
    b'{"request": {"method": "m"}, ',
    b'"context": {}}',
    b'{"response": ',
    b'"\\u0000"',
    b"1" * 400,
)


def json_text(choices: Choices) -> bytes:
    """Return words of JSON in any order, or an exact object."""
    return b"".join(choices.one_of(_JSON) for _ in range(choices.byte() & 0x1F))


def _variable(code: int, data: bytes) -> bytes:
    if len(data) < 256:
        return bytes((code, len(data))) + data
    return bytes((code + 0x10,)) + _u32(len(data)) + data


def _u32(n: int) -> bytes:
    return struct.pack(">I", n)
