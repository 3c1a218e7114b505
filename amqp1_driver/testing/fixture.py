# SPDX-License-Identifier: Apache-2.0
"""The embedded bus for tests: in a thread of this process, or in a process that tests can kill."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections import deque
from concurrent.futures import Future
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from amqp1_driver.bus import Bus

_READY = re.compile(r"listening on (amqps?)://(.+):(\d+) mode=(\w+)(?: websocket=\S+)?\s*$")


def _environment() -> dict[str, str]:
    """Return the environment for a child process, in which Python finds this package."""
    root = str(Path(__file__).parents[2])
    inherited = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (root, inherited)))}


def _with_scheme(address: str, scheme: str | None, user: str | None, host: str | None) -> str:
    """Return SCHEME://[USER:PASSWORD@]HOST:PORT for an address that the bus reports."""
    own, _, endpoint = address.partition("://")
    if host is not None:
        endpoint = f"{host}:{endpoint.rpartition(':')[2]}"
    credentials = f"{user}@" if user else ""
    return f"{scheme or own}://{credentials}{endpoint}"


class BusFixture:
    """A bus in a thread: a context manager with the methods of a ``fixtures.Fixture``. Any thread.

    :param mode: "router", "broker" or "servicebus"
    :param settings: further arguments of ``amqp1_driver.bus.Bus`` (port, tls_cert, users,
        queue_capacity ...)
    """

    def __init__(self, mode: str = "router", **settings: Any) -> None:
        self.mode = mode
        self.settings = settings
        self._bus: Bus | None = None

    @property
    def bus(self) -> Bus:
        """Return the running bus.

        :raises RuntimeError: ``setUp`` has not run
        """
        if self._bus is None:
            raise RuntimeError("the bus is not running: setUp() it")
        return self._bus

    def url(self, scheme: str | None = None, *, host: str | None = None) -> str:
        """Return the URL of the bus, "amqp://127.0.0.1:PORT", with the first of its users, if any.

        :param scheme: replaces amqp, as in url("amqp+oslo")
        :param host: replaces the host, e.g. with the name in a certificate
        """
        users = self.settings.get("users") or {}
        user = next((f"{name}:{password}" for name, password in users.items()), None)
        return _with_scheme(self.bus.address, scheme, user, host)

    @property
    def port(self) -> int:
        """Return the port of the bus."""
        return self.bus.port

    def setUp(self) -> None:
        """Start the bus.

        :raises OSError: the port is not available
        """
        from amqp1_driver.bus import Bus

        if self._bus is not None:
            raise RuntimeError("the bus runs already")
        self._bus = Bus(self.mode, **self.settings).start()

    def cleanUp(self) -> None:
        """Stop the bus; idempotent."""
        bus, self._bus = self._bus, None
        if bus is not None:
            bus.stop()

    def restart(self) -> None:
        """Kill the bus and start an empty one on the same port."""
        port = self.bus.port
        self.bus.kill()
        self._bus = None
        self.settings["port"] = port
        self.setUp()

    def reset(self) -> None:
        """Start a fresh bus on another port (fixtures.Fixture.reset)."""
        self.cleanUp()
        self.settings.pop("port", None)
        self.setUp()

    def getDetails(self) -> dict[str, Any]:
        """Return no details for test results (fixtures.Fixture.getDetails)."""
        return {}

    def __enter__(self) -> Self:
        self.setUp()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.cleanUp()


class BusProcess:
    """A bus in a separate process, started by the command line; any thread.

    After the first start the port stays the same over kill() and start().

    :param options: further arguments of ``amqp1 bus``, as ("--queue-capacity", "10")
    :param start_timeout: seconds; if the bus does not listen by then, start() raises RuntimeError
        with the standard error of the process
    """

    def __init__(
        self,
        mode: str = "router",
        *options: str,
        host: str = "127.0.0.1",
        port: int = 0,
        start_timeout: float = 20.0,
    ) -> None:
        self.mode = mode
        self.options = options
        self.host = host
        self.port = port
        self.start_timeout = start_timeout
        self.address = ""
        self._process: subprocess.Popen[str] | None = None
        self._errors: deque[str] = deque(maxlen=200)
        self._readers: list[threading.Thread] = []

    @property
    def pid(self) -> int | None:
        """Return the process id, None if the process does not run."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    @property
    def errors(self) -> str:
        """Return the last lines of the process's output.

        They come from standard error and from standard output after its first line.
        """
        return "".join(self._errors)

    def url(self, scheme: str | None = None, *, host: str | None = None) -> str:
        """Return the URL as BusFixture.url does, with the first --user of the options."""
        pairs = zip(self.options, self.options[1:], strict=False)
        user = next((value for name, value in pairs if name == "--user"), None)
        return _with_scheme(self.address, scheme, user, host)

    def start(self) -> Self:
        """Start the process; return when the bus listens.

        :raises RuntimeError: the bus runs already, or does not come up in time
        """
        if self.pid is not None:
            raise RuntimeError("the bus runs already")
        host = f"[{self.host}]" if ":" in self.host else self.host
        command = [
            sys.executable,
            "-u",
            "-m",
            "amqp1_driver.cli.main",
            "bus",
            "--listen",
            f"{host}:{self.port}",
            "--mode",
            self.mode,
            *self.options,
        ]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=_environment(),
        )
        ready: Future[re.Match[str] | None] = Future()
        # in threads, so that the pipes never fill up
        self._readers = [
            threading.Thread(target=self._read, args=(self._process.stdout, ready), daemon=True),
            threading.Thread(target=self._errors.extend, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        found = None
        try:
            with contextlib.suppress(TimeoutError):
                found = ready.result(self.start_timeout)
        finally:
            if found is None:
                self.kill()
        if found is None:
            errors = self.errors or f"nothing within {self.start_timeout} s"
            raise RuntimeError(f"the bus did not come up: {errors}")
        self.address = f"{found[1]}://{found[2]}:{found[3]}"
        self.port = int(found[3])
        return self

    def _read(self, output: IO[str], ready: Future[re.Match[str] | None]) -> None:
        ready.set_result(_READY.match(output.readline()))
        self._errors.extend(output)

    def kill(self) -> None:
        """Kill the process with SIGKILL and wait for its end; do nothing if it does not run."""
        if self._process is not None:
            self._process.kill()
            self._end()

    def restart(self) -> None:
        """Kill the process with SIGKILL and start an empty bus on the same port."""
        self.kill()
        self.start()

    def terminate(self, timeout: float = 10.0) -> int:
        """Send SIGTERM and wait for the end; the bus closes its connections.

        :param timeout: seconds until SIGKILL
        :returns: the exit status
        """
        process = self._process
        if process is None:
            return 0
        process.terminate()
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
        self._end()
        return process.returncode

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with process:  # closes the pipes
                for reader in self._readers:
                    reader.join(10)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.terminate()
