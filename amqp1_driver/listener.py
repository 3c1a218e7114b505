#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The listener: turns deliveries into messages for oslo.messaging's server.

Where the server runs its work on threads of its own, the I/O thread hands each
message straight to it; otherwise the server's own thread polls.
"""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from amqp1_driver import codec, compat, exceptions
from amqp1_driver.client import Client
from amqp1_driver.delivery_queue import DeliveryQueue
from amqp1_driver.incoming import Incoming
from amqp1_driver.policy.duplicates import DuplicateFilter
from amqp1_driver.policy.outcome import Outcome
from amqp1_driver.protocol.receiver import Delivery
from amqp1_driver.protocol.subscription import Subscription

LOG = logging.getLogger(__name__)


class Listener(compat.PollStyleListener):  # type: ignore[misc]
    """What oslo.messaging's server polls.  Application threads; never raises.

    :param subscribe: makes the subscription, with the client of the process as it is then
    :param window: how many message-ids are remembered to find duplicates
    :raises AmqpError: the subscription can't be made
    """

    def __init__(self, subscribe: Callable[[DeliveryQueue], tuple[Client, Subscription]],
                 window: int) -> None:
        super().__init__(prefetch_size=-1)
        self.queue = DeliveryQueue()
        self.client: Client
        self.subscription: Subscription | None
        self.client, self.subscription = subscribe(self.queue)
        self._subscribe = subscribe
        self._duplicates = DuplicateFilter(window) if window else None
        self._decode = codec.Decoder().decode
        self._lock = threading.Lock()
        self._in_work: dict[str, Incoming] = {}

    def poll(self, timeout: float | None = None, batch_size: int = 1,
             batch_timeout: float | None = None) -> list[Incoming]:
        """Up to ``batch_size`` messages.

        Waits for the first for ``timeout`` seconds; from then on for the rest
        of the batch for ``batch_timeout`` seconds.  After :meth:`stop` returns
        what is left, at the end an empty list.
        """
        until = None if timeout is None else time.monotonic() + timeout
        batch: list[Incoming] = []
        while len(batch) < max(1, batch_size):
            delivery = self.queue.take(until)
            if delivery is None:
                self._revive()
                break
            message = self._accept(delivery)
            if message is None or not message.loadable():
                continue
            if not batch and batch_timeout is not None:
                until = time.monotonic() + batch_timeout
            batch.append(message)
        return batch

    def hand_to(self, callback: Callable[[list[Incoming]], object]) -> None:
        """Have the I/O thread call ``callback`` with each message: instead of polling.

        :param callback: does not block; what it refuses is given back to the bus
        """
        self.queue.divert(partial(self._hand_over, callback), self._revive_soon)

    def control(self, fn: Callable[[Subscription, Callable[[bool], object]], object],
                timeout: float) -> bool:
        """Have the I/O thread call ``fn(subscription, done)``, and wait for ``done``.

        :param timeout: seconds
        :returns: what ``done`` was called with; False if it was not in time
        :raises Closed: the listener was stopped
        """
        subscription = self.subscription
        if subscription is None or self.queue.stopped:
            raise exceptions.Closed("the listener was stopped")
        return self.client.ask(lambda done: fn(subscription, done), timeout)

    def stop(self) -> None:
        """No new messages; the poller goes on until what has come is worked off.

        What was on its way comes first: the bus confirms that there is no more, or is not
        waited for any longer.  What has come is handed over, without a poller, when this
        returns.
        """
        if self.subscription is not None:
            self.client.stop_subscription(self.subscription)
        self.queue.stop()

    def cleanup(self) -> None:
        """Give back what nobody polled, and detach."""
        self.queue.stop()
        for delivery in self.queue.drain():
            delivery.outcome = Outcome.RELEASED
            self.client.settle(delivery)
        subscription, self.subscription = self.subscription, None
        if subscription is not None:
            LOG.debug("Listener had %d credit stalls", subscription.stalls)
            self.client.unsubscribe(subscription)

    # -- inner -----------------------------------------------------------------

    def _hand_over(self, callback: Callable[[list[Incoming]], object],
                   deliveries: list[Delivery]) -> None:
        # All are made ready first: the callback wakes a thread, which wants the interpreter.
        for message in [ready for one in deliveries if (ready := self._accept(one)) is not None]:
            try:
                callback([message])
            except Exception:
                LOG.exception("The server did not take message %s from %s: it is given back",
                              message.msg_id, message.where[0])
                message.give_back()

    def _revive_soon(self) -> None:
        """Subscribing waits, which the thread that says so may not."""
        threading.Thread(target=self._revive, name="amqp1-revive", daemon=True).start()

    def _revive(self) -> None:
        """Subscribe anew if the I/O thread has died: a server must not stay deaf."""
        if not self.client.dead or self.queue.stopped or self.subscription is None:
            return
        before = self.subscription
        try:
            self.client, self.subscription = self._subscribe(self.queue)
            self.client.ask(lambda done: done(self.subscription is not None
                                              and self.subscription.resemble(before)))
        except exceptions.AmqpError as error:
            LOG.error("A subscription was lost with its I/O thread and can't be had again: %s",
                      error)

    def _accept(self, delivery: Delivery) -> Incoming | None:
        """Decode; a message that can't be is rejected, one seen before is dropped.

        Its body is left for the thread that works on it.
        """
        try:
            message = self._decode(delivery.data)
        except exceptions.DecodeError as error:
            LOG.error("Undecodable message on %s at %s rejected: %s", delivery.address,
                      delivery.host, error)
            self._settle(delivery, Outcome.REJECTED)
            return None
        incoming = Incoming(self, delivery, message)
        return incoming if self._admit(incoming, delivery, message) else None

    def _admit(self, incoming: Incoming, delivery: Delivery, message: codec.Message) -> bool:
        """False for a message that is or was in work here already.

        While it is in work, its outcome is still to come: the new delivery gets that.
        """
        message_id = message.message_id
        if self._duplicates is None or not isinstance(message_id, str):
            return True
        with self._lock:
            if not (self._duplicates.seen(message_id) and message.redelivered):
                self._in_work[message_id] = incoming
                return True
            first = self._in_work.get(message_id)
            taken = first is not None and first.take_over(delivery)
        if not taken:
            self._settle(delivery, Outcome.ACCEPTED)
        LOG.warning("Message %s on %s at %s was delivered again and is dropped", message_id,
                    delivery.address, delivery.host)
        return False

    def finish(self, incoming: Incoming, message_id: Any) -> Delivery | None:
        """The work is done: what there is to settle, once."""
        with self._lock:
            if isinstance(message_id, str) and self._in_work.get(message_id) is incoming:
                del self._in_work[message_id]
            delivery, incoming.delivery = incoming.delivery, None
            return delivery

    def _settle(self, delivery: Delivery, outcome: Outcome) -> None:
        delivery.outcome = outcome
        self.client.settle(delivery)

    def again(self, delivery: Delivery) -> bool:
        """Queue a delivery once more; False when the listener has stopped."""
        return self.queue.put_back(delivery)

    def forget(self, message_id: Any) -> None:
        """A message goes back to the bus and may come again."""
        if self._duplicates is not None and isinstance(message_id, str):
            with self._lock:
                self._duplicates.forget(message_id)


class ListenerAdapter(compat.PollStyleListenerAdapter):  # type: ignore[misc]
    """What oslo.messaging's server starts and stops.  Application threads.

    :param listener: where messages come in
    :param batch_size: messages that the server wants at a time
    :param batch_timeout: seconds to wait for that many
    """

    def __init__(self, listener: Listener, batch_size: int, batch_timeout: float | None) -> None:
        super().__init__(listener, batch_size, batch_timeout)
        #: where messages come in
        self.listener = listener
        self._direct = False

    def start(self, on_incoming_callback: Callable[[list[Incoming]], object]) -> None:
        """Begin to hand messages to the server."""
        # a thread of its own is needed to collect a batch, and for work done in the callback
        self._direct = (self.batch_size or 1) == 1 and compat.only_submits(on_incoming_callback)
        if self._direct:
            compat.Listener.start(self, on_incoming_callback)
            self.listener.hand_to(on_incoming_callback)
        else:
            super().start(on_incoming_callback)

    def stop(self) -> None:
        """No more messages are handed over when this returns."""
        if self._direct:
            self.listener.stop()
            compat.Listener.stop(self)
        else:
            super().stop()
