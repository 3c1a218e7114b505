# SPDX-License-Identifier: Apache-2.0

"""All runs of a flow benchmark, and the document with their results. Main thread."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from amqp1_driver.bench.children import Trouble
from amqp1_driver.bench.flow import figures
from amqp1_driver.bench.flow.node import Node
from amqp1_driver.bench.flow.plan import KINDS, Flow, filler, scheme
from amqp1_driver.bench.flow.report import scenario_lines
from amqp1_driver.bench.flow.run import good, measure, order
from amqp1_driver.bench.flow.stock import Stock
from amqp1_driver.bench.plan import Entry, interleave
from amqp1_driver.bench.progress import Progress
from amqp1_driver.bench.run import Limits

#: version of the document's format; it changes when programs for older ones would misread it
SCHEMA = 1
_PHASES = 3
#: expected seconds of a run beyond its phases: the worker starts, the run reads the queues
_OVERHEAD = 6.0

Measure = Callable[..., dict[str, Any]]


class Session:
    """A flow benchmark that runs scenario after scenario, the drivers in turn. Main thread.

    The report compares the last driver with each of the others.

    :param measured: function that performs a run, with the parameters of ``measure``
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        flows: Sequence[Flow],
        rounds: int,
        node: Node,
        limits: Limits,
        measured: Measure = measure,
    ) -> None:
        self._entries, self._flows, self._rounds = entries, flows, rounds
        self._node, self._limits, self._measure = node, limits, measured
        self._stocks: dict[tuple[str, int], Stock] = {}
        self.document: dict[str, Any] = {
            "schema": SCHEMA,
            "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": {
                "cpus": os.cpu_count(),
                "platform": platform.platform(),
                "python": platform.python_version(),
            },
            "bus": node.name,
            "disk": node.disk,
            "rounds": rounds,
            "limits": asdict(limits),
            "scenarios": [],
        }

    def play(self) -> dict[str, Any]:
        """Run everything, and print each scenario's table when it is complete."""
        runs = len(self._flows) * self._rounds * len(self._entries)
        longest = max(flow.seconds for flow in self._flows)
        progress = Progress(runs, _PHASES * longest + self._limits.warmup + _OVERHEAD)
        try:
            for flow in self._flows:
                found = self._scenario(flow, progress)
                self.document["scenarios"].append(found)
                progress.write("\n".join(scenario_lines(found)) + "\n")
        finally:
            progress.close()
        return self.document

    @property
    def failed(self) -> bool:
        """Return whether any run failed as a whole."""
        return any("trouble" in run for run in self._runs())

    @property
    def faulty(self) -> bool:
        """Return whether any message was lost or duplicated."""
        return any(run.get("lost") or run.get("duplicated") for run in self._runs())

    @property
    def refused(self) -> bool:
        """Return whether the sending of any message failed."""
        return any(run.get("failed") for run in self._runs())

    def _runs(self) -> list[dict[str, Any]]:
        return [
            run
            for scenario in self.document["scenarios"]
            for entry in scenario["entries"]
            for run in entry["runs"]
        ]

    def _scenario(self, flow: Flow, progress: Progress) -> dict[str, Any]:
        runs: dict[str, list[dict[str, Any]]] = {entry.label: [] for entry in self._entries}
        for number, entry in interleave(self._entries, self._rounds):
            progress.begin(f"{flow.kind}: {entry.label}, round {number}/{self._rounds}")
            runs[entry.label].append(self._run(entry, flow, progress))
            progress.end()
        last = good(runs[self._entries[-1].label])
        return {
            "title": flow.title,
            **asdict(flow),
            "entries": [
                {
                    "label": entry.label,
                    "url": entry.shown,
                    "options": entry.shown_options,
                    "runs": runs[entry.label],
                    "median": figures.summary(
                        flow.kind, [run for run in good(runs[entry.label]) if run]
                    ),
                    "ratio": figures.ratios(flow.kind, last, good(runs[entry.label])),
                }
                for entry in self._entries
            ],
        }

    def _run(self, entry: Entry, flow: Flow, progress: Progress) -> dict[str, Any]:
        try:
            stock = self._stock(entry, flow, progress) if flow.kind == KINDS[1] else None
            return self._measure(entry, flow, self._node, self._limits, stock, progress.tick)
        except Trouble as error:
            return {"trouble": str(error)}

    def _stock(self, entry: Entry, flow: Flow, progress: Progress) -> Stock:
        key = (scheme(entry), flow.size)
        stock = self._stocks.get(key)
        if stock is None:
            maker = filler(entry)
            told = order(maker, flow, self._node, self._limits, Stock.EXCHANGE)
            stock = self._stocks[key] = Stock(maker, self._node, told, self._limits.deadline)
        stock.fill(flow.waiting, progress.tick)
        return stock
