# SPDX-License-Identifier: Apache-2.0
"""Mixed traffic for hours with a fault a minute: ``python -m tests.chaos.soak --minutes 120``.

All buses run at the same time, each with processes of its own. SIGTERM ends it early and in order.
Results are written as they come: ``--report FOLDER`` makes table and plots of what is there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.chaos import analysis, faults, schedule
from tests.chaos.stage import Member, Stage

BUSES = ("rabbitmq-4.3", "router", "broker", "artemis")
#: seconds between two samples
PERIOD = 10.0


class Sampler:
    """Takes memory, descriptors and threads of all processes that are not killed.

    :param path: JSON lines
    """

    def __init__(self, path: Path, stages: list[Stage]) -> None:
        self._path = path
        self._members = [
            (stage.bus, member)
            for stage in stages
            for member in stage.members.values()
            if measured(member)
        ]
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(1, "sampler")
        self._ended = self._pool.submit(self._run)

    def stop(self) -> None:
        """End it.

        :raises Exception: that ended it before
        """
        self._stop.set()
        self._pool.shutdown()
        self._ended.result()

    def _run(self) -> None:
        with self._path.open("a", buffering=1) as file:
            while not self._stop.wait(PERIOD):
                for bus, member in self._members:
                    with contextlib.suppress(OSError):
                        file.write(
                            json.dumps(
                                {
                                    "t": time.monotonic(),
                                    "bus": bus,
                                    "p": member.name,
                                    **sample(member.pid),
                                }
                            )
                            + "\n"
                        )


def measured(member: Member) -> bool:
    """Whether no fault of the soak kills it."""
    return member.role == "client" or not member.name.endswith("-2")


def sample(pid: int) -> dict[str, float]:
    """What a process holds, from /proc: bytes, numbers, and seconds of processor time."""
    folder = Path(f"/proc/{pid}")
    times = (folder / "stat").read_text().rpartition(")")[2].split()
    return {
        "rss": int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        "descriptors": len(os.listdir(folder / "fd")),
        "threads": len(os.listdir(folder / "task")),
        "cpu": (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK"),
    }


def planned(stage: Stage, seed: int, minutes: float) -> list[schedule.Planned]:
    """A fault a minute; only the second server and the second listener are struck themselves."""
    targets = faults.targets(stage.members.values())
    for role in ("server", "listener"):
        targets[role] = [name for name in targets[role] if name.endswith("-2")]
    return schedule.plan(
        seed, max(1, int(minutes)), (50.0, 70.0), faults.kinds_on(stage.bus), targets
    )


def run(args: argparse.Namespace) -> int:
    folder: Path = args.folder
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        stages = [
            stack.enter_context(Stage(bus, folder / bus, port=args.port and args.port + n))
            for n, bus in enumerate(args.bus)
        ]
        (folder / "run.json").write_text(
            json.dumps(
                {
                    "seed": args.seed,
                    "minutes": args.minutes,
                    "rate": args.rate,
                    "buses": args.bus,
                    "began": time.monotonic(),
                    "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
                }
            )
        )
        for stage in stages:
            stage.start_traffic(args.rate, args.seed)
        sampler = Sampler(folder / "samples.jsonl", stages)
        stack.callback(sampler.stop)
        stop = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        with ThreadPoolExecutor(len(stages)) as pool:
            conducted = [
                pool.submit(
                    faults.Conductor(stage, args.seed + number).perform,
                    planned(stage, args.seed + number, args.minutes),
                    stop,
                )
                for number, stage in enumerate(stages)
            ]
            stop.wait(60 * args.minutes)
            stop.set()
        for one in conducted:
            one.result()
        sampler.stop()
        for stage in stages:
            stage.finish()
            stage.close_members()
    (folder / analysis.DONE).touch()
    return analysis.report(folder)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    add = parser.add_argument
    add("--minutes", type=float, default=120.0)
    add("--bus", action="append", help=f"default: {' '.join(BUSES)}")
    add("--rate", type=float, default=1.0, help="messages per second, kind and client")
    add("--seed", type=int, default=1)
    add("--port", type=int, help="of the first bus node, the others follow; default: any")
    add("--folder", type=Path, default=Path("soak"), help="for results; default: ./soak")
    add("--report", type=Path, metavar="FOLDER", help="run nothing, report what is there")
    args = parser.parse_args(arguments)
    args.bus = args.bus or list(BUSES)
    return analysis.report(args.report) if args.report else run(args)


if __name__ == "__main__":
    sys.exit(main())
