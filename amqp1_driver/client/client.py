# SPDX-License-Identifier: Apache-2.0

"""The only bridge between application threads and the I/O thread.

An application thread encodes a message, hands an operation to the loop through the bounded mailbox,
and waits for one future, always with a deadline. If an exception ends the loop, every future fails.
Any thread unless stated otherwise.
"""

import itertools
import random
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from amqp1_driver import codec, exceptions
from amqp1_driver.addressing.base import AddressConfig, Destination, Service
from amqp1_driver.addressing.context import BusContext
from amqp1_driver.addressing.peer import forced_profile
from amqp1_driver.client.identity import identity
from amqp1_driver.client.network import LoopNetwork
from amqp1_driver.client.replier import Replier
from amqp1_driver.connection.connection import Connection
from amqp1_driver.connection.operation import (
    Completion,
    Kind,
    Operation,
    Payload,
    Properties,
    Queue,
    RawMessage,
    Request,
    Stage,
)
from amqp1_driver.connection.receiver import Delivery, Sink
from amqp1_driver.connection.subscription import Subscription
from amqp1_driver.eventloop import EventLoop, Future, LoopClosed, MailboxFull, WorkerSlot, claim
from amqp1_driver.options import Host, Settings
from amqp1_driver.policy.deadline import Deadline
from amqp1_driver.policy.retry import Backoff, Retry

LOG = exceptions.logger(__name__)

T = TypeVar("T")

#: seconds that an orderly close may take
CLOSE_TIMEOUT = 5.0
#: most values of ``retry`` for which the client keeps a :class:`Retry`
RETRY_LIMIT = 100


class _Retries(dict[int | None, Retry]):
    """The immutable :class:`Retry` of each value of ``retry`` in oslo.messaging."""

    def __init__(self, resend: Backoff) -> None:
        super().__init__()
        self._resend = resend

    def __missing__(self, retry: int | None) -> Retry:
        made = Retry.of(retry, self._resend)
        if len(self) < RETRY_LIMIT:
            self[retry] = made
        return made


class Client:
    """One connection to the bus, which all threads of a process share.

    :param hosts: hosts of the transport URL
    :param virtual_host: virtual host of the transport URL; the option ``pseudo_vhost`` puts it into
        addresses instead of the Open frame
    :param default_exchange: exchange of destinations without one
    :param purpose: shown in the bus's list of connections: ``rpc``, ``notifications``, ...
    """

    def __init__(
        self,
        hosts: tuple[Host, ...],
        settings: Settings,
        virtual_host: str | None,
        default_exchange: str | None,
        purpose: str = "",
    ) -> None:
        self.settings = settings
        self._pre_settled = settings.delivery.pre_settled
        self._compresses = settings.delivery.compression
        self._largest = settings.delivery.max_message_size or sys.maxsize
        self._prefix = secrets.token_hex(8)
        self._ids = itertools.count(1)
        self._context: BusContext | None = None
        #: whether an exception has ended the I/O thread
        self.dead = False
        self._requests_under_way: set[Request] = set()
        self._slots: dict[Subscription, WorkerSlot] = {}
        self._resend = Backoff(0.2, 2.0, settings.delivery.link_retry_delay)
        self._retries = _Retries(self._resend)
        in_addresses = virtual_host if settings.addressing.pseudo_vhost else None
        in_open = None if settings.addressing.pseudo_vhost else virtual_host
        # each process, forked or not, has names of its own, or it could get another one's replies
        who = identity(purpose)
        self.container = who.container(settings.connection.container_name, self._prefix)
        self._loop = EventLoop("amqp1-io", mailbox_size=settings.delivery.mailbox_size)
        self._port = LoopNetwork(
            self._loop,
            settings,
            self.container,
            in_open,
            virtual_host if settings.security.ssl_verify_vhost else None,
            random.Random(),
            who.properties(),
        )
        self._connection = self._port.connection = Connection(
            self._port,
            hosts,
            settings,
            AddressConfig.from_settings(settings, in_addresses, default_exchange),
            self._prefix,
            self._on_context,
        )
        self._loop.add_before_sleep(self._port.before_sleep)
        self._loop.on_death(self._died)
        # ObservedClient replaces these two
        self._new_request: Callable[..., Request] = Request
        self._send: Callable[[Any], object] = self._connection.send
        self._hosts = ", ".join(str(host) for host in hosts)
        self.replier = Replier(
            self._loop,
            self._connection.send,
            settings.delivery,
            self._hosts,
            Retry.of(settings.delivery.default_reply_retry, self._resend),
        )

    # -- life --------------------------------------------------------------------

    def start(self) -> None:
        """Start the I/O thread, which then connects."""
        self._port.guard.post(lambda _: self._connection.start())
        self._loop.start()

    def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Close the connection in order and end the I/O thread.

        :param timeout: seconds for each of the two steps
        """
        closed: Future[None] = Future()
        try:
            self._port.guard.post(lambda _: self._connection.close(lambda: closed.set_result(None)))
            closed.result(timeout)
        except (LoopClosed, TimeoutError) as error:
            LOG.debug("No orderly close: %s", error)
        if not self._loop.stop(timeout):
            LOG.error("The I/O thread did not end within %s s", timeout)

    @property
    def context(self) -> BusContext | None:
        """Return the context of the present connection; None while no connection is ready."""
        return self._context

    def _on_context(self, context: BusContext | None) -> None:
        self._context = self.replier.context = context

    def _died(self, cause: BaseException) -> None:
        error = exceptions.LoopDied(f"{exceptions.LoopDied.summary}: {cause!r}", host=self._hosts)
        error.__cause__ = cause
        self.dead = True
        self._on_context(None)
        for subscription in list(self._slots):
            self._release(subscription)
        self._connection.abort(error)

    # -- sending -----------------------------------------------------------------

    def request(
        self,
        kind: Kind,
        destination: Destination,
        body: bytes,
        *,
        timeout: float,
        retry: int | None,
        monitor: float | None = None,
        mandatory: bool = False,
    ) -> codec.Message | None:
        """Send a message, and wait: after a call for the reply, otherwise for the outcome.

        :param timeout: seconds, from the submission to the reply or outcome
        :param retry: number of retries as in oslo.messaging; None or negative: no limit
        :param monitor: longest time between heartbeats of a call's server, seconds; None: the
            caller expects no heartbeats
        :param mandatory: fail at once if the bus can tell that there is no receiver
        :returns: the reply to a call; None for other messages
        :raises AmqpError: see ``exceptions``
        """
        now = time.monotonic()
        gzip = False
        if len(body) > self._largest:  # uncompressed size: no receiver unpacks more
            raise exceptions.too_large(
                len(body), self._largest, host=self._hosts, address=destination.routing_key
            )
        if self._compresses:
            body, gzip = codec.compress(body, self.settings.delivery.compression_threshold)
        settled = bool(self._pre_settled) and kind.value in self._pre_settled and not mandatory
        op = self._new_request(
            Payload(kind, f"{self._prefix}-{next(self._ids):x}", body, settled, gzip),
            destination,
            Deadline(now + timeout),
            self._retries[retry],
            Future(self._loop.iteration.release),
            ttl=kind is Kind.CALL,
            mandatory=mandatory,
        )
        context = self._context
        if context is not None:
            op.bind(context, now)
        return self._exchange(op, timeout, monitor)

    def submit(
        self,
        destination: Destination,
        message_id: str,
        body: bytes,
        future: Completion,
        *,
        timeout: float,
        retry: int | None = None,
        content_type: str | None = None,
        properties: dict[str, Any] | None = None,
    ) -> RawMessage:
        """Submit a message with a given body, and return without waiting for its outcome.

        The caller has to bound the number of messages under way, and to call :meth:`give_up` for
        each message whose deadline has passed.

        :param future: the I/O thread completes it once: with None if the bus has accepted the
            message, otherwise with the error
        :param timeout: seconds until the deadline
        :raises Closed: the transport is closed
        :raises DeadlineExpired: the mailbox of the I/O thread had no room in time
        :raises TypeError, ValueError: a property has no AMQP type
        """
        now = time.monotonic()
        op = RawMessage(
            Payload(Kind.NOTIFY, message_id, body),
            destination,
            Deadline(now + timeout),
            self._retries[retry],
            future,
            Properties(content_type, properties, int(time.time() * 1000)),
        )
        context = self._context
        if context is not None:
            op.bind(context, now)
        try:
            self._loop.put(self._send, op, timeout)
        except (MailboxFull, LoopClosed) as error:
            raise self._not_submitted(op, error) from error
        return op

    def give_up(self, op: Operation) -> exceptions.DeadlineExpired:
        """Cancel a message whose deadline has passed; the message fails unless it is done.

        :returns: an error that names what the message was waiting for
        """
        error = self._timed_out(op, self._doing(op.stage, op.queue))
        if not self._post(self._connection.cancel, op):
            op.fail(
                exceptions.Closed(
                    "the transport is closed", host=self._hosts, message_id=op.message_id
                )
            )
        return error

    def _not_submitted(
        self, op: Operation, error: MailboxFull | LoopClosed
    ) -> exceptions.AmqpError:
        """Return the error of an operation that the I/O thread never gets, or never ends."""
        if isinstance(error, MailboxFull):
            return self._timed_out(op, "the I/O thread")
        return exceptions.Closed(
            f"the transport is closed ({error})", host=self._hosts, message_id=op.message_id
        )

    def _exchange(self, op: Request, timeout: float, monitor: float | None) -> codec.Message | None:
        """Submit a request, and wait for its result; see :meth:`request`."""
        future: Future[codec.Message | None] = op.future  # type: ignore[assignment]
        until = op.deadline.at
        under_way = self._requests_under_way
        alone = not under_way
        under_way.add(op)
        try:
            if monitor is None:
                self._loop.put(self._send, op, timeout, alone, future, until)
            else:  # this thread has to check for heartbeats: the loop gets no future
                self._loop.put(self._send, op, timeout, alone)
                until = min(until, time.monotonic() + monitor)
            while True:
                try:
                    return future.result(until - time.monotonic())
                except TimeoutError:
                    if monitor is not None and op.heartbeat is not None:
                        until = min(op.deadline.at, max(until, op.heartbeat + monitor))
                    if time.monotonic() >= until:
                        return self._give_up(op, future)
        except (MailboxFull, LoopClosed) as error:
            raise self._not_submitted(op, error) from error
        finally:
            under_way.discard(op)

    def _give_up(self, op: Request, future: Future[T]) -> T:
        """Cancel a request that has no result in time.

        :returns: the result, if it has come meanwhile
        :raises AmqpError: there is none
        """
        stage, queue = op.stage, op.queue
        # If both calls return False, another thread has claimed the result but has not set it
        # yet, as after a long SIGSTOP: give up.
        if not future.cancel() and future.done():
            return future.result(0)
        self._post(self._connection.cancel, op)
        if time.monotonic() < op.deadline.at:
            raise self._timed_out(op, "a sign of life from the server")
        raise self._timed_out(op, self._doing(stage, queue))

    def _doing(self, stage: Stage, queue: Queue | None) -> str:
        """Return in words what an operation waits for."""
        if stage is not Stage.QUEUED:
            return str(stage.value)
        if self._context is None:
            return "a connection"
        return "credit" if queue is None else queue.waits_for

    def _timed_out(self, op: Operation, what: str) -> exceptions.DeadlineExpired:
        context = self._context
        host = context.host if context is not None else self._hosts
        return exceptions.DeadlineExpired(
            stage=what,
            host=host,
            address=op.where,
            message_id=op.message_id,
            description=self._connection.status_text if context is None else None,
        )

    def _post(self, fn: Any, op: Any) -> bool:
        try:
            self._port.guard.post(fn, op)
        except LoopClosed:
            return False
        return True

    # -- receiving ---------------------------------------------------------------

    def subscribe(
        self,
        destinations: tuple[Destination, ...],
        pool: str | None,
        credit: int,
        batched: bool,
        sink: Sink,
        timeout: float,
        room: int | None = None,
    ) -> Subscription:
        """Subscribe, and wait up to ``timeout`` seconds until the bus has confirmed the links.

        It is not an error if the bus does not confirm them in time: the driver keeps trying.

        :param pool: name of a shared pool of notification listeners
        :param credit: credit of each link, messages
        :param batched: the application collects messages before it settles them
        :param room: messages that a reader with one bound for all links can hold; such a reader
            settles all messages by :meth:`settle_all`. None: the reader has no such bound
        :raises UnsupportedFeature: the bus can't provide this, for example a pool
        :raises Closed: the transport is closed
        """
        ready: Future[None] = Future()

        def begin(subscription: Subscription) -> None:
            try:
                self._connection.subscribe(subscription)
            except Exception as error:
                ready.set_exception(
                    exceptions.AmqpError(
                        f"internal error: {exceptions.printable(error)}", host=self._hosts
                    )
                )
                sink.interrupt()
                raise  # the guard fails the connection

        slot = self._claim(destinations)
        if slot is not None and slot.number > 1:
            pool = str(slot.number)
        subscription = Subscription(
            destinations,
            pool,
            f"{self._prefix}-{next(self._ids):x}",
            credit,
            batched,
            sink,
            ready,
        )
        subscription.room = room
        if slot is not None:
            self._slots[subscription] = slot
        sink.use(self._loop.iteration.later)
        try:
            self._loop.put(self._port.guard.wrap(begin), subscription, timeout)
            ready.result(timeout)
        except (TimeoutError, MailboxFull):
            LOG.warning(
                "No subscription to %s on %s within %.1f s (%s); it is tried further",
                [d.routing_key for d in destinations],
                self._hosts,
                timeout,
                subscription.last_error or self._connection.status_text,
            )
        except LoopClosed as error:
            raise exceptions.Closed(str(error), host=self._hosts) from error
        except exceptions.AmqpError:
            self._post(self._connection.unsubscribe, subscription)
            self._release(subscription)
            raise
        return subscription

    def _claim(self, destinations: tuple[Destination, ...]) -> WorkerSlot | None:
        """Claim a number for this process among the processes of a server on this machine.

        :returns: None if the number makes no difference, or if no number is free
        """
        profile, workers = (
            forced_profile(self.settings.addressing.addressing_mode),
            self.settings.servicebus.servicebus_workers,
        )
        if profile is None or workers == 1:
            return None
        if not destinations or destinations[0].service is not Service.RPC:
            return None
        first = destinations[0]
        slot = claim(f"{self._hosts} {first!r}", workers)
        if slot is None:
            LOG.error(
                "%d processes of this machine listen on %s already (servicebus_workers): "
                "this one shares the fanouts of the first",
                workers,
                first.routing_key,
            )
        return slot

    def _release(self, subscription: Subscription) -> None:
        slot = self._slots.pop(subscription, None)
        if slot is not None:
            slot.release()

    def stop_subscription(self, subscription: Subscription) -> None:
        """Stop new messages; the application can still settle the messages that it has.

        Block until the messages under way have arrived, at most :data:`CLOSE_TIMEOUT` seconds.
        """
        self.ask(lambda done: self._connection.stop_subscription(subscription, done))

    def unsubscribe(self, subscription: Subscription) -> None:
        """Detach the links of a subscription.

        Block until the bus has deleted the nodes that are no longer needed, at most
        :data:`CLOSE_TIMEOUT` seconds.
        """
        self.ask(lambda done: self._connection.unsubscribe(subscription, done))
        self._release(subscription)

    def ask(
        self, fn: Callable[[Callable[[bool], object]], object], timeout: float = CLOSE_TIMEOUT
    ) -> bool:
        """Have the I/O thread call ``fn(done)``, and wait for the call of ``done``.

        :returns: the argument of ``done``; False if ``fn`` raises or nothing calls ``done`` within
            ``timeout`` seconds; True if the loop has ended
        """
        answer: Future[bool] = Future(self._loop.iteration.release)

        def run(_: object) -> None:
            try:
                fn(answer.set_result)
            except Exception:
                answer.set_result(False)
                raise  # the guard fails the connection

        if not self._post(run, None):
            return True  # the loop has ended, so there is nothing to wait for
        try:
            return answer.result(timeout)
        except (TimeoutError, LoopClosed):
            LOG.warning("No answer about a subscription within %.1f s", timeout)
            return False

    def settle_all(
        self, subscription: Subscription, deliveries: Sequence[Delivery], room: int
    ) -> None:
        """Settle many deliveries with one operation; see :meth:`Subscription.settle_all`.

        Never raise.
        """
        connection = self._connection
        self._post(lambda _: connection.settle_all(subscription, deliveries, room), None)

    def settle(self, delivery: Delivery, idly: bool = False, alone: bool = False) -> None:
        """Settle a delivery with ``delivery.outcome``. Never raise.

        :param idly: a few milliseconds may pass before the I/O thread settles, for example
            because this thread will send more in a moment
        :param alone: no other delivery is about to be settled; see :meth:`EventLoop.put`
        """
        try:
            if idly:
                self._loop.mailbox.post(self._connection.settle, delivery, lazily=True)
            else:
                self._loop.post(self._connection.settle, delivery, alone)
        except LoopClosed:
            LOG.warning(
                "A message from %s on %s can't be settled: the transport is closed",
                delivery.address,
                delivery.host,
            )
