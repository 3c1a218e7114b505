# SPDX-License-Identifier: Apache-2.0

"""All runs of a flow benchmark, and the document with their results. Main thread."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from amqp1_driver.bench.flow import figures
from amqp1_driver.bench.flow.backlog import Backlog
from amqp1_driver.bench.flow.node import Node
from amqp1_driver.bench.flow.plan import KINDS, Flow, filler, scheme
from amqp1_driver.bench.flow.report import scenario_lines
from amqp1_driver.bench.flow.run import measure, order
from amqp1_driver.bench.plan import Entry
from amqp1_driver.bench.run import Limits
from amqp1_driver.bench.session import Comparison, Measure, Run, Runs, by_round, good

_PHASES = 3
#: expected seconds of a run beyond its phases: the worker starts, the run reads the queues
_OVERHEAD = 6.0


class Session(Comparison):
    """A flow benchmark; the last driver is compared with each of the others. Main thread.

    :param measured: function that performs a run, with the parameters of ``measure``
    """

    name = staticmethod(operator.attrgetter("kind"))
    lines = staticmethod(scenario_lines)

    def __init__(
        self,
        entries: Sequence[Entry],
        flows: Sequence[Flow],
        rounds: int,
        node: Node,
        limits: Limits,
        measured: Measure = measure,
    ) -> None:
        longest = max(flow.seconds for flow in flows)
        head = {"bus": node.name, "disk": node.disk, "limits": asdict(limits)}
        expected = _PHASES * longest + limits.warmup + _OVERHEAD
        super().__init__(entries, flows, rounds, head, expected)
        self._node, self._limits, self._measure = node, limits, measured
        self._backlogs: dict[tuple[str, int], Backlog] = {}

    def run(self, entry: Entry, scenario: Flow) -> Run:
        """Perform a run; fill the queue first if the run receives."""
        backlog = self._backlog(entry, scenario) if scenario.kind == KINDS[1] else None
        tick = self.progress.tick
        return self._measure(entry, scenario, self._node, self._limits, backlog, tick)

    def figures(self, scenario: Flow, entry: Entry, runs: Runs) -> dict[str, Any]:
        """Return a driver's runs, their median, and the ratio of the last driver to this driver."""
        theirs, last = runs[entry.label], runs[self._entries[-1].label]
        return {
            "runs": theirs,
            "median": figures.summary(scenario.kind, good(theirs)),
            "ratio": figures.ratios(scenario.kind, by_round(last), by_round(theirs)),
        }

    def _backlog(self, entry: Entry, flow: Flow) -> Backlog:
        key = (scheme(entry), flow.size)
        backlog = self._backlogs.get(key)
        if backlog is None:
            maker = filler(entry)
            told = order(maker, flow, self._node, self._limits, Backlog.EXCHANGE)
            backlog = self._backlogs[key] = Backlog(maker, self._node, told, self._limits.deadline)
        backlog.fill(flow.waiting, self.progress.tick)
        return backlog
