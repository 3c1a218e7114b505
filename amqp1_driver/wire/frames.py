# SPDX-License-Identifier: Apache-2.0

"""Codec of AMQP 1.0 frames (2.3, 5.3) and protocol headers (2.2)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from . import types
from .performatives import Composite
from .types import WireError

AMQP, SASL = 0, 1  # frame types


@dataclass(frozen=True)
class Header:
    """A protocol header; ``protocol`` is 0 AMQP, 2 TLS, 3 SASL (2.2, 5.2.1, 5.3.1)."""

    protocol: int = 0
    major: int = 1
    minor: int = 0
    revision: int = 0

    def encode(self) -> bytes:
        """Return the 8 bytes of the header."""
        return b"AMQP" + bytes((self.protocol, self.major, self.minor, self.revision))


AMQP_HEADER, SASL_HEADER = Header(0), Header(3)


def frame_type(performative: Any) -> int:
    """Return the type of the frames for a performative; None is an empty frame."""
    return SASL if performative is not None and 0x40 <= performative.code <= 0x44 else AMQP


@dataclass(frozen=True)
class Frame:
    """A frame; ``performative`` None is an empty frame (2.4.5: keeps the connection alive)."""

    channel: int = 0
    performative: Any = None
    payload: bytes = b""
    type: int = AMQP

    def encode(self) -> bytes:
        """Encode the frame: size, data offset, type, channel, body."""
        body = b"" if self.performative is None else types.encode(self.performative)
        size = 8 + len(body) + len(self.payload)
        return struct.pack(">IBBH", size, 2, self.type, self.channel) + body + self.payload


class FrameReader:
    """A parser that collects bytes and returns headers and frames.

    ``max_frame_size`` is the limit that this side announced, in bytes; a larger frame is a
    WireError.
    """

    def __init__(self, max_frame_size: int = 4294967295) -> None:
        self.max_frame_size = max_frame_size
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Append received bytes."""
        self._buffer += data

    def pending(self) -> int:
        """Return the number of bytes that wait for the rest of their frame."""
        return len(self._buffer)

    def peek(self, size: int) -> bytes:
        """Return up to ``size`` waiting bytes without removing them."""
        return bytes(self._buffer[:size])

    def drain(self) -> bytes:
        """Remove and return all waiting bytes, e.g. for the protocol that follows SASL."""
        return self._take(len(self._buffer))

    def truncate(self, size: int) -> int:
        """Discard waiting bytes beyond ``size``; return the number of bytes left."""
        del self._buffer[size:]
        return len(self._buffer)

    def next(self) -> Header | Frame | None:
        """Return the next header or frame, None if it is incomplete.

        :raises WireError: the frame is malformed
        """
        if len(self._buffer) < 8:
            return None
        if self._buffer[:4] == b"AMQP":
            return Header(*self._take(8)[4:])
        size, doff, kind, channel = struct.unpack_from(">IBBH", self._buffer)
        if size < 8 or doff < 2 or doff * 4 > size or kind not in (AMQP, SASL):
            raise WireError(f"not an AMQP frame: {bytes(self._buffer[:16])!r}")
        if size > self.max_frame_size:
            raise WireError(f"frame of {size} bytes, {self.max_frame_size} announced")
        if len(self._buffer) < size:
            return None
        return _frame(kind, channel, self._take(size)[doff * 4 :])

    def _take(self, size: int) -> bytes:
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data


def _frame(kind: int, channel: int, body: bytes) -> Frame:
    if not body:
        return Frame(channel, type=kind)
    performative, end = types.decode(body)
    if not isinstance(performative, Composite):
        raise WireError(f"frame body is {performative!r}, not a performative")
    if frame_type(performative) != kind:
        raise WireError(f"{type(performative).__name__} in a frame of type {kind}")
    return Frame(channel, performative, body[end:], kind)
