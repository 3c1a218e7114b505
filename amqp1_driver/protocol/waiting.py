#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Where messages wait while there is no connection.

Each has a thread that waits for it, or is counted by the bounded backlog of
replies.  Lives on the I/O thread.
"""

from collections import OrderedDict
from collections.abc import Iterable

from amqp1_driver.protocol.operation import Operation, expired


class WaitingRoom:
    """Operations in the order in which they came."""

    def __init__(self) -> None:
        self._operations: OrderedDict[int, Operation] = OrderedDict()

    def __len__(self) -> int:
        return len(self._operations)

    def add(self, operations: Iterable[Operation]) -> None:
        for op in operations:
            op.owner = self
            self._operations[id(op)] = op

    def cancel(self, op: Operation) -> None:
        self._operations.pop(id(op), None)

    def take(self) -> list[Operation]:
        """All of them, oldest first; they are the caller's from now on."""
        operations = list(self._operations.values())
        self._operations.clear()
        return operations

    def fail_all(self, error: BaseException) -> None:
        for op in self.take():
            op.fail(error)

    def fail_once(self, error: BaseException) -> None:
        """Every host has been tried in vain: those without retries left fail."""
        for op in list(self._operations.values()):
            if op.retry.left is None or op.retry.may_retry(error):
                op.retry = op.retry.spent()
            else:
                self.cancel(op)
                op.fail(error)

    def expire(self, now: float, host: str) -> None:
        """End those whose deadline has passed."""
        for op in list(self._operations.values()):
            if op.deadline.expired(now):
                self.cancel(op)
                op.fail(expired(op, host))
