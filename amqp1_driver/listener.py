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

"""The listener: a queue of deliveries between the I/O thread and a poller.

The queue is bounded by the credit of the subscription's links: what is in it
is not settled, so the peer sends no more than that.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from amqp1_driver import codec, compat, exceptions
from amqp1_driver.client import Client
from amqp1_driver.incoming import Incoming
from amqp1_driver.policy.duplicates import DuplicateFilter
from amqp1_driver.policy.outcome import Outcome
from amqp1_driver.protocol.receiver import Delivery, Subscription

LOG = logging.getLogger(__name__)


def _release(gate: Any) -> None:
    gate.release()


class DeliveryQueue:
    """Hands deliveries from the I/O thread to polling threads, in order.

    A poller that finds nothing leaves a locked gate for the I/O thread to open:
    a tenth of the cost of a condition variable, and paid only by those who wait.
    """

    def __init__(self) -> None:
        self._entries: deque[Delivery] = deque()
        self._gates: deque[Any] = deque()
        self._stopped = False
        self._interrupted = False
        self._release: Callable[[Any], object] = _release

    def use(self, release: Callable[[Any], object]) -> None:
        """How to release the gate of a poller, see :meth:`EventLoop.release`."""
        self._release = release

    def deliver(self, delivery: Delivery) -> None:
        """I/O thread: never blocks."""
        self._entries.append(delivery)
        self._open_gate()

    def put_back(self, delivery: Delivery) -> bool:
        """Any thread: the application wants it again later; False after :meth:`stop`."""
        if self._stopped:
            return False
        self.deliver(delivery)
        return True

    def take(self, until: float | None) -> Delivery | None:
        """The oldest; None when there was none until then, or after :meth:`stop` or, once,
        :meth:`interrupt`.

        :param until: monotonic seconds; None: wait for ever
        """
        while True:
            try:
                return self._entries.popleft()
            except IndexError:
                pass
            left = -1.0 if until is None else until - time.monotonic()
            if self._interrupted or self._stopped or (until is not None and left <= 0):
                self._interrupted = False
                return None
            self._wait(left)

    def _wait(self, left: float) -> None:
        gate = threading.Lock()
        gate.acquire()
        self._gates.append(gate)
        # what came between the look and the gate has opened no gate of ours
        if not (self._entries or self._stopped or self._interrupted):
            gate.acquire(True, min(left, threading.TIMEOUT_MAX))
        try:
            self._gates.remove(gate)
        except ValueError:
            pass  # it was opened

    def _open_gate(self) -> None:
        try:
            gate = self._gates.popleft()
        except IndexError:
            return  # nobody waits
        self._release(gate)

    def interrupt(self) -> None:
        """Wake one who waits, so that it looks at what has become of the subscription."""
        self._interrupted = True
        self._open_gate()

    @property
    def stopped(self) -> bool:
        return self._stopped

    def stop(self) -> None:
        """Wake all who wait; what is in the queue can still be taken."""
        self._stopped = True
        for _ in range(len(self._gates)):
            self._open_gate()

    def drain(self) -> list[Delivery]:
        """All that nobody has taken."""
        left = []
        while self._entries:
            try:
                left.append(self._entries.popleft())
            except IndexError:
                break
        return left


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
            if message is None:
                continue
            if not batch and batch_timeout is not None:
                until = time.monotonic() + batch_timeout
            batch.append(message)
        return batch

    def stop(self) -> None:
        """No new messages; the poller goes on until what has come is worked off."""
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

    def _revive(self) -> None:
        """Subscribe anew if the I/O thread has died: a server must not stay deaf."""
        if not self.client.dead or self.queue.stopped or self.subscription is None:
            return
        try:
            self.client, self.subscription = self._subscribe(self.queue)
        except exceptions.AmqpError as error:
            LOG.error("A subscription was lost with its I/O thread and can't be had again: %s",
                      error)

    def _accept(self, delivery: Delivery) -> Incoming | None:
        """Decode; a message that can't be is rejected, one seen before is dropped."""
        try:
            message = codec.decode_message(delivery.data)
            body = codec.decompress(message.body, message.content_encoding)
            request = codec.load_request(body)
        except exceptions.DecodeError as error:
            LOG.error("Undecodable message on %s at %s rejected: %s", delivery.address,
                      delivery.host, error)
            self._settle(delivery, Outcome.REJECTED)
            return None
        incoming = Incoming(self, delivery, message, request)
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
            return incoming.let_go()

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
