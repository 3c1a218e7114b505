# SPDX-License-Identifier: Apache-2.0

"""The logical connection to the bus, which outlives hosts, sockets and links; on the I/O thread.

The connection follows the table ``CONNECTION`` in ``states``. After the loss of a physical
connection, messages that were sent and have no outcome are in doubt and fail. Messages that were
not sent stay in the outbox for the next physical connection. Sans-I/O.
"""

from collections.abc import Callable, Sequence
from typing import Any

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import AddressConfig
from amqp1_driver.addressing.context import BusContext
from amqp1_driver.addressing.peer import Peer
from amqp1_driver.connection.close_reason import CloseReason
from amqp1_driver.connection.context import ConnectionContext, Network
from amqp1_driver.connection.hosts import Hosts
from amqp1_driver.connection.housekeeping import Housekeeping
from amqp1_driver.connection.live import LiveConnection
from amqp1_driver.connection.operation import Operation, Stage, expired
from amqp1_driver.connection.outbox import Outbox
from amqp1_driver.connection.receiver import Delivery
from amqp1_driver.connection.router import Router
from amqp1_driver.connection.states import CONNECTION, ConnectionEvent, ConnectionState, Machine
from amqp1_driver.connection.subscription import Subscription, Subscriptions
from amqp1_driver.engine.connection import Engine
from amqp1_driver.interfaces import Timer
from amqp1_driver.options import Host, Settings
from amqp1_driver.policy.redirect import CONNECTION as CONNECTION_REDIRECT
from amqp1_driver.policy.redirect import Redirect
from amqp1_driver.policy.retry import Backoff, Retry

LOG = exceptions.logger(__name__)

_State, _Event = ConnectionState, ConnectionEvent
_DONE = Stage.DONE

#: seconds that an orderly close may take
CLOSE_TIMEOUT = 2.0


class Connection:
    """A logical connection with its messages and subscriptions.

    :param port: sockets, clock, timers
    :param hosts: hosts to choose from
    :param addresses: settings from which addresses are formed
    :param unique: makes the reply address of this process and fork unique on the bus
    :param on_ready: called with the context when messages can be sent; with None when they can't
    """

    def __init__(
        self,
        port: Network,
        hosts: tuple[Host, ...],
        settings: Settings,
        addresses: AddressConfig,
        unique: str,
        on_ready: Callable[[BusContext | None], None],
    ) -> None:
        self.port = port
        self.settings = settings
        self._hosts = Hosts(hosts, settings, port.virtual_host, port.rng)
        self._close_reason = CloseReason(settings, self._hosts, port.now)
        self.engine: Engine | None = None
        #: number of contexts so far
        self._generation = 0
        self._on_ready = on_ready
        self._machine = Machine(CONNECTION, _State.IDLE)
        self._live: LiveConnection | None = None
        #: the router of the live connection while messages can be sent; None otherwise
        self._router: Router | None = None
        self.outbox = Outbox(lambda: self.host)
        retry = Retry.of(None, Backoff(0.1, 2.0, settings.delivery.link_retry_delay))
        self._shared = ConnectionContext(port, settings, addresses, unique, retry)
        self._housekeeping = Housekeeping(
            port, self.outbox, self._senders, settings.delivery.default_sender_link_timeout
        )
        self._subscriptions = Subscriptions(lambda: self.host)
        self._timer: Timer | None = None
        self._on_closed: list[Callable[[], object]] = []

    # -- application -----------------------------------------------------------

    @property
    def state(self) -> ConnectionState:
        """Return the state of the logical connection."""
        return self._machine.state

    @property
    def host(self) -> str:
        """Return ``hostname:port`` of the host in use, or of the next one; for logs and errors."""
        return str(self._hosts.current)

    @property
    def status_text(self) -> str:
        """Return why the driver can send nothing at present, for errors; any thread."""
        return self._close_reason.status_text(self.state)

    @property
    def last_error(self) -> BaseException | None:
        """Return why the last physical connection ended; None once another is ready."""
        return self._close_reason.last_error

    def start(self) -> None:
        """Begin the first attempt to connect."""
        self._fire(_Event.START)
        self._connect()

    def close(self, on_closed: Callable[[], object]) -> None:
        """Close the connection in order.

        :param on_closed: called when the connection is closed, after :data:`CLOSE_TIMEOUT` seconds
            at the latest
        """
        self._on_closed.append(on_closed)
        open_before = self._live is not None and self.engine is not None
        self._fire(_Event.CLOSE)
        self._stop_timer()
        error = exceptions.Closed("the transport was closed", host=self.host)
        self.outbox.close(error)
        if self._live is not None:
            self._on_ready(None)
        if open_before and self.engine is not None:
            if self._live is not None:
                self._live.reply_link.settle()
            self.engine.close()
            self._timer = self.port.call_later(CLOSE_TIMEOUT, lambda: self._lost(error))
        else:
            self._lost(error)

    def abort(self, error: BaseException) -> None:
        """Fail all messages and subscriptions, because an exception ends the loop."""
        observer = self.port.observer
        live, self._live = self._live, None
        # Each step runs even if another one raises: no thread may be left waiting.
        if observer is not None:
            self._log_failure(lambda: observer.connection(self.host, _State.CLOSED.value, error))
        self._log_failure(lambda: self._on_ready(None))
        if live is not None:
            self._log_failure(lambda: live.lost(error))
        self._log_failure(lambda: self.outbox.fail_all(error))
        self._subscriptions.abort(error)

    # -- messages ------------------------------------------------------------------

    def send(self, op: Operation) -> None:
        """Send a message as soon as possible, and complete or fail it exactly once.

        Never raise.
        """
        try:
            router = self._router
            if router is not None and op.stage is not _DONE and self.port.now() < op.deadline.at:
                router.send(op)
            else:
                self.outbox.submit(op, self.port.now())
        except Exception as error:
            # One message that can't be sent must not end the loop.
            LOG.exception("Message %s to %s could not be sent", op.message_id, op.address)
            self.outbox.remove(op)
            op.fail(
                exceptions.AmqpError(
                    f"internal error: {error!r}",
                    host=self.host,
                    address=op.address,
                    message_id=op.message_id,
                )
            )
        if not self._housekeeping.watching:
            self._housekeeping.watch()

    def cancel(self, op: Operation) -> None:
        """Cancel a message: fail it, because its caller has given up."""
        if not self.outbox.remove(op) and op.sender is not None:
            op.sender.cancel(op)
        if not op.finished:
            op.fail(expired(op, self.host))

    def settle(self, delivery: Delivery) -> None:
        """Settle a received message with its outcome. Never raise."""
        try:
            delivery.receiver.settle(delivery)
        except Exception as error:
            LOG.exception("A message from %s could not be settled", delivery.address)
            self.broken(error)

    def settle_all(
        self, subscription: Subscription, deliveries: Sequence[Delivery], room: int
    ) -> None:
        """Settle many messages; see :meth:`Subscription.settle_all`. Never raise."""
        try:
            subscription.settle_all(deliveries, room)
        except Exception as error:
            LOG.exception("Messages from %s could not be settled", self.host)
            self.broken(error)

    def subscribe(self, subscription: Subscription) -> None:
        """Open the links of a subscription, now and on each later physical connection."""
        self._subscriptions.subscribe(subscription)

    def stop_subscription(
        self, subscription: Subscription, done: Callable[[bool], object] = bool
    ) -> None:
        """Stop the flow of messages; see :meth:`Subscriptions.stop`."""
        self._subscriptions.stop(subscription, done)

    def unsubscribe(
        self, subscription: Subscription, done: Callable[[bool], object] = bool
    ) -> None:
        """Detach the links of a subscription; see :meth:`Subscriptions.unsubscribe`."""
        self._subscriptions.unsubscribe(subscription, done)

    def _senders(self) -> Router | None:
        return self._live.router if self._live is not None else None

    # -- transport ---------------------------------------------------------------

    def transport_up(self) -> None:
        """Begin AMQP: TCP and TLS are up."""
        self._fire(_Event.TRANSPORT_UP)
        self._close_reason.begin()
        self.port.virtual_host = self._hosts.virtual_host
        try:
            self.engine = self.port.new_engine(self._hosts.current, self)
        except exceptions.AmqpError as error:
            self._lost(error)
            return
        self.engine.open()

    def transport_lost(self, error: exceptions.AmqpError) -> None:
        """Process the input that came before the loss of the transport, then handle the loss."""
        engine = self.engine
        if engine is not None:
            # the input may hold outcomes, and the reason why the peer has closed the connection
            self.process()
        if self.engine is engine:
            self._lost(error)

    def data_received(self, data: Any) -> None:
        """Pass input of the transport to the engine."""
        self._close_reason.first_bytes(data)
        if self.engine is not None:
            self.engine.receive(data)

    def process(self, now: float | None = None) -> float:
        """Settle the replies of the previous call, then process the engine's events and timers.

        An exception in this method ends the physical connection, but never the loop.

        :param now: seconds of the loop's clock; None: read the clock
        :returns: when to call this again, seconds of the loop's clock; 0: no deadline
        """
        if self.engine is None:
            return 0.0
        deadline = 0.0
        try:
            ready = self._live if self._router is not None else None
            if ready is not None and ready.reply_link.unsettled:
                ready.reply_link.settle()
            deadline = self.engine.process(self.port.now() if now is None else now)
        except Exception as error:
            LOG.exception("Connection to %s is given up after an internal error", self.host)
            self._close_reason.broken(error)
        if self._close_reason.loss is not None:
            self._lost(self._close_reason.loss)
        return deadline

    # -- called by the engine ------------------------------------------------------

    def engine_opened(self, peer: Peer) -> None:
        """Attach the reply link: the peer has sent its Open frame.

        If the peer wants another spelling of the virtual host, connect again instead.
        """
        if self.state is not _State.OPENING or self.engine is None:
            return
        if not self._hosts.opened(peer):
            self._close_reason.virtual_host_refused()
            return
        self._fire(_Event.OPENED)
        self._live = LiveConnection(
            self,
            self._shared,
            self.outbox,
            self.engine,
            peer,
            self._hosts.current,
            self._generation + 1,
        )
        self._live.attach_replies()

    def engine_failed(self, reason: str) -> None:
        """End the physical connection, because the engine has failed.

        :param reason: description of the failure
        """
        self.engine_closed(None, reason)

    def engine_closed(self, name: str | None, description: str | None) -> None:
        """End the physical connection, because the peer has closed it; follow a redirect.

        :param name: name of the error condition (2.8.14); None: there is none
        :param description: description of the condition
        """
        self._close_reason.closed(
            name,
            description,
            exceptions.ConnectionLost if self._live is not None else exceptions.ConnectionFailed,
        )
        if name == CONNECTION_REDIRECT and self.engine is not None:
            self._close_reason.follow_connection_redirect(self.engine.redirect)

    def engine_redirected(self, redirect: Redirect) -> str | None:
        """Follow a redirect of a link to another host.

        :returns: why the connection stays; None if it moves there
        """
        return self._close_reason.follow(redirect)

    def engine_in_clear(self, mechanism: str) -> None:
        """Warn that SASL sends the password without TLS.

        :param mechanism: name of the SASL mechanism
        """
        self._hosts.in_clear(mechanism)

    # -- called by the live connection ---------------------------------------------------

    def next_generation(self) -> int:
        """Count another context, and return its number."""
        self._generation += 1
        return self._generation

    def reply_ready(self, context: BusContext) -> None:
        """Open all subscriptions and send all queued messages: the reply address is known."""
        if self.state is not _State.ATTACHING or self._live is None:
            return
        self._fire(_Event.REPLY_ATTACHED)
        self._stop_timer()
        self._hosts.succeeded()
        self._close_reason.last_error = None
        assert self.engine is not None
        LOG.info(
            "Connected to %s (%s) as %s, replies to %s",
            context.host,
            context.peer,
            self.engine.container,
            context.reply_address,
        )
        self._on_ready(context)
        self._subscriptions.resume(self._live)
        for op in self.outbox.take(self.outbox.connection):
            self.send(op)

    def serve_without_replies(self, live: LiveConnection) -> None:
        """Serve subscriptions while the bus can't declare the queue for replies."""
        if self.state is _State.ATTACHING:
            self._close_reason.last_error = exceptions.LinkFailed(
                "the bus declares no queue for replies: it has closed its session's window, as "
                "RabbitMQ does in an alarm",
                host=self.host,
            )
            self._subscriptions.ready = live
            self._subscriptions.resume(live)

    def reply_lost(self, error: exceptions.AmqpError) -> None:
        """Hold messages back until the lost reply link is attached again."""
        if self.state is not _State.READY or self._live is None:
            return
        self._fire(_Event.REPLY_LOST, error)
        self._on_ready(None)
        if self._live.router is not None:
            self._live.router.requeue()
        self._arm_deadline()

    # -- inner ---------------------------------------------------------------------

    def _fire(self, event: ConnectionEvent, error: BaseException | None = None) -> ConnectionState:
        before = self._machine.state
        state = self._machine.fire(event)
        ready = self._live if state is _State.READY else None
        self._subscriptions.ready = ready
        self._router = ready.router if ready is not None else None
        observer = self.port.observer
        if observer is not None and state is not before:
            # the loss of a connection that the driver closes is not an error
            observer.connection(self.host, state.value, None if state is _State.CLOSED else error)
        return state

    def give_up(self, error: exceptions.AmqpError) -> None:
        """Have :meth:`process` end the physical connection, which is useless after ``error``."""
        self._close_reason.loss = error

    def broken(self, error: Exception) -> None:
        """End the physical connection, because a timer or an operation has raised ``error``."""
        self._close_reason.broken(error)
        if self.engine is None and self._close_reason.loss is not None:
            # the loop calls process() only while there is an engine
            self._lost(self._close_reason.loss)

    def _connect(self) -> None:
        host = self._hosts.dial()
        self._arm_deadline()
        self.port.connect(host)

    def _arm_deadline(self) -> None:
        self._stop_timer()
        self._timer = self.port.call_later(
            self.settings.connection.connect_timeout, self._connect_timed_out
        )

    def _connect_timed_out(self) -> None:
        self._timer = None
        if self._live is not None and self._live.blocked:
            self._arm_deadline()  # the bus would not serve another connection either
            return
        self._lost(self._close_reason.timeout_error(self.state))

    def _lost(self, error: exceptions.AmqpError) -> None:
        """Clean up after a lost connection or a failed attempt; then back off, or end a close."""
        self._stop_timer()
        self._close_reason.loss = None
        if self.state is _State.OPENING:
            error = self._close_reason.while_opening(error)
        elif self.state is _State.CONNECTING:
            error = self._close_reason.while_connecting(error)
        established = self.state is _State.READY
        state = self.state
        # in IDLE and BACKOFF there is no connection to lose; the next attempt follows all the same
        if self._machine.can(_Event.LOST):
            state = self._fire(_Event.LOST, error)
        if state is _State.CLOSED:
            error = exceptions.Closed("the transport was closed", host=self.host)
        # If a step raises, the other steps still run, and so does the next attempt.
        self._log_failure(self.port.disconnect)
        live, self._live = self._live, None
        if live is not None:
            if established:
                self._log_failure(lambda: self._on_ready(None))
            self._log_failure(lambda: live.lost(error))
            self._log_failure(self._subscriptions.connection_lost)
        engine, self.engine = self.engine, None
        if engine is not None:
            self._log_failure(engine.destroy)
        if state is _State.CLOSED:
            self._closed(error)
            return
        self._back_off(error, established)

    def _log_failure(self, step: Callable[[], object]) -> None:
        """Run one step of the clean-up; log the exception that it raises."""
        try:
            step()
        except Exception:
            LOG.exception("Connection to %s was not given up in order", self.host)

    def _back_off(self, error: exceptions.AmqpError, established: bool) -> None:
        delay, all_tried = self._hosts.lost(error, established, self.port.now())
        self._close_reason.last_error = error
        self._timer = self.port.call_later(delay, self._retry)
        if all_tried:
            self.outbox.fail_attempt(self.outbox.connection, error)

    def _retry(self) -> None:
        self._timer = None
        self._fire(_Event.RETRY if self.state is _State.BACKOFF else _Event.START)
        self._connect()

    def _closed(self, error: exceptions.AmqpError) -> None:
        self.outbox.fail_all(error)
        self._housekeeping.stop()
        on_closed, self._on_closed = self._on_closed, []
        for tell in on_closed:
            tell()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
