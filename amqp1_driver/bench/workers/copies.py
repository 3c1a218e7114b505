# SPDX-License-Identifier: Apache-2.0

"""Copies of an encoded message, each with a number and a message-id of its own. Pure."""

from __future__ import annotations

#: digits of a message's number, which is text so that all messages are equally long
DIGITS = 10
_ID_DIGITS = 8


class Copies:
    """A template for copies of a message, which differ in number and message-id.

    Each copy's number and message-id are as long as those of the message. So the lengths in the
    encoded message remain right, whatever the encoding is.

    :param message: the encoded message; its number is 0, written with ``DIGITS`` digits
    :param identity: the message-id as it stands in the message; copies need other ones, since
        drivers drop duplicates
    :raises ValueError: the number or the message-id is not in the message exactly once, or the
        message-id is too short
    """

    def __init__(self, message: bytes, identity: bytes) -> None:
        zero = b"0" * DIGITS
        if len(identity) < 2 * _ID_DIGITS:
            raise ValueError(f"the message-id {identity!r} is too short to be made unique")
        for part in (zero, identity):
            if message.count(part) != 1:
                raise ValueError(f"{part!r} is {message.count(part)} times in {message!r}")
        kept = identity[:-_ID_DIGITS]
        self._form = (
            message.replace(b"%", b"%%")
            .replace(identity.replace(b"%", b"%%"), kept.replace(b"%", b"%%") + b"%(i)08x")
            .replace(zero, b"%%(n)0%dd" % DIGITS)
        )

    def copy(self, number: int) -> bytes:
        """Return the copy with this number, from 0 to 4294967295."""
        return self._form % {b"n": number, b"i": number}
