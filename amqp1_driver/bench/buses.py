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

"""The bus that a benchmark starts, and the process that serves a URL."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import amqp1_driver
from amqp1_driver.bench.children import Trouble
from amqp1_driver.testing.fixture import BusProcess

#: Debian suites that tools/rabbitmq.sh takes RabbitMQ from
RABBITMQ = {"rabbitmq-4.0": "trixie", "rabbitmq-4.3": "sid"}
BUSES = ("router", "broker", *RABBITMQ)
_INSTALL_SECONDS, _START_SECONDS, _STOP_SECONDS = 600.0, 90.0, 60.0


class Bus(NamedTuple):
    """One that runs.

    :param name: with its version where that is known
    :param address: [USER:PASSWORD@]HOST:PORT
    :param kill: ends it as a crash does; None: it is not ours
    :param revive: starts it again on the same port
    """

    name: str
    address: str
    kill: Callable[[], object] | None = None
    revive: Callable[[], object] | None = None


@contextlib.contextmanager
def started(kind: str, environment: Mapping[str, str] | None = None) -> Iterator[Bus]:
    """A bus of this kind, which ends with the block; Trouble if it does not come up.

    :param environment: further variables for RabbitMQ
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
        yield Bus(f"embedded {mode}", process.address.partition("://")[2], process.kill,
                  process.start)  # fmt: skip
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
            f"RabbitMQ {version}", f"guest:guest@127.0.0.1:{port}",
            lambda: rabbitmq("kill", suite, port, seconds=_STOP_SECONDS), start,
        )  # fmt: skip
    finally:
        rabbitmq("stop", suite, port, "--wipe", seconds=_STOP_SECONDS)


def rabbitmq(*arguments: str, seconds: float,
             environment: Mapping[str, str] | None = None) -> str:  # fmt: skip
    """What ``tools/rabbitmq.sh`` prints; Trouble if it fails.

    :param environment: further variables, for the node that it starts
    """
    tool = Path(amqp1_driver.__file__).resolve().parents[1] / "tools" / "rabbitmq.sh"
    if not tool.exists():
        raise Trouble("RabbitMQ is started by tools/rabbitmq.sh, which is only in a checkout")
    try:
        done = subprocess.run(
            ["bash", str(tool), *arguments], stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds, check=False,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Trouble(f"rabbitmq.sh {arguments[0]} takes more than {seconds:.0f} s") from None
    if done.returncode:
        raise Trouble(f"rabbitmq.sh {' '.join(arguments)}: {done.stdout.strip()[-500:]}")
    return done.stdout


def serving(url: str) -> int | None:
    """The process on this machine that listens where the URL says; None if it is not found."""
    try:
        parts = urlsplit(url.replace(",", "/", 1))
        host, port = parts.hostname or "localhost", parts.port or 5672
    except ValueError:
        return None
    if host not in ("localhost", "::1") and not host.startswith("127."):
        return None
    inodes = _listeners(port)
    if not inodes:
        return None
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and _has_socket(folder / "fd", inodes):
            return int(folder.name)
    return None


def _listeners(port: int) -> set[str]:
    found = set()
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path("/proc/net", name).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(fields[9])
    return found


def _has_socket(folder: Path, inodes: set[str]) -> bool:
    try:
        for descriptor in folder.iterdir():
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(descriptor))
            if found and found[1] in inodes:
                return True
    except OSError:
        pass  # it has ended, or is somebody else's
    return False
