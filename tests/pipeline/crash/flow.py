# SPDX-License-Identifier: Apache-2.0

"""The flow of notifications into the bus, and what of it is under way when something is killed."""

from __future__ import annotations

import json
import threading
import time
from typing import NamedTuple

from amqp1_driver.pipeline import bus
from amqp1_driver.pipeline.publish.publisher import Publisher
from tests.pipeline.crash.control import WAIT

TOPIC = "crash"
#: messages that the bus has not confirmed, at most
UNDER_WAY = 500
#: messages that are kept for the kills themselves, and sent without hurry: a kill that takes long
#: can use up the others, and the publisher would be at its end before the last kill
RESERVE = 1500
#: messages between two looks at the clock
CHUNK = 20
#: seconds that the rest may take
DRAIN = 900


class Live(NamedTuple):
    """The flow in the moment before a kill.

    :param sent: messages sent so far
    :param unconfirmed: those that the bus had not confirmed
    :param resent: those that were in doubt and sent again, so far
    :param waited: the publisher waited for the spool, and went on for the kill
    """

    sent: int
    unconfirmed: int
    resent: int
    waited: bool


class Flow(threading.Thread):
    """The publisher: the slower, the less is left of what may be sent before the next kill, so that
    it always has something to send; from right before a kill until it is done as fast as the bus
    takes them.

    :param rows: messages in all
    :param ahead: how far before the spool it may be, messages; more than may be unconfirmed, or
        both might wait for ever
    :param spread: what may be sent is spread over so many seconds
    """

    def __init__(self, url: str, rows: int, ahead: int, spread: float) -> None:
        super().__init__(name="publisher", daemon=True)
        assert ahead > UNDER_WAY
        self._url, self._rows, self._ahead, self._spread = url, rows, ahead, spread
        #: time before which no more is sent, unless it is in a hurry
        self._due = 0.0
        #: something is being killed: a node dies only after it could take a thousand messages more
        self._killing = False
        #: nothing is killed any more
        self._last = False
        self._high = self._gate = 0
        self._may = threading.Condition()
        self._publisher: Publisher | None = None
        self._sent = 0
        self._waits = True
        self.error: BaseException | None = None

    @property
    def _unconfirmed(self) -> int:
        return self._publisher.unconfirmed if self._publisher is not None else 0

    @property
    def resent(self) -> int:
        """Messages that were in doubt, and sent again."""
        return self._publisher.resent if self._publisher is not None else 0

    def allow(self, high: int) -> None:
        """The spool has got so far."""
        with self._may:
            self._high = max(self._high, high)
            self._may.notify_all()

    def open(self, gate: int) -> None:
        """So many may be sent, and no more: the flow is not to run out before the last kill."""
        with self._may:
            self._gate = gate
            self._may.notify_all()

    def live(self, patience: float) -> Live:
        """Wait until it sends, and say how it stands: messages are under way until :meth:`killed`.

        :param patience: seconds that it may take to go on by itself, if it waits for the spool
        :raises AssertionError: it does not send
        """
        with self._may:
            self._may.wait_for(lambda: not self._waits, patience)
            waited, before = self._waits, self._sent
            # a publisher that waits goes on for it
            self._killing = True
            self._may.notify_all()
            there = self._may.wait_for(
                lambda: self.error is not None or (self._sent > before and self._unconfirmed > 0),
                WAIT,
            )
            assert there and self.error is None, f"{self._sent} sent: {self.error!r}"
            return Live(self._sent, self._unconfirmed, self.resent, waited)

    def killed(self) -> None:
        """It is done: only so much more as may be sent."""
        with self._may:
            self._killing = False

    def _free(self) -> bool:
        if self._killing or self._last:
            return True
        return self._sent < min(self._gate, self._rows - RESERVE, self._high + self._ahead)

    def _next(self, publisher: Publisher) -> None:
        """The last one has been sent; wait until another may be."""
        if not self._sent % CHUNK:
            self._pace()
        with self._may:
            self._may.notify_all()
            if self._free():
                return
        # who waits has nothing in doubt, and does not wait for what it has to send again
        publisher.flush()
        with self._may:
            self._waits = True
            self._may.wait_for(self._free)
            self._waits = False

    def _pace(self) -> None:
        now = time.monotonic()
        if self._hurries():
            self._due = now
            return
        pause = self._spread * CHUNK / max(CHUNK, self._gate - self._sent)
        # what it was late, because it had to wait otherwise, is not caught up
        self._due = max(self._due + min(pause, 1.0), now)
        with self._may:
            self._may.wait_for(self._hurries, self._due - now)

    def _hurries(self) -> bool:
        # with little left a hurry is over before anybody has seen a message under way
        return self._last or (self._killing and self._sent < self._rows - RESERVE)

    def run(self) -> None:
        where = bus.notifications(TOPIC, "info", "openstack")
        client = bus.make_client(self._url, "openstack")
        try:
            with Publisher(client, UNDER_WAY, WAIT) as publisher:
                self._publisher = publisher
                while self._sent < self._rows:
                    self._next(publisher)
                    name = f"n-{self._sent}"
                    publisher.send(where, name, body(name))
                    self._sent += 1
                publisher.flush()
        except BaseException as error:
            self.error = error
        with self._may:
            self._may.notify_all()

    def finish(self) -> None:
        """Send the rest."""
        with self._may:
            self._last = True
        self.allow(self._rows)
        self.open(self._rows)
        self.join(DRAIN)
        if self.error is not None:
            raise self.error
        assert not self.is_alive(), "the publisher does not come to its end"


def body(name: str) -> bytes:
    """A notification as the driver sends it."""
    message = json.dumps(
        {
            "message_id": name,
            "publisher_id": "compute.host",
            "event_type": "crash.test",
            "priority": "INFO",
            "payload": {},
            "timestamp": "2026-03-10 12:00:00",
        }
    )
    return json.dumps(
        {"request": {"oslo.version": "2.0", "oslo.message": message}, "context": {}}
    ).encode()
