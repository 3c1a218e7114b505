# SPDX-License-Identifier: Apache-2.0
"""Chaos on one bus: ``python -m tests.chaos.run --bus rabbitmq-4.3 --faults 200 --seed 7``.

The exit status is 0 if the history has no violation and every planned fault is in it. A fault that
could not be made, with its reason, and the kinds that this machine cannot make are in the summary.
``--check FOLDER`` checks a history again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.chaos import checker, faults, history, schedule
from tests.chaos.promises import PROMISES
from tests.chaos.stage import Stage

#: seconds of traffic before the first fault
WARM_UP = 5.0
#: violations that are shown with their history
SHOWN = 3


def chaos(
    bus: str,
    folder: Path,
    *,
    seed: int,
    count: int,
    gap: tuple[float, float],
    rate: float,
    members: int = 2,
    kinds: Sequence[str] = (),
    warm_up: float = WARM_UP,
    port: int | None = None,
    **options: Any,
) -> None:
    """Run it; the history is in the folder.

    :param count: of faults
    :param gap: shortest and longest pause between two, seconds
    :param rate: messages per second, kind and client
    :param members: clients, servers, listeners, each
    :param kinds: those that may be used; all that the bus knows if there are none
    :param warm_up: seconds of traffic before the first fault
    :param options: of the driver
    """
    with Stage(bus, folder, members, port, **options) as stage:
        usable = [kind for kind in faults.kinds_on(bus) if not kinds or kind in kinds]
        found = faults.targets(stage.members.values())
        plan = schedule.plan(seed, count, gap, usable, found)
        (folder / "run.json").write_text(
            json.dumps(
                {
                    "bus": bus,
                    "seed": seed,
                    "faults": count,
                    "gap": gap,
                    "rate": rate,
                    "left out": faults.without_target(usable, found),
                    "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
                }
            )
        )
        stage.start_traffic(rate, seed)
        time.sleep(warm_up)
        stage.memory("before")
        faults.Conductor(stage, seed).perform(plan)
        stage.finish()
        stage.memory("after")
        stage.close_members()


def summary(events: Sequence[history.Event]) -> dict[str, Any]:
    """What was sent, with which result, under which faults."""
    ends = Counter(
        f"{event['k']} {event['e']}" for event in events if event["e"] in ("ok", "info", "fail")
    )
    noted = [event for event in events if event["e"] == "fault"]
    struck = [event for event in noted if not {"error", "reason"} & set(event)]
    lines: dict[str, list[history.Event]] = {}
    for event in events:
        if event["e"] == "log":
            lines.setdefault(event["p"], []).append(event)
    return {
        "messages": sum(ends.values()),
        "ends": dict(sorted(ends.items())),
        "planned": sum(
            sum(event["planned"].values()) for event in events if event["e"] == "conducted"
        ),
        "faults": len(struck),
        "kinds": dict(Counter(event["kind"] for event in struck)),
        "not made": [event for event in noted if "reason" in event],
        "failed faults": [event for event in noted if "error" in event],
        "marked again": sum(event["e"] == "received" and event["again"] for event in events),
        "lines per minute": max(
            (checker.worst_minute(one)[0] for one in lines.values()), default=0
        ),
    }


def report(folder: Path, out: Any = sys.stdout) -> list[checker.Violation]:
    """Check a history; print summary, seed and what is wrong."""
    run = json.loads((folder / "run.json").read_text())
    events = history.load(folder)
    violations = checker.check(events, PROMISES[run["bus"]]) + checker.unfinished(events)
    made = {**run, **summary(events)}
    print(json.dumps(made, indent=1), file=out)
    (folder / "summary.json").write_text(
        json.dumps({**made, "violations": Counter(one.rule for one in violations)})
    )
    print(
        f"{run['bus']}, seed {run['seed']}: {made['faults']} of {made['planned']} faults made, "
        f"{len(violations)} violations "
        f"{dict(Counter(one.rule for one in violations))}",
        file=out,
    )
    struck = [event for event in events if event["e"] == "fault"]
    for violation in violations[:SHOWN]:
        print(f"\n{violation.rule}: {violation.what}", file=out)
        for event in checker.minimal(violation, struck):
            print(f"  {json.dumps(event)}", file=out)
    for violation in violations[SHOWN : 10 * SHOWN]:
        print(f"{violation.rule}: {violation.what}", file=out)
    return violations


def row(folder: Path) -> str:
    """A line of the table in the documentation."""
    one = json.loads((folder / "summary.json").read_text())
    doubtful = sum(count for end, count in one["ends"].items() if end.endswith(" info"))
    fields = (
        one["bus"],
        one["seed"],
        one["faults"]
        if one["faults"] == one["planned"]
        else f"{one['faults']} of {one['planned']}",
        one["messages"],
        doubtful,
        one["marked again"],
        one["lines per minute"],
        ", ".join(f"{rule} {n}" for rule, n in one["violations"].items()) or "none",
        one["date"],
    )
    return "   " + ", ".join(f'"{field}"' for field in fields)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.run", description=__doc__)
    add = parser.add_argument
    add("--bus", choices=sorted(PROMISES), default="router")
    add("--faults", type=int, default=200)
    add("--seed", type=int, default=1)
    add(
        "--gap",
        type=float,
        nargs=2,
        default=(0.3, 1.2),
        metavar="SECONDS",
        help="shortest and longest pause between two faults",
    )
    add("--rate", type=float, default=8.0, help="messages per second, kind and client")
    add("--kinds", nargs="+", choices=sorted(schedule.FAULTS), default=[])
    add("--option", action="append", default=[], metavar="NAME=VALUE", help="of the driver")
    add("--port", type=int, help="of the bus node; default: any")
    add("--folder", type=Path, help="for history and logs; default: a new one")
    add("--check", type=Path, metavar="FOLDER", help="run nothing, check this history")
    add("--table", type=Path, nargs="+", metavar="FOLDER", help="rows for doc/source/chaos.rst")
    args = parser.parse_args(arguments)
    if args.table:
        print("\n".join(map(row, args.table)))
        return 0
    if args.check:
        return bool(report(args.check))
    folder = args.folder or Path(tempfile.mkdtemp(prefix="chaos-"))
    print(f"history in {folder}", flush=True)
    options = dict(one.partition("=")[::2] for one in args.option)
    chaos(
        args.bus,
        folder,
        seed=args.seed,
        count=args.faults,
        gap=tuple(args.gap),
        rate=args.rate,
        kinds=args.kinds,
        port=args.port,
        **options,
    )
    return bool(report(folder))


if __name__ == "__main__":
    sys.exit(main())
