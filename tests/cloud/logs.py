# SPDX-License-Identifier: Apache-2.0
"""What messaging left in the services' logs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

#: a line as oslo.log writes it: date, time, process, level, logger, context, text
_LINE = re.compile(
    r"^(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) \d+ (?P<level>[A-Z]+) (?P<logger>\S+) "
    r"(?:\[.*?\] )?(?P<text>.*)$"
)
#: loggers of messaging, whatever the driver
_LOGGERS = ("amqp1_driver", "oslo_messaging", "oslo.messaging", "pyngus", "proton", "amqp", "kombu")
#: what an error that messaging caused says, in its text or traceback
_WORDS = re.compile(r"oslo_messaging|amqp1_driver|Messag(?:ing|e)(?:Timeout|DeliveryFailure)")
#: what differs from one line to the next of the same cause
_VARYING = re.compile(r"req-[0-9a-f-]+|[0-9a-f]{8,}(?:-[0-9a-f]+)*|\d+(?:\.\d+)?")
#: each process says these once for each transport or server, and several share a log
_ONCE_EACH = (
    "SASL PLAIN without TLS",
    # of oslo.messaging, 30 s after Neutron's workers have begun to wait for their end
    "Possible hang: wait is waiting for stop to complete",
)

Period = tuple[str, str]


class Entry(NamedTuple):
    """One entry of a log, with the lines of its traceback."""

    time: str
    level: str
    logger: str
    text: str


class Complaint(NamedTuple):
    """An error, or a warning that is repeated, that messaging has caused."""

    service: str
    level: str
    count: int
    text: str
    #: of the first, as in the log
    time: str


def entries(lines: Iterable[str]) -> Iterator[Entry]:
    """Yield the entries. Lines of a traceback carry the same head as their entry, so that those
    with the same time, level and logger are one entry.
    """
    current: Entry | None = None
    for line in lines:
        match = _LINE.match(line.rstrip("\n"))
        if match is None:
            if current is not None:
                current = current._replace(text=f"{current.text}\n{line.rstrip()}")
            continue
        found = Entry(*match.group("time", "level", "logger", "text"))
        if current is not None and found[:3] == current[:3] and found.level == "ERROR":
            current = current._replace(text=f"{current.text}\n{found.text}")
            continue
        if current is not None:
            yield current
        current = found
    if current is not None:
        yield current


def complaints(service: str, lines: Iterable[str], quiet: Iterable[Period] = ()) -> list[Complaint]:
    """Return what messaging caused: each error, and each warning that comes more than once.

    :param quiet: begin and end of each time in which something was down, as in the log; what
        comes then is left out
    """
    errors: Counter[str] = Counter()
    warnings: Counter[str] = Counter()
    examples: dict[str, Entry] = {}
    for entry in entries(lines):
        if any(begin <= entry.time <= end for begin, end in quiet):
            continue
        ours = entry.logger.split(".")[0] in _LOGGERS or entry.logger.startswith("oslo.messaging")
        head = entry.text.split("\n", 1)[0]
        kind = _VARYING.sub("N", f"{entry.logger} {head}")
        if entry.level in ("ERROR", "CRITICAL") and (ours or _WORDS.search(entry.text)):
            errors[kind] += 1
        elif entry.level == "WARNING" and ours and not any(once in head for once in _ONCE_EACH):
            warnings[kind] += 1
        else:
            continue
        examples.setdefault(kind, entry)
    repeated = {kind: count for kind, count in warnings.items() if count > 1}
    return [
        Complaint(
            service,
            level,
            count,
            f"{examples[kind].logger}: {examples[kind].text.splitlines()[0]}",
            examples[kind].time,
        )
        for level, found in (("ERROR", errors), ("WARNING", repeated))
        for kind, count in found.items()
    ]


def search(folder: Path, quiet: Iterable[Period] = ()) -> list[Complaint]:
    """Return the complaints in all logs of a folder, without those of the quiet times."""
    found: list[Complaint] = []
    for log in sorted(folder.iterdir()):
        if log.name != "schema":
            with log.open(errors="replace") as lines:
                found += complaints(log.name, lines, quiet)
    return found
