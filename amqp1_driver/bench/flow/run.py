# SPDX-License-Identifier: Apache-2.0

"""One run of a flow benchmark: one driver, one scenario, a worker of its own. Main thread."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from amqp1_driver.bench.children import Crew, Trouble, Worker
from amqp1_driver.bench.figures import COUNTS, account, errors, latency
from amqp1_driver.bench.flow import rabbitmq
from amqp1_driver.bench.flow.plan import CLASSIC, KINDS, PLAIN, QUORUM, SERVER, Flow, Queue, queue
from amqp1_driver.bench.flow.rabbitmq import Node
from amqp1_driver.bench.plan import Entry
from amqp1_driver.bench.run import Limits
from amqp1_driver.bench.workers.ledger import unpack

#: nanoseconds from the order to begin until the senders begin
_LEAD_NS = 50_000_000
_PAUSE = 0.2
ALONE, BOTH, RECEIVED = "alone", "both", "received"
#: by kind of scenario its phases, and who sends or receives in a phase
PHASES = {
    KINDS[0]: ((ALONE, (CLASSIC,)), (ALONE, (QUORUM,)), (BOTH, (CLASSIC, QUORUM))),
    KINDS[1]: ((ALONE, (QUORUM,)), (ALONE, (RECEIVED,)), (BOTH, (RECEIVED, QUORUM))),
}


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
        rabbitmq.declare(node.url, (self.queue, self._template), self.EXCHANGE, seconds)

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
            first = len(self.seen)
            self.seen.extend(bytes(missing))
            crew.ask(
                "load",
                [worker],
                self._seconds,
                topic=self._TEMPLATE,
                source=self._template.name,
                queue=self.queue.name,
                first=first,
                count=missing,
            )
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
        return rabbitmq.depth(self._node.url, self.queue, self._seconds)

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


def sender_figures(outcome: Mapping[str, Any], at: int) -> dict[str, Any]:
    """Compute the figures of one sender in one phase.

    :param outcome: outcome of the sender, from the report of its worker
    :param at: time at which the sender began, monotonic nanoseconds
    """
    return {
        "sent": outcome["sent"],
        "failed": outcome["failed"],
        "per_s": outcome["sent"] * 1e9 / max(1, outcome["ended"] - at),
        "latency_us": latency([outcome["latency"]]),
        "errors": errors([outcome["errors"]]),
    }


def measure(
    entry: Entry,
    flow: Flow,
    node: Node,
    limits: Limits,
    backlog: Backlog | None,
    tick: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Perform a run and return its figures, ready for JSON. Main thread.

    :param backlog: the queue that the worker receives from; None: the worker only sends
    :param tick: called repeatedly while the run waits for its worker
    :raises Trouble: the run failed
    """
    with Crew(tick) as crew:
        run = _Run(entry, flow, node, limits, crew)
        try:
            return run.result(backlog)
        finally:
            run.tidy()


def order(entry: Entry, flow: Flow, node: Node, limits: Limits, exchange: str) -> dict[str, Any]:
    """Return the first order of a worker."""
    return {
        "role": "worker",
        "kind": "amqp091" if entry.kind == PLAIN else "flow",
        "operation": "cast",
        "url": entry.on(node.address),
        "exchange": exchange,
        "size": flow.size,
        "executor": 64,
        "timeout": limits.timeout,
        "server": SERVER,
        "options": flow.options(entry),
        "prefetch": flow.prefetch,
    }


class _Run:
    def __init__(self, entry: Entry, flow: Flow, node: Node, limits: Limits, crew: Crew) -> None:
        self._entry, self._flow, self._node = entry, flow, node
        self._limits, self._crew = limits, crew
        self._name = f"flow-{secrets.token_hex(4)}"
        self._queues: dict[str, Queue] = {}
        self._states: dict[str, dict[str, str]] = {}
        self._errors: list[dict[str, Any]] = []
        self._result: dict[str, Any] = {
            "rates": {},
            "latency_us": {},
            **dict.fromkeys(COUNTS, 0),
            "errors": {},
            "busy": 0.0,
        }

    def result(self, backlog: Backlog | None) -> dict[str, Any]:
        """Perform all phases, account for all messages, and return the figures."""
        phases = PHASES[self._flow.kind]
        worker = self._start(*(name for name in phases[-1][1] if name != RECEIVED))
        first = 0
        for phase, busy in phases:
            if RECEIVED in busy and RECEIVED not in self._result["rates"]:
                self._do(worker, "listen", topic=Backlog.TOPIC)
            first = self._phase(worker, phase, busy, first)
        return self._finish(worker, backlog)

    def _start(self, *senders: str) -> Worker:
        entry, node, limits = self._entry, self._node, self._limits
        for sender in senders:
            self._queues[sender] = queue(entry, Backlog.EXCHANGE, self._topic(sender), sender)
        made = list(self._queues.values())
        rabbitmq.declare(node.url, made, Backlog.EXCHANGE, limits.timeout)
        told = order(entry, self._flow, node, limits, Backlog.EXCHANGE)
        worker = self._crew.add("worker", entry.python, told)
        (ready,) = self._crew.wait("ready", [worker], limits.start)
        self._result["about"] = ready["about"]
        warm = self._send(worker, _soon(), limits.warmup, dict.fromkeys(senders, -1))
        for sender in senders:
            outcome = warm["senders"][sender]
            if not outcome["sent"]:
                words = [f"{kind}: {first}" for kind, (_, first) in outcome["errors"].items()]
                raise Trouble(f"nothing can be sent to the {sender} queue: {' '.join(words)}")
        return worker

    def _phase(self, worker: Worker, phase: str, busy: Sequence[str], first: int) -> int:
        """Perform a phase; return the number of the first thread of the next phase."""
        numbers = {}
        for sender in busy:
            if sender != RECEIVED:
                numbers[sender] = first
                first += self._flow.of(sender)
        at, seconds, result = _soon(), self._flow.seconds, self._result
        done = self._send(worker, at, seconds, numbers)
        for sender, outcome in done["senders"].items():
            found = sender_figures(outcome, at)
            result["rates"].setdefault(sender, {})[phase] = found["per_s"]
            result["latency_us"].setdefault(sender, {})[phase] = found["latency_us"]
            result["sent"] += found["sent"]
            result["failed"] += found["failed"]
            self._errors.append(outcome["errors"])
            self._states.setdefault(sender, {}).update(outcome["states"])
        if RECEIVED in busy:
            result["rates"].setdefault(RECEIVED, {})[phase] = done["received"] / seconds
        if phase == BOTH:
            result["busy"] = done["busy"]
        return first

    def _send(
        self, worker: Worker, at: int, seconds: float, numbers: Mapping[str, int]
    ) -> dict[str, Any]:
        """Let senders send.

        :param numbers: for each sender the number of its first thread
        """
        senders = [
            {
                "name": sender,
                "topic": self._topic(sender),
                "threads": self._flow.of(sender),
                "first": first,
            }
            for sender, first in numbers.items()
        ]
        return self._do(worker, "send", at=at, seconds=seconds, senders=senders)

    def _finish(self, worker: Worker, backlog: Backlog | None) -> dict[str, Any]:
        """Close the worker, account for all messages, and return the result."""
        result, url, timeout = self._result, self._node.url, self._limits.deadline
        result["connections"] = self._node.connections()
        heard = self._do(worker, "hush") if backlog is not None else None
        self._do(worker, "close")
        worker.tell(do="end")
        result["errors"] = errors(self._errors)
        if backlog is not None and heard is not None:
            result["received"] = heard["received"]
            result["lost"], result["duplicated"] = backlog.check(
                heard, self._limits.drain, self._crew
            )
            if not backlog.depth():
                result["errors"]["empty"] = {
                    "count": 1,
                    "first": "the queue that is received from ran empty: it needs more --waiting",
                }
        for sender, found in self._queues.items():
            marks = rabbitmq.read(url, found, rabbitmq.depth(url, found, timeout), timeout)
            counts = account(self._states[sender], [marks], fanout=False)
            for name, count in counts._asdict().items():
                result[name] += count
        return result

    def tidy(self) -> None:
        """Delete the queues.

        A failure becomes an error in the result, so that it does not replace an earlier exception.
        """
        try:
            rabbitmq.delete(self._node.url, self._queues.values(), self._limits.timeout)
        except Trouble as error:
            self._result["errors"]["tidy"] = {"count": 1, "first": str(error)}

    def _topic(self, sender: str) -> str:
        return f"{self._name}-{sender}"

    def _do(self, worker: Worker, step: str, **arguments: Any) -> dict[str, Any]:
        patience = arguments.get("seconds", 0.0) + 2 * self._limits.timeout
        (done,) = self._crew.ask(step, [worker], patience, **arguments)
        return done


def _soon() -> int:
    return time.monotonic_ns() + _LEAD_NS
