# SPDX-License-Identifier: Apache-2.0

"""The RabbitMQ node of a flow benchmark: its disk, and its queues. Main thread.

A client of AMQP 0.9.1 declares, inspects, reads and deletes the queues; it uses no driver of
oslo.messaging.
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
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import amqp

from amqp1_driver.bench import buses
from amqp1_driver.bench.children import Trouble
from amqp1_driver.bench.flow.plan import Queue
from amqp1_driver.bench.plan import RABBITMQ
from amqp1_driver.bench.workers import amqp091
from amqp1_driver.bench.workers.copies import DIGITS
from amqp1_driver.bench.workers.ledger import Ledger

_CTL_SECONDS = 30.0

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
        """Return the URL of the node."""
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


def declare(url: str, queues: Sequence[Queue], exchange: str, seconds: float) -> None:
    """Declare queues.

    :param exchange: name of a topic exchange; if rabbit's driver sends to a queue through it, the
        function also declares the exchange and binds the queue to it
    :param seconds: time limit of each request, here and below
    :raises Trouble: the broker refuses, or the connection fails, or the time is over
    """
    with _connected(url, seconds) as connection:
        channel = connection.channel()
        for queue in queues:
            channel.queue_declare(
                queue.name, durable=True, auto_delete=False, arguments=queue.arguments
            )
            if queue.key is not None:
                channel.exchange_declare(exchange, "topic", durable=True, auto_delete=False)
                channel.queue_bind(queue.name, exchange, queue.key)


def delete(url: str, queues: Iterable[Queue], seconds: float) -> None:
    """Delete queues with their messages.

    :raises Trouble: as for ``declare``
    """
    with _connected(url, seconds) as connection:
        channel = connection.channel()
        for queue in queues:
            channel.queue_delete(queue.name)


def depth(url: str, queue: Queue, seconds: float) -> int:
    """Return the number of messages that wait in a queue.

    :raises Trouble: as for ``declare``
    """
    with _connected(url, seconds) as connection:
        return int(connection.channel().queue_declare(queue.name, passive=True).message_count)


def read(url: str, queue: Queue, count: int, seconds: float) -> dict[str, str]:
    """Take ``count`` messages out of a queue, and find their numbers without decoding them.

    :returns: for each sender, the packed counts of its messages, as ``marks`` of ``Ledger.dump``
    :raises Trouble: no message arrives for ``seconds``, or one is not from a benchmark
    """
    ledger, left = Ledger(), count

    def take(message: Any) -> None:
        nonlocal left
        data = message.body if isinstance(message.body, bytes) else message.body.encode()
        sender, number = _SENDER.search(data), _NUMBER.search(data)
        if sender is None or number is None:
            raise Trouble(f"reading {queue.name}, {left} messages left: a message is none of ours")
        ledger.note(int(sender[1]), int(number[1]), 0, 0)
        left -= 1
        message.channel.basic_ack(message.delivery_tag)

    with _connected(url, seconds) as connection:
        channel = connection.channel()
        channel.basic_qos(0, _WINDOW, False)
        channel.basic_consume(queue.name, callback=take)
        while left:
            try:
                connection.drain_events(seconds)
            except TimeoutError:
                raise Trouble(
                    f"reading {queue.name}, {left} messages left: no progress in {seconds:g} s"
                ) from None
    marks: dict[str, str] = ledger.dump()["marks"]
    return marks


@contextlib.contextmanager
def _connected(url: str, seconds: float) -> Iterator[Any]:
    try:
        with amqp091.connection(url, seconds) as opened:
            yield opened
    except (amqp.AMQPError, OSError) as error:
        raise Trouble(f"RabbitMQ: {error}") from error


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
