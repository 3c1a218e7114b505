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

"""Messages that wait until what they go to is declared, or there is a token for it.

Each has a thread that waits for it, or is counted by the bounded backlog of
replies.  Lives on the I/O thread.
"""

from collections import OrderedDict
from collections.abc import Callable

from amqp1_driver.addressing.base import Destination, Node
from amqp1_driver.protocol.operation import Operation, Request, expired
from amqp1_driver.protocol.prepare import Preparer


class Gate:
    """Operations that wait for the nodes of one destination.

    :param waits_for: what is missing, for errors
    """

    def __init__(self, waits_for: str) -> None:
        self.waits_for = waits_for
        self.waiting: OrderedDict[int, Operation] = OrderedDict()

    def cancel(self, op: Operation) -> None:
        self.waiting.pop(id(op), None)

    def expire(self, now: float, host: str) -> None:
        """End what nobody waits for; all others are cancelled by those who do."""
        for op in [op for op in self.waiting.values() if op.deadline.expired(now)]:
            self.cancel(op)
            op.fail(expired(op, host))


class Gates:
    """All gates on one physical connection.

    :param host: ``hostname:port``, for errors
    :param waits_for: what is missing, for errors
    :param send: takes what has waited, oldest first
    """

    def __init__(self, host: str, waits_for: str, send: Callable[[Operation], object]) -> None:
        self._host = host
        self._waits_for = waits_for
        self._send = send
        self._gates: dict[Destination | str, Gate] = {}

    def __len__(self) -> int:
        return len(self._gates)

    def wait(self, op: Operation, node: Node, preparer: Preparer) -> None:
        """Keep a message until its node can be had; the first has that begun."""
        key = op.destination if isinstance(op, Request) else node.address
        gate = self._gates.get(key)
        new = gate is None
        if gate is None:
            gate = self._gates[key] = Gate(self._waits_for)
        op.owner = gate
        gate.waiting[id(op)] = op
        if new:
            preparer.ensure(node.declare, lambda error: self._open(key, error))

    def _open(self, key: Destination | str, error: BaseException | None) -> None:
        gate = self._gates.pop(key, None)
        if gate is None:
            return
        for op in list(gate.waiting.values()):
            if error is None:
                self._send(op)
            else:
                op.fail(error)

    def expire(self, now: float) -> None:
        """See :meth:`Gate.expire`."""
        for gate in list(self._gates.values()):
            gate.expire(now, self._host)

    def take(self) -> list[Operation]:
        """All that waits; it is the caller's from now on."""
        waiting = [op for gate in self._gates.values() for op in gate.waiting.values()]
        self._gates.clear()
        return waiting
