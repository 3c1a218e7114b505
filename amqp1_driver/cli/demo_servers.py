# SPDX-License-Identifier: Apache-2.0

"""The RPC servers of ``amqp1 demo``, each in a process of its own, and the events they report.

The first line of a server's standard input, in JSON, says what to serve; so the list of processes
shows no password. Each further line releases the calls that the server holds. The process ends when
standard input ends, which happens when the demonstration ends, whatever the reason. The server
reports its events by lines of JSON on standard output.
"""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
import threading
import time
import traceback
from typing import Any, NamedTuple

import oslo_messaging
from oslo_config import cfg

#: seconds that the last output of a process may take
END_SECONDS = 5.0
#: seconds after which a held call is answered at the latest
HOLD_SECONDS = 10.0


class Event(NamedTuple):
    """An event that a server or listener has reported; it arrived at ``at``, monotonic seconds."""

    kind: str
    fields: dict[str, Any]
    at: float


class Inbox:
    """The events that have arrived, from any thread, for threads that wait for them."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._changed = threading.Condition()

    def put(self, kind: str, fields: dict[str, Any]) -> None:
        """Add an event, and wake the threads that wait."""
        with self._changed:
            self._events.append(Event(kind, fields, time.monotonic()))
            self._changed.notify_all()

    def wait(
        self,
        kind: str,
        count: int,
        seconds: float,
        numbers: set[int] | None = None,
        unless: str = "",
    ) -> list[Event]:
        """Wait for ``count`` events of a kind, at most ``seconds``; return the events of this kind.

        :param numbers: count and return only events whose field ``number`` is one of these
        :param unless: end the wait at an event of this kind
        """

        def found() -> list[Event]:
            return [
                event
                for event in self._events
                if event.kind == kind and (numbers is None or event.fields.get("number") in numbers)
            ]

        with self._changed:
            self._changed.wait_for(
                lambda: len(found()) >= count or any(e.kind == unless for e in self._events),
                seconds,
            )
            return found()


class Server:
    """One RPC server. Created and used on the main thread; its output is read on another.

    :param name: name of the server
    :param inbox: receives the server's events, and ``ended`` when its process ends
    :param verbose: let the server write its log to standard error
    """

    def __init__(self, name: str, inbox: Inbox, verbose: bool) -> None:
        self.name = name
        self._verbose = verbose
        # -W: oslo's modules warn about eventlet at import; this command does not use eventlet.
        # A group of its own: ^C ends only the demonstration, which ends the server in order.
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if verbose else subprocess.DEVNULL,
            text=True,
            process_group=0,
        )
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, args=(inbox,), daemon=True)
        self._reader.start()

    def _read(self, inbox: Inbox) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            inbox.put(**json.loads(line))
        inbox.put("ended", {"server": self.name})

    def serve(self, **order: str) -> None:
        """Order the server to serve a topic; its process has been started and waits for this.

        :param order: url, exchange, topic
        """
        self.order(json.dumps({"name": self.name, "verbose": self._verbose, **order}))

    def order(self, line: str) -> None:
        """Write a line to the server; the wait for its events notices a server that has ended."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            print(line, file=self._process.stdin, flush=True)

    def hang_up(self) -> None:
        """Close the server's standard input, which makes it end."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def end(self, deadline: float) -> None:
        """Wait for the end of the process; kill it at ``deadline``, in monotonic seconds."""
        with self._process:
            try:
                self._process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._reader.join(END_SECONDS)


# -- in the process of a server ---------------------------------------------------------------

_output = threading.Lock()


def configuration() -> Any:
    """Return an application's own configuration, without any file."""
    conf = cfg.ConfigOpts()
    conf([], project="amqp1-demo", default_config_files=[], default_config_dirs=[])
    return conf


def set_up_logging() -> None:
    """Write the log to standard error, from INFO on."""
    logging.basicConfig(level=logging.INFO, format="[%(process)d] %(levelname)s %(message)s")


def report(kind: str, **fields: Any) -> None:
    """Send an event to the demonstration. Any thread."""
    with _output:
        print(json.dumps({"kind": kind, "fields": fields}), flush=True)


class Endpoint:
    """The methods that the servers offer. Threads of the server's executor.

    :param name: name of the server
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._gate = threading.Event()

    def release(self) -> None:
        """Let the held calls return. Main thread."""
        gate, self._gate = self._gate, threading.Event()
        gate.set()

    def add(self, ctxt: dict[str, Any], a: int, b: int) -> dict[str, Any]:
        """Answer a call with a sum."""
        return {"sum": a + b, "server": self._name, "request": ctxt.get("request")}

    def note(self, ctxt: dict[str, Any], number: int) -> None:
        """Report a cast, for which no caller waits."""
        report("cast", number=number, server=self._name)

    def announce(self, ctxt: dict[str, Any], number: int) -> None:
        """Report a fanout cast, which every server receives."""
        report("fanout", number=number, server=self._name)

    def hold(self, ctxt: dict[str, Any], number: int) -> str:
        """Hold a call until ``release``, which is longer than its caller waits."""
        gate = self._gate
        report("hold", number=number, server=self._name)
        gate.wait(HOLD_SECONDS)
        return self._name

    def find(self, ctxt: dict[str, Any], key: str) -> None:
        """Fail with an exception that the server expects, and does not log as an error."""
        try:
            raise LookupError(f"{self._name} has no {key}")
        except LookupError:
            raise oslo_messaging.ExpectedException from None


def serve(name: str, url: str, exchange: str, topic: str, verbose: bool) -> None:
    """Serve until standard input ends."""
    if verbose:
        set_up_logging()
    transport = oslo_messaging.get_rpc_transport(configuration(), url=url)
    endpoint = Endpoint(name)
    target = oslo_messaging.Target(exchange=exchange, topic=topic, server=name)
    server = oslo_messaging.get_rpc_server(transport, target, [endpoint], executor="threading")
    server.start()
    report("ready", server=name)
    for _ in sys.stdin:
        endpoint.release()
    endpoint.release()
    server.stop()
    server.wait()
    transport.cleanup()


if __name__ == "__main__":
    if first := sys.stdin.readline():  # else the demonstration has ended before
        order = json.loads(first)
        try:
            serve(**order)
        except Exception as error:
            text = traceback.format_exception_only(error)[-1].strip()
            report("failed", server=order["name"], text=text)
            raise
