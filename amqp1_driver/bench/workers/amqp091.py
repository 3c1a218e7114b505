# SPDX-License-Identifier: Apache-2.0

"""Clients of AMQP 0.9.1: one that is measured, and a loader that fills a queue.

The measured client sends and receives on one connection and one channel. It repeats the measurement
of RabbitMQ's publication on flow control: one thread receives with a prefetch and acknowledges each
message; another publishes batches of 10,000 and waits for all confirms of a batch. The steps are
those of ``flow.Worker``. The messages look like those of oslo.messaging's driver for RabbitMQ, so
that the same tools can count them.
"""

from __future__ import annotations

import functools
import json
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

import amqp

from . import worker
from .copies import DIGITS, Copies
from .ledger import FAILED, OK
from .load import Record, outcome, sleep_until, watched

_BATCH = 10_000
_POLL = 0.1
_PAUSE = 0.02


def connection(url: str, timeout: float, limited: bool = True) -> Any:
    """Return a connection to the broker at the URL; as a context manager it opens and closes.

    :param timeout: time limit for opening the connection, seconds
    :param limited: the time limit is that of each read and write, too
    """
    parts = urlsplit(url)
    return amqp.Connection(
        f"{parts.hostname}:{parts.port or 5672}",
        unquote(parts.username or "guest"),
        unquote(parts.password or "guest"),
        connect_timeout=timeout,
        read_timeout=timeout if limited else None,
        write_timeout=timeout if limited else None,
    )


class Batches(Record):
    """The record of one publisher; a message is OK when the broker has confirmed it."""

    #: number of messages that are not confirmed yet
    outside = 0


class Worker(worker.Worker):
    """One connection with one channel.

    The reading thread receives messages and confirms, and makes requests; publishers write from
    threads of their own.

    :param order: the first order from the parent
    """

    def __init__(self, order: dict[str, Any]) -> None:
        super().__init__(order)
        self._payload = "x" * order["size"]
        # py-amqp has one buffer for all writes of a connection. The lock is reentrant, because a
        # callback may write while its own thread makes a request
        self._writing = threading.RLock()
        self._confirmed = threading.Condition()
        # unconfirmed messages by delivery-tag, in order: time of publishing, publisher's account,
        # number in the account
        self._outside: dict[int, tuple[int, Batches, int]] = {}
        self._published = 0
        self._ended = False
        self._requests: deque[Callable[[], None]] = deque()
        self._connection = connection(order["url"], order["timeout"], limited=False)
        # with connection.blocked, basic_publish() of py-amqp would read on a publisher's thread
        self._connection.negotiate_capabilities = {"consumer_cancel_notify": True}
        self._connection.connect()
        self._channel = self._connection.channel()
        self._channel.confirm_select()
        self._channel.events["basic_ack"].add(self._on_confirm)
        self._channel.events["basic_nack"].add(self._on_refusal)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def about(self) -> dict[str, Any]:
        """Return the name and version of the library."""
        return {"library": f"py-amqp {amqp.__version__}"}

    def send(self, at: int, seconds: float, senders: list[dict[str, Any]]) -> dict[str, Any]:
        """Publish to the queue of each sender; parameters and result as of ``flow.Worker.send``."""
        until = at + int(seconds * 1e9)
        jobs = {
            sender["name"]: functools.partial(
                self._publish, sender["first"], self._queue(sender["topic"]), at, until
            )
            for sender in senders
        }
        return watched(jobs, self.ledger, at, seconds)

    def listen(self, topic: str) -> dict[str, Any]:
        """Start to receive from the queue of a topic."""
        self._request(lambda: self._consume(self._queue(topic)))
        return {}

    def hush(self) -> dict[str, Any]:
        """Stop receiving; return the ledger of the received messages."""
        self._request(lambda: self._channel.basic_cancel("receiver"))
        return self.ledger.dump()

    def close(self) -> dict[str, Any]:
        """Close the connection."""
        self._ended = True
        self._reader.join(self.order["timeout"])
        self._connection.close()
        return {}

    def _queue(self, topic: str) -> str:
        return f"{topic}.{self.order['server']}"

    # -- publishers ------------------------------------------------------------------------

    def _publish(self, sender: int, queue: str, at: int, until: int) -> dict[str, Any]:
        batches = Batches(sender, at)
        sleep_until(at)
        while time.monotonic_ns() < until:
            for _ in range(_BATCH):
                now = time.monotonic_ns()
                if now >= until:
                    break
                number = len(batches.states)
                message = amqp.Message(self._body(batches.number, number, now), delivery_mode=2)
                with self._writing:
                    with self._confirmed:
                        self._published += 1
                        self._outside[self._published] = now, batches, number
                        batches.outside += 1
                        batches.states.append(FAILED)
                    self._channel.basic_publish(message, "", queue)
            with self._confirmed:
                if not self._confirmed.wait_for(lambda: not batches.outside, self.order["timeout"]):
                    batches.errors.add(TimeoutError(f"{batches.outside} messages not confirmed"))
        batches.ended = time.monotonic_ns()
        return outcome([batches])

    def _body(self, sender: int, number: int, now: int) -> str:
        """Return a message in the form in which oslo.messaging's driver for RabbitMQ writes it."""
        args = {"i": sender, "n": f"{number:0{DIGITS}d}", "t": now, "p": self._payload}
        message = json.dumps({"method": "take", "args": args, "_unique_id": f"{number:032x}"})
        return json.dumps({"oslo.version": "2.0", "oslo.message": message})

    # -- the reading thread ------------------------------------------------------------------

    def _read(self) -> None:
        while not self._ended:
            while self._requests:
                self._requests.popleft()()
            # py-amqp would set the timeout of a read on the socket, where it interrupts writes, too
            if select.select([self._connection.sock], [], [], _POLL)[0]:
                self._connection.drain_events()

    def _request(self, request: Callable[[], None]) -> None:
        """Have the reading thread make a request and read its answer.

        :raises TimeoutError: there is no answer in time
        """
        done = threading.Event()

        def make() -> None:
            with self._writing:
                request()
            done.set()

        self._requests.append(make)
        if not done.wait(self.order["timeout"]):
            raise TimeoutError("the broker does not answer")

    def _consume(self, queue: str) -> None:
        self._channel.basic_qos(0, self.order["prefetch"], False)
        self._channel.basic_consume(queue, "receiver", callback=self._on_message)

    def _on_message(self, message: Any) -> None:
        args = json.loads(json.loads(message.body)["oslo.message"])["args"]
        self.ledger.note(args["i"], int(args["n"]), args["t"], time.monotonic_ns())
        with self._writing:
            self._channel.basic_ack(message.delivery_tag)

    def _on_confirm(self, tag: int, multiple: bool) -> None:
        """Account for a confirm of one message, or of all messages up to it (``multiple``)."""
        now = time.monotonic_ns()
        with self._confirmed:
            for published, batches, number in self._settled(tag, multiple):
                batches.latency.add(now - published)
                batches.states[number] = OK

    def _on_refusal(self, tag: int, multiple: bool) -> None:
        """Account for messages that the broker has refused (basic.nack)."""
        with self._confirmed:
            for _, batches, _ in self._settled(tag, multiple):
                batches.errors.add(amqp.exceptions.MessageNacked("the broker refuses a message"))

    def _settled(self, tag: int, multiple: bool) -> list[tuple[int, Batches, int]]:
        """Remove the messages that the broker has confirmed or refused, and return them."""
        tags = [known for known in self._outside if known <= tag] if multiple else [tag]
        found = [self._outside.pop(known) for known in tags]
        for _, batches, _ in found:
            batches.outside -= 1
        self._confirmed.notify_all()
        return found


# -- the loader ----------------------------------------------------------------------------


def load(url: str, source: str, queue: str, first: int, count: int, timeout: float) -> None:
    """Take the message in ``source``, and put copies of it into ``queue``.

    :param first: number of the first copy
    :param timeout: limit for the arrival of the message, and for each operation of the connection,
        seconds
    :raises RuntimeError: no message has come into ``source`` in time
    """
    with connection(url, timeout) as opened:
        channel = opened.channel()
        body, properties = _fetch(channel, source, timeout)
        request = json.loads(json.loads(body)["oslo.message"])
        copy = Copies(body, request["_unique_id"].encode()).copy
        for number in range(first, first + count):
            channel.basic_publish(amqp.Message(copy(number), **properties), "", queue)
        # the broker answers after it has taken all copies
        channel.queue_declare(queue, passive=True)


def _fetch(channel: Any, source: str, timeout: float) -> tuple[bytes, dict[str, Any]]:
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        message = channel.basic_get(source, no_ack=True)
        if message is not None:
            body = message.body
            return body if isinstance(body, bytes) else body.encode(), dict(message.properties)
        time.sleep(_PAUSE)
    raise RuntimeError(f"no message comes into {source}")
