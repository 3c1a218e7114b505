# SPDX-License-Identifier: Apache-2.0

"""Kill the job and the bus in live flow, again and again: each notification is once in silver.

    python -m tests.pipeline.crash.trial [--kills 20] [--rows 500000] [--seed N] [--url URL]

A publisher sends notifications ``n-0``, ``n-1`` … to a queue of RabbitMQ, ``amqp1 pipeline
notifications`` takes them in as bronze and silver. What is killed by SIGKILL, where, is drawn
from a seed that is printed:

``jvm``      the JVM; its reader process outlives it by a moment
``reader``   the reader process, at any moment
``between``  the reader process after fsync, before the bus is told that rows were accepted
``bus``      the RabbitMQ node, which is started again; not with ``--url``

After each but the last the job is started anew. All is killed in live flow: right before it the
publisher is seen to send, and to have messages under way that the bus has not confirmed; how many
is part of the result. Prints JSON; exit 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bars.rabbitmq import RabbitMQ
from tests.pipeline.crash import held, processes, verdict
from tests.pipeline.crash.control import Control, Ended, Run
from tests.pipeline.crash.flow import TOPIC, Flow, Live

_TOP = Path(__file__).resolve().parents[3]
#: seconds for a job to end by itself once a part of it was killed, or nothing is left to do
#: Spark gives a Python worker ten seconds to connect back, which a loaded machine may exceed and
#: nothing in Spark tries again: a job that fails so is started again, so often at most
SLOW_WORKER, RESTARTS = "connect back", 8
#: seconds that the last process may take to notice that the others are gone
LAST = 20
#: seconds that a publisher that waits may take to go on by itself, before something is killed
PATIENCE = 5
KINDS = ("between", "jvm", "bus", "reader")
#: right after which event a process is killed
MOMENTS = ("append", "bronze", "silver")
#: of the job, while it is in the flow
CONTINUOUS = ("--continuous", "--every", "0.5", "--gold-every", "3600")


@dataclasses.dataclass(frozen=True)
class Size:
    """How large it is: ``ahead`` is how far the publisher may be before the spool.

    That is more than it may have unconfirmed, so what it waits for is always sent already.
    ``spread``: see :class:`.Flow`.
    """

    kills: int = 4
    rows: int = 20_000
    ahead: int = 2_000
    max_rows: int = 5_000
    max_bytes: int = 4_000_000
    batch: int = 2_000
    spread: float = 6.0

    @property
    def share(self) -> float:
        """Of the flow, for each kill; what is left comes after the last."""
        return self.rows / (self.kills + 1.5)


SHORT = Size()
LONG = Size(20, 500_000, 12_000, 60_000, 48_000_000, 20_000, 20.0)


@dataclasses.dataclass(frozen=True)
class Kill:
    """``at``: row of the spool from which on; ``moment``: right after which event."""

    kind: str
    at: int
    moment: str


def plan(size: Size, kinds: tuple[str, ...], seed: int) -> list[Kill]:
    """Kills of all kinds equally often, each anywhere in its share of the flow."""
    source = random.Random(seed)
    drawn = [kinds[number % len(kinds)] for number in range(size.kills)]
    source.shuffle(drawn)
    if drawn[-1] == "bus":
        # what comes after the last kill is the run that takes all that is left
        drawn.append(drawn.pop(next(at for at, kind in enumerate(drawn) if kind != "bus")))
    return [
        Kill(
            kind,
            int((number + source.uniform(0.3, 0.95)) * size.share),
            "append" if kind == "between" else source.choice(MOMENTS),
        )
        for number, kind in enumerate(drawn)
    ]


@dataclasses.dataclass(frozen=True)
class Done:
    """A kill that was done, ``row`` is the last of the spool."""

    kind: str
    moment: str
    row: int
    live: Live


class Trial:
    """One trial in a folder of its own.

    :param node: may be killed; None: there is only a URL
    """

    def __init__(self, folder: Path, size: Size, url: str, node: RabbitMQ | None) -> None:
        self.folder, self.size, self.url, self.node = folder, size, url, node
        self.lake = folder / "lake"
        self.flow = Flow(url, size.rows, size.ahead, size.spread)
        self.control = Control(self.lake / "_spool", self.flow.allow)
        self.jobs: list[subprocess.Popen[bytes]] = []
        self.done: list[Done] = []
        #: starts that Spark gave up because its Python worker was slow
        self.slow = 0

    def start(self, *arguments: str, rows: int | None = None) -> Run:
        """Start the job; ``rows``: with a cap that is not felt."""
        size = self.size
        run = (
            self.control.begin(size.max_rows, size.max_bytes)
            if rows is None
            else self.control.begin(rows, 1 << 40, capped=False)
        )
        options = {
            "priorities": "info",
            "lingerMs": 50,
            "segmentRows": size.batch,
            "maxRowsPerTrigger": size.batch if run.capped else 10 * size.batch,
            "maxSpoolRows": run.max_rows,
            "maxSpoolBytes": run.max_bytes,
            "drainIdleMs": 1500,
        }
        command = [
            sys.executable,
            "-m",
            "tests.pipeline.crash.held",
            "--lake",
            str(self.lake),
            "--url",
            self.url,
            "--topic",
            TOPIC,
            *arguments,
        ]
        for name, value in options.items():
            command += ["--source-option", f"{name}={value}"]
        environment = {
            **os.environ,
            held.PORT: str(self.control.port),
            held.RUN: str(run.number),
            "PYTHONPATH": str(_TOP),
        }
        with (self.folder / f"job-{run.number}.log").open("wb") as log:
            job = subprocess.Popen(
                command,
                cwd=_TOP,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.jobs.append(job)
        threading.Thread(target=self._watch, args=(run, job), daemon=True).start()
        return run

    def _watch(self, run: Run, job: subprocess.Popen[bytes]) -> None:
        code = job.wait()
        with self.control.changed:
            run.exit = code
            self.control.changed.notify_all()

    def run(self, kills: list[Kill]) -> dict[str, Any]:
        """All kills, and then what is left; returns what was seen, ``wrong`` among it."""
        began = time.monotonic()
        run: Run | None = None
        with self.control:
            try:
                self.flow.start()
                for number, kill in enumerate(kills, 1):
                    # a whole share more than the kill can be at
                    self.flow.open(int((number + 1) * self.size.share))
                    run = self._kill(run or self.start(*CONTINUOUS), kill)
                self.flow.finish()
                if run is not None:
                    self.jobs[run.number].terminate()
                    self._ended(run, 0)
                # the spool takes all that is left, so one run for what is there has it
                last = self.start(rows=2 * self.size.rows)
                self.control.ended(last)
                while last.exit and self._was_slow(last):
                    last = self.start(rows=2 * self.size.rows)
                    self.control.ended(last)
                self._ended(last, 0)
            finally:
                left = [pid for job in self.jobs for pid in processes.left(job.pid, LAST)]
                for pid in left:
                    processes.kill(pid)
        found = verdict.judge(self.lake, self.size.rows)
        killed = report(self.done, self.flow.resent)
        wrong = found.wrong + self.control.over + not_live(killed)
        if left:
            wrong.append(f"processes left: {left}")
        return {
            "wrong": wrong,
            "kills": killed,
            "starts": len(self.jobs),
            "slow_starts": self.slow,
            "rows": self.size.rows,
            "bronze": found.bronze,
            "sent_again": self.flow.resent,
            "caps": [self.size.max_rows, self.size.max_bytes],
            "most_on_disc": [self.control.most_rows, self.control.most_bytes],
            "looks": self.control.looks,
            "seconds": round(time.monotonic() - began),
        }

    def _was_slow(self, run: Run) -> bool:
        """Whether a run that has ended did so for a Python worker of Spark; counts it."""
        log = (self.folder / f"job-{run.number}.log").read_text(errors="replace")
        if self.slow >= RESTARTS or not any(SLOW_WORKER in text for text in (*run.errors, log)):
            return False
        self.slow += 1
        say(f"start {run.number}: a Python worker was slow; again")
        return True

    def _ripe(self, run: Run, kill: Kill) -> Run:
        """Wait until it is time for the kill; returns what runs then."""
        while True:
            try:
                self._wait(run, kill)
                return run
            except Ended:
                self.control.ended(run)
                if not self._was_slow(run):
                    raise
                run = self.start(*CONTINUOUS)

    def _wait(self, run: Run, kill: Kill) -> None:
        control = self.control
        if kill.kind == "between":
            with control.changed:
                run.hold_at = kill.at
            control.wait(run, "append to be held at", lambda run: run.held > 0)
            return
        control.wait(run, f"row {kill.at}", lambda run: run.high >= kill.at)
        if kill.moment != "append":
            seen = run.batches[kill.moment]
            control.wait(
                run, f"batch of {kill.moment}", lambda run: run.batches[kill.moment] > seen
            )

    def _kill(self, run: Run, kill: Kill) -> Run | None:
        """Wait until it is time, and kill; returns what runs on."""
        run = self._ripe(run, kill)
        assert run.exit is None and not run.errors, f"it failed before it was killed: {vars(run)}"
        # while the reader is held nothing comes into the spool that the publisher could wait for
        live = self.flow.live(0 if kill.kind == "between" else PATIENCE)
        self.done.append(Done(kill.kind, kill.moment, run.high, live))
        say(str(self.done[-1]))
        if kill.kind == "bus":
            assert self.node is not None
            self.node.kill()
            self.flow.killed()
            self.node.start()
            return run
        processes.kill(run.jvm if kill.kind == "jvm" else run.reader)
        self.flow.killed()
        self._ended(run, None)
        return None

    def _ended(self, run: Run, code: int | None) -> None:
        """Wait until the job has ended, with this code, or with any but 0."""
        self.control.ended(run)
        assert run.exit == code if code is not None else run.exit != 0, vars(run)

    def story(self) -> str:
        """All that may tell why it failed."""
        logs = [
            f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}"
            for path in sorted(self.folder.glob("job-*.log"))
        ]
        runs = [str(vars(run)) for run in self.control.runs]
        return "\n".join([*logs, *runs, verdict.state(self.lake)])


def report(done: list[Done], resent: int) -> list[dict[str, Any]]:
    """The kills in words; ``sent_again``: what was in doubt, from each to the next.

    :param resent: messages that were sent again in all
    """
    until = [after.live.resent for after in done[1:]] + [resent]
    return [
        {
            "kill": f"{each.kind} after {each.moment}",
            "row": each.row,
            "sent": each.live.sent,
            "unconfirmed": each.live.unconfirmed,
            "waited": each.live.waited,
            "sent_again": count - each.live.resent,
        }
        for each, count in zip(done, until, strict=True)
    ]


def not_live(kills: list[dict[str, Any]]) -> list[str]:
    """The kills at which nothing was under way, or that left nothing in doubt where they must."""
    wrong = [f"nothing was under way: {each}" for each in kills if not each["unconfirmed"]]
    return wrong + [
        f"no message was in doubt: {each}"
        for each in kills
        if each["kill"].startswith("bus") and not each["sent_again"]
    ]


def say(text: str) -> None:
    """On stderr, with the time."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def running(folder: Path) -> Iterator[RabbitMQ]:
    """A RabbitMQ node of one's own."""
    node = RabbitMQ("sid", folder / "rabbitmq.log")
    node.install()
    try:
        node.start()
        yield node
    finally:
        node.wipe()


def trial(folder: Path, size: Size, seed: int, url: str | None = None) -> dict[str, Any]:
    """Do it; a failure is told with all that there is to know.

    :param url: of a bus that is not to be killed; None: RabbitMQ, which is
    """
    say(f"seed {seed}")
    with contextlib.ExitStack() as stack:
        node = None if url else stack.enter_context(running(folder))
        kinds = KINDS if node else tuple(kind for kind in KINDS if kind != "bus")
        one = Trial(folder, size, url or node.url() if node else str(url), node)
        try:
            result = one.run(plan(size, kinds, seed))
        except BaseException:
            say(one.story())
            raise
        if result["wrong"]:
            say(one.story())
        return {"seed": seed, **result}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    size = LONG if os.environ.get("AMQP1_LONG") == "1" else SHORT
    parser.add_argument("--kills", type=int)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--url", help="of a bus that is not to be killed")
    parser.add_argument("--folder", help="where the files go for the time of the run")
    given = parser.parse_args()
    if given.rows or given.kills:
        size = dataclasses.replace(
            LONG if (given.rows or size.rows) > 100_000 else size,
            **{
                name: value
                for name, value in vars(given).items()
                if name in ("rows", "kills") and value
            },
        )
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        result = trial(Path(folder), size, given.seed, given.url)
    print(json.dumps(result, indent=1))
    return 1 if result["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
