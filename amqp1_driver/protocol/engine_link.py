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

"""pyngus's links and sessions with deliveries as plain bytes.

What pyngus does with messages does not fit this driver: it decodes each into a
``proton.Message``, buffers sends without credit and says nothing of links whose
session was ended by the peer.  These classes replace exactly those things.

Sans-I/O; I/O thread only.
"""

from typing import Any, Protocol

import proton
from pyngus import link as pyngus_link

from amqp1_driver.codec import Encoded
from amqp1_driver.policy.outcome import Disposition, Outcome
from amqp1_driver.policy.redirect import Redirect
from amqp1_driver.protocol import publicpath
from amqp1_driver.protocol.window import OutgoingWindow

#: bytes that a transfer frame needs beside the message, at most (2.7.5)
_TRANSFER = 64
#: of a peer that takes frames of any size
_UNBOUNDED = 4294967295


class LinkHandler(Protocol):
    """What a link tells its owner."""

    def link_attached(self) -> None: ...
    def link_detached(self, name: str | None, description: str | None) -> None: ...


class SenderHandler(LinkHandler, Protocol):
    def link_credit(self) -> None: ...
    def link_outcome(self, key: Any, disposition: Disposition) -> None: ...


class ReceiverHandler(LinkHandler, Protocol):
    def link_delivery(self, key: int, data: bytes, settled: bool) -> None: ...


class AskingHandler(ReceiverHandler, Protocol):
    """Of a link that has asked for an echo, or to be drained."""

    def link_answer(self, drained: int, available: int | None) -> None: ...


def condition(pn_condition: Any) -> tuple[str | None, str | None]:
    """Name and description of an error condition (2.8.14), None where there is none."""
    if pn_condition is None:
        return None, None
    return pn_condition.name, pn_condition.description


def redirect(pn_condition: Any) -> Redirect:
    """Where an error condition leads, if it redirects."""
    return Redirect.parse(pn_condition.info if pn_condition is not None else None)


class _Link:
    """What the two link classes add alike to pyngus's."""

    handler: Any
    path: Any
    _pn_link: Any
    _connection: Any
    connection: Any
    close: Any

    def _setup(self, handler: LinkHandler, path: Any, session: "EngineSession") -> None:
        self.handler = handler
        self.path = path
        self.session = session
        #: what has come of a message that is larger than the session's window
        self.pieces: list[bytes] = []
        self.unsettled: dict[int, Any] = {}
        self.next_key = 0
        self.receiving = bool(self._pn_link.is_receiver)
        #: the peer's, once it is known; of a link that sends
        self.window: OutgoingWindow | None = None
        #: answers in Flow frames that are awaited
        self.asking = 0
        self._told = False
        self.redirect = Redirect()
        # plain attributes: proton's wrapper objects look theirs up in C
        self.impl = self._pn_link._impl

    def _session_closed(self) -> None:
        # pyngus does nothing here for links that were attached
        self._failed = True
        remote = self._pn_link.session.remote_condition
        self._detached(*(condition(remote) if remote else ("amqp:session:ended", None)))

    def _ep_active(self) -> None:
        if not self._refused():
            self.handler.link_attached()

    def _refused(self) -> bool:
        """A peer that refuses a link attaches with a null terminus, then
        detaches (AMQP 1.0, 2.6.3): the detach will tell why."""
        pn_link = self._pn_link
        terminus = pn_link.remote_target if pn_link.is_sender else pn_link.remote_source
        return bool(terminus.type == proton.Terminus.UNSPECIFIED)

    def _ep_need_close(self) -> None:
        self.redirect = redirect(self._pn_link.remote_condition)
        self._detached(*condition(self._pn_link.remote_condition))

    def _ep_closed(self) -> None:
        self._detached(None, None)
        if self._connection is not None:
            self._connection.retire(self)

    def _link_failed(self, error: str) -> None:
        self._detached("amqp:internal-error", error)

    def _detached(self, name: str | None, description: str | None) -> None:
        if not self._told:
            self._told = True
            self.unsettled.clear()
            self.handler.link_detached(name, description)

    def release(self) -> None:
        """Close our end; the owner hears no more of this link.

        proton's link is freed once the peer has closed its end too: before
        that its name and handle must not be used again.
        """
        self._told = True
        self.unsettled.clear()
        if self._connection is None:
            return
        self._connection.held.pop(self, None)
        if self.asking:
            self.connection.echo.forget(self)
        self.path.unlink(self._connection, self)
        self.close()
        if self._failed or self._pn_link.session.context.ended:
            self._connection.retire(self)


class EngineSender(_Link, pyngus_link.SenderLink):  # type: ignore[misc]
    """Outgoing link: bytes out, outcomes in."""

    @property
    def credit(self) -> int:
        return self.path.credit(self)  # type: ignore[no-any-return]

    @property
    def may_send(self) -> bool:
        """Whether a message would go out now: there is credit, and room in the peer's window.

        Where only room is missing the owner is told when there may be some again.
        """
        return self.path.may_send(self)  # type: ignore[no-any-return]

    def outgoing_window(self) -> OutgoingWindow:
        """The peer's, kept from now on: it is asked for each message."""
        window = self.window = self.session.outgoing
        return window

    def hold(self) -> bool:
        """Have :meth:`SenderHandler.link_credit` called when there may be room; False."""
        self._connection.held[self] = None
        return False

    @property
    def target(self) -> str | None:
        return self._pn_link.remote_target.address  # type: ignore[no-any-return]

    def transfer(self, data: Encoded, settled: bool) -> Any:
        """Hand one encoded message to proton.  The caller has seen that it may.

        :returns: the key under which the outcome is told
        """
        window = self.window or self.outgoing_window()
        size = len(data[1]) if type(data) is tuple else len(data)
        window.given += 1 + size // window.frame
        return self.path.send(self, data, settled)

    def forget(self, key: Any) -> None:
        """Settle without waiting any longer for the outcome."""
        self.path.forget(self, key)

    def _process_delivery(self, pn_delivery: Any) -> None:
        publicpath.outcome(self, pn_delivery)

    def _process_credit(self) -> None:
        self.handler.link_credit()


class EngineReceiver(_Link, pyngus_link.ReceiverLink):  # type: ignore[misc]
    """Incoming link: bytes in, outcomes out."""

    @property
    def source(self) -> str | None:
        return self._pn_link.remote_source.address  # type: ignore[no-any-return]

    @property
    def properties(self) -> Any:
        """Of the peer's Attach: a map by name, or None."""
        return self._pn_link.remote_properties

    @property
    def arrived(self) -> int:
        """Messages that have come, whole or in part, and were not handed to the owner yet."""
        return self._pn_link.queued  # type: ignore[no-any-return]

    def grant(self, credit: int) -> None:
        """Give the peer that much more link credit (2.6.7)."""
        self.path.flow(self, credit)

    def settle(self, key: int, outcome: Outcome) -> bool:
        """Settle a delivery with an outcome; False if it is no longer known."""
        return self.path.settle(self, key, outcome)  # type: ignore[no-any-return]

    def drain(self) -> None:
        """Ask the peer to use up or give back its credit (2.6.7), and to say so."""
        self.asking += 1
        self._pn_link.drain(0)

    def echo(self, credit: int = 0) -> None:
        """Change the credit, and ask the peer for its view of the link (2.7.4)."""
        self.connection.echo.ask(self, credit)
        self.asking += 1

    def forget_answers(self) -> None:
        """None is awaited any more."""
        self.asking = 0
        if self.connection is not None:
            self.connection.echo.forget(self)

    def answered(self) -> None:
        """The peer has sent a Flow frame for this link."""
        if self.asking:
            self.asking -= 1
            self.handler.link_answer(self._pn_link.drained(),
                                     self.connection.echo.answered(self))

    def _process_credit(self) -> None:
        self.answered()

    def _process_delivery(self, pn_delivery: Any) -> None:
        publicpath.delivery(self, pn_delivery)


class EngineSession(pyngus_link._SessionProxy):  # type: ignore[misc]
    """A session that may stand without links, and knows when the peer ended it."""

    _pn_session: Any
    _connection: Any

    def __init__(self, name: str, connection: Any) -> None:
        self.ended = False
        #: whether the incoming window has a bound: then messages may be larger than it
        self.bounded = False
        super().__init__(name, connection)
        self._outgoing: OutgoingWindow | None = None

    @property
    def outgoing(self) -> OutgoingWindow:
        """The peer's window, once it has told its largest frame."""
        if self._outgoing is None:
            largest = self._connection.pn_transport.remote_max_frame_size or _UNBOUNDED
            self._outgoing = OutgoingWindow(self._pn_session, max(1, largest - _TRANSFER))
        return self._outgoing

    @property
    def links(self) -> int:
        """How many links are open on it."""
        return len(self._links)

    def link_destroyed(self, link: Any) -> None:
        self._links.discard(link)

    def _ep_need_close(self) -> None:
        self.ended = True
        super()._ep_need_close()
        self._pn_session.close()

    def let_go(self) -> None:
        """Cut the cycle through proton's attachments, which is never collected."""
        self._pn_session.context = None
        self._pn_session = None
        self._connection = None
