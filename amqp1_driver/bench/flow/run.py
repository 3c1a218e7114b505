# SPDX-License-Identifier: Apache-2.0

"""One run of a flow benchmark: one driver, one scenario, a worker of its own. Main thread."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any

from amqp1_driver.bench.account import account
from amqp1_driver.bench.children import Crew, Trouble, Worker
from amqp1_driver.bench.flow import admin, figures
from amqp1_driver.bench.flow.backlog import Backlog
from amqp1_driver.bench.flow.figures import ALONE, BOTH
from amqp1_driver.bench.flow.node import Node
from amqp1_driver.bench.flow.plan import CLASSIC, KINDS, PLAIN, QUORUM, SERVER, Flow, Queue, queue
from amqp1_driver.bench.plan import Entry
from amqp1_driver.bench.run import Limits

#: nanoseconds from the order to begin until the senders begin
_LEAD_NS = 50_000_000
RECEIVED = "received"


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
            return run.two_senders() if flow.kind == KINDS[0] else run.receive_and_send(backlog)
        finally:
            run.tidy()


def order(entry: Entry, flow: Flow, node: Node, limits: Limits, exchange: str) -> dict[str, Any]:
    """Return the first order of a worker."""
    return {
        "role": "worker",
        "kind": "flow_amqp091" if entry.kind == PLAIN else "flow",
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
        self._exchange = Backlog.EXCHANGE
        self._queues: dict[str, Queue] = {}
        self._first = 0
        self._result: dict[str, Any] = {
            "rates": {},
            "latency_us": {},
            "sent": 0,
            "failed": 0,
            "received": 0,
            "lost": 0,
            "duplicated": 0,
            "in_doubt": 0,
            "errors": {},
            "busy": 0.0,
        }
        self._states: dict[str, dict[str, str]] = {}

    # -- scenarios ---------------------------------------------------------------

    def two_senders(self) -> dict[str, Any]:
        """Run each sender alone, then both together."""
        worker = self._start(CLASSIC, QUORUM)
        self._phase(worker, ALONE, CLASSIC)
        self._phase(worker, ALONE, QUORUM)
        self._phase(worker, BOTH, CLASSIC, QUORUM)
        return self._finish(worker)

    def receive_and_send(self, backlog: Backlog | None) -> dict[str, Any]:
        """Run the sender alone, the receiver alone, then both together."""
        assert backlog is not None
        worker = self._start(QUORUM)
        self._phase(worker, ALONE, QUORUM)
        self._do(worker, "listen", topic=Backlog.TOPIC)
        self._phase(worker, ALONE)
        self._phase(worker, BOTH, QUORUM)
        return self._finish(worker, backlog)

    # -- steps -------------------------------------------------------------------

    def _start(self, *senders: str) -> Worker:
        for sender in senders:
            found = queue(self._entry, self._exchange, self._topic(sender), sender)
            admin.ask(self._node.url, admin.declare(found, self._exchange), self._limits.timeout)
            self._queues[sender] = found
        worker = self._crew.add(
            "worker",
            self._entry.python,
            order(self._entry, self._flow, self._node, self._limits, self._exchange),
        )
        (ready,) = self._crew.wait("ready", [worker], self._limits.start)
        self._result["about"] = ready["about"]
        told = [self._told(sender, -1) for sender in senders]
        warm = self._do(worker, "send", at=_soon(), seconds=self._limits.warmup, senders=told)
        for sender in senders:
            outcome = warm["senders"][sender]
            if not outcome["sent"]:
                words = [f"{kind}: {first}" for kind, (_, first) in outcome["errors"].items()]
                raise Trouble(f"nothing can be sent to the {sender} queue: {' '.join(words)}")
        return worker

    def _phase(self, worker: Worker, phase: str, *senders: str) -> None:
        told = []
        for sender in senders:
            told.append(self._told(sender, self._first))
            self._first += self._flow.of(sender)
        at, seconds = _soon(), self._flow.seconds
        done = self._do(worker, "send", at=at, seconds=seconds, senders=told)
        result = self._result
        for sender in senders:
            outcome = done["senders"][sender]
            self._note(sender, phase, figures.sender(outcome, at))
            self._states.setdefault(sender, {}).update(outcome["states"])
        if RECEIVED in result["rates"] or not senders:
            result["rates"].setdefault(RECEIVED, {})[phase] = done["received"] / seconds
        if phase == BOTH:
            result["busy"] = done["busy"]

    def _note(self, sender: str, phase: str, found: dict[str, Any]) -> None:
        result = self._result
        result["rates"].setdefault(sender, {})[phase] = found["per_s"]
        result["latency_us"].setdefault(sender, {})[phase] = found["latency_us"]
        for name in ("sent", "failed"):
            result[name] += found[name]
        for kind, error in found["errors"].items():
            known = result["errors"].setdefault(kind, {"count": 0, "first": error["first"]})
            known["count"] += error["count"]

    def _finish(self, worker: Worker, backlog: Backlog | None = None) -> dict[str, Any]:
        """Close the worker, account for all messages, and return the result."""
        result = self._result
        result["connections"] = self._node.connections()
        heard = self._do(worker, "hush") if backlog is not None else None
        self._do(worker, "close")
        worker.tell(do="end")
        if backlog is not None and heard is not None:
            lost, duplicated = backlog.check(heard, self._limits.drain, self._crew)
            result["received"], result["lost"] = heard["received"], lost
            result["duplicated"] = duplicated
            if not backlog.depth():
                result["errors"]["empty"] = {
                    "count": 1,
                    "first": "the queue that is received from ran empty: it needs more --waiting",
                }
        for sender, found in self._queues.items():
            url, timeout = self._node.url, self._limits.deadline
            marks = admin.read(url, found, admin.depth(url, found, timeout), timeout)
            lost, duplicated, in_doubt = account(self._states[sender], [marks], fanout=False)
            result["lost"] += lost
            result["duplicated"] += duplicated
            result["in_doubt"] += in_doubt
        return result

    def tidy(self) -> None:
        """Delete the queues.

        A failure becomes an error in the result, so that it does not replace an earlier exception.
        """
        requests = [admin.delete(found) for found in self._queues.values()]
        if requests:
            try:
                admin.ask(self._node.url, requests, self._limits.timeout)
            except Trouble as error:
                self._result["errors"]["tidy"] = {"count": 1, "first": str(error)}

    def _topic(self, sender: str) -> str:
        return f"{self._name}-{sender}"

    def _told(self, sender: str, first: int) -> dict[str, Any]:
        return {
            "name": sender,
            "topic": self._topic(sender),
            "threads": self._flow.of(sender),
            "first": first,
        }

    def _do(self, worker: Worker, step: str, **arguments: Any) -> dict[str, Any]:
        worker.tell(do=step, **arguments)
        patience = arguments.get("seconds", 0.0) + 2 * self._limits.timeout
        (done,) = self._crew.wait(step, [worker], patience)
        return done


def _soon() -> int:
    return time.monotonic_ns() + _LEAD_NS
