# SPDX-License-Identifier: Apache-2.0

"""One physical AMQP 1.0 connection, with deliveries as plain bytes; on the I/O thread.

pyngus manages the life cycle of the connection, its timers and SASL. Sessions and links are in
``session`` and ``link``. Deliveries and bytes reach proton through :class:`Deliveries`, of which
there are two implementations: ``speedups`` (its common cases are in C) and ``deliveries`` (proton's
documented Python API).

Sans-I/O; every object lives on the I/O thread. The engine calls its handlers from
:meth:`Engine.process`, and during SASL also from :attr:`Engine.receive`.
"""

import math
import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import proton
import pyngus

from amqp1_driver import exceptions
from amqp1_driver.addressing.peer import Peer
from amqp1_driver.engine.deliveries import Deliveries, ProtonDeliveries
from amqp1_driver.engine.flow_echo import FlowEcho
from amqp1_driver.engine.idle_timeout import IdleTimeout
from amqp1_driver.engine.link import (
    EngineReceiver,
    EngineSender,
    Link,
    ReceiverHandler,
    SenderHandler,
)
from amqp1_driver.engine.link import condition as condition_of
from amqp1_driver.engine.link import redirect as redirect_of
from amqp1_driver.engine.pyngus_private import pass_event, silence_failures
from amqp1_driver.engine.sasl_guard import SaslGuard
from amqp1_driver.engine.session import EngineSession, all_sessions
from amqp1_driver.flowframe import EchoRequests
from amqp1_driver.policy.redirect import SAME_PLACE, Redirect

LOG = exceptions.logger(__name__)

#: seconds; the shortest idle-time-out of a peer that the driver supports: proton has to send a
#: frame in each half of the time
SHORTEST_IDLE_TIMEOUT = 0.1

#: most links to one node that discard a message that is too large, since the peer has not answered
#: their Detach. proton keeps about 2 MiB for each of them.
MOST_DISCARDING = 3

_SESSION_FILTER = "com.microsoft:session-filter"


class EngineHandler(Protocol):
    """The interface through which an :class:`Engine` reports events of the connection itself."""

    def engine_opened(self, peer: Peer) -> None: ...
    def engine_failed(self, reason: str) -> None: ...
    def engine_closed(self, name: str | None, description: str | None) -> None: ...
    def engine_redirected(self, redirect: Redirect) -> str | None: ...
    def engine_in_clear(self, mechanism: str) -> None: ...


def _best_path() -> Deliveries:
    """Return the code in C that handles deliveries, or the code in Python if there is none in C."""
    try:
        from amqp1_driver.engine.speedups import SpeedupDeliveries
    except ImportError as error:
        LOG.info("Messages take more processor time than they need to: %s", error)
        return ProtonDeliveries()
    return SpeedupDeliveries()


_BEST = _best_path()


def default_path() -> Deliveries:
    """Return the code that handles deliveries unless an engine is given another.

    That is ``SpeedupDeliveries`` if its C module was built and this proton has the C functions that
    it calls, otherwise ``ProtonDeliveries``.
    """
    return _BEST


class EngineConnection:
    """proton's objects for a connection, and the pump of their events.

    :param container: container-id of the Open frame
    :param handler: receives pyngus's callbacks
    :param properties: pyngus's connection properties
    :param path: the code that handles deliveries
    """

    def __init__(
        self, container: str, handler: "Engine", properties: dict[str, Any], path: Deliveries
    ) -> None:
        self.path = path
        self._engine: Engine | None = handler
        #: pyngus's connection: life cycle, timers and SASL
        self.pyngus = pyngus.Container(container).create_connection(container, handler, properties)
        silence_failures()
        self.pn_connection = self.pyngus.pn_connection
        self.pn_transport = self.pyngus.pn_transport
        # all events go to this collector, and none to the one that pyngus has made
        self.pn_collector = proton.Collector()
        self.pn_connection.collect(self.pn_collector)
        #: addresses of proton's objects, and an output buffer; see :class:`deliveries.Connection`
        self.collector = self.transport = 0
        self.outgoing: Any = None
        #: all links that proton has not freed
        self.all_links: dict[Any, None] = {}
        #: links by the addresses of proton's links, if the path needs them
        self.links: dict[int, Any] = {}
        #: sending links that have credit but no room in the peer's session window
        self.held: dict[Any, None] = {}
        self.echo = FlowEcho()
        self.questions = EchoRequests()
        #: whether the operator has asked for proton's trace
        self.traced = False
        #: whether received bytes wait for :meth:`process`; until then nothing may be written,
        #: because the bytes may end a link or session on which no frame may follow
        self.unread = False
        #: whether the peer has asked for an echo that is not answered yet
        self.asked = False
        #: whether the last :meth:`process` met only deliveries and Flow frames, so that the end of
        #: the connection is not near
        self.quiet = False
        #: whether SASL is in progress
        self.in_sasl = "x-sasl-mechs" in properties
        self._ended = False
        self._deadline = 0.0
        self._retired: list[Any] = []
        self._ticks = IdleTimeout()
        path.prepare(self)

    # -- bytes --------------------------------------------------------------------

    def receive(self, data: Any) -> None:
        """Take bytes from the peer; :meth:`process` then processes them."""
        self.unread = True
        requests = self.questions.read(data)
        if requests:
            self.echo.asked(self, requests)
        self.path.push(self, data)

    @property
    def needs_input(self) -> int:
        """Return how many bytes proton takes now; negative if it takes no more, ever."""
        return self._noted(self.pyngus.needs_input)

    @property
    def has_output(self) -> int:
        """Return how many bytes proton has to send; negative if there will be no more."""
        return self._noted(self.pyngus.has_output)

    def process_input(self, data: Any) -> int:
        """Give bytes to proton; return how many it took, negative if it takes no more, ever."""
        return self._noted(self.pyngus.process_input(data))

    def output_data(self) -> Any:
        """Return the bytes to send next, or None."""
        data = self.pyngus.output_data()
        if data is None:
            _ = self.has_output
        return data

    def output_written(self, count: int) -> None:
        """Remove ``count`` bytes from the output."""
        self.pyngus.output_written(count)
        _ = self.has_output

    def _noted(self, count: int) -> int:
        """Return ``count``; if it is negative, have pyngus look for failures."""
        if count < 0:
            self._ended = True
        return count

    # -- events -------------------------------------------------------------------

    def process(self, now: float) -> float:
        """Process proton's events and timers.

        :param now: seconds of the caller's clock
        :returns: when to call this again, seconds of the same clock; 0: no deadline
        """
        if self.in_sasl:
            _ = self.has_output  # proton reports a SASL failure only when asked for output
        busy = self.path.pump(self)
        self.unread = False
        ticks, deadline = self._ticks, self._deadline
        self.quiet = not (busy or self._ended)
        if not self.quiet or not deadline or now >= deadline or now >= ticks.due:
            # SASL, timers, tick, end of connection: rare, hence done by pyngus
            deadline = self._deadline = float(self.pyngus.process(now))
            self.path.pump(self)  # the tick of pyngus may have caused events
            if self.pyngus.pn_transport is not None:
                ticks.ticked(self.pn_transport, now)
            deadline = ticks.sooner(deadline)
        elif ticks.due == math.inf:
            ticks.passed_over(now)
        if self._retired:
            self._destroy_retired()
        if self.echo.postponed:
            self.echo.go_on()
        if self.held:
            held, self.held = self.held, {}
            for link in held:
                link.credited()
        if self.asked:
            self.echo.reply(self)
        due = ticks.due
        return due if due < deadline else deadline

    def dispatch(self, event: Any) -> None:
        """Process one event of proton."""
        kind = event.type
        if kind == proton.Event.DELIVERY:
            link = event.link.context
            if link is not None:
                link.delivery_event(event.delivery)
        elif kind == proton.Event.LINK_FLOW:
            link = event.link.context
            if link is not None:
                link.flow_event()
        elif kind in _LINK_EVENTS:
            link = getattr(event.link, "context", None)
            if link is not None:
                _LINK_EVENTS[kind](link)
            elif kind == proton.Event.LINK_REMOTE_OPEN:
                _refuse(event.link)
        elif kind == proton.Event.SESSION_REMOTE_OPEN:
            if getattr(event.session, "context", None) is None:  # the peer has begun it
                event.session.context = None
                event.session.open()
        elif kind == proton.Event.SESSION_REMOTE_CLOSE:
            session = event.session.context
            if session is not None:
                session.remote_closed()
            else:
                event.session.close()
        else:
            pass_event(self.pyngus, event)

    # -- links --------------------------------------------------------------------

    def close(self, condition: Any = None) -> None:
        """Close all links and the connection, in order.

        :param condition: proton's condition for the Close frame, or None
        """
        for link in self.all_links:
            link.close()
        self.pyngus.close(condition)

    def limit_discarding(self, address: str | None) -> None:
        """End the connection if more than :data:`MOST_DISCARDING` links to a node discard input.

        Each of them but the last was detached before the next one was attached. So the peer has
        read these Detach frames, and does not answer them.

        :param address: of the node; one more link to it discards its input now
        """
        count = sum(
            link.discards and link.pn_link.source.address == address for link in self.all_links
        )
        if count > MOST_DISCARDING and self._engine is not None:
            self._engine.refuse(
                "amqp:resource-limit-exceeded",
                f"the peer has sent messages that are too large on {count} links to "
                f"{address or 'the reply address'}, and does not answer when they are detached",
            )

    def destroy_later(self, link: Any) -> None:
        """Destroy a link at the end of this or the next :meth:`process`."""
        self._retired.append(link)

    def _destroy_retired(self) -> None:
        """Destroy the retired links; never from a callback, whose event refers to the link."""
        while self._retired:
            link = self._retired.pop()
            self.all_links.pop(link, None)
            link.destroy()

    def destroy(self) -> None:
        """Free all objects of proton and pyngus; never call this from a callback."""
        for link in self.all_links:
            link.destroy()
        self.all_links.clear()
        self.links.clear()
        self._retired.clear()
        sessions = list(all_sessions(self.pn_connection))
        self.pyngus.destroy()
        for session in sessions:
            session.context = None  # breaks a cycle through proton that Python can't collect
        self.pn_connection = self.pn_transport = self.pn_collector = self._engine = None


def _refuse(pn_link: Any) -> None:
    """Refuse a link of the peer by an Attach with a null terminus and a Detach (2.6.3)."""
    terminus = pn_link.source if pn_link.is_sender else pn_link.target
    terminus.type = proton.Terminus.UNSPECIFIED
    pn_link.context = None
    pn_link.open()
    pn_link.close()
    pn_link.free()


_LINK_EVENTS = {
    proton.Event.LINK_REMOTE_OPEN: Link.remote_opened,
    proton.Event.LINK_REMOTE_CLOSE: Link.remote_closed,
    proton.Event.LINK_REMOTE_DETACH: Link.remote_detached,
    proton.Event.LINK_LOCAL_CLOSE: Link.closed,
}


#: outcomes that a sending link understands (3.4)
_OUTCOMES = ("amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list")


def _symbols(*names: str) -> proton.Array:
    """Return an array of symbols; RabbitMQ requires an array even for one symbol."""
    return proton.Array(proton.UNDESCRIBED, proton.Data.SYMBOL, *map(proton.symbol, names))


def trace_asked(environ: Mapping[str, str]) -> int:
    """Read the environment variables that switch proton's trace on.

    :returns: bits of proton's ``Transport.trace``; 0: no trace
    """
    transport, levels = proton.Transport, environ.get("PN_LOG", "").upper()
    bits = 0
    for bit, variable, level in (
        (transport.TRACE_FRM, "PN_TRACE_FRM", "FRAME"),
        (transport.TRACE_RAW, "PN_TRACE_RAW", "RAW"),
    ):
        if (
            environ.get(variable, "").lower() in ("1", "true", "yes", "on")
            or level in levels
            or "ALL" in levels
        ):
            bits |= bit
    return int(bits)


def _refusal(idle_timeout: float) -> str | None:
    """Return why the driver can't support a peer's idle-time-out (2.4.5), None if it can.

    :param idle_timeout: seconds; 0: the peer has none
    """
    if not 0 < idle_timeout < SHORTEST_IDLE_TIMEOUT:
        return None
    return (
        f"the peer's idle-time-out of {idle_timeout * 1000:g} ms is below the "
        f"{SHORTEST_IDLE_TIMEOUT * 1000:g} ms that are supported"
    )


def _read(field: Callable[[], Any], name: str) -> Any:
    """Return a field of the peer's Open frame; log and return None if proton can't decode it.

    :param field: reads the field from proton
    :param name: of the field, for the log
    """
    try:
        return field()
    except Exception as error:  # decoding the peer's value may raise any error
        LOG.warning(
            "The %s in the Open frame of the peer are ignored: %s",
            name,
            exceptions.printable(error),
        )
        return None


class Engine(pyngus.ConnectionEventHandler):  # type: ignore[misc]
    """One physical connection, from Open to Close.

    :param container: container-id of the Open frame
    :param properties: pyngus's connection properties, see :func:`security.engine_properties`
    :param handler: receives the events of the connection
    :param path: the code that handles deliveries; None: what :func:`default_path` returns
    """

    def __init__(
        self,
        container: str,
        properties: dict[str, Any],
        handler: EngineHandler,
        path: Deliveries | None = None,
    ) -> None:
        self.path = path or default_path()
        self._handler: EngineHandler | None = handler
        self._connection: Any  # None once destroyed
        properties = dict(properties)
        self._trace = 0
        if properties.pop("x-trace-protocol", False):
            self._trace = proton.Transport.TRACE_FRM
        self._window = properties.pop("x-session-window", 0)
        in_clear = properties.pop("x-password-in-clear", None)
        self._max_frame = properties.get("max-frame-size", 0)
        self._largest = properties.pop("x-max-message-size", 0)
        self.container = container
        self._connection = EngineConnection(container, self, properties, self.path)
        #: Process events and timers; see :meth:`EngineConnection.process`.
        self.process: Callable[[float], float] = self._connection.process
        #: Take bytes from the peer; look the attribute up again once :attr:`sasl_over` is true.
        self.receive: Callable[[Any], None] = self._connection.receive
        #: whether SASL is over, or was never needed
        self.sasl_over = True
        if "x-sasl-mechs" in properties:
            self._guard(in_clear)
            self._hold_trace()
        self._sessions: list[EngineSession] = []
        #: the redirect in the Close frame of the peer
        self.redirect = Redirect()
        if "x-sasl-mechs" not in properties:
            self._start_trace()

    def _guard(self, in_clear: bool | None) -> None:
        """Put a :class:`SaslGuard` in front of proton.

        :param in_clear: whether the password may be sent in clear; None: the connection is
            encrypted, or there is no password
        """
        sasl = self._connection.pyngus.pn_sasl
        if in_clear is False:
            sasl.allow_insecure_mechs = False
        self.sasl_over = False
        self.receive = SaslGuard(
            self.receive,
            sasl,
            self._not_authentic,
            None if in_clear is None else self._tell_in_clear,
            self._sasl_passed,
        ).receive

    def _hold_trace(self) -> None:
        """Postpone the trace that proton's environment variables ask for until SASL is over.

        The trace that the option asks for starts at the same time.
        """
        asked = trace_asked(os.environ)
        if asked:
            self._trace |= asked
            self._connection.pn_transport.trace(proton.Transport.TRACE_OFF)

    # -- connection -------------------------------------------------------

    def open(self) -> None:
        self._connection.pyngus.open()

    def close(self) -> None:
        """Close the connection in order; the owners of its links get no further callbacks."""
        self._mute()
        self._connection.quiet = False
        self._connection.close()

    def _mute(self) -> None:
        """Suppress :meth:`LinkHandler.link_detached` for all links."""
        for link in self._connection.all_links:
            link.ended = True

    def output(self) -> memoryview | None:
        """Return the bytes to send next; the view is valid until :meth:`output_written`.

        :returns: None if there is nothing to send, or if received bytes wait for :meth:`process`
        """
        connection = self._connection
        if connection.unread:
            return None
        if connection.echo.staged:
            return memoryview(connection.echo.staged)
        data = self.path.output(connection)
        if connection.echo.awaiting_handle and data is not None:
            connection.echo.note(bytes(data))
        return data

    def output_written(self, count: int) -> bool:
        """Remove ``count`` bytes from the output: the socket has taken them.

        :returns: False if there is certainly no further output at present
        """
        connection = self._connection
        if connection.echo.staged:
            connection.echo.written(count)
            return True
        return self.path.output_written(connection, count) or not connection.quiet

    def destroy(self) -> None:
        """Free all objects of proton and pyngus; never call this from a callback."""
        self._handler = None
        connection, self._connection = self._connection, None
        if connection is None:
            return
        del self.process, self.receive  # both refer to the connection
        connection.destroy()
        for session in self._sessions:
            session.destroy()
        self._sessions.clear()

    # -- sessions and links ------------------------------------------------

    def disable_session_window(self) -> None:
        """Begin all further sessions without a bound on their incoming windows."""
        self._window = 0

    def session(self) -> EngineSession:
        """Begin a session (2.5.1)."""
        connection = self._connection
        session = EngineSession(
            connection.pn_connection, connection.pn_transport, self._window, self._max_frame
        )
        self._sessions.append(session)
        return session

    def sender(
        self,
        session: EngineSession,
        name: str,
        target: str | None,
        handler: SenderHandler,
        *,
        settled: bool = False,
        source: str = "",
        paired: bool = False,
        kind: str = "",
        outcomes: bool = False,
    ) -> EngineSender:
        """Attach a sending link.

        :param target: address; None: the anonymous terminus
        :param settled: whether all messages are sent settled
        :param source: address of the source; empty: that of the target
        :param paired: whether to set the link property ``paired``
        :param kind: capability that the target has to have; empty: none
        :param outcomes: whether to announce the outcomes that the link understands (3.5.3)
        """
        pn_link = session.pn_session.sender(name)
        link = EngineSender(self._connection, session, pn_link, handler, self._largest)
        self._connection.all_links[link] = None
        self._connection.echo.awaiting_handle[name.encode()] = link
        if kind:
            pn_link.target.capabilities.put_object(_symbols(kind))
        if outcomes:
            pn_link.source.outcomes.put_object(_symbols(*_OUTCOMES))
        link.attach(target, source or target or "", settled, {"paired": True} if paired else {})
        return link

    def receiver(
        self,
        session: EngineSession,
        name: str,
        source: str | None,
        handler: ReceiverHandler,
        *,
        settled: bool = False,
        capability: str | None = None,
        target: str = "",
        paired: bool = False,
        kind: str = "",
        group: str | None = None,
        properties: tuple[tuple[str, object], ...] = (),
    ) -> EngineReceiver:
        """Attach a receiving link.

        :param source: address; None: the peer makes a dynamic node (3.5.3)
        :param settled: whether the peer sends all messages settled
        :param capability: capability that the source has to have; the source then expires with the
            link
        :param target: address of the target; empty: that of the source
        :param paired: whether to set the link property ``paired``
        :param kind: as ``capability``, but the source does not expire with the link; empty: none
        :param group: receive only messages with this group-id, exclusively (a session of Azure
            Service Bus); None: no such filter
        :param properties: names and values of the link's properties, unless ``paired``
        """
        pn_link = session.pn_session.receiver(name)
        link = EngineReceiver(self._connection, session, pn_link, handler, self._largest)
        self._connection.all_links[link] = None
        if capability is not None:
            pn_link.source.capabilities.put_object(_symbols(capability))
            pn_link.source.expiry_policy = proton.Terminus.EXPIRE_WITH_LINK
        elif kind:
            pn_link.source.capabilities.put_object(_symbols(kind))
        if group is not None:
            pn_link.source.filter.put_object({proton.symbol(_SESSION_FILTER): group})
        link.attach(
            target or source, source, settled, {"paired": True} if paired else dict(properties)
        )
        return link

    # -- pyngus's callbacks ------------------------------------------------

    def connection_active(self, connection: Any) -> None:
        pn = connection.pn_connection
        refusal = _refusal(connection.pn_transport.remote_idle_timeout)
        if refusal is not None:
            self.refuse("amqp:not-implemented", refusal)
            return
        peer = Peer.from_open(
            _read(lambda: pn.remote_properties, "properties"),
            _read(lambda: pn.remote_offered_capabilities, "capabilities"),
        )
        if self._handler:
            self._handler.engine_opened(peer)

    def refuse(self, name: str, reason: str) -> None:
        """Close the connection because of what the peer does.

        :param name: of the error condition for the peer
        """
        self._mute()
        self._connection.close(proton.Condition(name, reason))
        if self._handler:
            handler, self._handler = self._handler, None
            handler.engine_failed(reason)

    def connection_failed(self, connection: Any, error: str) -> None:
        # pyngus calls this at each process(); the handler gets only the first call
        if self._handler:
            handler, self._handler = self._handler, None
            condition = connection.pn_transport.condition
            if condition is not None and error == str(condition):
                handler.engine_closed(*condition_of(condition))
            else:
                handler.engine_failed(str(error))

    def _sasl_passed(self) -> None:
        self.receive = self._connection.receive
        self.sasl_over = True
        self._start_trace()

    def _not_authentic(self, reason: str) -> None:
        if self._handler:
            handler, self._handler = self._handler, None
            handler.engine_closed("amqp:unauthorized-access", reason)

    def _tell_in_clear(self, mechanism: str) -> None:
        if self._handler:
            self._handler.engine_in_clear(mechanism)

    def _start_trace(self) -> None:
        """Trace frames from now on; call this after SASL, whose frames would show the password."""
        if self._trace:
            self._connection.traced = True
            self._connection.echo.show(self._connection.pn_transport, self._trace)

    def follow(self, redirect: Redirect) -> str | None:
        """Redirect the whole connection, because one of its links was redirected.

        :returns: None if the connection goes there, otherwise the reason why not
        """
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

    def sasl_done(self, connection: Any, pn_sasl: Any, outcome: Any) -> None:
        self._connection.in_sasl = False
