# SPDX-License-Identifier: Apache-2.0
"""Finds in a history what must not be. Pure: takes events (see `history`), gives violations.

The rules:

late
    An operation ends within its deadline, SLACK and the machine's own lateness: the time between
    the deadline and the end in which a thread of the process was ready to run and the machine
    did not run it (as Linux accounts for it), or in which the watchdog, a process that only
    sleeps, was due and did not run.
hung
    Every operation ends while its process lives.
strange
    An operation ends with success, MessagingTimeout or MessageDeliveryFailure.
lost
    What was acknowledged has reached a server, as far as the bus promises that. What was in a
    queue that a fault deleted is excused, up to the number of messages that went with it.
twice
    Of all deliveries of a message to servers (for a fanout: to one server) at most one has no
    redelivery mark. A bus that forgets its marks at its end is excused for messages that it had
    delivered before; one that makes no mark when a connection is lost, if a fault struck the
    first server or the bus between the deliveries or shortly before.
phantom
    What was executed has been sent.
deaf
    Every subscription works after the last fault.
left
    A process that closes leaves no thread and no descriptor; its memory grows over the faults by
    less than GROWTH.
noisy
    The driver writes at most LINES lines of log in any 60 seconds, in each process.
died
    No process and no thread ends but by a fault that kills it.
unmade
    Every fault of the plan is in the history, and the program that makes them did not fail in it.
    A fault that could not be made, with a reason, is no violation.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tests.chaos.history import Event
from tests.chaos.promises import Promise

SLACK = 0.5
LINES = 100
MINUTE = 60.0
GROWTH = 32 * 1024 * 1024
#: seconds before a violation in which faults belong to it
AROUND = 5.0


@dataclass
class Violation:
    """One breach of a rule.

    :param rule: its name
    :param what: one line
    :param events: those that show it
    """

    rule: str
    what: str
    events: list[Event] = field(default_factory=list)


@dataclass
class Operation:
    """All that is known of one message."""

    invoke: Event
    end: Event | None = None
    received: list[Event] = field(default_factory=list)
    executed: list[Event] = field(default_factory=list)

    @property
    def key(self) -> str:
        return str(self.invoke["id"])

    @property
    def kind(self) -> str:
        return str(self.invoke["k"])

    @property
    def acknowledged(self) -> bool:
        return self.end is not None and self.end["e"] == "ok"

    @property
    def events(self) -> list[Event]:
        ended = [] if self.end is None else [self.end]
        return sorted(
            [self.invoke, *ended, *self.received, *self.executed], key=lambda event: event["t"]
        )


class Lateness:
    """When the machine let a process wait that was ready to run."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._spans: dict[str | None, list[tuple[float, float]]] = defaultdict(list)
        for event in events:
            self._spans[event["of"]].append((event["t"] - event["by"], event["t"]))

    def between(self, process: str, begin: float, end: float) -> float:
        """Of the seconds between them those in which the process or the watchdog waited so.

        :param process: a forked one stands for the one that it comes from
        """
        total, covered = 0.0, begin
        for start, stop in self._near(process, begin, end):
            start, stop = max(start, covered), min(stop, end)
            if stop > start:
                total += stop - start
                covered = stop
        return total

    def _near(self, process: str, begin: float, end: float) -> list[tuple[float, float]]:
        return sorted(
            span
            for name in (None, process.partition(".")[0])
            for span in self._spans[name]
            if span[1] > begin and span[0] < end
        )


class History:
    """The events, sorted by what they are of."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.by: dict[str, list[Event]] = defaultdict(list)
        for event in sorted(events, key=lambda one: one["t"]):
            self.by[event["e"]].append(event)
        self.operations = {event["id"]: Operation(event) for event in self.by["invoke"]}
        self.phantoms: list[Event] = []
        for name in ("ok", "info", "fail"):
            for event in self.by[name]:
                self.operations[event["id"]].end = event
        for name in ("received", "executed"):
            for event in self.by[name]:
                operation = self.operations.get(event["id"])
                if operation is None:
                    self.phantoms.append(event)
                else:
                    getattr(operation, name).append(event)
        self.lateness = Lateness(self.by["late"])
        self.faults = self.by["fault"]
        self.kills = [fault for fault in self.faults if _ends_node(fault)]

    def faults_between(self, begin: float, end: float) -> list[Event]:
        return [fault for fault in self.faults if fault["began"] <= end and fault["until"] >= begin]


def _ends_node(fault: Event) -> bool:
    return fault["kind"] == "bus-kill" or bool(fault.get("restarts"))


def check(events: Iterable[Event], promise: Promise) -> list[Violation]:
    """All violations, in the order of the rules."""
    history = History(events)
    return [
        violation
        for rule in (_late, _hung, _strange, _phantom, _left, _noisy, _died, _deaf, _unmade)
        for violation in rule(history)
    ] + [*_lost(history, promise), *_twice(history, promise)]


def unfinished(events: Iterable[Event]) -> list[Violation]:
    """A violation if the faults have not come to their end: for a run that is over."""
    if any(event["e"] == "conducted" for event in events):
        return []
    return [Violation("unmade", "the history does not say which faults were planned")]


def lost(events: Iterable[Event], promise: Promise) -> list[Violation]:
    """Messages that were acknowledged and have not been received, unless a promise allows it."""
    return list(_lost(History(events), promise))


def minimal(violation: Violation, faults: Sequence[Event]) -> list[Event]:
    """The events that show a violation, in the order of time, with the faults around them.

    Those are the faults on the bus and on the processes concerned.
    """
    if not violation.events:
        return []
    begin = min(event["t"] for event in violation.events) - AROUND
    end = max(event["t"] for event in violation.events)
    concerned = {"bus", *(_name(event) for event in violation.events)}
    near = [
        fault
        for fault in faults
        if fault["target"] in concerned and fault["began"] <= end and fault["until"] >= begin
    ]
    return sorted(
        [*violation.events, *near], key=lambda event: float(event.get("began", event["t"]))
    )


def _name(event: Event) -> str:
    """The process, whatever its incarnation and whether it was forked."""
    return str(event["p"]).partition("+")[0].partition(".")[0]


# -- callers ---------------------------------------------------------------------------------


def _late(history: History) -> Iterator[Violation]:
    for one in history.operations.values():
        if one.end is None:
            continue
        deadline, end = one.invoke["t"] + one.invoke["limit"], one.end["t"]
        over = end - deadline
        if over <= SLACK:
            continue
        machine = history.lateness.between(one.invoke["p"], deadline, end)
        if over > SLACK + machine:
            yield Violation(
                "late",
                f"{one.key} ended {over:.3f} s after its deadline, of which "
                f"the machine was {machine:.3f} s late",
                one.events,
            )


def _hung(history: History) -> Iterator[Violation]:
    for one in history.operations.values():
        if one.end is None:
            yield Violation("hung", f"{one.key} has not ended", one.events)


def _strange(history: History) -> Iterator[Violation]:
    for event in history.by["fail"]:
        yield Violation(
            "strange", f"{event['id']}: {event['error']}", history.operations[event["id"]].events
        )


def _deaf(history: History) -> Iterator[Violation]:
    for event in history.by["probe"]:
        if not event["ok"]:
            yield Violation("deaf", f"{event['p']} does not reach {event['of']}", [event])


# -- messages --------------------------------------------------------------------------------


def _phantom(history: History) -> Iterator[Violation]:
    for event in history.phantoms:
        yield Violation("phantom", f"{event['id']} was never sent", [event])


def _lost(history: History, promise: Promise) -> Iterator[Violation]:
    missing = [
        one
        for one in history.operations.values()
        if one.acknowledged and not one.received and not _may_go(one, history, promise)
    ]
    excused = 0
    for fault in sorted(
        (f for f in history.faults if f.get("messages")), key=lambda f: float(f["began"])
    ):
        # what was sent before the end of the deletion, as many as the queue held then
        before = [one for one in missing[excused:] if one.invoke["t"] <= fault["until"]]
        excused += min(fault["messages"], len(before))
    for one in missing[excused:]:
        yield Violation("lost", f"{one.key} was acknowledged and has reached no server", one.events)


def _may_go(one: Operation, history: History, promise: Promise) -> bool:
    if one.kind in promise.kept:
        return False
    assert one.end is not None
    if one.kind in promise.kept_by_node:
        return any(kill["until"] >= one.invoke["t"] for kill in history.kills)
    return True


def _twice(history: History, promise: Promise) -> Iterator[Violation]:
    for one in history.operations.values():
        for received in _consumers(one):
            unmarked = [event for event in received if not event["again"]]
            if len(unmarked) < 2 or all(
                _excused(first, second, history, promise)
                for first, second in itertools.pairwise(unmarked)
            ):
                continue
            yield Violation(
                "twice", f"{one.key} came {len(unmarked)} times without a mark", one.events
            )


def _consumers(one: Operation) -> list[list[Event]]:
    """The deliveries; those of a fanout for each server, whatever its incarnation."""
    if one.kind != "fanout":
        return [one.received]
    found: dict[str, list[Event]] = defaultdict(list)
    for event in one.received:
        found[_name(event)].append(event)
    return list(found.values())


def _excused(first: Event, second: Event, history: History, promise: Promise) -> bool:
    """Whether the bus had a reason to deliver a message again, and none of its marks for it."""
    if not promise.marks_kept and any(
        first["t"] <= kill["until"] and kill["began"] <= second["t"] for kill in history.kills
    ):
        return True
    return not promise.marks_lost_links and any(
        fault["target"] in ("bus", _name(first))
        and first["t"] - AROUND <= fault["until"]
        and fault["began"] <= second["t"]
        for fault in history.faults
    )


# -- processes -------------------------------------------------------------------------------


def _left(history: History) -> Iterator[Violation]:
    for event in history.by["closed"]:
        if event["left"]:
            yield Violation("left", f"{event['p']} leaves {', '.join(event['left'])}", [event])
    before = {event["p"]: event for event in history.by["memory"] if event["phase"] == "before"}
    for event in history.by["memory"]:
        first = before.get(event["p"])
        if event["phase"] == "after" and first is not None:
            growth = event["rss"] - first["rss"]
            if growth > GROWTH:
                yield Violation(
                    "left", f"{event['p']} has grown by {growth / 2**20:.1f} MiB", [first, event]
                )


def _noisy(history: History) -> Iterator[Violation]:
    by_process: dict[str, list[Event]] = defaultdict(list)
    for event in history.by["log"]:
        by_process[event["p"]].append(event)
    for process, events in by_process.items():
        lines, first = worst_minute(events)
        if lines > LINES:
            within = [event for event in events if first <= event["t"] < first + MINUTE]
            loggers: Counter[str] = Counter()
            for event in within:
                loggers[event["logger"]] += event["lines"]
            yield Violation(
                "noisy",
                f"{process} wrote {lines} lines in a minute: {dict(loggers.most_common(4))}",
                [within[0], within[-1]],
            )


def worst_minute(events: Sequence[Event]) -> tuple[int, float]:
    """The most lines in any 60 seconds, and when these began."""
    worst, begun, lines, first = 0, 0.0, 0, 0
    for event in events:
        lines += event["lines"]
        while events[first]["t"] <= event["t"] - MINUTE:
            lines -= events[first]["lines"]
            first += 1
        if lines > worst:
            worst, begun = lines, events[first]["t"]
    return worst, begun


def _died(history: History) -> Iterator[Violation]:
    for event in history.by["died"]:
        yield Violation("died", f"{event['of']}: {event['error'][:200]}", [event])


# -- faults ----------------------------------------------------------------------------------


def _unmade(history: History) -> Iterator[Violation]:
    for fault in history.faults:
        if "error" in fault:
            yield Violation(
                "unmade", f"{fault['kind']} on {fault['target']} failed: {fault['error']}", [fault]
            )
    for event in history.by["conducted"]:
        noted = Counter(fault["kind"] for fault in history.faults)
        missing: Counter[str] = Counter(event["planned"]) - noted
        if missing.total() > event["unbegun"]:
            yield Violation(
                "unmade",
                f"of {sum(event['planned'].values())} planned faults {missing.total()} are not in "
                f"the history ({event['unbegun']} were not to begin): {dict(missing)}",
                [event],
            )
