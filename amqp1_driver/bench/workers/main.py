# SPDX-License-Identifier: Apache-2.0

"""The main thread of a worker: a client or a server of one run, which obeys its parent.

The first order gives the worker its kind and role. A client then obeys "send"; a server obeys
"mark" (its measurement begins here), "count" and "report". Both obey "sample", "sampled" and "end".
A worker with another role takes the steps that its orders name: see ``steps``.
"""

from __future__ import annotations

import importlib
import os
import platform
import signal
import sys
import time
from typing import Any

from . import steps, usage
from .channel import Channel
from .ledger import Ledger
from .load import Load
from .sampler import Sampler


def main() -> None:
    """Follow orders until "end", or until the parent has ended."""
    # ^C reaches the whole group of processes: the parent ends this one in order
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = Channel()
    orders = channel.orders()
    order = next(orders)
    # a module of this package, which has the classes Client and Server, or the class Worker
    kind = importlib.import_module(f"{__package__}.{order['kind']}")
    if order["role"] == "client":
        _client(kind.Client(order), channel, orders)
    elif order["role"] == "server":
        _server(kind.Server, order, channel, orders)
    else:
        worker = kind.Worker(order)
        channel.tell("ready", pid=os.getpid(), about=_about(worker))
        steps.serve(worker, channel, orders)
    sys.stderr.flush()
    os._exit(0)  # do not wait for threads that a driver left behind


def _client(client: Any, channel: Channel, orders: Any) -> None:
    client.open()
    channel.tell("ready", pid=os.getpid(), about=_about(client))
    sampler = Sampler()
    for order in orders:
        if sampler.serve(order, channel):
            continue
        if order["do"] == "end":
            client.close()
            return
        before = usage.own()
        done = client.work(Load(**order["load"]))
        used = usage.own().since(before)
        channel.tell("done", **done, **_used(used), **client.extra())


def _server(make: Any, order: dict[str, Any], channel: Channel, orders: Any) -> None:
    ledger = Ledger()
    server = make(order, ledger)
    server.open()
    before = usage.own()
    channel.tell("ready", pid=os.getpid(), about=_about(server))
    sampler = Sampler()
    for order in orders:
        if sampler.serve(order, channel):
            continue
        if order["do"] == "end":
            server.close()
            return
        if order["do"] == "mark":
            before = usage.own()
            channel.tell("marked", at=time.monotonic_ns())
        elif order["do"] == "count":
            channel.tell("count", warm=ledger.warm, received=ledger.received)
        else:
            used = usage.own().since(before)
            channel.tell("report", **ledger.dump(), **_used(used))


def _used(used: usage.Usage) -> dict[str, Any]:
    return {"cpu_us": used.cpu_us, "switches": used.switches, "peak_kib": usage.peak_kib()}


def _about(part: Any) -> dict[str, Any]:
    return {"python": platform.python_version(), **part.about()}
