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

"""The other side of :mod:`.held`: knows how each start of the job stands, and holds readers."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amqp1_driver.pipeline.spool import files

WAIT = 120.0


class Run:
    """One start of the job. Fields change under the lock of :class:`Control`."""

    def __init__(self, number: int, max_rows: int, max_bytes: int, capped: bool) -> None:
        self.number, self.max_rows, self.max_bytes = number, max_rows, max_bytes
        #: whether these are small enough to be felt
        self.capped = capped
        self.jvm = self.reader = 0
        #: last row that the spool had, of this start
        self.high = 0
        #: progress events of each query, and their rows
        self.batches = {"bronze": 0, "silver": 0}
        self.rows = {"bronze": 0, "silver": 0}
        self.errors: list[str] = []
        #: the reader is held once it has appended row ``hold_at``; here it is while it is held
        self.hold_at: int | None = None
        self.held = 0
        #: set by who watches the process
        self.exit: int | None = None


class Control(socketserver.ThreadingTCPServer):
    """Listens on 127.0.0.1. A context manager.

    :param spool: folder, looked at after each append while the reader waits
    :param on_high: told of each append, with the last row
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, spool: Path, on_high: Callable[[int], None]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port = int(self.server_address[1])
        self.runs: list[Run] = []
        self.changed = threading.Condition()
        self._spool, self._on_high = spool, on_high
        #: most rows and bytes that were ever on disc below small caps, and what broke any
        self.most_rows = self.most_bytes = self.looks = 0
        self.over: list[str] = []
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Control:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        super().__exit__()

    def begin(self, max_rows: int, max_bytes: int, capped: bool = True) -> Run:
        """The job is about to be started, with these caps."""
        with self.changed:
            self.runs.append(Run(len(self.runs), max_rows, max_bytes, capped))
            return self.runs[-1]

    def wait(self, run: Run, what: str, true: Callable[[Run], bool]) -> None:
        """Until the run has come so far.

        :raises AssertionError: it has ended before, or the time is up
        """
        with self.changed:
            there = self.changed.wait_for(lambda: true(run) or run.exit is not None, WAIT)
            assert there, f"start {run.number}: no {what} within {WAIT:g} s: {vars(run)}"
            assert true(run), f"start {run.number} ended, no {what}: {vars(run)}"

    def heard(self, entry: dict[str, Any]) -> None:
        """An event of a job's process; returns when that may go on."""
        event, run = entry["event"], self.runs[entry["run"]]
        if event == "appended":
            self._on_high(entry["high"])
        with self.changed:
            if event == "appended":
                run.reader, run.high = entry["pid"], entry["high"]
                self._look(run)
            elif event == "session":
                run.jvm = entry["jvm"]
            elif event == "terminated":
                if entry["exception"]:
                    run.errors.append(entry["exception"])
            else:
                run.batches[event] += 1
                run.rows[event] += entry["rows"]
            held = event == "appended" and run.hold_at is not None and run.high >= run.hold_at
            run.held = run.reader if held else 0
            self.changed.notify_all()
            if held and not self.changed.wait_for(lambda: run.exit is not None, WAIT):
                run.errors.append("held and not killed")

    def _look(self, run: Run) -> None:
        """What is on disc; a commit may take files away meanwhile, nothing adds any."""
        found = files.segments(self._spool)
        rows = sum(each.hi - each.lo + 1 for each in found)
        size = sum(each.size for each in found)
        self.looks += 1
        if run.capped:
            self.most_rows, self.most_bytes = max(self.most_rows, rows), max(self.most_bytes, size)
        if rows > run.max_rows or size > run.max_bytes:
            self.over.append(f"start {run.number}: {rows} rows, {size} bytes on disc")


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        control = self.server
        assert isinstance(control, Control)
        try:
            for line in self.rfile:
                control.heard(json.loads(line))
                self.wfile.write(b"\n")
        except ConnectionError:
            pass  # killed
