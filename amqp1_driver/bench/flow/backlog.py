# SPDX-License-Identifier: Apache-2.0

"""A queue with many waiting messages, and a record of those that runs receive. Main thread."""

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


class Backlog:
    """A queue of waiting messages for all runs of drivers that name queues alike. Main thread.

    A worker that no run measures fills the queue: a driver sends one message, and the worker
    publishes numbered copies of it.

    :param entry: the driver that sends the message
    :param order: the first order of the worker
    :param seconds: time limit of each request to the broker and of each step of filling
    """

    EXCHANGE, TOPIC, _TEMPLATE = "flow", "flow-waiting", "flow-template"

    def __init__(self, entry: Entry, node: Node, order: dict[str, Any], seconds: float) -> None:
        self._node, self._order, self._seconds = node, order, seconds
        self._python = entry.python
        self.queue = queue(entry, self.EXCHANGE, self.TOPIC, CLASSIC)
        self._template = queue(entry, self.EXCHANGE, self._TEMPLATE, CLASSIC)
        #: for each message: 1 if any run has received it, else 0
        self.seen = bytearray()
        self._lost = 0
        for made in (self.queue, self._template):
            admin.ask(node.url, admin.declare(made, self.EXCHANGE), seconds)

    def fill(self, count: int, tick: Callable[[], None] = lambda: None) -> None:
        """Add messages until ``count`` messages wait.

        Messages that are missing from the queue before it is filled do not count as lost by a later
        run: a run that failed has received them, or a loader that failed has not sent them.

        :raises Trouble: the messages do not reach the queue in time
        """
        there = self.depth()
        if there < count:
            self._load(count - there, count, tick)
            there = count
        self._lost = self.seen.count(0) - there

    def _load(self, missing: int, count: int, tick: Callable[[], None]) -> None:
        with Crew(tick) as crew:
            worker = crew.add("loader", self._python, self._order)
            crew.wait("ready", [worker], self._seconds)
            worker.tell(
                do="load",
                topic=self._TEMPLATE,
                source=self._template.name,
                queue=self.queue.name,
                first=len(self.seen),
                count=missing,
            )
            self.seen.extend(bytes(missing))
            crew.wait("load", [worker], self._seconds)
            if self._wait_for(count, self._seconds, crew) != count:
                raise Trouble(f"{self.queue.name} has {self.depth()} messages, not {count}")

    def check(self, heard: Mapping[str, Any], seconds: float, crew: Crew) -> tuple[int, int]:
        """Count the messages that a run has lost, and the copies that it received again.

        When the worker of the run ends, the broker returns the messages that the worker had
        fetched and not acknowledged to the queue. The check waits for them.

        :param heard: report of the worker on received messages
        :param seconds: time limit for the return of these messages
        :returns: number of lost messages, number of copies beyond the first
        """
        duplicated = self._mark(unpack(heard["marks"]["0"]) if heard["marks"] else b"")
        left = self.seen.count(0) - self._lost
        lost = max(0, left - self._wait_for(left, seconds, crew))
        self._lost += lost
        return lost, duplicated

    def depth(self) -> int:
        """Return the number of messages that wait."""
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
