#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Count what the driver does for one call and for one notification, on both sides.

Starts the embedded router in a process of its own. Client and server are in this process, each on
a transport of its own. The program sends warm calls and notifications, and counts each function
of the package that runs, and each function written in C that the package calls, on all threads::

    python tools/walk.py             # a table
    python tools/walk.py --rst       # the same for doc/source/walk.inc
    python tools/walk.py --list      # and the functions of one call, by thread, in order
"""

from __future__ import annotations

import argparse
import logging
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import oslo_messaging as om
from oslo_config import cfg

import amqp1_driver
from amqp1_driver.bench.table import list_table, table
from amqp1_driver.testing.fixture import BusProcess

PACKAGE = str(Path(amqp1_driver.__file__).parent)
#: operations that are not counted: connections, links and caches are made by them
WARM_UP = 300
#: operations that are counted
COUNTED = 200
#: seconds in which the settlement of the last operation ends
PAUSE = 0.1


class Step(NamedTuple):
    """One call of a function: its depth on its thread's stack, its thread and its name."""

    depth: int
    thread: int
    name: str
    module: str


class Recorder:
    """Notes calls of functions while :attr:`steps` is a list. Any thread."""

    def __init__(self) -> None:
        self.steps: list[Step] | None = None
        self._modules: dict[CodeType, str | None] = {}

    def _module(self, code: CodeType) -> str | None:
        """Return the module of the package that has this code, or None."""
        try:
            return self._modules[code]
        except KeyError:
            path = code.co_filename
            inside = path.startswith(PACKAGE) and "/testing/" not in path
            found = path[len(PACKAGE) + 1 : -3].replace("/", ".") if inside else None
            return self._modules.setdefault(code, found)

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        steps = self.steps
        if steps is None or event not in ("call", "c_call"):
            return
        module = self._module(frame.f_code)
        if module is None:
            return
        depth, outer = 0, frame.f_back
        while outer is not None:
            depth, outer = depth + 1, outer.f_back
        if event == "call":
            name = f"{module}:{frame.f_code.co_qualname}"
        else:
            depth += 1
            name = f"C {getattr(arg, '__qualname__', arg)}"
        steps.append(Step(depth, threading.get_ident(), name, module))


class Walk(NamedTuple):
    """What one operation takes.

    :ivar calls: calls of functions
    :ivar functions: different functions, and functions in C, that at least half of the operations
        call
    :ivar modules: modules of these functions
    :ivar hops: functions through which a message passes from the mailbox to proton
    """

    calls: float
    functions: int
    modules: int
    hops: int


#: the function that takes a message from the mailbox, and those that give it to proton
MAILBOX, PROTON = ":Connection.send", ("C send", "C pn_link_send")


def _hops(steps: list[Step]) -> int:
    for begin, start in enumerate(steps):
        if start.name.endswith(MAILBOX):
            for step in steps[begin + 1 :]:
                if step.thread == start.thread and step.name in PROTON:
                    return step.depth - start.depth
    return 0


def walk(recorder: Recorder, operation: Callable[[], object]) -> tuple[Walk, list[Step]]:
    """Repeat an operation; return what one takes, and all steps."""
    for _ in range(WARM_UP):
        operation()
    recorder.steps = steps = []
    for _ in range(COUNTED):
        operation()
    time.sleep(PAUSE)
    recorder.steps = None
    called = Counter(step.name for step in steps)
    modules = Counter(step.module for step in steps)
    usual = COUNTED / 2
    return Walk(
        len(steps) / COUNTED,
        sum(count >= usual for count in called.values()),
        sum(count >= usual for count in modules.values()),
        _hops(steps),
    ), steps


def _configuration() -> Any:
    conf = cfg.ConfigOpts()
    conf([])
    return conf


class _Endpoint:
    """Answers calls, and takes notifications."""

    def __init__(self) -> None:
        self.taken = threading.Semaphore(0)

    def echo(self, ctxt: dict[str, Any], text: str) -> str:
        return text

    def info(self, ctxt: Any, publisher: str, event: str, payload: Any, metadata: Any) -> None:
        self.taken.release()


def measure() -> dict[str, tuple[Walk, list[Step]]]:
    """Walk one call and one notification."""
    recorder = Recorder()
    with BusProcess("router") as router:
        threading.setprofile(recorder)
        sys.setprofile(recorder)

        def rpc() -> Any:
            return om.get_rpc_transport(_configuration(), router.url())

        def notification() -> Any:
            return om.get_notification_transport(_configuration(), router.url())

        endpoint = _Endpoint()
        transports = [rpc(), notification(), rpc(), notification()]
        servers = [
            om.get_rpc_server(
                transports[0],
                om.Target(topic="walk", server="one"),
                [endpoint],
                executor="threading",
            ),
            om.get_notification_listener(
                transports[1], [om.Target(topic="walk")], [endpoint], executor="threading"
            ),
        ]
        for server in servers:
            server.start()
        client = om.get_rpc_client(transports[2], om.Target(topic="walk"))
        notifier = om.Notifier(transports[3], "walk", driver="messagingv2", topics=["walk"])

        def notify() -> None:
            notifier.info({}, "event", {})
            endpoint.taken.acquire(timeout=30)

        found = {
            "one call": walk(recorder, lambda: client.call({}, "echo", text="x")),
            "one notification": walk(recorder, notify),
        }
        sys.setprofile(None)
        threading.setprofile(None)
        for server in servers:
            server.stop()
            server.wait()
        for transport in transports:
            transport.cleanup()
        return found


COLUMNS = ("", "calls of functions", "functions", "modules", "hops from the mailbox to proton")


def cells(found: dict[str, Walk]) -> list[tuple[str, ...]]:
    """Return the rows of the table, the first one with the titles."""
    return [COLUMNS, *((name, *(f"{round(x)}" for x in one)) for name, one in found.items())]


def main() -> None:
    parser = argparse.ArgumentParser(description="Count what the driver does for one message.")
    parser.add_argument("--list", action="store_true", help="print the functions of one call")
    parser.add_argument("--rst", action="store_true", help="print a table of reStructuredText")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    found = measure()
    rows = cells({name: counts for name, (counts, _) in found.items()})
    if options.rst:
        print("\n".join(list_table(rows)), end="")
        return
    print("\n".join(table(rows)))
    if options.list:
        for thread in dict.fromkeys(step.thread for step in found["one call"][1]):
            print(f"\nthread {thread}")
            for step in found["one call"][1]:
                if step.thread == thread:
                    print(" " * step.depth + step.name)


if __name__ == "__main__":
    main()
