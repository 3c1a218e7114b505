# SPDX-License-Identifier: Apache-2.0

"""Buses that a benchmark starts, and the resources that the process of a bus uses. Any thread."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import amqp1_driver
from amqp1_driver.bench.children import Trouble
from amqp1_driver.bench.plan import RABBITMQ
from amqp1_driver.bench.workers.usage import Usage
from amqp1_driver.testing.fixture import BusProcess

_INSTALL_SECONDS, _START_SECONDS, _STOP_SECONDS = 600.0, 90.0, 60.0


class Bus(NamedTuple):
    """A running bus.

    :param name: name of the bus, with the version where that is known
    :param address: [USER:PASSWORD@]HOST:PORT
    :param kill: ends the bus as a crash would; None: the benchmark did not start this bus
    :param revive: starts the bus again on the same port; None as for ``kill``
    """

    name: str
    address: str
    kill: Callable[[], object] | None = None
    revive: Callable[[], object] | None = None


@contextlib.contextmanager
def started(kind: str, environment: Mapping[str, str] | None = None) -> Iterator[Bus]:
    """Start a bus, and stop it at the end of the block.

    :param kind: one of ``plan.BUSES``
    :param environment: further environment variables, for RabbitMQ only
    :raises Trouble: the bus cannot be installed, started or stopped
    """
    starting = _rabbitmq(RABBITMQ[kind], environment) if kind in RABBITMQ else _embedded(kind)
    with starting as bus:
        yield bus


@contextlib.contextmanager
def _embedded(mode: str) -> Iterator[Bus]:
    process = BusProcess(mode)
    try:
        process.start()
    except (OSError, RuntimeError) as error:
        raise Trouble(f"the embedded {mode} does not start: {error}") from error
    try:
        yield Bus(
            f"embedded {mode}", process.address.partition("://")[2], process.kill, process.start
        )
    finally:
        process.terminate()


@contextlib.contextmanager
def _rabbitmq(suite: str, environment: Mapping[str, str] | None) -> Iterator[Bus]:
    def start() -> str:
        return rabbitmq("start", suite, port, seconds=_START_SECONDS, environment=environment)

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = str(sock.getsockname()[1])
    rabbitmq("install", suite, seconds=_INSTALL_SECONDS)
    version = rabbitmq("version", suite, seconds=_STOP_SECONDS).strip()
    try:
        start()
        yield Bus(
            f"RabbitMQ {version}",
            f"guest:guest@127.0.0.1:{port}",
            lambda: rabbitmq("kill", suite, port, seconds=_STOP_SECONDS),
            start,
        )
    finally:
        rabbitmq("stop", suite, port, "--wipe", seconds=_STOP_SECONDS)


def rabbitmq(*arguments: str, seconds: float, environment: Mapping[str, str] | None = None) -> str:
    """Run ``tools/rabbitmq.sh`` and return its output.

    :param seconds: time limit
    :param environment: further environment variables, for the node that the script starts
    :raises Trouble: the script is missing, fails, or exceeds its time limit
    """
    tool = Path(amqp1_driver.__file__).resolve().parents[1] / "tools" / "rabbitmq.sh"
    if not tool.exists():
        raise Trouble("RabbitMQ is started by tools/rabbitmq.sh, which is only in a checkout")
    try:
        done = subprocess.run(
            ["bash", str(tool), *arguments],
            stdin=subprocess.DEVNULL,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
            env={**os.environ, **(environment or {})},
        )
    except subprocess.TimeoutExpired:
        raise Trouble(f"rabbitmq.sh {arguments[0]} takes more than {seconds:.0f} s") from None
    if done.returncode:
        raise Trouble(f"rabbitmq.sh {' '.join(arguments)}: {done.stdout.strip()[-500:]}")
    return done.stdout


def serving(url: str) -> int | None:
    """Return the id of the process on this machine that listens on the URL's port.

    :returns: None if the URL names another machine, or if no such process is visible
    """
    import psutil

    try:
        parts = urlsplit(url.replace(",", "/", 1))
        host, port = parts.hostname or "localhost", parts.port or 5672
    except ValueError:
        return None
    if host not in ("localhost", "::1") and not host.startswith("127."):
        return None
    for found in psutil.net_connections("tcp"):
        if found.status == psutil.CONN_LISTEN and found.laddr.port == port and found.pid:
            pid: int = found.pid
            return pid
    return None


def used(pid: int | None) -> Usage | None:
    """Return the resources that a process has used so far.

    The resolution of the processor time is 10 ms.

    :returns: None if the process is unknown, has ended, or belongs to another user
    """
    import psutil

    if pid is None:
        return None
    try:
        process = psutil.Process(pid)
        times, threads = process.cpu_times(), process.threads()
    except psutil.Error:
        return None
    switches = 0
    # num_ctx_switches() of a process counts those of its main thread alone
    for thread in threads:
        with contextlib.suppress(psutil.NoSuchProcess):  # the thread has just ended
            switches += sum(psutil.Process(thread.id).num_ctx_switches())
    return Usage((times.user + times.system) * 1e6, switches)


def resident_kib(pid: int | None) -> int | None:
    """Return the resident memory of a process, KiB; None as for ``used``."""
    import psutil

    with contextlib.suppress(psutil.Error):
        if pid is not None:
            return int(psutil.Process(pid).memory_info().rss) // 1024
    return None
