# SPDX-License-Identifier: Apache-2.0

"""The collector: it reads a subscription, and acknowledges a message once the spool has it.

Three threads meet here. The I/O thread fills the inbox. The collector's own thread decodes the
messages, appends them to the spool, and has the I/O thread settle a batch at a time. The thread
that commits the spool reports that there is room. The collector never grants more credit than the
spool has room for, so the caps of the spool hold, and never for more messages than memory may hold.
No wait lasts for ever: see :mod:`.watch`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Destination
from amqp1_driver.connection.receiver import Delivery
from amqp1_driver.connection.subscription import Subscription
from amqp1_driver.pipeline import bus
from amqp1_driver.pipeline.collect import watch
from amqp1_driver.pipeline.collect.budget import Budget
from amqp1_driver.pipeline.collect.decode import Decoder
from amqp1_driver.pipeline.collect.inbox import Inbox
from amqp1_driver.pipeline.collect.rows import grown, row_of, too_large
from amqp1_driver.pipeline.collect.store import Store
from amqp1_driver.pipeline.source.options import SourceOptions
from amqp1_driver.pipeline.spool import Row, Spool
from amqp1_driver.policy.outcome import Outcome

LOG = logging.getLogger(__name__)

#: longest wait of stop() unless the caller gives another, seconds
STOP_TIMEOUT = 10.0
#: seconds without a subscription before the log says so; the collector then waits on for the bus
SUBSCRIBE_TIMEOUT = 5.0


def destinations(options: SourceOptions) -> tuple[Destination, ...]:
    """Return the destinations to read; each occurs as often as it has links."""
    found = [bus.node(address) for address in options.addresses]
    found += [
        bus.notifications(topic, priority, options.exchange)
        for topic in options.topics
        for priority in options.priorities
    ]
    return tuple(found * options.links)


class Collector:
    """A reader of the bus that writes to a spool. Any thread.

    :param options: the addresses or topics to read, and the manner of reading
    :param spool: an open spool; the collector does not close it
    :raises ValueError: an option of the driver, named in the text, is unknown or has a wrong value
    """

    def __init__(self, options: SourceOptions, spool: Spool) -> None:
        self._options = options
        self._spool = spool
        self._destinations = destinations(options)
        self._client = bus.make_client(options.url, options.exchange, options.driver)
        self._inbox = Inbox(self._interrupted, options.max_buffer_bytes, self._full)
        self._largest = spool.limits.largest
        self._budget = Budget(options.max_buffer_bytes)
        self._decode = Decoder(options.max_buffer_bytes).decode
        self._subscription: Subscription | None = None
        self._thread = threading.Thread(target=self._run, name="amqp1-collect", daemon=True)
        #: held from computing the room until it is posted to the I/O thread: no other thread posts
        #: its own room in between
        self._telling = threading.Lock()
        self._changed = threading.Condition()
        self._stopping = False
        self._quiet_since = time.monotonic()
        self._error: BaseException | None = None
        self._braked = 0
        self._what = ", ".join(dict.fromkeys(each.routing_key for each in self._destinations))
        self._watch = watch.Watch(
            (partial(watch.check_alive, self._client), spool.check),
            lambda: watch.refusals(self._subscription),
            options.refused_timeout,
        )
        self._store = Store(spool, self._changed, self._over, self._watch.look, self._what)

    def start(self) -> None:
        """Begin to read. If the bus is away, wait for it in the background, see :meth:`facts`."""
        self._spool.listen(self._room_changed)
        self._client.start()
        self._thread.start()

    def stop(self, timeout: float = STOP_TIMEOUT) -> bool:
        """Stop reading: append and acknowledge the messages that have come, then detach the links.

        :param timeout: seconds
        :returns: whether the collector's thread has ended in time; the bus delivers every message
            again that the collector has not acknowledged
        """
        self._stopping = True
        with self._changed:
            self._changed.notify_all()
        self._inbox.stop()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    # -- state -------------------------------------------------------------------------

    @property
    def error(self) -> BaseException | None:
        """Return the error that ended the collector, None if there is none.

        The collector has acknowledged no message that is not in the spool.
        """
        return self._error

    def idle(self) -> bool:
        """Return whether the collector has nothing to do.

        Either no message is on its way into the spool and none came for the time of the option
        ``drainIdleMs``, while all links were attached; or the spool takes no more.
        """
        if self._store.waits:
            return True
        if self._inbox.under_way:
            return False
        if not self._spool.room():
            return True
        if not self._attached():
            self._quiet_since = time.monotonic()
            return False
        return time.monotonic() - self._quiet_since >= self._options.drain_idle

    def wait_for(self, high: int, timeout: float) -> bool:
        """Wait until the spool has row ``high``, the collector fails or stops.

        :param timeout: seconds
        :returns: whether the row is there
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._spool.high >= high or self._error is not None or self._stopping,
                timeout,
            )
        return self._spool.high >= high

    def facts(self) -> dict[str, Any]:
        """Return facts for people and monitoring: counters since the start, state of the links."""
        context, subscription = self._client.context, self._subscription
        found: dict[str, Any] = {
            "attached": self._attached(),
            "host": context.host if context is not None else None,
            "bus": str(context.peer) if context is not None else None,
            **self._store.counts,
            "buffered": self._inbox.under_way,
            "buffered_bytes": self._inbox.bytes,
            "braked": self._braked,
            "error": str(self._error) if self._error is not None else None,
        }
        if subscription is not None:
            found |= subscription.counters()
            trouble = subscription.last_error
            found["trouble"] = str(trouble) if trouble is not None else None
        return found

    def _attached(self) -> bool:
        subscription = self._subscription
        receivers = subscription.receivers if subscription is not None else []
        return bool(receivers) and all(receiver.attached for receiver in receivers)

    def _over(self) -> bool:
        return self._stopping or self._error is not None

    def _room(self) -> int:
        """Return the number of messages that may be on their way or in memory, all together."""
        return 0 if self._inbox.full else min(self._spool.room(), self._budget.messages)

    # -- callbacks ---------------------------------------------------------------------

    def _room_changed(self) -> None:
        """Grant credit for the new room after a commit, on the thread that commits the spool."""
        self._tell(())
        with self._changed:
            self._changed.notify_all()

    def _full(self) -> None:
        """Take back credit, because more bytes have come than memory may hold. I/O thread."""
        if self._subscription is not None and self._subscription.brake():
            self._braked += 1

    def _interrupted(self) -> None:
        """Fail if the bus cannot serve the subscription, or if the I/O thread dies. I/O thread."""
        subscription = self._subscription
        error = subscription.last_error if subscription is not None else None
        if self._client.dead or isinstance(error, exceptions.UnsupportedFeature):
            self._fail(error or exceptions.LoopDied(exceptions.LoopDied.summary))

    def _fail(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error
        self._inbox.stop()
        with self._changed:
            self._changed.notify_all()

    # -- the collector's thread ----------------------------------------------------------

    def _run(self) -> None:
        try:
            self._subscribe()
            self._collect()
        except BaseException as error:
            LOG.error("Nothing more is read from %s: %s", self._what, error)
            self._fail(error)
        finally:
            # messages that are not in the spool are not acknowledged: they go back to the bus
            self._client.close()

    def _subscribe(self) -> None:
        self._subscription = self._client.subscribe(
            self._destinations,
            self._options.pool,
            self._options.credit,
            False,
            self._inbox,
            SUBSCRIBE_TIMEOUT,
            self._room(),
        )
        self._quiet_since = time.monotonic()
        # _tell() did nothing for commits that came before there was a subscription
        self._tell(())

    def _collect(self) -> None:
        assert self._subscription is not None
        while not self._over():
            self._take(self._options.linger)
            self._watch.look()
        if self._error is None:
            self._client.stop_subscription(self._subscription)
            while self._inbox.under_way and self._error is None:
                self._take(0.0)
            self._client.unsubscribe(self._subscription)

    def _take(self, linger: float) -> None:
        most = self._options.segment_rows
        window = self._options.credit * len(self._destinations)
        enough = max(1, min(most, window // 2, self._room() // 2))
        deliveries, times = self._inbox.take(enough, most, linger, watch.EVERY)
        if not deliveries:
            return
        self._budget.seen(len(deliveries), self._inbox.hand_bytes)
        self._decode_and_keep(deliveries, times)
        self._quiet_since = time.monotonic()
        full = self._inbox.full
        self._inbox.done()
        if full:
            # while the inbox was full, _room() was 0: acknowledgements granted no credit
            self._tell(())

    def _decode_and_keep(self, deliveries: Sequence[Delivery], times: Sequence[float]) -> None:
        """Decode messages, append their rows, and acknowledge them.

        This happens in pieces if decoding makes the messages larger.
        """
        kept: list[Delivery] = []
        rows: list[Row] = []
        size, small = 0, self._largest // 16
        for delivery, at in zip(deliveries, times, strict=True):
            row = row_of(delivery, at, self._decode)
            came = len(delivery.data)
            # most rows are about as large as their messages and need no closer look
            if came > small or row.properties is not None or len(row.body) > came:
                too_much = too_large(row, delivery.data, self._largest)
                if too_much:
                    self._reject(delivery, too_much)
                    continue
                came = grown(row)
            kept.append(delivery)
            rows.append(row)
            size += came
            if size >= self._options.max_buffer_bytes:
                if not self._keep(kept, rows):
                    return
                kept, rows, size = [], [], 0
        self._keep(kept, rows)

    def _keep(self, deliveries: Sequence[Delivery], rows: Sequence[Row]) -> bool:
        """Append rows, then acknowledge their deliveries; in pieces, if the spool is short of room.

        :returns: False if the collector was stopped; the bus then delivers the rest again
        """
        start = 0
        while start < len(rows):
            end = self._store.append(rows, start)
            if not end:
                return False
            stored = deliveries[start:end]
            # before _tell() grants credit: the inbox must not count these bytes beside new ones
            self._inbox.stored(sum([len(delivery.data) for delivery in stored]))
            self._tell(stored)
            start = end
            with self._changed:
                self._changed.notify_all()
        return True

    def _reject(self, delivery: Delivery, size: int) -> None:
        """Reject a message for which no commit ever makes room; the bus may dead-letter it."""
        LOG.error(
            "A message of %d bytes on %s at %s is rejected: it takes %d bytes in the spool, "
            "the largest that it takes is %d (option maxSpoolBytes)",
            len(delivery.data),
            delivery.address,
            delivery.host,
            size,
            self._largest,
        )
        self._store.counts["rejected"] += 1
        delivery.outcome = Outcome.REJECTED
        self._tell((delivery,))

    def _tell(self, deliveries: Sequence[Delivery]) -> None:
        """Have the I/O thread acknowledge deliveries, and grant credit for the present room."""
        subscription = self._subscription
        if subscription is not None:
            with self._telling:
                self._client.settle_all(subscription, deliveries, self._room())
