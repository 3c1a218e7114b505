# SPDX-License-Identifier: Apache-2.0
"""Starts a cloud, takes it through the scenario, and says what was found. See tools/cloud.sh."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import json
import logging
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator

from amqp1_driver.masking import masked
from tests.bars.ports import lasting_port
from tests.cloud import faults, logs, networks, recorder, report, scenario, servers, volumes
from tests.cloud.bus import NAMES, Bus, checked
from tests.cloud.cloud import Cloud
from tests.cloud.layout import APIS, Layout
from tests.cloud.report import Reading, Report

TOP = pathlib.Path(__file__).resolve().parents[2]
#: where the logs of the last run stay
KEPT = TOP / ".cloud"
#: seconds in which the last notifications have to arrive
_SETTLE = 15.0
#: services that have a choice between native threads and eventlet
_CHOICE = ("nova-conductor", "nova-conductor-cell1", "nova-scheduler", "nova-compute", "nova-api")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    found = argparse.ArgumentParser(
        prog="tools/cloud.sh",
        description="Start a cloud of real OpenStack services on this machine, take it through "
        "a scenario, and say what messaging did. Exit status 0: every check passed; 1: not.",
    )
    found.add_argument(
        "--bus",
        type=checked,
        default="router",
        metavar="BUS",
        help=f"{', '.join(NAMES)}, or a transport URL",
    )
    found.add_argument("--driver", default="amqp", choices=("amqp", "rabbit"))
    found.add_argument("--computes", type=int, default=2, metavar="N", help="hosts (2)")
    found.add_argument(
        "--idle", type=float, default=0.0, metavar="SECONDS", help="measure the idle cloud first"
    )
    found.add_argument(
        "--eventlet", action="store_true", help="eventlet for Nova's services, not native threads"
    )
    found.add_argument(
        "--short", action="store_true", help="leave out resizes, migrations and what takes long"
    )
    found.add_argument(
        "--prepare",
        action="store_true",
        help="only fill the cache with what the services are installed from and their tables",
    )
    found.add_argument("--json", metavar="FILE", help="write what was found as JSON, too")
    return found


def steps(bus: Bus, short: bool) -> list[scenario.Step]:
    """Return the steps in their order."""
    found: list[scenario.Step] = [networks.network]
    found += servers.FIRST + networks.STEPS + volumes.STEPS
    found += servers.SHORT if short else servers.STEPS
    if not short:
        found += faults.STEPS
    if bus.ours:
        found.append(faults.restart_bus)
    return [*found, servers.delete_all, networks.clean]


class _Clock:
    """Says what goes on, with the seconds since the start."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    def say(self, text: str) -> None:
        for line in text.splitlines():
            print(f"{time.monotonic() - self._since:6.0f}  {line}", flush=True)


def _layout(options: argparse.Namespace, bus: Bus, folder: pathlib.Path) -> Layout:
    hosts = [f"nova-compute-{number}" for number in range(1, options.computes + 1)]
    chosen = [*(name for name in _CHOICE if name != "nova-compute"), *hosts]
    return Layout(
        run=folder,
        venv=pathlib.Path(sys.prefix),
        site=pathlib.Path(os.environ["CLOUD_SITE"]),
        ports={name: lasting_port() for name in APIS},
        transport_url=bus.url,
        cell_url=bus.cell_url,
        computes=options.computes,
        eventlet=frozenset(chosen if options.eventlet else ()),
    )


def _read(name: str, cloud: Cloud) -> Reading:
    services = {name: process.figures() for name, process in cloud.processes.items()}
    return Reading(name, time.monotonic(), cloud.bus.figures(), services)


def _take_through(cloud: Cloud, options: argparse.Namespace, found: Report, clock: _Clock) -> None:
    found.readings.append(_read("start", cloud))
    if options.idle:
        clock.say(f"idle for {options.idle:.0f} s")
        time.sleep(options.idle)
        found.readings.append(_read("idle", cloud))
    world = scenario.World(cloud)
    for step in steps(cloud.bus, options.short):
        if step is faults.restart_bus:
            found.readings.append(_read("scenario", cloud))
        result = scenario.perform(world, step)
        found.results.append(result)
        clock.say(report.step_line(result))
        if result.error:
            clock.say(f"              {result.error}")
            if step in servers.FIRST:
                break  # nothing else can be done
    found.readings.append(_read("restart of the bus and end", cloud))
    found.outages = world.outages
    quiet = [(_as_in_a_log(begin), _as_in_a_log(end + 1)) for begin, end in world.outages]
    every = logs.search(cloud.layout.logs)
    found.complaints = logs.search(cloud.layout.logs, quiet)
    elsewhere = {(c.service, c.text, c.time) for c in found.complaints}
    found.interruption = [c for c in every if (c.service, c.text, c.time) not in elsewhere]


def _as_in_a_log(when: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when)) + f".{int(when % 1 * 1000):03}"


def _count(cloud: Cloud, found: Report) -> None:
    """Compare what was notified and executed with what came. The services have ended by now."""
    events = cloud.recorder.events()
    sent = recorder.notified(events)
    deadline = time.monotonic() + _SETTLE
    while sent.keys() - cloud.listener.received().keys() and time.monotonic() < deadline:
        time.sleep(0.2)
    received = cloud.listener.received()
    found.notifications = len(sent)
    found.lost, found.refused = recorder.unreceived(events, received, found.outages)
    found.doubled = sorted(sent.get(i, i) for i, count in received.items() if count > 1)
    found.twice = recorder.executed_twice(events)
    found.failures = recorder.failures(events)


@contextlib.contextmanager
def _folder() -> Iterator[pathlib.Path]:
    """Yield a folder of a short name, since it holds sockets; keep its logs."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cloud-"))
    try:
        yield folder
    finally:
        shutil.rmtree(KEPT, ignore_errors=True)
        KEPT.mkdir()
        for name in ("logs", "etc", "events.jsonl", "node.log"):
            if (folder / name).exists():
                shutil.move(folder / name, KEPT / name)
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Run; return the exit status."""
    driver = pathlib.Path(os.environ["CLOUD_SITE"]).parent
    atexit.register(shutil.rmtree, driver, ignore_errors=True)
    options = parser().parse_args()
    warnings.simplefilter("ignore")
    logging.basicConfig(level=logging.CRITICAL)
    # ^C and SIGTERM end it in the same way
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    clock = _Clock()
    name = masked(options.bus) if "://" in options.bus else options.bus
    found = Report(name, options.driver, options.computes, [])
    with _folder() as folder:
        bus = Bus(options.bus, options.driver, folder)
        try:
            bus.start()
            bus.add_cell()
            _run(bus, options, found, clock, folder)
        except KeyboardInterrupt:
            found.broken = "interrupted"
        except Exception as e:
            found.broken = f"{type(e).__name__}: {e}"
        finally:
            bus.wipe()
    if options.prepare and not found.broken:
        return 0
    for line in [*report.figures(found.readings), "", *report.summary(found)]:
        print(line)
    print(f"logs: {KEPT}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(found.as_json(), indent=1))
    return 1 if found.faults() else 0


def _run(
    bus: Bus,
    options: argparse.Namespace,
    found: Report,
    clock: _Clock,
    folder: pathlib.Path,
) -> None:
    layout = _layout(options, bus, folder)
    found.eventlet = sorted(layout.eventlet)
    cloud = Cloud(layout, bus, pathlib.Path(os.environ["CLOUD_CACHE"]), clock.say)
    try:
        cloud.prepare()
        if options.prepare:
            return
        cloud.start()
        clock.say(f"{len(cloud.processes)} services are up")
        _take_through(cloud, options, found, clock)
    finally:
        found.stubborn = cloud.stop_services()
        clock.say("services have ended")
        _count(cloud, found)
        cloud.close()


if __name__ == "__main__":
    sys.exit(main())
