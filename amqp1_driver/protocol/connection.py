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

"""The logical connection to the bus: it outlives hosts, sockets and links.

Follows the table ``CONNECTION`` in ``states``.  What waits to be sent while
there is no connection is held here; whatever was sent without an outcome when
a connection went is in doubt and fails.  Sans-I/O; lives on the I/O thread.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import AddressConfig, Node
from amqp1_driver.addressing.peer import Peer
from amqp1_driver.options import Host, Settings
from amqp1_driver.policy.backoff import Backoff
from amqp1_driver.policy.redirect import CONNECTION as CONNECTION_REDIRECT
from amqp1_driver.policy.redirect import SAME_PLACE, Redirect
from amqp1_driver.policy.retry import Retry
from amqp1_driver.protocol import diagnosis
from amqp1_driver.protocol.cbs import TokenSource
from amqp1_driver.protocol.context import BusContext
from amqp1_driver.protocol.dialling import Dialling
from amqp1_driver.protocol.engine import Engine
from amqp1_driver.protocol.generation import Generation
from amqp1_driver.protocol.link import Cancellable
from amqp1_driver.protocol.operation import Operation, Stage, expired
from amqp1_driver.protocol.receiver import Delivery
from amqp1_driver.protocol.sessionlock import Clocks
from amqp1_driver.protocol.states import CONNECTION, ConnectionEvent, ConnectionState, Machine
from amqp1_driver.protocol.subscription import Subscription
from amqp1_driver.protocol.upkeep import Upkeep
from amqp1_driver.protocol.waiting import WaitingRoom

LOG = logging.getLogger(__name__)

_State, _Event = ConnectionState, ConnectionEvent
_DONE = Stage.DONE

#: how long a clean close may take, seconds
CLOSE_TIMEOUT = 2.0

#: what a connection that is being made waits for
_AWAITED = {_State.CONNECTING: "its host name, TCP or TLS", _State.OPENING: "SASL and AMQP Open",
            _State.ATTACHING: "the reply link"}


class Port(Clocks, Protocol):
    """What the connection needs of the world."""

    #: hostname of the next Open frame; None: the name of the host
    virtual_host: str | None

    def connect(self, host: Host) -> None: ...
    def disconnect(self) -> None: ...
    def token_source(self, host: Host) -> TokenSource | None: ...
    def new_engine(self, host: Host, handler: Any) -> Engine: ...


class Connection:
    """See the module.

    :param port: sockets, clock, timers
    :param hosts: to choose from
    :param addresses: how addresses are formed
    :param unique: names this process's listeners on the bus
    :param on_ready: told the context when messages can be sent, None when not
    """

    def __init__(self, port: Port, hosts: tuple[Host, ...], settings: Settings,
                 addresses: AddressConfig, unique: str,
                 on_ready: Callable[[BusContext | None], None]) -> None:
        self.port = port
        self.settings = settings
        self.addresses = addresses
        self.unique = unique
        self._dialling = Dialling(hosts, settings, port.virtual_host, port.rng)
        self.last_error: BaseException | None = None
        self.engine: Engine | None = None
        self.generations = 0
        self._on_ready = on_ready
        self._machine = Machine(CONNECTION, _State.IDLE)
        self.link_retry = Retry.of(None, Backoff(0.1, 2.0, settings.link_retry_delay))
        self._generation: Generation | None = None
        #: the generation while the state is READY
        self._ready: Generation | None = None
        self._subscriptions: dict[Subscription, None] = {}
        self._waiting = WaitingRoom()
        self._timer: Cancellable | None = None
        self._upkeep = Upkeep(port, self._waiting, lambda: self._generation, lambda: self.host,
                              settings.default_sender_link_timeout)
        self._loss: exceptions.AmqpError | None = None
        self._first = b""
        self._on_closed: list[Callable[[], object]] = []

    # -- application -----------------------------------------------------------

    @property
    def state(self) -> ConnectionState:
        return self._machine.state

    @property
    def host(self) -> str:
        """``hostname:port`` that is in use or tried next, for logs and errors."""
        return str(self._dialling.current)

    @property
    def hostname(self) -> str:
        return self._dialling.current.hostname

    def token_source(self) -> TokenSource | None:
        """Where tokens for the present host come from; None: SASL says who we are."""
        return self.port.token_source(self._dialling.current)

    @property
    def trouble(self) -> str:
        """Why nothing can be sent just now, for errors; any thread."""
        awaited, error = _AWAITED.get(self.state), self.last_error
        parts = [f"{self.host}: waiting for {awaited}" if awaited else "",
                 f"last error: {error}" if error is not None else ""]
        return "; ".join(part for part in parts if part)

    def start(self) -> None:
        self._fire(_Event.START)
        self._connect()

    def send(self, op: Operation) -> None:
        """Send as soon as possible; the operation is completed or fails, once."""
        try:
            ready = self._ready
            if ready is not None and op.stage is not _DONE and self.port.now() < op.deadline.at:
                ready.send(op)
                if not self._upkeep.watching:
                    self._upkeep.watch()
            else:
                self._send(op)
        except Exception as error:
            # one message that can't be sent must not cost the loop
            LOG.exception("Message %s to %s could not be sent", op.message_id, op.address)
            op.fail(exceptions.AmqpError(f"internal error: {error!r}", host=self.host,
                                         address=op.address, message_id=op.message_id))

    def _send(self, op: Operation) -> None:
        if op.finished:
            return
        if op.deadline.expired(self.port.now()):
            # it was in the mailbox for too long, and its caller has gone
            op.fail(expired(op, self.host))
            return
        if self.state in (_State.CLOSING, _State.CLOSED):
            op.fail(exceptions.Closed("the transport is closed", host=self.host,
                                      address=op.address, message_id=op.message_id))
            return
        self._waiting.add((op,))
        if not self._upkeep.watching:
            self._upkeep.watch()

    def cancel(self, op: Operation) -> None:
        """Nobody waits for it any more."""
        if op.owner is not None:
            op.owner.cancel(op)
        if not op.finished:
            op.fail(expired(op, self.host))

    def subscribe(self, subscription: Subscription) -> None:
        self._subscriptions[subscription] = None
        if self.state is _State.READY and self._generation is not None:
            self._generation.subscribe(subscription)

    def stop_subscription(self, subscription: Subscription,
                          done: Callable[[bool], object] = bool) -> None:
        """No new messages; ``done`` is told when what was on its way has come."""
        subscription.leave()
        self._leave(subscription.nodes, 1, lambda _: subscription.stop(done))

    def unsubscribe(self, subscription: Subscription,
                    done: Callable[[bool], object] = bool) -> None:
        """Detach; ``done`` is told when nothing of it is left on the bus that should not be."""
        nodes = subscription.nodes
        if self._subscriptions.pop(subscription, subscription) is None:
            subscription.close()
        self._leave(nodes, 0, done)

    def _leave(self, nodes: tuple[Node, ...], readers: int,
               done: Callable[[bool], object]) -> None:
        if self._ready is None or not nodes:
            done(True)
        else:
            self._ready.leave(nodes, readers, done)

    def settle(self, delivery: Delivery) -> None:
        try:
            delivery.receiver.settle(delivery)
        except Exception as error:
            LOG.exception("A message from %s could not be settled", delivery.address)
            self._loss = exceptions.ConnectionLost(f"internal error: {error!r}", host=self.host)

    def settle_all(self, subscription: Subscription, deliveries: Sequence[Delivery],
                   room: int) -> None:
        """See :meth:`Subscription.settle_all`."""
        try:
            subscription.settle_all(deliveries, room)
        except Exception as error:
            LOG.exception("Messages from %s could not be settled", self.host)
            self._loss = exceptions.ConnectionLost(f"internal error: {error!r}", host=self.host)

    def close(self, on_closed: Callable[[], object]) -> None:
        """Close in order; ``on_closed`` is called when it is done or took too long."""
        self._on_closed.append(on_closed)
        open_before = self._generation is not None and self.engine is not None
        self._fire(_Event.CLOSE)
        self._stop_timer()
        error = exceptions.Closed("the transport was closed", host=self.host)
        self._waiting.fail_all(error)
        if self._generation is not None:
            self._on_ready(None)
        if open_before and self.engine is not None:
            if self._generation is not None:
                self._generation.replies.settle()
            self.engine.close()
            self._timer = self.port.call_later(CLOSE_TIMEOUT, lambda: self._lost(error))
        else:
            self._lost(error)

    def abort(self, error: BaseException) -> None:
        """The loop is dying: nobody may be left waiting."""
        if self.port.observer is not None:
            self.port.observer.connection(self.host, _State.CLOSED.value, error)
        self._on_ready(None)
        if self._generation is not None:
            for op in self._generation.lost(error):
                op.fail(error)
            self._generation = None
        self._waiting.fail_all(error)
        for subscription in self._subscriptions:
            subscription.connection_lost()
            subscription.refused(error)

    # -- transport ---------------------------------------------------------------

    def transport_up(self) -> None:
        """TCP and TLS stand: begin AMQP."""
        self._fire(_Event.TRANSPORT_UP)
        self._first = b""
        self.port.virtual_host = self._dialling.virtual_host
        self.engine = self.port.new_engine(self._dialling.current, self)
        self.engine.open()

    def transport_lost(self, error: exceptions.AmqpError) -> None:
        engine = self.engine
        if engine is not None:
            # what came before counts: outcomes, and why the peer has closed
            self.process()
        if self.engine is engine:
            self._lost(error)

    def data_received(self, data: Any) -> None:
        if not self._first:
            self._first = bytes(data[:1])
        if self.engine is not None:
            self.engine.receive(data)

    def process(self) -> float:
        """Settle the replies of the batch before, and let the engine work off what has
        happened; returns its next deadline or 0.

        A failure in here costs the physical connection, never the loop.
        """
        if self.engine is None:
            return 0.0
        deadline = 0.0
        try:
            ready = self._ready
            if ready is not None and ready.replies.unsettled:
                ready.replies.settle()
            deadline = self.engine.process(self.port.now())
        except Exception as error:
            LOG.exception("Connection to %s is given up after an internal error", self.host)
            self._loss = exceptions.ConnectionLost(f"internal error: {error!r}", host=self.host)
        if self._loss is not None:
            loss, self._loss = self._loss, None
            self._lost(loss)
        return deadline

    # -- told by the engine --------------------------------------------------------

    def engine_opened(self, peer: Peer) -> None:
        if self.state is not _State.OPENING or self.engine is None:
            return
        if not self._dialling.opened(peer):
            self._loss = exceptions.ConnectionLost("virtual host is named anew", host=self.host)
            return
        self._fire(_Event.OPENED)
        self._generation = Generation(self, self.engine, peer)
        self._generation.attach_replies()

    def engine_failed(self, reason: str) -> None:
        self._loss = self._describe(None, reason)

    def engine_closed(self, name: str | None, description: str | None) -> None:
        self._loss = self._describe(name, description)
        if name == CONNECTION_REDIRECT and self.engine is not None:
            reason = self._dialling.redirected(self.engine.redirect, self.port.now())
            if reason is not None:
                self._loss = exceptions.not_followed(self._loss, reason)

    def engine_redirected(self, redirect: Redirect) -> str | None:
        """What a link wants is at another host: go there, with all that is on this connection.

        :returns: why not, None if so
        """
        if not redirect.elsewhere(self._dialling.current):
            return SAME_PLACE
        reason = self._dialling.redirected(redirect, self.port.now())
        if reason is None:
            self._loss = exceptions.ConnectionLost("redirected by a link", host=self.host)
        return reason

    # -- told by the generation ---------------------------------------------------

    def reply_ready(self, context: BusContext) -> None:
        """The reply address is known: everything may go out."""
        if self.state is not _State.ATTACHING or self._generation is None:
            return
        self._fire(_Event.REPLY_ATTACHED)
        self._stop_timer()
        self._dialling.succeeded()
        self.last_error = None
        LOG.info("Connected to %s (%s), replies to %s", context.host, context.peer,
                 context.reply_address)
        self._on_ready(context)
        for subscription in self._subscriptions:
            if not subscription.receivers and not subscription.stopping:
                self._generation.subscribe(subscription)
        for op in self._waiting.take():
            self.send(op)

    def reply_lost(self, error: exceptions.AmqpError) -> None:
        """The reply link has gone while the connection lives: it is being rebuilt."""
        if self.state is not _State.READY or self._generation is None:
            return
        self._fire(_Event.REPLY_LOST, error)
        self._on_ready(None)
        self._hold(self._generation.take_pending())
        self._arm_deadline()

    # -- inner ---------------------------------------------------------------------

    def _fire(self, event: ConnectionEvent,
              error: BaseException | None = None) -> ConnectionState:
        before = self._machine.state
        state = self._machine.fire(event)
        self._ready = self._generation if state is _State.READY else None
        observer = self.port.observer
        if observer is not None and state is not before:
            # that a connection which was to be closed has gone is no error
            observer.connection(self.host, state.value, None if state is _State.CLOSED else error)
        return state

    def give_up(self, error: exceptions.AmqpError) -> None:
        """Something without which the connection is of no use has failed."""
        self._loss = error

    def _connect(self) -> None:
        host = self._dialling.dial()
        self._arm_deadline()
        self.port.connect(host)

    def _arm_deadline(self) -> None:
        self._stop_timer()
        self._timer = self.port.call_later(self.settings.connect_timeout, self._too_slow)

    def _too_slow(self) -> None:
        self._timer = None
        doing = _AWAITED.get(self.state, self.state.value)
        self._lost(exceptions.ConnectionFailed(
            f"no answer within {self.settings.connect_timeout:g} s while waiting for {doing}",
            host=self.host))

    def _describe(self, name: str | None, text: str | None) -> exceptions.AmqpError:
        default = (exceptions.ConnectionLost if self._generation is not None
                   else exceptions.ConnectionFailed)
        text = diagnosis.plain_words(text, self.settings, self._dialling.current)
        return exceptions.from_condition(name, text, default=default, host=self.host)

    def _lost(self, error: exceptions.AmqpError) -> None:
        """The physical connection is gone, or could not be made."""
        self._stop_timer()
        self._loss = None
        if self.state is _State.OPENING:
            error = diagnosis.while_opening(error, self.settings, self._first,
                                            self._dialling.virtual_host_name)
            self._dialling.not_opened()
        established = self.state is _State.READY
        state = self._fire(_Event.LOST, error)
        if state is _State.CLOSED:
            error = exceptions.Closed("the transport was closed", host=self.host)
        self.port.disconnect()
        if self._generation is not None:
            if established:
                self._on_ready(None)
            generation, self._generation = self._generation, None
            self._hold(generation.lost(error))
            for subscription in self._subscriptions:
                subscription.connection_lost()
        engine, self.engine = self.engine, None
        if engine is not None:
            engine.destroy()
        if state is _State.CLOSED:
            self._closed(error)
            return
        self._back_off(error, established)

    def _back_off(self, error: exceptions.AmqpError, established: bool) -> None:
        delay, all_tried = self._dialling.lost(error, established)
        self.last_error = error
        if all_tried:  # that is one attempt for those who wait
            self._waiting.fail_once(error)
        self._timer = self.port.call_later(delay, self._retry)

    def _retry(self) -> None:
        self._timer = None
        self._fire(_Event.RETRY)
        self._connect()

    def _closed(self, error: exceptions.AmqpError) -> None:
        self._waiting.fail_all(error)
        self._upkeep.stop()
        on_closed, self._on_closed = self._on_closed, []
        for tell in on_closed:
            tell()

    def _hold(self, operations: list[Operation]) -> None:
        self._waiting.add(operations)
        if operations and not self._upkeep.watching:
            self._upkeep.watch()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
