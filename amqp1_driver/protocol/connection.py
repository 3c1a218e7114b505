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

Follows the table ``CONNECTION`` in ``states``.  What was sent without an outcome when
a connection went is in doubt and fails; what was not sent waits in ``outgoing`` for
the next.  Sans-I/O; lives on the I/O thread.
"""

import logging
from collections.abc import Callable
from typing import Any

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import AddressConfig
from amqp1_driver.addressing.peer import Peer
from amqp1_driver.options import Host, Settings
from amqp1_driver.policy.backoff import Backoff
from amqp1_driver.policy.redirect import CONNECTION as CONNECTION_REDIRECT
from amqp1_driver.policy.redirect import Redirect
from amqp1_driver.policy.retry import Retry
from amqp1_driver.protocol.cbs import TokenSource
from amqp1_driver.protocol.context import BusContext
from amqp1_driver.protocol.dialling import Dialling
from amqp1_driver.protocol.ending import Ending
from amqp1_driver.protocol.engine import Engine
from amqp1_driver.protocol.generation import Generation
from amqp1_driver.protocol.link import Cancellable
from amqp1_driver.protocol.listening import Listening
from amqp1_driver.protocol.outgoing import Outgoing
from amqp1_driver.protocol.port import Port
from amqp1_driver.protocol.states import CONNECTION, ConnectionEvent, ConnectionState, Machine

LOG = logging.getLogger(__name__)

_State, _Event = ConnectionState, ConnectionEvent

#: how long a clean close may take, seconds
CLOSE_TIMEOUT = 2.0


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
        self._ending = Ending(settings, self._dialling, port.now)
        self.engine: Engine | None = None
        self.generations = 0
        self._on_ready = on_ready
        self._machine = Machine(CONNECTION, _State.IDLE)
        self.link_retry = Retry.of(None, Backoff(0.1, 2.0, settings.link_retry_delay))
        self._generation: Generation | None = None
        self._outgoing = Outgoing(port, lambda: self.host, lambda: self._generation,
                                  settings.default_sender_link_timeout)
        self._listening = Listening(lambda: self.host, self._ending.broken)
        self._timer: Cancellable | None = None
        self._on_closed: list[Callable[[], object]] = []
        # their own: a method that only passes it on would cost each message a call
        self.send = self._outgoing.send
        self.cancel = self._outgoing.cancel
        self.settle = self._listening.settle
        self.settle_all = self._listening.settle_all
        self.subscribe = self._listening.subscribe
        self.stop_subscription = self._listening.stop
        self.unsubscribe = self._listening.unsubscribe

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
        return self._ending.trouble(self.state)

    @property
    def last_error(self) -> BaseException | None:
        """Why the last physical connection has ended; None once another is ready."""
        return self._ending.last_error

    def start(self) -> None:
        self._fire(_Event.START)
        self._connect()

    def close(self, on_closed: Callable[[], object]) -> None:
        """Close in order; ``on_closed`` is called when it is done or took too long."""
        self._on_closed.append(on_closed)
        open_before = self._generation is not None and self.engine is not None
        self._fire(_Event.CLOSE)
        self._stop_timer()
        error = exceptions.Closed("the transport was closed", host=self.host)
        self._outgoing.close(error)
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
        self._outgoing.fail_all(error)
        self._listening.abort(error)

    # -- transport ---------------------------------------------------------------

    def transport_up(self) -> None:
        """TCP and TLS stand: begin AMQP."""
        self._fire(_Event.TRANSPORT_UP)
        self._ending.begin()
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
        self._ending.hear(data)
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
            ready = self._outgoing.ready
            if ready is not None and ready.replies.unsettled:
                ready.replies.settle()
            deadline = self.engine.process(self.port.now())
        except Exception as error:
            LOG.exception("Connection to %s is given up after an internal error", self.host)
            self._ending.broken(error)
        if self._ending.loss is not None:
            self._lost(self._ending.loss)
        return deadline

    # -- told by the engine --------------------------------------------------------

    def engine_opened(self, peer: Peer) -> None:
        if self.state is not _State.OPENING or self.engine is None:
            return
        if not self._dialling.opened(peer):
            self._ending.named_anew()
            return
        self._fire(_Event.OPENED)
        self._generation = Generation(self, self.engine, peer)
        self._generation.attach_replies()

    def engine_failed(self, reason: str) -> None:
        self.engine_closed(None, reason)

    def engine_closed(self, name: str | None, description: str | None) -> None:
        self._ending.closed(name, description,
                            exceptions.ConnectionLost if self._generation is not None
                            else exceptions.ConnectionFailed)
        if name == CONNECTION_REDIRECT and self.engine is not None:
            self._ending.sent_elsewhere(self.engine.redirect)

    def engine_redirected(self, redirect: Redirect) -> str | None:
        return self._ending.follow(redirect)

    # -- told by the generation ---------------------------------------------------

    def reply_ready(self, context: BusContext) -> None:
        """The reply address is known: everything may go out."""
        if self.state is not _State.ATTACHING or self._generation is None:
            return
        self._fire(_Event.REPLY_ATTACHED)
        self._stop_timer()
        self._dialling.succeeded()
        self._ending.last_error = None
        LOG.info("Connected to %s (%s), replies to %s", context.host, context.peer,
                 context.reply_address)
        self._on_ready(context)
        self._listening.resume(self._generation)
        self._outgoing.release()

    def reply_lost(self, error: exceptions.AmqpError) -> None:
        """The reply link has gone while the connection lives: it is being rebuilt."""
        if self.state is not _State.READY or self._generation is None:
            return
        self._fire(_Event.REPLY_LOST, error)
        self._on_ready(None)
        self._outgoing.hold(self._generation.take_pending())
        self._arm_deadline()

    # -- inner ---------------------------------------------------------------------

    def _fire(self, event: ConnectionEvent,
              error: BaseException | None = None) -> ConnectionState:
        before = self._machine.state
        state = self._machine.fire(event)
        self._outgoing.ready = self._listening.ready = (
            self._generation if state is _State.READY else None)
        observer = self.port.observer
        if observer is not None and state is not before:
            # that a connection which was to be closed has gone is no error
            observer.connection(self.host, state.value, None if state is _State.CLOSED else error)
        return state

    def give_up(self, error: exceptions.AmqpError) -> None:
        """Something without which the connection is of no use has failed."""
        self._ending.loss = error

    def _connect(self) -> None:
        host = self._dialling.dial()
        self._arm_deadline()
        self.port.connect(host)

    def _arm_deadline(self) -> None:
        self._stop_timer()
        self._timer = self.port.call_later(self.settings.connect_timeout, self._too_slow)

    def _too_slow(self) -> None:
        self._timer = None
        self._lost(self._ending.too_slow(self.state))

    def _lost(self, error: exceptions.AmqpError) -> None:
        """The physical connection is gone, or could not be made."""
        self._stop_timer()
        self._ending.loss = None
        if self.state is _State.OPENING:
            error = self._ending.while_opening(error)
        established = self.state is _State.READY
        state = self._fire(_Event.LOST, error)
        if state is _State.CLOSED:
            error = exceptions.Closed("the transport was closed", host=self.host)
        self.port.disconnect()
        if self._generation is not None:
            if established:
                self._on_ready(None)
            generation, self._generation = self._generation, None
            self._outgoing.hold(generation.lost(error))
            self._listening.connection_lost()
        engine, self.engine = self.engine, None
        if engine is not None:
            engine.destroy()
        if state is _State.CLOSED:
            self._closed(error)
            return
        self._back_off(error, established)

    def _back_off(self, error: exceptions.AmqpError, established: bool) -> None:
        delay, all_tried = self._dialling.lost(error, established)
        self._ending.last_error = error
        if all_tried:
            self._outgoing.fail_once(error)
        self._timer = self.port.call_later(delay, self._retry)

    def _retry(self) -> None:
        self._timer = None
        self._fire(_Event.RETRY)
        self._connect()

    def _closed(self, error: exceptions.AmqpError) -> None:
        self._outgoing.end(error)
        on_closed, self._on_closed = self._on_closed, []
        for tell in on_closed:
            tell()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
