# SPDX-License-Identifier: Apache-2.0
"""What a run has found: as tables, as JSON, and as an exit status."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter, defaultdict
from typing import Any

from amqp1_driver.bench.table import table
from tests.cloud.bus import Figures as BusFigures
from tests.cloud.logs import Complaint
from tests.cloud.process import Figures
from tests.cloud.scenario import Result


@dataclasses.dataclass
class Reading:
    """What bus and services had used at one moment.

    :param name: of the phase that ended then
    :param at: seconds of time.monotonic()
    """

    name: str
    at: float
    bus: BusFigures | None
    services: dict[str, Figures]


@dataclasses.dataclass
class Report:
    """All that a run has found."""

    bus: str
    driver: str
    computes: int
    eventlet: list[str]
    results: list[Result] = dataclasses.field(default_factory=list)
    readings: list[Reading] = dataclasses.field(default_factory=list)
    #: event types of notifications that nobody received, and of those that came twice
    lost: list[str] = dataclasses.field(default_factory=list)
    doubled: list[str] = dataclasses.field(default_factory=list)
    #: event types of those that nobody received, as their senders were told in an outage
    refused: list[str] = dataclasses.field(default_factory=list)
    notifications: int = 0
    #: requests that ran more than once
    twice: list[str] = dataclasses.field(default_factory=list)
    complaints: list[Complaint] = dataclasses.field(default_factory=list)
    #: requests that messaging failed; a step that they break fails, too
    failures: list[str] = dataclasses.field(default_factory=list)
    #: when a host or the bus was down: begin and end, seconds since the epoch
    outages: list[tuple[float, float]] = dataclasses.field(default_factory=list)
    #: what the logs have of these times: no fault by itself
    interruption: list[Complaint] = dataclasses.field(default_factory=list)
    #: services that had to be killed
    stubborn: list[str] = dataclasses.field(default_factory=list)
    #: what ended the run before its end
    broken: str | None = None

    def faults(self) -> list[str]:
        """Return one line for everything that makes this run fail."""
        lines = [f"step failed: {r.name}: {r.error}" for r in self.results if r.error]
        lines += [f"notification lost: {kind}" for kind in self.lost]
        lines += [f"notification received twice: {kind}" for kind in self.doubled]
        lines += [f"request executed twice: {line}" for line in self.twice]
        lines += [_complaint(c) for c in self.complaints]
        lines += [f"{name} did not end on SIGTERM" for name in self.stubborn]
        return lines + ([self.broken] if self.broken else [])

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        found = dataclasses.asdict(self)
        found["complaints"] = [c._asdict() for c in self.complaints]
        found["interruption"] = [c._asdict() for c in self.interruption]
        found["faults"] = self.faults()
        return found


def _complaint(complaint: Complaint) -> str:
    return f"{complaint.service}: {complaint.count} x {complaint.level}: {complaint.text}"


def step_line(result: Result) -> str:
    """Return what is shown of a step as soon as it has ended."""
    made = ", ".join(f"{count} {kind}" for kind, count in sorted(result.requests.items()))
    lines = [
        f"{'ok  ' if result.error is None else 'FAIL'} {result.seconds:6.1f} s  {result.name}",
        f"              {made or 'no requests'}; {result.notifications} notifications",
    ]
    return "\n".join(lines + [f"              {remark}" for remark in result.remarks])


def group(service: str) -> str:
    """Return the name under which a service is counted: hosts are counted together."""
    return service.split("-compute-")[0] if "-compute-" in service else service


def figures(readings: list[Reading]) -> list[str]:
    """Return a table of what each phase has cost: CPU seconds; and memory, threads and descriptors
    at its end.
    """
    lines = []
    for before, after in itertools.pairwise(readings):
        lines += ["", f"{after.name}: {after.at - before.at:.0f} s"]
        rows = [("", "CPU s", "MiB", "threads", "descriptors", "connections")]
        if before.bus is not None and after.bus is not None:
            # a bus that was restarted begins anew
            cpu = after.bus.cpu - before.bus.cpu
            rows.append(
                (
                    *("bus", f"{cpu if cpu >= 0 else after.bus.cpu:.2f}"),
                    *(f"{after.bus.memory / 2**20:.0f}", "", "", str(after.bus.connections)),
                )
            )
        names: dict[str, list[str]] = defaultdict(list)
        for name in after.services:
            names[f"nova-compute ({_hosts(after)})" if _is_compute(name) else group(name)].append(
                name
            )
        for name, members in names.items():
            found = [after.services[member] for member in members]
            cpu = sum(
                after.services[m].cpu - before.services[m].cpu
                for m in members
                if m in before.services
            )
            rows.append(
                (
                    *(name, f"{cpu:.2f}", f"{sum(f.memory for f in found) / 2**20:.0f}"),
                    *(str(sum(f.threads for f in found)), str(sum(f.descriptors for f in found))),
                    "",
                )
            )
        lines += table(rows)
    return lines


def _is_compute(name: str) -> bool:
    return name.startswith("nova-compute-")


def _hosts(reading: Reading) -> int:
    return sum(_is_compute(name) for name in reading.services)


def summary(report: Report) -> list[str]:
    """Return the last lines: what was done, what was found, and what was wrong."""
    total: Counter[str] = Counter()
    for result in report.results:
        total.update(result.requests)
    passed = sum(result.error is None for result in report.results)
    lines = [
        f"{passed} of {len(report.results)} steps passed, {sum(total.values())} requests ("
        + ", ".join(f"{count} {kind}" for kind, count in sorted(total.items()))
        + f"), {report.notifications} notifications",
    ]
    if report.interruption:
        lines += ["while a host or the bus was down, and no fault by itself:"]
        lines += [f"  {_complaint(c)}"[:200] for c in report.interruption if c.level == "ERROR"]
        warnings = sum(c.count for c in report.interruption if c.level == "WARNING")
        lines += [f"  {warnings} warnings of messaging that are repeated"]
    lines += [f"notification failed, as its sender was told: {kind}" for kind in report.refused]
    lines += [f"request failed: {line}" for line in report.failures]
    faults = report.faults()
    lines += [f"FAULT {line}" for line in faults]
    return [*lines, f"{len(faults)} faults" if faults else "no fault"]
