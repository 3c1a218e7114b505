# SPDX-License-Identifier: Apache-2.0

"""Detection of messages that the bus delivers a second time. One thread at a time."""

from collections import OrderedDict
from collections.abc import Hashable


class DuplicateFilter:
    """A filter that remembers the ids of the last ``size`` messages. One thread at a time.

    A full filter forgets the id whose last lookup is longest ago.

    :param size: ids to remember; with 0 no message is ever a duplicate.
    """

    __slots__ = ("_ids", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._ids: OrderedDict[Hashable, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ids)

    def seen(self, message_id: Hashable) -> bool:
        """Return whether the filter has seen ``message_id`` before, and remember it.

        A message without an id (None) is never a duplicate.
        """
        if message_id is None:
            return False
        if message_id in self._ids:
            self._ids.move_to_end(message_id)
            return True
        self._ids[message_id] = None
        if len(self._ids) > self.size:
            self._ids.popitem(last=False)
        return False

    def forget(self, message_id: Hashable) -> None:
        """Forget a message that went back to the bus: its next delivery is no duplicate."""
        self._ids.pop(message_id, None)
