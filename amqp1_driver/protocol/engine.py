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

"""One physical AMQP 1.0 connection: pyngus with deliveries as plain bytes.

pyngus keeps the life cycle of connection, sessions, links and SASL; its links
are those of ``engine_link``.  How single deliveries reach proton is behind
:class:`DeliveryPath`, which has three implementations: ``compiledpath`` (a module
in C), ``fastpath`` (proton's C functions, called from Python) and ``publicpath``
(proton's documented Python API).

Sans-I/O; every object lives on the I/O thread.  Handlers are called from
:meth:`Engine.process` only.
"""

import logging
import math
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import proton
import pyngus
from pyngus import link as pyngus_link

from amqp1_driver.addressing.peer import Peer
from amqp1_driver.codec import Encoded
from amqp1_driver.policy.outcome import Outcome
from amqp1_driver.policy.redirect import SAME_PLACE, Redirect
from amqp1_driver.protocol import publicpath
from amqp1_driver.protocol.echo import Echo
from amqp1_driver.protocol.engine_link import (
    EngineReceiver,
    EngineSender,
    EngineSession,
    LinkHandler,
    ReceiverHandler,
    SenderHandler,
)
from amqp1_driver.protocol.engine_link import condition as condition_of
from amqp1_driver.protocol.engine_link import redirect as redirect_of
from amqp1_driver.protocol.ticks import Ticks
from amqp1_driver.protocol.window import bound

LOG = logging.getLogger(__name__)

_SESSION_FILTER = "com.microsoft:session-filter"


class EngineHandler(Protocol):
    """What an :class:`Engine` tells of the connection itself."""

    def engine_opened(self, peer: Peer) -> None: ...
    def engine_failed(self, reason: str) -> None: ...
    def engine_closed(self, name: str | None, description: str | None) -> None: ...
    def engine_redirected(self, redirect: Redirect) -> str | None: ...


class DeliveryPath(Protocol):
    """The operations on deliveries, the pump of proton's events, and the bytes."""

    def pump(self, connection: "EngineConnection") -> bool: ...
    def receive(self, connection: "EngineConnection", data: Any) -> None: ...
    def output(self, connection: "EngineConnection") -> memoryview | None: ...
    def output_written(self, connection: "EngineConnection", count: int) -> None: ...
    def credit(self, link: Any) -> int: ...
    def may_send(self, link: Any) -> bool: ...
    def send(self, link: "EngineSender", data: Encoded, settled: bool) -> Any: ...
    def forget(self, link: "EngineSender", key: Any) -> None: ...
    def settle(self, link: "EngineReceiver", key: int, outcome: Outcome) -> bool: ...
    def flow(self, link: "EngineReceiver", credit: int) -> None: ...


def _best_path() -> Any:
    try:
        from amqp1_driver.protocol import compiledpath

        return compiledpath
    except ImportError as error:
        LOG.info("Messages take more processor time than they need to: %s", error)
    try:
        from amqp1_driver.protocol import fastpath

        return fastpath
    except ImportError as error:
        LOG.info("Messages take much more processor time than they need to: %s", error)
    return publicpath


_BEST = _best_path()


def default_path() -> Any:
    """The fastest there is: that in C, where it was built; that over proton's C functions, where
    this proton has them; otherwise the public one."""
    return _BEST


class EngineConnection(pyngus.Connection):  # type: ignore[misc]
    """pyngus's connection with our pump of events in front of its own."""

    path: Any = None
    scratch: Any = None
    outgoing: Any = None
    collector: Any = None
    transport: Any = None
    #: whether the operator has asked for proton's trace
    traced = False
    #: sending links that have credit, but no room in the window of their session
    held: dict[Any, None]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.echo = Echo()
        self.held = {}
        self.links: dict[int, Any] = {}
        self._retired: list[Any] = []
        self._ticks = Ticks()
        super().__init__(*args, **kwargs)

    def process(self, now: float) -> float:
        if self._pn_sasl is not None and not self._sasl_done:
            _ = self.has_output  # proton says that SASL has failed only when asked for output
        busy = self.path.pump(self)
        ticks, deadline = self._ticks, self._next_deadline
        if busy or self._error or not deadline or now >= deadline or now >= ticks.due:
            # SASL, timers, tick, end of connection: rare, so left to pyngus
            deadline = super().process(now)
            if self._pn_transport is not None:
                ticks.ticked(self._pn_transport, now)
            deadline = ticks.sooner(float(deadline))
        elif ticks.due == math.inf:
            ticks.passed_over(now)
        if self._retired:
            self._bury()
        if self.held:
            held, self.held = self.held, {}
            for link in held:
                link.handler.link_credit()
        due = ticks.due
        return due if due < deadline else deadline

    def dispatch(self, pn_event: Any) -> None:
        """pyngus's own treatment of one event, in its order."""
        if pn_event.type == proton.Event.LINK_REMOTE_DETACH:
            # pyngus knows only detaches that close the link
            link = pn_event.link.context
            if link:
                link._failed = True  # the peer has nothing more to say on it
                link._ep_need_close()
            return
        _ = (
            pyngus_link._Link._handle_proton_event(pn_event, self)
            or self._handle_proton_event(pn_event)
            or pyngus_link._SessionProxy._handle_proton_event(pn_event, self)
        )

    def retire(self, link: Any) -> None:
        self._retired.append(link)

    def _bury(self) -> None:
        # pyngus's destroy() must not be called from a callback
        while self._retired:
            link = self._retired.pop()
            if link._pn_link is not None and link._connection is not None:
                self.path.unlink(self, link)
                link.destroy()


#: what a sender is told by (3.4)
_OUTCOMES = ("amqp:accepted:list", "amqp:rejected:list", "amqp:released:list",
             "amqp:modified:list")


def _symbols(*names: str) -> proton.Array:
    """An array, which RabbitMQ wants even of one."""
    return proton.Array(proton.UNDESCRIBED, proton.Data.SYMBOL, *map(proton.symbol, names))


class Engine(pyngus.ConnectionEventHandler):  # type: ignore[misc]
    """One physical connection, from Open to Close.

    :param container: container-id of the Open frame
    :param properties: pyngus connection properties
    :param handler: whom to tell
    :param path: module that serves deliveries; None: the best there is
    """

    def __init__(self, container: str, properties: dict[str, Any], handler: EngineHandler,
                 path: Any = None) -> None:
        self.path = path or default_path()
        self._handler: EngineHandler | None = handler
        self._connection: Any
        properties = dict(properties)
        self._trace = properties.pop("x-trace-protocol", False)
        self._window = properties.pop("x-session-window", 0)
        self._max_frame = properties.get("max-frame-size", 0)
        # Container.create_connection() would build pyngus's own class
        self._connection = EngineConnection(pyngus.Container(container), container, self,
                                            properties)
        self._connection.path = self.path
        #: Handle what has happened; returns when to be called again (0: no matter).
        self.process: Callable[[float], float] = self._connection.process
        #: Bytes from the peer.
        self.receive: Callable[[Any], None] = partial(self.path.receive, self._connection)
        self._sessions: list[EngineSession] = []
        #: where the peer has sent us when it closed
        self.redirect = Redirect()
        if "x-sasl-mechs" not in properties:
            self._start_trace()

    # -- connection -------------------------------------------------------

    def open(self) -> None:
        self._connection.open()

    def close(self) -> None:
        """Close links and connection in order; the links' owners hear no more."""
        self._mute()
        self._connection.close()

    def _mute(self) -> None:
        connection = self._connection
        for links in (connection._sender_links, connection._receiver_links):
            for link in links.values():
                link._told = True

    def receive_eof(self) -> None:
        self._connection.close_input()

    def output(self) -> memoryview | None:
        """What is to be sent next; valid until :meth:`output_written`."""
        connection = self._connection
        if connection.echo.staged:
            return memoryview(connection.echo.staged)
        return self.path.output(connection)  # type: ignore[no-any-return]

    def output_written(self, count: int) -> None:
        if self._connection.echo.staged:
            self._connection.echo.written(count)
            return
        self.path.output_written(self._connection, count)

    def destroy(self) -> None:
        """Free everything; only outside of callbacks."""
        self._handler = None
        connection, self._connection = self._connection, None
        if connection is None:
            return
        del self.process, self.receive  # they hold the connection
        connection.links.clear()
        connection.destroy()
        for session in self._sessions:
            session.let_go()
        self._sessions.clear()

    # -- sessions and links ------------------------------------------------

    def unbound(self) -> None:
        """The sessions to come have no bound for what the peer sends ahead."""
        self._window = 0

    def session(self) -> EngineSession:
        """Begin a session (2.5.1)."""
        session = EngineSession(f"session-{len(self._sessions)}", self._connection)
        self._sessions.append(session)
        if self._window and self._max_frame:
            bound(session._pn_session, self._window, self._max_frame)
            session.bounded = True
        session.open()
        return session

    def sender(self, session: EngineSession, name: str, target: str | None, handler: SenderHandler,
               *, settled: bool = False, source: str = "", paired: bool = False, kind: str = "",
               outcomes: bool = False) -> EngineSender:
        """Attach a sending link; target None is the anonymous terminus.

        :param kind: capability that the target has to have
        :param outcomes: say which outcomes are understood (3.5.3)
        """
        pn_link = session._pn_session.sender(name)
        link = EngineSender(self._connection, pn_link)
        self._connection._sender_links[name] = link
        if kind:
            pn_link.target.capabilities.put_object(_symbols(kind))
        if outcomes:
            pn_link.source.outcomes.put_object(_symbols(*_OUTCOMES))
        properties = {"snd-settle-mode": "settled" if settled else "mixed"}
        self._attach(session, link, handler, (target or "", source or target or ""), properties,
                     {"paired": True} if paired else {})
        return link

    def receiver(self, session: EngineSession, name: str, source: str | None,
                 handler: ReceiverHandler, *, settled: bool = False,
                 capability: str | None = None, target: str = "",
                 paired: bool = False, kind: str = "",
                 group: str | None = None,
                 properties: tuple[tuple[str, object], ...] = ()) -> EngineReceiver:
        """Attach a receiving link; source None asks for a dynamic node (3.5.3).

        :param kind: capability that the source has to have
        :param group: only messages with this group-id, and none of them to others (a session
            of Azure Service Bus)
        :param properties: of the link
        """
        pn_link = session._pn_session.receiver(name)
        link = EngineReceiver(self._connection, pn_link)
        self._connection._receiver_links[name] = link
        if capability is not None:
            pn_link.source.capabilities.put_object(_symbols(capability))
            pn_link.source.expiry_policy = proton.Terminus.EXPIRE_WITH_LINK
        elif kind:
            pn_link.source.capabilities.put_object(_symbols(kind))
        if group is not None:
            pn_link.source.filter.put_object({proton.symbol(_SESSION_FILTER): group})
        modes = {"snd-settle-mode": "settled"} if settled else {}
        more = {"paired": True} if paired else dict(properties)
        self._attach(session, link, handler, (target or source or "", source), modes, more)
        return link

    def _attach(self, session: EngineSession, link: Any, handler: LinkHandler,
                addresses: tuple[str, str | None], modes: dict[str, str],
                properties: dict[str, Any]) -> None:
        session._links.add(link)
        link._setup(handler, self.path, session)
        link.configure(addresses[0], addresses[1], None, modes)
        if properties:
            # proton would write a number as long: RabbitMQ knows priorities as int only
            link._pn_link.properties = {
                proton.symbol(name): proton.int32(value) if type(value) is int else value
                for name, value in properties.items()}
        self.path.link(self._connection, link)
        link.open()

    # -- pyngus's callbacks ------------------------------------------------

    def connection_active(self, connection: Any) -> None:
        pn = connection.pn_connection
        peer = Peer.from_open(pn.remote_properties, pn.remote_offered_capabilities)
        if self._handler:
            self._handler.engine_opened(peer)

    def connection_failed(self, connection: Any, error: str) -> None:
        # pyngus repeats this at each process(): the owner lets go at the first
        if self._handler:
            handler, self._handler = self._handler, None
            condition = connection.pn_transport.condition
            if condition is not None and error == str(condition):
                handler.engine_closed(*condition_of(condition))
            else:
                handler.engine_failed(str(error))

    def sasl_done(self, connection: Any, pn_sasl: Any, result: Any) -> None:
        self._start_trace()

    def _start_trace(self) -> None:
        """Log frames from here on: those of SASL would show the password."""
        if self._trace:
            self._connection.traced = True
            self._connection.pn_transport.trace(proton.Transport.TRACE_FRM)

    def follow(self, redirect: Redirect) -> str | None:
        """A link was redirected; returns why the connection does not go there, None if so."""
        return self._handler.engine_redirected(redirect) if self._handler else SAME_PLACE

    def connection_remote_closed(self, connection: Any, pn_condition: Any) -> None:
        self.redirect = redirect_of(pn_condition)
        self.close()  # answers the peer's Close (2.7.9)
        if self._handler:
            handler, self._handler = self._handler, None
            handler.engine_closed(*condition_of(pn_condition))

    def connection_closed(self, connection: Any) -> None:
        if self._handler:
            handler, self._handler = self._handler, None
            handler.engine_closed(None, None)

    def sender_requested(self, connection: Any, handle: str, *args: Any) -> None:
        connection.reject_sender(handle)

    def receiver_requested(self, connection: Any, handle: str, *args: Any) -> None:
        connection.reject_receiver(handle)
