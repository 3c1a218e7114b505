# SPDX-License-Identifier: Apache-2.0
"""A history: what happened in each process, one JSON object per line and one file per process.

Times (``t``) are those of the system's monotonic clock, the same in all processes. ``p`` is the
process, ``e`` the event:

invoke, ok, info, fail
    of an operation ``id`` of the kind ``k`` (call, cast, fanout, notify), as Jepsen names them:
    ``info`` is in doubt (a timeout, a delivery failure), ``fail`` an error that no caller expects.
    ``limit`` is the deadline in seconds, ``error`` the text.
received, executed
    a message ``id`` has reached a server's thread (before its acknowledgement; ``again`` is the
    bus' redelivery mark), and its endpoint.
probe
    a subscription ``of`` was tried after all faults; ``ok`` says whether it works.
log
    ``lines`` lines of the logger ``logger``.
fault
    ``kind`` on ``target`` from ``began`` to ``until``, with details of some kinds; ``reason`` if it
    could not be made, ``error`` if the program that makes it failed.
conducted
    the faults are over: ``planned`` numbers by kind, of which ``unbegun`` were not to begin.
late
    the machine let the process ``of`` wait for ``by`` seconds though it was ready to run; null:
    the watchdog itself.
started, closed, died
    a process; ``left`` is what it left behind, ``error`` the reason.
memory
    ``rss`` in bytes, ``descriptors`` and ``threads`` in ``phase`` (before, after) the faults.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Event = dict[str, Any]
#: seconds at the end of a history that is still being written
CUT_OFF = 10.0


class Writer:
    """Appends events to a file; a SIGKILL loses none. Any thread.

    :param folder: of the history
    :param process: name of the process, also of the file
    """

    def __init__(self, folder: Path, process: str) -> None:
        self.folder = folder
        self.process = process
        self._file = os.open(
            folder / f"{process}.jsonl",
            os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
            0o644,
        )

    def add(self, event: str, **fields: Any) -> None:
        """Write one event with the time of now."""
        line = {"t": round(time.monotonic(), 6), "p": self.process, "e": event, **fields}
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)


def load(folder: Path, running: bool = False) -> list[Event]:
    """Read all files of a history, in the order of time.

    A line that a SIGKILL has cut short is left out.

    :param running: it is still being written: leave out the last seconds, of which some files
        have more than others, and what began without an end in them
    """
    until = time.monotonic() - CUT_OFF if running else math.inf
    found: list[Event] = []
    for path in sorted(folder.glob("*.jsonl")):
        found.extend(
            event for event in _lines(path.read_bytes().splitlines()) if event["t"] <= until
        )
    if running:
        ended = {event["id"] for event in found if event["e"] in ("ok", "info", "fail")}
        found = [
            event
            for event in found
            if event["e"] != "invoke" or event["id"] in ended or event["t"] < until - CUT_OFF
        ]
        begun = {event["id"] for event in found if event["e"] == "invoke"}
        found = [
            event
            for event in found
            if event["e"] not in ("received", "executed") or event["id"] in begun
        ]
    return sorted(found, key=lambda event: event["t"])


def _lines(lines: Iterable[bytes]) -> Iterable[Event]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue
