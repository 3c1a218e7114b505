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

"""How many messages may be under way so that their bytes stay below a limit. Pure."""

from __future__ import annotations

#: bytes of a message before any was seen, and what each takes beside its own
FIRST, OVERHEAD = 1024 * 1024, 512
#: by so much of the difference the estimate goes down with each batch
EASE = 8


class Budget:
    """Credit is in messages, and nobody knows the size of one that is still at the bus: those
    that came last tell it. One thread at a time.

    It begins with few, a batch of larger messages counts at once, and one of smaller ones
    little by little.

    :param limit: bytes
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._each = float(min(FIRST, limit))
        #: the first batch says more than the guess
        self._guessed = True

    def seen(self, count: int, size: int) -> None:
        """A batch of so many messages has come.

        :param size: bytes of all of them
        """
        if count:
            each = size / count + OVERHEAD
            at_once = self._guessed or each > self._each
            self._each += (each - self._each) / (1 if at_once else EASE)
            self._guessed = False

    @property
    def messages(self) -> int:
        """May be under way together; at least one, or nothing would ever come."""
        return max(1, int(self._limit / self._each))
