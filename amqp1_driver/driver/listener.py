# SPDX-License-Identifier: Apache-2.0

"""The listener, which turns deliveries into messages for oslo.messaging's server.

If the server runs its work on threads of its own, the I/O thread hands each message directly to
the server. Otherwise a thread of oslo.messaging polls the listener.
"""

import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from amqp1_driver import codec, compat, exceptions
from amqp1_driver.client.client import Client
from amqp1_driver.connection.receiver import Delivery
from amqp1_driver.connection.subscription import Subscription
from amqp1_driver.driver.delivery_queue import DeliveryQueue
from amqp1_driver.driver.incoming import Incoming
from amqp1_driver.policy.duplicates import DuplicateFilter
from amqp1_driver.policy.loglimit import LogLimit
from amqp1_driver.policy.outcome import Outcome
from amqp1_driver.policy.retry import Backoff, Pauses

LOG = exceptions.logger(__name__)

#: pauses before the listener subscribes again after the I/O thread has died, seconds
RESUBSCRIBE_BACKOFF = Backoff(1.0, 2.0, 30.0)

#: milliseconds by which the clocks of two hosts may differ
_SKEW_MS = 5000


class Listener(compat.PollStyleListener):  # type: ignore[misc]
    """The object that oslo.messaging's server polls.  Application threads.

    Only the constructor and :meth:`control` raise.

    :param subscribe: makes the subscription, with the client that the process has at that time
    :param window: how many message-ids the listener remembers to find duplicates; 0: none
    :param load: decodes the body of a message
    :param largest: most bytes of a body after decompression; 0: the codec's default
    :raises AmqpError: the subscription can't be made
    """

    def __init__(
        self,
        subscribe: Callable[[DeliveryQueue], tuple[Client, Subscription]],
        window: int,
        load: Callable[[Any], codec.Request] = codec.load_request,
        largest: int = 0,
    ) -> None:
        super().__init__(prefetch_size=-1)
        self.load = load
        self.largest = largest
        self.queue = DeliveryQueue()
        self.client: Client
        self.subscription: Subscription | None
        self.client, self.subscription = subscribe(self.queue)
        self._subscribe = subscribe
        self._duplicates = DuplicateFilter(window) if window else None
        self._decode = codec.Decoder().decode
        self._lock = threading.Lock()
        self._pauses = Pauses(RESUBSCRIBE_BACKOFF, random.SystemRandom())
        #: when to subscribe again, monotonic seconds; None: the I/O thread has not died
        self._again_at: float | None = None
        self._resubscribing = False
        self._ended = threading.Event()
        self._in_work: dict[str, Incoming] = {}
        self._complaints = LogLimit()

    def poll(
        self, timeout: float | None = None, batch_size: int = 1, batch_timeout: float | None = None
    ) -> list[Incoming]:
        """Wait for messages and return up to ``batch_size`` of them.

        :param timeout: seconds to wait for the first message; None: no limit
        :param batch_timeout: seconds to wait for the rest of the batch, from the first message
            on; None: the rest of ``timeout``
        :returns: the messages; an empty list if none came in time. After :meth:`stop` the messages
            that are left, then an empty list
        """
        until = None if timeout is None else time.monotonic() + timeout
        batch: list[Incoming] = []
        while len(batch) < max(1, batch_size):
            delivery = self.queue.take(self._wait_until(until))
            if delivery is None:
                if self._loop_died() and time.monotonic() >= self._resubscribe_at():
                    self._resubscribe()
                break
            message = self._accept(delivery)
            if message is None or not message.loadable():
                continue
            if not batch and batch_timeout is not None:
                until = time.monotonic() + batch_timeout
            batch.append(message)
        return batch

    def hand_to(self, callback: Callable[[list[Incoming]], object]) -> None:
        """Have the I/O thread call ``callback`` with each message, instead of polling.

        :param callback: must not block; if it raises, the message goes back to the bus
        """
        self.queue.set_consumer(partial(self._hand_over, callback), self._resubscribe_soon)

    def control(
        self, fn: Callable[[Subscription, Callable[[bool], object]], object], timeout: float
    ) -> bool:
        """Have the I/O thread call ``fn(subscription, done)``, and wait for ``done``.

        :param timeout: seconds
        :returns: the argument of ``done``; False if ``fn`` did not call ``done`` in time
        :raises Closed: the listener was stopped
        """
        subscription = self.subscription
        if subscription is None or self.queue.stopped:
            raise exceptions.Closed("the listener was stopped")
        return self.client.ask(lambda done: fn(subscription, done), timeout)

    def stop(self) -> None:
        """Stop receiving new messages; a poller goes on until it has taken all received ones.

        This method waits for the messages that are on their way, until the bus confirms that
        there are no more, or the wait takes too long. Without a poller, the callback has got all
        received messages when this method returns.
        """
        self._ended.set()
        if self.subscription is not None:
            self.client.stop_subscription(self.subscription)
        self.queue.stop()

    def cleanup(self) -> None:
        """Release the messages that no poller took, and detach the links."""
        self._ended.set()
        self.queue.stop()
        for delivery in self.queue.drain():
            delivery.outcome = Outcome.RELEASED
            self.client.settle(delivery)
        subscription, self.subscription = self.subscription, None
        if subscription is not None:
            LOG.debug("Listener had %d credit stalls", subscription.stalls)
            self.client.unsubscribe(subscription)

    # -- inner -----------------------------------------------------------------

    def _hand_over(
        self, callback: Callable[[list[Incoming]], object], deliveries: list[Delivery]
    ) -> None:
        # Prepare all messages first: the callback wakes a thread, which wants the interpreter.
        ready: list[Incoming] = []
        for delivery in deliveries:
            try:
                accepted = self._accept(delivery)
            except Exception:  # a bad message must not affect others or the I/O thread
                LOG.exception(
                    "A message on %s at %s is rejected after an internal error",
                    delivery.address,
                    delivery.host,
                )
                self._settle(delivery, Outcome.REJECTED)
                continue
            if accepted is not None:
                ready.append(accepted)
        for message in ready:
            try:
                callback([message])
            except Exception:
                LOG.exception(
                    "The server did not take message %s from %s: it is given back",
                    message.msg_id,
                    message.where[0],
                )
                message.return_unprocessed()

    def _loop_died(self) -> bool:
        """Return whether the I/O thread has died while the listener is in use."""
        return self.client.dead and not self.queue.stopped and self.subscription is not None

    def _resubscribe_at(self) -> float:
        """Return the time at which to subscribe again.

        The first call after the I/O thread has died sets that time.
        """
        if self._again_at is None:
            pause = self._pauses.next(time.monotonic())
            self._again_at = time.monotonic() + pause
            assert self.subscription is not None
            LOG.error(
                "The I/O thread has died: listening again on %s in %.1f s",
                [one.routing_key for one in self.subscription.destinations],
                pause,
            )
        return self._again_at

    def _wait_until(self, until: float | None) -> float | None:
        """Return until when to wait for a message: at most until a new subscription is due."""
        if not self._loop_died():
            return until
        return self._resubscribe_at() if until is None else min(until, self._resubscribe_at())

    def _resubscribe_soon(self) -> None:
        """Start a thread that subscribes again: the I/O thread must not block for that."""
        with self._lock:
            if self._resubscribing:
                return
            self._resubscribing = True
        threading.Thread(target=self._keep_resubscribing, name="amqp1-revive", daemon=True).start()

    def _keep_resubscribing(self) -> None:
        """Subscribe again until the I/O thread stays alive, or the listener ends."""
        while self._loop_died():
            self._ended.wait(max(0.0, self._resubscribe_at() - time.monotonic()))
            self._resubscribe()
        with self._lock:
            self._resubscribing = False
        if self._loop_died():
            self._resubscribe_soon()  # the I/O thread has died again meanwhile

    def _resubscribe(self) -> None:
        """Subscribe again if the I/O thread has died: the server must go on receiving."""
        before = self.subscription
        self._again_at = None
        if not self._loop_died() or before is None:
            return
        try:
            self.client, self.subscription = self._subscribe(self.queue)
            self.client.ask(
                lambda done: done(
                    self.subscription is not None and self.subscription.resemble(before)
                )
            )
        except (exceptions.AmqpError, OSError, RuntimeError) as error:
            LOG.error("Listening again has failed: %s", error)

    def _accept(self, delivery: Delivery) -> Incoming | None:
        """Decode a message except its body, which the thread that processes it decodes.

        :returns: None for a message that was rejected, as malformed or expired, or dropped, as a
            duplicate
        """
        try:
            message = self._decode(delivery.data)
        except Exception as error:  # of any kind: an unsettled message would keep a credit
            self.log_rejected(None, delivery.address, delivery.host, error)
            self._settle(delivery, Outcome.REJECTED)
            return None
        if message.expires_ms and delivery.receiver.expires and self._expired(delivery, message):
            return None
        incoming = Incoming(self, delivery, message)
        return incoming if self._admit(incoming, delivery, message) else None

    def _expired(self, delivery: Delivery, message: codec.Message) -> bool:
        """Reject a message whose absolute-expiry-time (AMQP 1.0, 3.2.4) has passed.

        :returns: whether the message was rejected
        """
        late = time.time() * 1000 - message.expires_ms
        if late <= _SKEW_MS:
            return False
        LOG.warning(
            "Message %s on %s at %s had expired %.1f s before it came and is rejected; "
            "if its sender still waits, compare the clocks of the two hosts",
            message.message_id,
            delivery.address,
            delivery.host,
            late / 1000,
        )
        self._settle(delivery, Outcome.REJECTED)
        return True

    def _admit(self, incoming: Incoming, delivery: Delivery, message: codec.Message) -> bool:
        """Return False for a redelivery of a message that this listener processes or processed.

        If the message is still in progress, and the link of its first delivery has gone, the new
        delivery replaces the first one and gets the outcome of the message. Otherwise this method
        settles the new delivery as accepted.
        """
        message_id = message.message_id
        if self._duplicates is None or type(message_id) is not str:
            return True
        with self._lock:
            if not (self._duplicates.seen(message_id) and message.redelivered):
                self._in_work[message_id] = incoming
                return True
            first = self._in_work.get(message_id)
            taken = first is not None and first.adopt(delivery)
        if not taken:
            self._settle(delivery, Outcome.ACCEPTED)
        LOG.warning(
            "Message %s on %s at %s was delivered again and is dropped",
            message_id,
            delivery.address,
            delivery.host,
        )
        return False

    def log_rejected(
        self, message_id: Any, address: str | None, host: str, error: BaseException
    ) -> None:
        """Log that a message was rejected; many rejections make only a few lines a minute."""
        note = self._complaints.note(time.monotonic())
        if note is not None:
            LOG.error(
                "Undecodable message %son %s at %s rejected: %s%s",
                "" if message_id is None else f"{message_id} ",
                address,
                host,
                error,
                note,
            )

    def finish(self, incoming: Incoming, message_id: Any) -> tuple[Delivery | None, bool]:
        """End the processing of a message.

        :returns: the delivery to settle, None if an earlier call has returned it; and whether
            certainly no other message is being processed
        """
        in_work, alone = self._in_work, False
        with self._lock:
            if type(message_id) is str and in_work.get(message_id) is incoming:
                del in_work[message_id]
                alone = not in_work
            delivery, incoming.delivery = incoming.delivery, None
            return delivery, alone

    def _settle(self, delivery: Delivery, outcome: Outcome) -> None:
        delivery.outcome = outcome
        self.client.settle(delivery)

    def again(self, delivery: Delivery) -> bool:
        """Queue a delivery once more; return False if the listener has stopped."""
        return self.queue.put_back(delivery)

    def forget(self, message_id: Any) -> None:
        """Forget a message that goes back to the bus: its next delivery is no duplicate."""
        if self._duplicates is not None and isinstance(message_id, str):
            with self._lock:
                self._duplicates.forget(message_id)


class ListenerAdapter(compat.PollStyleListenerAdapter):  # type: ignore[misc]
    """The object that oslo.messaging's server starts and stops.  Application threads.

    :param listener: the listener that receives the messages
    :param batch_size: messages that the server wants at a time
    :param batch_timeout: seconds to wait for a full batch
    """

    def __init__(self, listener: Listener, batch_size: int, batch_timeout: float | None) -> None:
        super().__init__(listener, batch_size, batch_timeout)
        #: the listener that receives the messages
        self.listener = listener
        self._direct = False

    def start(self, on_incoming_callback: Callable[[list[Incoming]], object]) -> None:
        """Start to hand messages to the server."""
        # collecting a batch, or a callback that does the work itself, needs a polling thread
        self._direct = (self.batch_size or 1) == 1 and compat.only_submits(on_incoming_callback)
        if self._direct:
            compat.Listener.start(self, on_incoming_callback)
            self.listener.hand_to(on_incoming_callback)
        else:
            super().start(partial(self._guarded, on_incoming_callback))

    @staticmethod
    def _guarded(callback: Callable[[list[Incoming]], object], batch: list[Incoming]) -> None:
        """Call the callback; if it raises, release the batch, so that its credit is free again."""
        try:
            callback(batch)
        except Exception:
            LOG.exception(
                "The server did not take %d message(s) from %s: they are given back",
                len(batch),
                batch[0].where[0],
            )
            for message in batch:
                message.return_unprocessed()

    def stop(self) -> None:
        """Stop the listener; it hands over no messages after this method has returned."""
        if self._direct:
            self.listener.stop()
            compat.Listener.stop(self)
        else:
            super().stop()
