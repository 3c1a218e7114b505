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

"""The one bridge between application threads and the I/O thread.

Application threads encode, hand operations to the loop through its bounded
mailbox and wait for one future each, always with a deadline.  If the loop
dies, every future fails.  Any thread unless stated otherwise.
"""

import itertools
import logging
import random
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

from amqp1_driver import codec, exceptions
from amqp1_driver.addressing.base import AddressConfig, Destination, Service
from amqp1_driver.addressing.peer import foretold
from amqp1_driver.eventloop import EventLoop, Future, LoopClosed, MailboxFull, Slot, claim
from amqp1_driver.options import Host, Settings
from amqp1_driver.policy.backoff import Backoff
from amqp1_driver.policy.deadline import Deadline
from amqp1_driver.policy.retry import Retry
from amqp1_driver.port import LoopPort
from amqp1_driver.protocol.connection import Connection
from amqp1_driver.protocol.context import BusContext
from amqp1_driver.protocol.operation import (
    Completion,
    Kind,
    Operation,
    Parcel,
    Request,
    Stage,
)
from amqp1_driver.protocol.receiver import Delivery, Sink
from amqp1_driver.protocol.subscription import Subscription
from amqp1_driver.replying import Replying

LOG = logging.getLogger(__name__)

#: a clean close may take so long, seconds
CLOSE_TIMEOUT = 5.0
#: different values of ``retry`` that are kept
RETRY_LIMIT = 100


class Client:
    """One connection to the bus, used by all threads of a process.

    :param hosts: of the transport URL
    :param virtual_host: of the transport URL; in the Open frame or in
        addresses, by option
    :param default_exchange: of the transport
    """

    def __init__(self, hosts: tuple[Host, ...], settings: Settings, virtual_host: str | None,
                 default_exchange: str | None) -> None:
        self.settings = settings
        self._pre_settled = settings.pre_settled
        self._compresses = settings.compression
        self._prefix = secrets.token_hex(8)
        self._ids = itertools.count(1)
        self._context: BusContext | None = None
        #: whether the I/O thread has ended by an error
        self.dead = False
        self._requests_under_way: set[Request] = set()
        self._slots: dict[Subscription, Slot] = {}
        self._resend = Backoff(0.2, 2.0, settings.link_retry_delay)
        self._retries: dict[int | None, Retry] = {}
        in_addresses = virtual_host if settings.pseudo_vhost else None
        in_open = None if settings.pseudo_vhost else virtual_host
        # names are unique for every process and fork: else replies could be stolen
        self.container = f"{settings.container_name or 'amqp1-driver'}-{self._prefix}"
        self._loop = EventLoop("amqp1-io", mailbox_size=settings.mailbox_size)
        self._port = LoopPort(self._loop, settings, self.container, in_open,
                              virtual_host if settings.ssl_verify_vhost else None,
                              random.Random())
        self._connection = self._port.connection = Connection(
            self._port, hosts, settings,
            AddressConfig.from_settings(settings, in_addresses, default_exchange),
            self._prefix, self._on_context)
        self._loop.add_before_sleep(self._port.before_sleep)
        self._loop.on_death(self._died)
        # what an observed client does otherwise
        self._send: Callable[[Any], object] = self._connection.send
        self._new_request: Callable[..., Request] = Request
        self._hosts = ", ".join(str(host) for host in hosts)
        self._replying = Replying(self._loop, self._connection.send, settings, self._hosts,
                                  Retry.of(settings.default_reply_retry, self._resend))
        self.reply = self._replying.reply
        self.heartbeat = self._replying.heartbeat

    # -- life --------------------------------------------------------------------

    def start(self) -> None:
        """Start the I/O thread, which connects by itself."""
        self._loop.post(lambda _: self._connection.start())
        self._loop.start()

    def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Close the connection in order and end the I/O thread."""
        closed: Future[None] = Future()
        try:
            self._loop.post(lambda _: self._connection.close(lambda: closed.set_result(None)))
            closed.result(timeout)
        except (LoopClosed, TimeoutError) as error:
            LOG.debug("No orderly close: %s", error)
        if not self._loop.stop(timeout):
            LOG.error("The I/O thread did not end within %s s", timeout)

    @property
    def context(self) -> BusContext | None:
        """The connection as it is now; None while there is none."""
        return self._context

    def _on_context(self, context: BusContext | None) -> None:
        self._context = self._replying.context = context

    def _died(self, cause: BaseException) -> None:
        error = exceptions.LoopDied(f"{exceptions.LoopDied.summary}: {cause!r}",
                                    host=self._hosts)
        error.__cause__ = cause
        self.dead = True
        self._on_context(None)
        for subscription in list(self._slots):
            self._release(subscription)
        self._connection.abort(error)

    # -- sending -----------------------------------------------------------------

    def request(self, kind: Kind, destination: Destination, body: bytes, *, timeout: float,
                retry: int | None, monitor: float | None = None,
                mandatory: bool = False) -> codec.Message | None:
        """Send a call, cast or notification and wait for what it waits for.

        :param timeout: seconds, for all of it
        :param retry: as oslo.messaging has it
        :param monitor: seconds within which a call's server must show a sign of life
        :param mandatory: fail at once where the bus can tell that nobody is there
        :returns: the reply to a call
        :raises AmqpError: see ``exceptions``
        """
        now = time.monotonic()
        gzip = False
        if self._compresses:
            body, gzip = codec.compress(body, self.settings.compression_threshold)
        op = self._new_request(
            kind, destination, f"{self._prefix}-{next(self._ids):x}", body,
            Deadline(now + timeout), self._retries.get(retry) or self._retry(retry),
            Future(self._loop.release), gzip=gzip,
            settled=bool(self._pre_settled) and kind.value in self._pre_settled and not mandatory,
            ttl=kind is Kind.CALL, mandatory=mandatory)
        context = self._context
        if context is not None:
            op.bind(context, now)
        under_way = self._requests_under_way
        under_way.add(op)
        try:
            # a caller that wants signs of life looks up now and then
            self._put(self._send, op, timeout, len(under_way) == 1,
                      op.future if monitor is None else None)
            reply: codec.Message | None = self._wait(op, monitor)
        finally:
            under_way.discard(op)
        return reply

    def submit(self, destination: Destination, message_id: str, body: bytes,
               future: Completion, *, timeout: float, retry: int | None = None,
               content_type: str | None = None,
               properties: dict[str, Any] | None = None) -> Parcel:
        """Hand over a message that is ready, and go on without waiting for its outcome.

        Whoever hands over many has to bound how many are under way, and to give up by
        :meth:`give_up` those whose time has passed.

        :param future: told, once, on the I/O thread, that the bus has taken it, or why not
        :param timeout: seconds
        :raises Closed: the transport is closed
        :raises DeadlineExpired: the I/O thread has too much to do
        :raises TypeError, ValueError: a property has no AMQP type
        """
        now = time.monotonic()
        op = Parcel(destination, message_id, body, Deadline(now + timeout),
                    self._retries.get(retry) or self._retry(retry), future,
                    content_type=content_type, properties=properties,
                    created_ms=int(time.time() * 1000))
        context = self._context
        if context is not None:
            op.bind(context, now)
        self._put(self._connection.send, op, timeout, False)
        return op

    def give_up(self, op: Operation) -> exceptions.DeadlineExpired:
        """Nobody waits for it any more: it fails, unless it is done.

        :returns: what it has waited for in vain, in words
        """
        error = self._timed_out(op, self._doing(op.stage, op.owner))
        if not self._post(self._connection.cancel, op):
            op.fail(exceptions.Closed("the transport is closed", host=self._hosts,
                                      message_id=op.message_id))
        return error

    def _retry(self, retry: int | None) -> Retry:
        """The same for every message: values don't change."""
        made = Retry.of(retry, self._resend)
        if len(self._retries) < RETRY_LIMIT:
            self._retries[retry] = made
        return made

    def _put(self, fn: Any, op: Operation, timeout: float, alone: bool,
             future: Any = None) -> None:
        try:
            self._loop.put(fn, op, timeout, alone, future, op.deadline.at)
        except MailboxFull as error:
            raise self._timed_out(op, "the I/O thread") from error
        except LoopClosed as error:
            raise exceptions.Closed(f"the transport is closed ({error})", host=self._hosts,
                                    message_id=op.message_id) from error

    def _wait(self, op: Request, monitor: float | None) -> Any:
        future: Future[Any] = op.future  # type: ignore[assignment]
        alive_until = float("inf") if monitor is None else time.monotonic() + monitor
        while True:
            until = min(op.deadline.at, alive_until)
            try:
                return future.result(max(0.0, until - time.monotonic()))
            except TimeoutError:
                if monitor is not None and op.heartbeat is not None:
                    alive_until = max(alive_until, op.heartbeat + monitor)
                now = time.monotonic()
                if now < op.deadline.at and now < alive_until:
                    continue
            except LoopClosed as error:
                raise exceptions.Closed(f"the transport is closed ({error})", host=self._hosts,
                                        message_id=op.message_id) from error
            stage, owner = op.stage, op.owner
            if not future.cancel():
                return future.result(0)
            self._post(self._connection.cancel, op)
            if time.monotonic() < op.deadline.at:
                raise self._timed_out(op, "a sign of life from the server")
            raise self._timed_out(op, self._doing(stage, owner))

    def _doing(self, stage: Stage, owner: object) -> str:
        if stage is Stage.QUEUED:
            waits_for = str(getattr(owner, "waits_for", "credit"))
            return waits_for if self._context is not None else "a connection"
        return str(stage.value)

    def _timed_out(self, op: Operation, what: str) -> exceptions.DeadlineExpired:
        context = self._context
        host = context.host if context is not None else self._hosts
        return exceptions.DeadlineExpired(
            stage=what, host=host, address=op.where, message_id=op.message_id,
            description=self._connection.trouble if context is None else None)

    def _post(self, fn: Any, op: Any) -> bool:
        try:
            self._loop.post(fn, op)
        except LoopClosed:
            return False
        return True

    # -- receiving ---------------------------------------------------------------

    def subscribe(self, destinations: tuple[Destination, ...], pool: str | None, credit: int,
                  batched: bool, sink: Sink, timeout: float,
                  room: int | None = None) -> Subscription:
        """Subscribe, and wait until the bus has confirmed, or for ``timeout`` seconds.

        A bus that is away is no error: the subscription comes up when it does.

        :param room: messages that the reader can take, if it is bounded as a whole; then all are
            settled by :meth:`settle_all`
        :raises UnsupportedFeature: the bus can't do that
        :raises Closed: the transport is closed
        """
        ready: Future[None] = Future()

        def failed(error: BaseException) -> None:
            ready.set_exception(error)
            sink.interrupt()

        slot = self._claim(destinations)
        if slot is not None and slot.number > 1:
            pool = str(slot.number)
        subscription = Subscription(
            destinations, pool, f"{self._prefix}-{next(self._ids):x}", credit, batched,
            sink, lambda: ready.set_result(None), failed)
        subscription.room = room
        if slot is not None:
            self._slots[subscription] = slot
        sink.use(self._loop.later)
        try:
            self._loop.put(self._connection.subscribe, subscription, timeout)
            ready.result(timeout)
        except (TimeoutError, MailboxFull):
            LOG.warning("No subscription to %s on %s within %.1f s (%s); it is tried further",
                        [d.routing_key for d in destinations], self._hosts, timeout,
                        subscription.last_error or self._connection.trouble)
        except LoopClosed as error:
            raise exceptions.Closed(str(error), host=self._hosts) from error
        except exceptions.AmqpError:
            self._post(self._connection.unsubscribe, subscription)
            self._release(subscription)
            raise
        return subscription

    def _claim(self, destinations: tuple[Destination, ...]) -> Slot | None:
        """Which of several processes of a server this one is, where it makes a difference."""
        profile, workers = foretold(self.settings.addressing_mode), self.settings.servicebus_workers
        first = destinations[0]
        if profile is None or workers == 1 or first.service is not Service.RPC:
            return None
        slot = claim(f"{self._hosts} {first!r}", workers)
        if slot is None:
            LOG.error("%d processes of this machine listen on %s already (servicebus_workers): "
                      "this one shares the fanouts of the first", workers, first.routing_key)
        return slot

    def _release(self, subscription: Subscription) -> None:
        slot = self._slots.pop(subscription, None)
        if slot is not None:
            slot.release()

    def stop_subscription(self, subscription: Subscription) -> None:
        """No new messages; those handed over can still be settled.

        Waits until what was on its way has come, or the bus does not say so in time.
        """
        self.ask(lambda done: self._connection.stop_subscription(subscription, done))

    def unsubscribe(self, subscription: Subscription) -> None:
        """Detach; waits until the loop has done so, and nothing of it is left on the bus."""
        self.ask(lambda done: self._connection.unsubscribe(subscription, done))
        self._release(subscription)

    def ask(self, fn: Callable[[Callable[[bool], object]], object],
            timeout: float = CLOSE_TIMEOUT) -> bool:
        """Have the I/O thread call ``fn(done)``, and wait until that calls ``done``.

        :returns: what it was called with; False if it was not within ``timeout`` seconds
        """
        answer: Future[bool] = Future(self._loop.release)
        if not self._post(lambda _: fn(answer.set_result), None):
            return True  # the loop has ended, and with it all that could be waited for
        try:
            return answer.result(timeout)
        except (TimeoutError, LoopClosed):
            LOG.warning("No answer about a subscription within %.1f s", timeout)
            return False

    def settle_all(self, subscription: Subscription, deliveries: Sequence[Delivery],
                   room: int) -> None:
        """Accept many by one hand-over to the I/O thread; see :meth:`Subscription.settle_all`.
        Never raises."""
        connection = self._connection
        self._post(lambda _: connection.settle_all(subscription, deliveries, room), None)

    def settle(self, delivery: Delivery, idly: bool = False) -> None:
        """Settle with ``delivery.outcome``.  Never raises.

        :param idly: more is to be sent in a moment, or a few milliseconds may pass
        """
        post = self._loop.post_idly if idly else self._loop.post
        try:
            post(self._connection.settle, delivery)
        except LoopClosed:
            LOG.warning("A message from %s on %s can't be settled: the transport is closed",
                        delivery.address, delivery.host)
