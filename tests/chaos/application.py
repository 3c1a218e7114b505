# SPDX-License-Identifier: Apache-2.0
"""A client, an RPC server or a notification listener, told what to do on standard input.

See `tests.bars.application` for the lines; the commands are the methods of `Application`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import resource
import signal
import threading
import time
from pathlib import Path
from typing import Any

import oslo_messaging as om

from amqp1_driver import codec
from amqp1_driver.connection.receiver import Delivery
from amqp1_driver.driver import listener
from amqp1_driver.driver.incoming import Incoming
from tests.bars import process
from tests.bars.application import main
from tests.bars.support import configuration
from tests.chaos.history import Writer
from tests.chaos.traffic import EVENTS, TOPIC, Sender, Traffic

#: loggers whose lines count: the driver and what it stands on
OURS = ("amqp1_driver", "pyngus", "proton")
#: waits: time.sleep() fails with EINVAL when libfaketime lets the clock jump
_never = threading.Event()
#: seconds that a forked process has for its calls
FORK_SECONDS = 30.0


class Marked(Incoming):
    """Keeps the bus' redelivery mark, which the driver needs for its duplicate filter only."""

    def __init__(self, listener: Any, delivery: Delivery, message: codec.Message) -> None:
        super().__init__(listener, delivery, message)
        self.again = message.redelivered


class Counted(logging.Handler):
    """Notes in the history how many lines a logger has written, not which."""

    def __init__(self, history: Writer) -> None:
        super().__init__(logging.INFO)
        self.history = history

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(OURS):
            text = self.format(record)
            self.history.add("log", logger=record.name, lines=text.count("\n") + 1)


class Endpoint:
    """Methods of the RPC server and of the notification listener."""

    def __init__(self, history: Writer) -> None:
        self._history = history

    def take(self, ctxt: dict[str, Any], key: str) -> str:
        self._history.add("executed", id=key)
        return key

    def info(
        self,
        ctxt: dict[str, Any],
        publisher_id: str,
        event_type: str,
        payload: dict[str, Any],
        metadata: dict[str, Any],
    ) -> None:
        self._history.add("executed", id=payload["key"])


class Application:
    """The commands. Arguments and results are those of JSON; durations in seconds."""

    def __init__(self) -> None:
        self._history: Writer
        self._counted: Counted
        self._before = process.Leftovers()
        self._rpc: Any = None
        self._notifications: Any = None
        self._server: Any = None
        self._sender: Sender
        self._traffic: Traffic | None = None
        self._name = ""
        self._timeout = 0.0
        self._forks = 0
        faulthandler.register(signal.SIGUSR1, all_threads=True)

    # -- life ---------------------------------------------------------------------

    def open(
        self,
        folder: str,
        incarnation: str,
        name: str,
        url: str,
        timeout: float,
        options: dict[str, Any],
    ) -> int:
        """Make the transports; nothing connects yet. Return the process id."""
        self._history = Writer(Path(folder), incarnation)
        self._counted = Counted(self._history)
        logging.getLogger().addHandler(self._counted)
        threading.excepthook = self._thread_died
        listener.Incoming = Marked  # type: ignore[misc]
        self._name, self._timeout = name, timeout
        self._before = process.Leftovers()
        conf = configuration(**options)
        self._rpc = om.get_rpc_transport(conf, url)
        self._notifications = om.get_notification_transport(conf, url)
        self._history.add("started", name=name)
        return os.getpid()

    def close(self) -> list[str]:
        """Clean up; what is left over."""
        self.stop()
        for transport in (self._rpc, self._notifications):
            transport.cleanup()
        self._rpc = self._notifications = None
        left = self._before.find(5.0)
        self._history.add("closed", left=left)
        return left

    def stop(self) -> None:
        """Stop the traffic or the server."""
        if self._traffic is not None:
            hung = self._traffic.stop(self._timeout + 10)
            self._traffic = None
            self._sender.close()
            if hung:
                faulthandler.dump_traceback(all_threads=True)
        if self._server is not None:
            self._server.stop()
            self._server.wait()
            self._server = None

    def memory(self, phase: str) -> None:
        """Note what the process holds."""
        self._history.add(
            "memory",
            phase=phase,
            rss=process.resident(),
            descriptors=len(process.descriptors()),
            threads=threading.active_count(),
        )

    # -- servers ------------------------------------------------------------------

    def serve(self) -> None:
        """Start an RPC server; begins again after `stop`."""
        self._server = om.get_rpc_server(
            self._rpc,
            om.Target(topic=TOPIC, server=self._name),
            [Endpoint(self._history)],
            executor="threading",
        )
        self._start()

    def listen(self) -> None:
        """Start a listener for the topic of all and for one of its own."""
        self._server = om.get_notification_listener(
            self._notifications,
            [om.Target(topic=EVENTS), om.Target(topic=f"{EVENTS}-{self._name}")],
            [Endpoint(self._history)],
            executor="threading",
        )
        self._start()

    def _start(self) -> None:
        work = self._server._process_incoming

        def noted(incoming: list[Marked]) -> None:
            self._history.add("received", id=_key(incoming[0].message), again=incoming[0].again)
            work(incoming)

        self._server._process_incoming = noted
        self._server.start()

    # -- clients ------------------------------------------------------------------

    def start_traffic(self, rate: float, seed: int) -> None:
        self._sender = Sender(
            self._history, self._history.process, self._rpc, self._notifications, self._timeout
        )
        self._traffic = Traffic(self._sender, rate, seed)

    def stop_traffic(self) -> None:
        """Wait for what is under way; `probe` may follow."""
        assert self._traffic is not None
        hung = self._traffic.stop(self._timeout + 10)
        if hung:
            faulthandler.dump_traceback(all_threads=True)

    def probe(self, servers: list[str], listeners: list[str], timeout: float) -> None:
        """Try each subscription until it works or the time is over."""
        until = time.monotonic() + timeout
        for kind, names in (("call", servers), ("notify", listeners)):
            for name in names:
                works = self._sender.send(kind, name)
                while not works and time.monotonic() < until:
                    _never.wait(0.2)
                    works = self._sender.send(kind, name)
                self._history.add("probe", of=f"{kind} {name}", ok=works)
        for kind in ("fanout", "call", "cast", "notify"):
            works = self._sender.send(kind)
            while not works and time.monotonic() < until:
                _never.wait(0.2)
                works = self._sender.send(kind)
            self._history.add("probe", of=kind, ok=works)

    # -- faults -------------------------------------------------------------------

    def starve(self, seconds: float) -> None:
        """Give the process no further descriptor for so long."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        held: list[int] = []
        until = time.monotonic() + seconds
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(process.descriptors()) + 1, hard))
        try:
            while time.monotonic() < until:
                # also those that others close in the meantime
                with contextlib.suppress(OSError):
                    while True:
                        held.append(os.dup(0))
                _never.wait(0.005)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for number in held:
                os.close(number)

    def fork(self, calls: int) -> str:
        """Fork in the midst of the traffic; the child calls, and cleans up. How it ended."""
        self._forks += 1
        name = f"{self._history.process}.fork{self._forks}"
        pid = os.fork()
        if pid == 0:
            self._child(name, calls)
        return self._wait(pid, name)

    def _child(self, name: str, calls: int) -> None:
        status = 1
        try:
            history = self._counted.history = Writer(self._history.folder, name)
            history.add("started", name=name)
            sender = Sender(history, name, self._rpc, self._notifications, self._timeout)
            for _ in range(calls):
                sender.send("call")
                sender.send("notify")
            self._rpc.cleanup()
            self._notifications.cleanup()
            history.add("closed", left=[])
            status = 0
        finally:
            os._exit(status)

    def _wait(self, pid: int, name: str) -> str:
        until = time.monotonic() + FORK_SECONDS
        while time.monotonic() < until:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                if status:
                    self._history.add("died", of=name, error=f"exit status {status}")
                return f"exit status {status}"
            _never.wait(0.05)
        os.kill(pid, signal.SIGUSR1)
        _never.wait(0.5)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self._history.add("died", of=name, error=f"hung for {FORK_SECONDS} s")
        return "hung"

    def _thread_died(self, args: Any) -> None:
        thread = args.thread.name if args.thread is not None else "?"
        self._history.add("died", of=f"thread {thread}", error=repr(args.exc_value))
        threading.__excepthook__(args)


def _key(message: dict[str, Any]) -> str:
    key: str = message["payload" if "payload" in message else "args"]["key"]
    return key


if __name__ == "__main__":
    main(Application())
