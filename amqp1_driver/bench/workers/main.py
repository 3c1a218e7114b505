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

"""A worker: one client or one server of one run, told by its parent what to do.

The first order says what to be; then a client knows "send", a server "count" and "mark" (from here
it is measured), both know "report", "sample", "sampled" and "end". Others do what each order names:
see ``steps``.
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
from .pace import Stint
from .sampler import Sampler


def main() -> None:
    """Serve orders until the last one or until the parent has gone."""
    # ^C reaches the whole group of processes: the parent ends this one in order
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = Channel()
    orders = channel.orders()
    order = next(orders)
    # what is measured: a module of this package with the classes Client and Server, or Worker
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
    os._exit(0)  # nothing here is worth waiting for threads that a driver left behind


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
        done = client.work(Stint(**order["stint"]))
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
