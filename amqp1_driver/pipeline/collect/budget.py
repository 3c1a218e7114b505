# SPDX-License-Identifier: Apache-2.0

"""Number of messages that may be under way while their bytes stay below a limit. Pure."""

from __future__ import annotations

#: bytes: assumed size of a message before the first batch, and overhead of each message
FIRST, OVERHEAD = 1024 * 1024, 512
#: a batch of smaller messages lowers the estimate by one EASE-th of the difference
EASE = 8


class Budget:
    """An estimate of how many messages fit below a limit of bytes. One thread at a time.

    Credit counts messages, and the size of a message is unknown while it is at the bus. The batches
    that came last give the estimate of its size. The first estimate allows few messages, and the
    first batch replaces it. Then a batch of larger messages counts in full at once, a batch of
    smaller messages little by little.

    :param limit: bytes
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._each = float(min(FIRST, limit))
        #: True until the first batch, which replaces the guess FIRST
        self._guessed = True

    def seen(self, count: int, size: int) -> None:
        """Adapt the estimate to a batch of ``count`` messages.

        :param size: bytes of all of them
        """
        if count:
            each = size / count + OVERHEAD
            at_once = self._guessed or each > self._each
            self._each += (each - self._each) / (1 if at_once else EASE)
            self._guessed = False

    @property
    def messages(self) -> int:
        """Return how many messages may be under way together: at least 1, or none would come."""
        return max(1, int(self._limit / self._each))
