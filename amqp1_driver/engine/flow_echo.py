# SPDX-License-Identifier: Apache-2.0

"""Echoes of link and session state (AMQP 1.0, 2.7.4), which proton lacks; lives on the I/O thread.

A peer answers a Flow frame whose ``echo`` is set with a Flow frame of its own. When the answer
arrives, everything that the peer sent before has arrived too. The answer also says how many
messages the peer has *available*. Brokers answer an echo at once, whereas a drain may have to wait
until all credit is used up. The peer may ask this driver for an echo in the same way.

Proton never sets ``echo`` in the Flow frames that it writes, so this module changes one of proton's
frames on its way out. Proton also drops ``available`` and ``echo`` of the frames that it receives.
This module reads ``available`` from proton's documented trace, which names all fields. The trace is
on only while this module awaits an answer, unless the operator has asked for it. The module
``flowframe`` finds ``echo`` in the received bytes. Sans-I/O.
"""

import re
import sys
from collections import Counter, deque
from functools import partial
from typing import Any

import proton

from amqp1_driver import exceptions, flowframe
from amqp1_driver.engine.session import all_sessions

LOG = exceptions.logger(__name__)

_RECEIVED = re.compile(r"<- @flow\(19\) \[(.*)\]")
_AVAILABLE = re.compile(r"\bavailable=(0x[0-9a-f]+|\d+)")
#: values of ``available`` to keep; beyond this number the oldest are dropped
_KEPT = 100
#: bytes; while more output than this is pending, the driver does not answer echo requests
_MUCH = 65536
_OPEN = proton.Endpoint.LOCAL_ACTIVE | proton.Endpoint.REMOTE_ACTIVE


class FlowEcho:
    """The echo requests of one connection, in both directions.

    ``ask`` and ``answered`` serve our requests; ``asked``, ``heard`` and ``reply`` serve those of
    the peer. A ``FlowEcho`` keeps no reference to its connection.
    """

    def __init__(self) -> None:
        self._available: deque[int] = deque(maxlen=_KEPT)
        self._asking: Counter[int] = Counter()
        #: links whose echo request waits until all received frames are processed
        self.postponed: list[Any] = []
        #: bytes taken out of proton, to be sent before any other output
        self.staged = b""
        #: name -> sending link whose Attach frame this module has not seen on its way out
        self.awaiting_handle: dict[bytes, Any] = {}
        #: whether received bytes that are not processed yet ask for an echo about a link, a session
        self._about_link = self._about_session = False
        #: links for which the same bytes have a Flow frame
        self._heard: dict[Any, None] = {}

    def ask(self, link: Any, credit: int = 0) -> None:
        """Send the state of a receiving link and request an echo.

        While received frames are unprocessed, the request waits: a Detach of the peer may be among
        them, and no Flow may follow a Detach (2.7.4).

        :param credit: change of the link's credit to send along; negative to take credit back
        """
        connection = link.connection
        if not self._asking:
            self._watch(connection, True)
        self._asking[id(link)] += 1
        if connection.unread:
            if credit:
                link.grant(credit)
            self.postponed.append(link)
        else:
            self._write(link, credit)

    def go_on(self) -> None:
        """Send the postponed requests, except those of links that :meth:`forget` has removed."""
        links, self.postponed = self.postponed, []
        for link in links:
            if id(link) in self._asking:
                self._write(link, 0)

    def _write(self, link: Any, credit: int) -> None:
        connection = link.connection
        before = self._output(connection)  # the next output then begins with a frame
        if credit:
            link.grant(credit)
        link.pn_link.drain(0)  # makes proton write a Flow frame whatever the credit
        question = self._output(connection)
        try:
            question = flowframe.drain_to_echo(question)
        except ValueError as error:
            # the frame goes out unchanged: the peer drains the link, or does not answer
            LOG.warning("A Flow frame can't be given an echo: %s", error)
        link.grant(0)  # ends proton's drain mode without another Flow frame
        self.staged += before + question

    # -- answers -----------------------------------------------------------------

    def asked(self, connection: Any, questions: tuple[bool, ...]) -> None:
        """Note the peer's requests for echoes, to answer them in :meth:`reply`.

        :param questions: one item per request: True is about a link, False about a session
        """
        connection.asked = True
        self._about_link |= True in questions
        self._about_session |= False in questions

    def heard(self, link: Any) -> None:
        """Note that the received bytes have a Flow frame for this link."""
        self._heard[link] = None

    def reply(self, connection: Any) -> None:
        """Answer the peer's requests for echoes; call this after processing all received frames.

        A request about a link gets an answer for each link whose Flow frame came in the same bytes.
        A request about a session gets an answer for each session. Surplus answers do no harm
        (2.7.4). While the peer does not read and much output is pending, the answers wait.
        """
        if self._output_backlogged(connection):
            return
        links, self._heard = self._heard, {}
        add_link_state, about_session = self._about_link, self._about_session
        connection.asked = self._about_link = self._about_session = False
        if add_link_state:
            for link in links:
                pn_link = link.pn_link
                if pn_link is not None and pn_link.state & _OPEN == _OPEN:
                    self._reply(connection, link)
        if about_session:
            for session in all_sessions(connection.pn_connection):
                if session.state & _OPEN == _OPEN:
                    self._session_state(connection, session)

    def _output_backlogged(self, connection: Any) -> bool:
        """Return whether so much output is pending that no more should be taken out of proton."""
        waiting = sum(each.outgoing_bytes for each in all_sessions(connection.pn_connection))
        return len(self.staged) + int(waiting) > _MUCH

    def _reply(self, connection: Any, link: Any) -> None:
        """Answer a request about a link with a Flow frame that contains the link's state."""
        if link.pn_link.session.state & _OPEN != _OPEN:
            return
        try:
            if not link.receiving:
                self._session_state(connection, link.pn_link.session, link)
            elif link.pn_link.drain_mode:
                link.pn_link.drain(0)  # makes proton write a Flow frame
            else:
                before = self._output(connection)
                link.pn_link.drain(0)
                answer = self._output(connection)
                link.grant(0)  # ends proton's drain mode without another Flow frame
                self.staged += before + flowframe.drain_to_state(answer)
        except ValueError as error:
            LOG.warning("An echo can't be answered: %s", error)

    def _session_state(self, connection: Any, session: Any, link: Any = None) -> None:
        """Answer with a Flow frame of proton's about a session.

        :param link: a sending link whose state the frame is to contain too; None: no link
        """
        before = self._output(connection)
        # This makes proton write a Flow frame. A window in frames becomes a window in bytes.
        session.incoming_capacity = getattr(session.context, "capacity", 0)
        answer = self._output(connection)
        if link is not None and link.number is not None:
            queued = link.pn_link.queued
            answer = flowframe.add_link_state(
                answer, link.number, link.next_key + link.given_back - queued, link.credit + queued
            )
        self.staged += before + answer

    def _output(self, connection: Any) -> bytes:
        """Take all output out of proton, and note the handles in it."""
        data = _collect(connection)
        if self.awaiting_handle:
            self.note(data)
        return data

    def note(self, data: bytes) -> None:
        """Find the handles of our sending links in outgoing bytes.

        The search cannot mistake a message of ours for an Attach frame: the bodies of our messages
        are JSON, and the type code of an AMQP list is not valid UTF-8.
        """
        for name, number in flowframe.handles(data, sender=True).items():
            link = self.awaiting_handle.pop(name, None)
            if link is not None:
                link.number = number

    def answered(self, link: Any) -> int | None:
        """Take a Flow frame of the peer for this link as the answer to our request, if one is open.

        :returns: number of messages that the peer has available for the link; None if the peer does
            not say, or if no request is open
        """
        if id(link) not in self._asking:
            return None
        available = self._available.popleft() if self._available else None
        self._asking[id(link)] -= 1
        if not self._asking[id(link)]:
            self.forget(link)
        return available

    def forget(self, link: Any) -> None:
        """Drop all our open requests about a link."""
        if id(link) in self._asking:
            del self._asking[id(link)]
            if not self._asking:
                self._watch(link.connection, False)
                self._available.clear()

    def written(self, count: int) -> None:
        """Remove ``count`` bytes from the staged output: the socket has taken them."""
        self.staged = self.staged[count:]

    def show(self, transport: Any, trace: int) -> None:
        """Write a trace of all frames to standard error, because the operator has asked for it.

        The lines are the same as those of proton's own trace. This class takes the values of
        ``available`` from the same trace.

        :param trace: bits of proton's ``Transport.trace``
        """
        transport.tracer = self._show
        transport.trace(trace)

    def _show(self, transport: Any, message: str) -> None:
        sys.stderr.write(f"[{id(self):#x}]: {message}\n")
        if self._asking:
            _trace(self._available, transport, message)

    def _watch(self, connection: Any, on: bool) -> None:
        transport = connection.pn_transport
        if transport is None or connection.traced:
            return  # the trace is always on, see show()
        if on:
            transport.tracer = partial(_trace, self._available)
        transport.trace(proton.Transport.TRACE_FRM if on else proton.Transport.TRACE_OFF)


def _collect(connection: Any) -> bytes:
    """Take all output out of proton."""
    parts = []
    path = connection.path
    while (data := path.output(connection)) is not None and len(data):
        parts.append(bytes(data))
        path.output_written(connection, len(data))
    return b"".join(parts)


def _trace(found: deque[int], transport: Any, message: str) -> None:
    """Add the ``available`` of a received Flow frame in a line of proton's trace to ``found``."""
    flow = _RECEIVED.search(message)
    # only the sending end of a link states ``available``
    available = flow and _AVAILABLE.search(flow.group(1))
    if available:
        found.append(int(available.group(1), 0))
