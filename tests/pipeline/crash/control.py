# SPDX-License-Identifier: Apache-2.0

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
#: seconds without any event: of a job whose Spark does not run yet, and of one whose does
START, QUIET = 400.0, 240.0


class Ended(AssertionError):
    """A run has ended before it came as far as it was waited for."""


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
        #: events so far
        self.heard = 0
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
        """Wait until the run has come so far, for as long as it goes on.

        :raises Ended: it has ended before, or a query of it has
        :raises AssertionError: nothing was heard of it for too long
        """

        def over() -> bool:
            return true(run) or run.exit is not None or bool(run.errors)

        with self.changed:
            while not over():
                self._hear(run, what, over)
            if not true(run):
                raise Ended(f"start {run.number} ended, no {what}: {vars(run)}")

    def ended(self, run: Run) -> None:
        """Wait until the process of the run has ended, for as long as it goes on."""
        with self.changed:
            while run.exit is None:
                self._hear(run, "end", lambda: run.exit is not None)

    def _hear(self, run: Run, what: str, over: Callable[[], bool]) -> None:
        """Wait for the next event of a run, or until it is over. Under the lock."""
        heard, limit = run.heard, QUIET if run.jvm else START
        went_on = self.changed.wait_for(lambda: over() or run.heard > heard, limit)
        assert went_on, (
            f"start {run.number}: no {what}, and nothing else within {limit:g} s: {vars(run)}"
        )

    def heard(self, entry: dict[str, Any]) -> None:
        """An event of a job's process; returns when that may go on."""
        event, run = entry["event"], self.runs[entry["run"]]
        if event == "appended":
            self._on_high(entry["high"])
        with self.changed:
            run.heard += 1
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
