# SPDX-License-Identifier: Apache-2.0

"""Message buses for tests: started for one run, and gone after it.

Names: router, broker (embedded, in a process of their own), rabbitmq-4.3, rabbitmq-4.0 (Debian
packages, tools/rabbitmq.sh), artemis, broker-j (binary distributions, tools/javabus.sh), and
whatever AMQP1_TEST_BUSES=name=url,... says, which goes first.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import selectors
import socket
import subprocess
import sys
from collections.abc import Iterator

TOP = pathlib.Path(__file__).resolve().parents[2]

#: bus name -> Debian suite that has it. The newer one moves on by itself.
RABBITMQ = {"rabbitmq-4.0": "trixie", "rabbitmq-4.3": "sid"}

#: bus name -> what tools/javabus.sh calls it
JAVA = {"artemis": "artemis", "broker-j": "brokerj"}

_START_SECONDS = 30.0


class BusError(Exception):
    """A bus could not be installed or started."""


def external() -> dict[str, str]:
    """Buses that run already: name -> transport URL (any scheme), of one host or several."""
    given = os.environ.get("AMQP1_TEST_BUSES", "")
    # a comma between the hosts of a URL is none between buses
    pairs = (part.strip() for part in re.split(r",(?=\s*[\w.-]+=[\w+.-]+://)", given))
    return {name: url for name, _, url in (pair.partition("=") for pair in pairs if pair)}


@contextlib.contextmanager
def running(name: str, log: pathlib.Path) -> Iterator[str]:
    """Yield the address of bus *name*: [user:password@]host:port[/vhost], without scheme.

    :param log: file for what the bus prints
    :raises BusError: it cannot be installed or does not start
    """
    if name in external():
        yield external()[name].partition("://")[2]
    elif name in RABBITMQ:
        with _tooled("rabbitmq.sh", RABBITMQ[name], log) as address:
            yield address
    elif name in JAVA:
        with _tooled("javabus.sh", JAVA[name], log) as address:
            yield address
    elif name in ("router", "broker"):
        with _embedded(name, log) as address:
            yield address
    else:
        raise BusError(f"unknown bus {name!r}")


@contextlib.contextmanager
def _embedded(mode: str, log: pathlib.Path) -> Iterator[str]:
    command = [sys.executable, "-m", "amqp1_driver.cli.main", "bus"]
    command += ["--listen", "127.0.0.1:0", "--mode", mode]
    with log.open("ab") as sink:
        process = subprocess.Popen(
            command, cwd=TOP, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=sink
        )
    try:
        yield _address(_first_line(process, log), mode)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _first_line(process: subprocess.Popen[bytes], log: pathlib.Path) -> str:
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(_START_SECONDS):
            raise BusError(f"the embedded bus printed nothing in {_START_SECONDS} s, see {log}")
    return process.stdout.readline().decode()


def _address(line: str, mode: str) -> str:
    """The address in "listening on amqp://HOST:PORT mode=MODE"."""
    words = line.split()
    if words[:2] != ["listening", "on"] or words[3:] != [f"mode={mode}"]:
        raise BusError(f"the embedded bus did not start: {line!r}")
    return words[2].removeprefix("amqp://")


@contextlib.contextmanager
def _tooled(tool: str, bus: str, log: pathlib.Path) -> Iterator[str]:
    """One of the buses that a script of tools/ installs and starts."""
    port = str(free_port())
    _tool(log, tool, "install", bus)
    try:
        _tool(log, tool, "start", bus, port)
        yield f"guest:guest@127.0.0.1:{port}"
    finally:
        _tool(log, tool, "stop", bus, port, "--wipe")


def _tool(log: pathlib.Path, tool: str, *args: str) -> None:
    with log.open("ab") as sink:
        done = subprocess.run(
            ["bash", str(TOP / "tools" / tool), *args],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            check=False,
        )
    if done.returncode:
        tail = log.read_text(errors="replace").splitlines()[-5:]
        raise BusError(f"{tool} {' '.join(args)} failed, see {log}: " + " | ".join(tail))


def free_port() -> int:
    """A TCP port of the loopback interface that is free now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
