# SPDX-License-Identifier: Apache-2.0
"""One bus node with clients, servers and listeners, each in a process and behind a proxy."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from amqp1_driver.testing.proxy import FaultProxy
from tests.bars.workers import Worker, WorkerError, log_folder
from tests.chaos import checker, history, nodes
from tests.chaos.history import Writer
from tests.chaos.promises import PROMISES

TOP = Path(__file__).resolve().parents[2]
#: seconds that each message may take
TIMEOUT = 2.0
#: seconds within which every subscription works again after the last fault
RECOVERY = 30.0
#: what makes a fault a second bearable; the rest is as it comes
OPTIONS: dict[str, Any] = {
    "default_send_timeout": TIMEOUT,
    "default_notify_timeout": TIMEOUT,
    "default_reply_timeout": TIMEOUT,
    "connection_retry_interval": 0.5,
    "connection_retry_interval_max": 5.0,
    "link_retry_delay": 1.0,
    "connect_timeout": 3.0,
    "idle_timeout": 4.0,
}
_FAKETIME = ("/usr/lib/{}/faketime/libfaketimeMT.so.1", "/usr/lib64/faketime/libfaketimeMT.so.1")


def faketime() -> str | None:
    """The library that lets the clock of a process jump; None if it is not installed."""
    machine = f"{os.uname().machine}-linux-gnu"
    return next((path for form in _FAKETIME if os.path.exists(path := form.format(machine))), None)


class Member:
    """A process and its way to the bus; one thread at a time.

    :param role: client, server or listener
    :param name: of the server, or of the client; stays over its restarts
    :param clocked: let its clock be set
    :param disk: folder of its telemetry, on a file system that can be filled up
    """

    def __init__(
        self, stage: Stage, role: str, name: str, clocked: bool = False, disk: Path | None = None
    ) -> None:
        self.role, self.name = role, name
        self.proxy = FaultProxy("127.0.0.1", stage.node.port)
        self.lock = threading.Lock()
        self.incarnation = name
        self.clock = stage.aside / f"clock-{name}" if clocked else None
        self.disk = disk
        self._stage = stage
        self._number = 0
        self._worker: Worker

    @property
    def pid(self) -> int:
        return self._worker.pid

    def start(self) -> None:
        """Start the process and what it serves."""
        self._number += 1
        self.incarnation = self.name if self._number == 1 else f"{self.name}+{self._number}"
        environment = {"PYTHONUNBUFFERED": "1"}
        if self.clock is not None:
            self.set_clock(0)
            environment |= {
                "LD_PRELOAD": faketime() or "",
                "DONT_FAKE_MONOTONIC": "1",
                "FAKETIME_CACHE_DURATION": "1",
                "FAKETIME_TIMESTAMP_FILE": str(self.clock),
            }
        self._worker = Worker(
            self.incarnation,
            self._stage.aside / f"{self.name}.log",
            "tests.chaos.application",
            environment,
        )
        options = dict(self._stage.options)
        if self.disk is not None:
            options |= {
                "telemetry_directory": str(self.disk),
                "telemetry_files_kept": 4,
                "telemetry_file_bytes": 65536,
            }
        self.do(
            "open",
            folder=str(self._stage.folder),
            incarnation=self.incarnation,
            name=self.name,
            timeout=TIMEOUT,
            options=options,
            url=f"amqp://{nodes.USER}:{nodes.PASSWORD}@127.0.0.1:{self.proxy.port}",
        )
        self.serve()

    def serve(self) -> None:
        """Start the server; a server whose bus is away tries until it has it."""
        if self.role != "client":
            self.do("serve" if self.role == "server" else "listen", within=90.0)

    def do(self, command: str, within: float = 30.0, **arguments: Any) -> Any:
        """Have the process do something."""
        return self._worker.do(command, within, **arguments)

    def begin(self, command: str, **arguments: Any) -> Future[Any]:
        """Have the process begin to do something."""
        return self._worker.begin(command, **arguments)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self._worker.kill()
        self._worker.stop()

    def set_clock(self, offset: int) -> None:
        """Let the clock jump to so many seconds from the right time."""
        assert self.clock is not None
        self.clock.write_text(f"{offset:+d}\n")

    def close(self) -> None:
        """End it; leftovers are in the history, and why it did not end."""
        try:
            self.do("close", within=40.0)
        except WorkerError as error:
            self._stage.history.add("died", of=self.incarnation, error=str(error)[:2000])
            with contextlib.suppress(ProcessLookupError):
                self.signal(signal.SIGUSR1)
                time.sleep(0.5)
        self._worker.stop()
        self.proxy.stop()


class Stage:
    """A context manager: everything runs inside of it, and nothing after it.

    :param bus: as `tests.functional.buses` names it
    :param folder: for history and logs
    :param count: how many clients, servers, listeners, each
    :param port: of the bus node, None for any
    """

    def __init__(
        self, bus: str, folder: Path, count: int = 2, port: int | None = None, **options: Any
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.bus, self.folder = bus, folder
        self.options = OPTIONS | options
        self.history = Writer(folder, "conductor")
        self.node = nodes.make(bus, folder, port)
        self.node_lock = threading.Lock()
        self.members: dict[str, Member] = {}
        self._count = count
        self._stack = contextlib.ExitStack()
        self._watch: Callable[[str, int], None]

    def __enter__(self) -> Stage:
        with contextlib.ExitStack() as stack:
            stack.callback(self._end)
            self._watch = stack.enter_context(watchdog(self.folder))
            stack.callback(self.node.wipe)
            self.node.start()
            self._populate(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def of(self, role: str) -> list[Member]:
        """The members with this role."""
        return [one for one in self.members.values() if one.role == role]

    def start_traffic(self, rate: float, seed: int) -> None:
        for number, client in enumerate(self.of("client")):
            client.do("start_traffic", rate=rate, seed=seed + 100 * number)

    def memory(self, phase: str) -> None:
        """Have all note what they hold."""
        for member in self.members.values():
            member.do("memory", phase=phase)

    def finish(self) -> None:
        """End the traffic, try all subscriptions, wait until the queues are empty."""
        clients = self.of("client")
        for client in clients:
            client.do("stop_traffic", within=60.0)
        with ThreadPoolExecutor(len(clients)) as pool:
            list(pool.map(self._probe, clients))
        self._drain()

    def _probe(self, client: Member) -> None:
        try:
            client.do(
                "probe",
                within=RECOVERY + 60,
                timeout=RECOVERY,
                servers=[one.name for one in self.of("server")],
                listeners=[one.name for one in self.of("listener")],
            )
        except WorkerError as error:
            self.history.add("died", of=client.incarnation, error=str(error)[:2000])

    def _drain(self) -> None:
        """Wait until every acknowledged message has been received, and then for two quiet seconds.

        A listener that cannot connect waits several seconds before it tries again, and finds its
        messages in its queue then.
        """
        before, until = -1, time.monotonic() + RECOVERY
        while time.monotonic() < until:
            size = sum(
                path.stat().st_size
                for path in self.folder.glob("*.jsonl")
                if path.name.startswith(("server", "listener"))
            )
            if size == before and not checker.lost(history.load(self.folder), PROMISES[self.bus]):
                return
            before = size
            time.sleep(2.0)

    def _populate(self, stack: contextlib.ExitStack) -> None:
        self.aside = stack.enter_context(log_folder(self.folder))
        clocked = faketime() is not None
        for role in ("server", "listener", "client"):
            for number in range(1, self._count + 1):
                name = f"{role}-{number}"
                disk = None
                if role == "client" and number == 1:
                    disk = stack.enter_context(small_disk(self.folder / "disk"))
                member = Member(
                    self, role, name, clocked and role != "listener" and number == 2, disk
                )
                self.members[name] = member
                stack.callback(member.proxy.stop)
                member.start()
                if role == "client":
                    self._watch(name, member.pid)

    def close_members(self) -> None:
        """Close all; clients first, as services do."""
        for role in ("client", "listener", "server"):
            for member in self.of(role):
                with member.lock:
                    member.close()
        self.members.clear()

    def _end(self) -> None:
        for member in self.members.values():
            member.kill()
        self.history.close()


@contextlib.contextmanager
def watchdog(folder: Path) -> Iterator[Callable[[str, int], None]]:
    """A watchdog process while the context lasts; a function to have another one watched."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.watchdog", str(folder)],
        cwd=TOP,
        stdin=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert process.stdin is not None
    stdin = process.stdin
    try:
        yield lambda name, pid: print(name, pid, file=stdin)
    finally:
        stdin.close()
        process.wait(10)


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """A file system of 1 MB; None where this user may not mount one."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "chaos", str(folder)],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)
