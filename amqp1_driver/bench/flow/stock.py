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

"""The queue in which a great many messages wait, and which of them have come out of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from amqp1_driver.bench.children import Crew, Trouble
from amqp1_driver.bench.flow import admin
from amqp1_driver.bench.flow.node import Node
from amqp1_driver.bench.flow.plan import CLASSIC, queue
from amqp1_driver.bench.plan import Entry
from amqp1_driver.bench.workers.ledger import unpack

_PAUSE = 0.2


class Stock:
    """One for all runs of drivers that name queues alike. Main thread.

    The messages are made by a driver once, and then copied by a process that is not measured.

    :param order: for that process
    """

    EXCHANGE, TOPIC, _TEMPLATE = "flow", "flow-waiting", "flow-template"

    def __init__(self, entry: Entry, node: Node, order: dict[str, Any], seconds: float) -> None:
        self._node, self._order, self._seconds = node, order, seconds
        self._python = entry.python
        self.queue = queue(entry, self.EXCHANGE, self.TOPIC, CLASSIC)
        self._template = queue(entry, self.EXCHANGE, self._TEMPLATE, CLASSIC)
        #: how often each message was received, in all runs
        self.seen = bytearray()
        self._lost = 0
        for made in (self.queue, self._template):
            admin.ask(node.url, admin.declare(made, self.EXCHANGE), seconds)

    def fill(self, count: int, tick: Callable[[], None] = lambda: None) -> None:
        """Until so many wait; Trouble if they don't get there."""
        there = self.depth()
        missing = count - there
        if missing <= 0:
            return
        with Crew(tick) as crew:
            worker = crew.add("loader", self._python, self._order)
            crew.wait("ready", [worker], self._seconds)
            worker.tell(do="load", topic=self._TEMPLATE, source=self._template.name,
                        queue=self.queue.name, first=len(self.seen), count=missing)  # fmt: skip
            self.seen.extend(bytes(missing))
            crew.wait("load", [worker], self._seconds)
            if self._wait_for(count, self._seconds, crew) != count:
                raise Trouble(f"{self.queue.name} has {self.depth()} messages, not {count}")

    def check(self, heard: Mapping[str, Any], seconds: float, crew: Crew) -> tuple[int, int]:
        """How many messages are lost, and how many came again, by what a run has received.

        What the process had fetched and not acknowledged goes back when it ends.

        :param seconds: in which that has to be done
        """
        duplicated = self._mark(unpack(heard["marks"]["0"]) if heard["marks"] else b"")
        left = self.seen.count(0) - self._lost
        lost = max(0, left - self._wait_for(left, seconds, crew))
        self._lost += lost
        return lost, duplicated

    def depth(self) -> int:
        """How many wait."""
        return admin.depth(self._node.url, self.queue, self._seconds)

    def _mark(self, marks: bytes) -> int:
        again = 0
        for number, count in enumerate(marks):
            if count:
                again += count - (self.seen[number] == 0)
                self.seen[number] = 1
        return again

    def _wait_for(self, count: int, seconds: float, crew: Crew) -> int:
        until = time.monotonic() + seconds
        while (there := self.depth()) != count and time.monotonic() < until:
            crew.pause(_PAUSE)
        return there
