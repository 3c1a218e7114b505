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

"""The collector: a subscription whose messages are acknowledged once the spool has them.

Three threads meet: the I/O thread fills the inbox, the collector's own thread decodes, appends
and has the I/O thread settle a batch at a time, and whoever commits the spool tells that there
is room. No more credit is ever granted than there is room, so the caps of the spool hold, and
for no more messages than memory may hold. No wait is for ever: see :mod:`.watch`.
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
from amqp1_driver.pipeline import bus
from amqp1_driver.pipeline.collect import watch
from amqp1_driver.pipeline.collect.budget import Budget
from amqp1_driver.pipeline.collect.decode import Decoder
from amqp1_driver.pipeline.collect.inbox import Inbox
from amqp1_driver.pipeline.collect.rows import row_of
from amqp1_driver.pipeline.collect.store import Store
from amqp1_driver.pipeline.source.options import SourceOptions
from amqp1_driver.pipeline.spool import Row, Spool
from amqp1_driver.protocol.receiver import Delivery
from amqp1_driver.protocol.subscription import Subscription

LOG = logging.getLogger(__name__)

#: seconds
STOP_TIMEOUT = 10.0
#: after that the bus is waited for all the same, but the log says so
SUBSCRIBE_TIMEOUT = 5.0


def destinations(options: SourceOptions) -> tuple[Destination, ...]:
    """What is read, each as often as it has links."""
    found = [bus.node(address) for address in options.addresses]
    found += [bus.notifications(topic, priority, options.exchange)
              for topic in options.topics for priority in options.priorities]
    return tuple(found * options.links)


class Collector:
    """Reads the bus into a spool. Any thread.

    :param options: what to read, and how
    :param spool: open; the collector does not close it
    :raises ValueError: an option of the driver, named in the text, is unknown or has a wrong value
    """

    def __init__(self, options: SourceOptions, spool: Spool) -> None:
        self._options = options
        self._spool = spool
        self._destinations = destinations(options)
        self._client = bus.make_client(options.url, options.exchange, options.driver)
        self._inbox = Inbox(self._interrupted, options.max_buffer_bytes, self._full)
        self._budget = Budget(options.max_buffer_bytes)
        self._decode = Decoder().decode
        self._subscription: Subscription | None = None
        self._thread = threading.Thread(target=self._run, name="amqp1-collect", daemon=True)
        #: who tells the I/O thread of room has to look and tell in one step
        self._telling = threading.Lock()
        self._changed = threading.Condition()
        self._stopping = False
        self._quiet_since = time.monotonic()
        self._error: BaseException | None = None
        self._braked = 0
        self._what = ", ".join(dict.fromkeys(each.routing_key for each in self._destinations))
        self._watch = watch.Watch((partial(watch.check_alive, self._client), spool.check),
                                  lambda: watch.refusals(self._subscription),
                                  options.refused_timeout)
        self._store = Store(spool, self._changed, self._over, self._watch.look, self._what)

    def start(self) -> None:
        """Begin to read. A bus that is away is waited for, see :meth:`facts`."""
        self._spool.listen(self._room_changed)
        self._client.start()
        self._thread.start()

    def stop(self, timeout: float = STOP_TIMEOUT) -> bool:
        """No more messages; what has come is appended and acknowledged, then the links go.

        :param timeout: seconds
        :returns: whether all of that was done; what was not comes again
        """
        self._stopping = True
        with self._changed:
            self._changed.notify_all()
        self._inbox.stop()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    # -- how it stands -----------------------------------------------------------------

    @property
    def error(self) -> BaseException | None:
        """Why nothing more is read, for good: acknowledged is only what the spool has."""
        return self._error

    def idle(self) -> bool:
        """Nothing is on its way into the spool, and nothing came for a while (option
        ``drainIdleMs``); or the spool takes no more."""
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
                timeout)
        return self._spool.high >= high

    def facts(self) -> dict[str, Any]:
        """For people and monitoring: counters since the start, and how the links stand."""
        context, subscription = self._client.context, self._subscription
        found: dict[str, Any] = {
            "attached": self._attached(), "host": context.host if context is not None else None,
            "bus": str(context.peer) if context is not None else None, **self._store.counts,
            "buffered": self._inbox.under_way, "buffered_bytes": self._inbox.bytes,
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
        """Messages that may be on their way or in memory, all taken together."""
        return 0 if self._inbox.full else min(self._spool.room(), self._budget.messages)

    # -- told by others ----------------------------------------------------------------

    def _room_changed(self) -> None:
        """The spool was committed."""
        self._tell(())
        with self._changed:
            self._changed.notify_all()

    def _full(self) -> None:
        """I/O thread: more bytes have come than memory may hold."""
        if self._subscription is not None and self._subscription.brake():
            self._braked += 1

    def _interrupted(self) -> None:
        """I/O thread: the subscription was refused, or the thread is dying."""
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
            # without an acknowledgement all that is not in the spool goes back to the bus
            self._client.close()

    def _subscribe(self) -> None:
        self._subscription = self._client.subscribe(
            self._destinations, self._options.pool, self._options.credit, False, self._inbox,
            SUBSCRIBE_TIMEOUT, self._room())
        self._quiet_since = time.monotonic()
        # there may have been a commit while nobody could be told
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
        self._keep(deliveries, [row_of(delivery, at, self._decode) for delivery, at
                                in zip(deliveries, times, strict=True)])
        self._quiet_since = time.monotonic()
        full = self._inbox.full
        self._inbox.done()
        if full:
            # nothing was granted for what was acknowledged
            self._tell(())

    def _keep(self, deliveries: Sequence[Delivery], rows: Sequence[Row]) -> None:
        """Append, then acknowledge; in pieces, if bytes are short."""
        start = 0
        while start < len(rows):
            end = self._store.append(rows, start)
            if not end:
                return  # stopped: these come again
            self._tell(deliveries[start:end])
            start = end
            with self._changed:
                self._changed.notify_all()

    def _tell(self, deliveries: Sequence[Delivery]) -> None:
        """Have the I/O thread acknowledge, and grant what there is room for."""
        subscription = self._subscription
        if subscription is not None:
            with self._telling:
                self._client.settle_all(subscription, deliveries, self._room())
