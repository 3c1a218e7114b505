# SPDX-License-Identifier: Apache-2.0

"""The RabbitMQ node of a flow benchmark: its disk, and its queues. Main thread.

A client of proton declares, inspects, reads and deletes the queues; it uses no driver of
oslo.messaging. Requests go to ``/management``, as RabbitMQ documents it: subject = method,
to = path.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import proton
import proton.reactor

from amqp1_driver.bench import buses
from amqp1_driver.bench.children import Trouble
from amqp1_driver.bench.flow.plan import Queue
from amqp1_driver.bench.plan import RABBITMQ
from amqp1_driver.bench.workers.brief import Brief, address
from amqp1_driver.bench.workers.copies import DIGITS
from amqp1_driver.bench.workers.ledger import Ledger

_CTL_SECONDS = 30.0

#: method, path, body
Request = tuple[str, str, Any]

#: encoded section amqp-value with null: for None proton writes no body, and RabbitMQ requires one
_NULL = b"\x00\x53\x77\x40"
_WINDOW = 500
#: sender and number in the JSON of a message; rabbit's driver writes JSON within JSON
_SENDER = re.compile(rb'\\?"i\\?": ?(-?\d+)')
_NUMBER = re.compile(rb'\\?"n\\?": ?\\?"(\d{%d})' % DIGITS)


class Node(NamedTuple):
    """A running RabbitMQ node.

    :param name: name of the bus, with the version
    :param address: USER:PASSWORD@HOST:PORT
    :param suite: Debian suite from which tools/rabbitmq.sh has installed the node
    :param disk: ``fdatasync_us``: duration of ``fdatasync`` on the disk itself; ``added_ms``: delay
        before each ``fsync`` and ``fdatasync``
    """

    name: str
    address: str
    suite: str
    disk: dict[str, float]

    @property
    def url(self) -> str:
        """Return the URL for AMQP 1.0."""
        return f"amqp://{self.address}"

    def connections(self) -> list[str]:
        """Return the protocol of each connection that the node has now, sorted."""
        port = self.address.rpartition(":")[2]
        what = ["-q", "list_connections", "protocol", "--formatter", "json"]
        text = buses.rabbitmq("ctl", self.suite, port, *what, seconds=_CTL_SECONDS)
        return sorted(protocol(entry["protocol"]) for entry in json.loads(text))


def protocol(found: Any) -> str:
    """Return "0.9.1" for [0, 9, 1] or "{0,9,1}", "1.0" likewise; return other words unchanged."""
    if isinstance(found, str):
        found = found.strip("{}").split(",")
    return ".".join(map(str, found))


@contextlib.contextmanager
def started(kind: str, fsync_ms: float) -> Iterator[Node]:
    """Start a node, and stop it at the end of the block.

    :param kind: one of ``plan.RABBITMQ``
    :param fsync_ms: delay before each ``fsync`` and ``fdatasync`` of the node, milliseconds
    :raises Trouble: the node does not start
    """
    disk = {"fdatasync_us": round(fdatasync_us()), "added_ms": fsync_ms}
    with slowed(fsync_ms) as environment, buses.started(kind, environment) as bus:
        yield Node(bus.name, bus.address, RABBITMQ[kind], disk)


# -- queues --------------------------------------------------------------------------------


def declare(queue: Queue, exchange: str) -> list[Request]:
    """Return the requests that declare a queue.

    :param exchange: name of a topic exchange; if rabbit's driver sends to the queue through it, the
        requests also declare the exchange and bind the queue to it
    """
    kept = {"durable": True, "auto_delete": False}
    settings = {**kept, "exclusive": False, "arguments": queue.arguments}
    requests: list[Request] = [("PUT", address("queues", queue.name), settings)]
    if queue.key is not None:
        topic = {**kept, "type": "topic", "internal": False, "arguments": {}}
        binding = {
            "source": exchange,
            "destination_queue": queue.name,
            "binding_key": queue.key,
            "arguments": {},
        }
        requests += [("PUT", address("exchanges", exchange), topic), ("POST", "/bindings", binding)]
    return requests


def delete(queue: Queue) -> Request:
    """Return the request that deletes a queue with its messages."""
    return "DELETE", address("queues", queue.name), None


def depth(url: str, queue: Queue, seconds: float) -> int:
    """Return the number of messages that wait in a queue."""
    (body,) = ask(url, [("GET", address("queues", queue.name), None)], seconds)
    return int(body["message_count"])


def ask(url: str, requests: Sequence[Request], seconds: float) -> list[Any]:
    """Send requests, one after the other, and return the bodies of the responses.

    :param seconds: time limit of all requests together
    :raises Trouble: a response is an error, or the connection fails, or the time is over
    """
    client = _Asking(url, requests, seconds)
    _run(client)
    return client.bodies


def read(url: str, queue: Queue, count: int, seconds: float) -> dict[str, str]:
    """Take ``count`` messages out of a queue.

    :returns: for each sender, the packed counts of its messages, as ``marks`` of ``Ledger.dump``
    :raises Trouble: the messages do not arrive within ``seconds``, or one is not from a benchmark
    """
    reader = _Reading(url, queue.name, count, seconds)
    if count:
        _run(reader)
    marks: dict[str, str] = reader.ledger.dump()["marks"]
    return marks


def _run(client: Brief) -> None:
    try:
        client.run()
    except RuntimeError as error:
        raise Trouble(str(error)) from None


class _Pair(proton.reactor.LinkOption):  # type: ignore[misc]
    """The settings of each of the two links of a management client."""

    def apply(self, link: Any) -> None:
        """Set the link to send settled messages, and mark it as paired."""
        link.snd_settle_mode = proton.Link.SND_SETTLED
        link.properties = proton.PropertyDict({proton.symbol("paired"): True})


class _Asking(Brief):
    """A client that sends each request after the response to the previous request."""

    def __init__(self, url: str, requests: Sequence[Request], seconds: float) -> None:
        super().__init__(url, seconds, 10)
        self.bodies: list[Any] = []
        self._requests = list(requests)
        self._asked = False

    def doing(self) -> str:
        """Return method and path of the current request."""
        method, path, _ = self._requests[min(len(self.bodies), len(self._requests) - 1)]
        return f"{method} {path}"

    def on_start(self, event: Any) -> None:
        """Attach both links, which have the same name."""
        super().on_start(event)
        event.container.create_receiver(
            self.connection, "/management", target="$me", name="pair", options=_Pair()
        )
        self._sender = event.container.create_sender(
            self.connection, "/management", source="$me", name="pair", options=_Pair()
        )

    def on_sendable(self, event: Any) -> None:
        """Send the first request, as soon as there is credit."""
        if not self._asked:
            self._ask()

    def _ask(self) -> None:
        self._asked = True
        number = len(self.bodies)
        method, path, body = self._requests[number]
        message = proton.Message(id=str(number), address=path, subject=method, reply_to="$me")
        if body is None:
            data = message.encode() + _NULL
        else:
            message.body = body
            data = message.encode()
        delivery = self._sender.delivery(str(number))
        self._sender.stream(data)
        self._sender.advance()
        delivery.settle()

    def on_message(self, event: Any) -> None:
        """Store a response and send the next request; fail if the response is an error."""
        if not str(event.message.subject).startswith("2"):
            self.finish(f"{event.message.subject} {event.message.body!r}")
            return
        self.bodies.append(event.message.body)
        if len(self.bodies) < len(self._requests):
            self._ask()
        else:
            self.finish()


class _Reading(Brief):
    """A client that takes messages and finds their numbers without decoding the messages."""

    def __init__(self, url: str, name: str, count: int, seconds: float) -> None:
        super().__init__(url, seconds)
        self.ledger = Ledger()
        self._name = name
        self._left = count

    def doing(self) -> str:
        """Return the queue and the number of messages that are left."""
        return f"reading {self._name}, {self._left} messages left"

    def on_start(self, event: Any) -> None:
        """Attach to the queue, and grant the first credit."""
        super().on_start(event)
        receiver = event.container.create_receiver(self.connection, address("queues", self._name))
        receiver.flow(min(_WINDOW, self._left))
        self._granted = min(_WINDOW, self._left)

    def on_delivery(self, event: Any) -> None:
        """Accept and count a message, and grant more credit."""
        delivery = event.delivery
        if not delivery.readable or delivery.partial:
            return
        data = delivery.link.recv(delivery.pending) or b""
        delivery.link.advance()
        delivery.update(proton.Delivery.ACCEPTED)
        delivery.settle()
        sender, number = _SENDER.search(data), _NUMBER.search(data)
        if sender is None or number is None:
            self.finish("a message is none of ours")
            return
        self.ledger.note(int(sender[1]), int(number[1]), 0, 0)
        self._left -= 1
        self._granted -= 1
        if not self._left:
            self.finish()
        elif self._granted < min(self._left, _WINDOW // 2):
            more = min(_WINDOW, self._left) - self._granted
            delivery.link.flow(more)
            self._granted += more


# -- a slow disk ---------------------------------------------------------------------------

SOURCE = """\
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void delay(void)
{
    const char *text = getenv("AMQP1_BENCH_FSYNC_US");
    long us = text ? atol(text) : 0;
    struct timespec left = {us / 1000000, us % 1000000 * 1000};

    while (us > 0 && nanosleep(&left, &left)) {
    }
}

int fsync(int fd)
{
    delay();
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    delay();
    return (int)syscall(SYS_fdatasync, fd);
}
"""
_COMPILE_SECONDS = 60.0


@contextlib.contextmanager
def slowed(milliseconds: float) -> Iterator[dict[str, str]]:
    """Yield the environment variables of a process whose disk is slow to make data durable.

    A quorum queue confirms a message after ``fdatasync``; a classic queue does not sync at all. On
    a developer's disk ``fdatasync`` is often too fast to make a difference. Therefore the process
    preloads a library (``LD_PRELOAD``), which waits before each ``fsync`` and
    ``fdatasync`` and then performs it. The process itself is unchanged.

    :param milliseconds: delay before each ``fsync`` and ``fdatasync``; 0: there is no library, and
        the environment is empty
    :raises Trouble: there is no C compiler, or it fails
    """
    if not milliseconds:
        yield {}
        return
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise Trouble("a slow fsync needs a C compiler (cc); --fsync 0 takes the disk as it is")
    with tempfile.TemporaryDirectory(prefix="amqp1-bench-") as folder:
        source, library = Path(folder, "slowdisk.c"), Path(folder, "slowdisk.so")
        source.write_text(SOURCE)
        try:
            subprocess.run(
                [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(source)],
                check=True,
                capture_output=True,
                text=True,
                timeout=_COMPILE_SECONDS,
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise Trouble(f"{compiler}: {getattr(error, 'stderr', '') or error}") from error
        before = os.environ.get("LD_PRELOAD")
        preload = f"{library}:{before}" if before else str(library)
        yield {"LD_PRELOAD": preload, "AMQP1_BENCH_FSYNC_US": str(round(milliseconds * 1000))}


def fdatasync_us(folder: str | None = None, times: int = 50) -> float:
    """Measure how long ``fdatasync`` takes on the disk itself, after a write of 4 KiB.

    :param folder: a folder on the disk; None: the default folder for temporary files
    :returns: the median, microseconds
    """
    found = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(times):
            file.write(b"x" * 4096)
            file.flush()
            since = time.perf_counter()
            os.fdatasync(file.fileno())
            found.append((time.perf_counter() - since) * 1e6)
    return statistics.median(found)
