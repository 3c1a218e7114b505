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

"""Copies of an encoded message, each with a number and a message-id of its own. Pure."""

from __future__ import annotations

#: of a message's number, which is text so that all messages are equally long
DIGITS = 10
_ID_DIGITS = 8


class Copies:
    """Replaces what tells a message from others by something of the same length.

    So lengths that are encoded before remain right, whatever the encoding is.

    :param message: encoded; its number is 0, written as so many digits
    :param identity: its message-id, as it is in there; drivers drop what comes twice
    :raises ValueError: one of them is not there, or more than once
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
        """The copy with this number, from 0 to 4294967295."""
        return self._form % {b"n": number, b"i": number}
