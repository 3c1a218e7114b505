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

"""Recognise messages that the bus delivers a second time."""

from collections import OrderedDict
from collections.abc import Hashable


class DuplicateFilter:
    """The ids of the last ``size`` messages. I/O thread only.

    size: ids remembered, 0 for none: then nothing is ever a duplicate. The id that was
    looked up longest ago goes first.
    """

    __slots__ = ("_ids", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._ids: OrderedDict[Hashable, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ids)

    def seen(self, message_id: Hashable) -> bool:
        """Whether ``message_id`` was seen before; it is remembered from now on.

        A message without an id (None) never is a duplicate.
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
        """The message was given back to the bus: when it comes again it is no duplicate."""
        self._ids.pop(message_id, None)
