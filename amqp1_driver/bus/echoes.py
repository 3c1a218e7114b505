# SPDX-License-Identifier: Apache-2.0

"""Answers to flow echo requests (AMQP 1.0, 2.7.4), which ask for the state of a link or a session.

Proton does not report such a request. This module finds it in the received bytes. It makes the
answer out of a Flow frame that it causes proton to write. Bus thread only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cproton import (
    PN_LOCAL_ACTIVE,
    PN_REMOTE_ACTIVE,
    pn_link_drain,
    pn_link_flow,
    pn_link_session,
    pn_link_state,
    pn_session_get_incoming_capacity,
    pn_session_set_incoming_capacity,
    pn_session_state,
)

from amqp1_driver.flowframe import EchoRequests, drain_to_state, handles

from .links import Consumer, Link

_OPEN = PN_LOCAL_ACTIVE | PN_REMOTE_ACTIVE
#: Maximum number of links whose outgoing Attach frame has not been seen.
_UNNAMED = 1000
#: Number of output chunks to search for an Attach frame; the frame is in the next chunk or two.
_LOOKS = 8


class Echoes:
    """The flow echo requests of one client, and the data needed to answer them."""

    def __init__(self) -> None:
        self._questions = EchoRequests()
        self._about_link = self._about_session = False
        #: Links on which a Flow frame has arrived since the request.
        self._heard: dict[Link, None] = {}
        #: By name: links on which the bus sends and whose handle is not yet known.
        self._unnamed: dict[bytes, Consumer] = {}
        #: Number of output chunks still to search for the Attach frames of these links.
        self._looks = 0

    @property
    def asked(self) -> bool:
        """Return whether a request waits for its answer."""
        return self._about_link or self._about_session

    def read(self, data: bytes) -> None:
        """Search the next received bytes for requests."""
        for question in self._questions.read(data):
            self._about_link |= question
            self._about_session |= not question

    def heard(self, link: Link) -> None:
        """Record a link whose Flow frame was in the received bytes."""
        if self.asked:
            self._heard[link] = None

    def attached(self, consumer: Consumer) -> None:
        """Record a link whose Attach frame is about to be sent."""
        if len(self._unnamed) < _UNNAMED:
            self._unnamed[consumer.name.encode()] = consumer
            self._looks = _LOOKS

    def sending(self, data: bytearray) -> None:
        """Search outgoing bytes for the handles of links."""
        if not self._unnamed:
            return
        for name, number in handles(bytes(data), sender=True).items():
            consumer = self._unnamed.pop(name, None)
            if consumer is not None:
                consumer.handle = number
        self._looks -= 1
        if self._looks <= 0:
            self._unnamed.clear()

    def answer(self, sessions: list[Any], pull: Callable[[], bytes]) -> bytes:
        """Answer the pending requests.

        After a request about a link, each link on which a Flow frame has arrived since then gets an
        answer. After a request about a session, each session gets an answer.

        :param sessions: proton's sessions of the connection
        :param pull: takes all output from proton
        :returns: bytes to send before all other output
        """
        links, self._heard = self._heard, {}
        add_link_state, about_session = self._about_link, self._about_session
        self._about_link = self._about_session = False
        output = b""
        for link in links if add_link_state else ():
            session = pn_link_session(link.impl) if not link.closed else None
            if session is None or not _open(pn_link_state(link.impl), pn_session_state(session)):
                continue
            before = pull()
            if isinstance(link, Consumer):
                _write(session)
                answer = link.drain_to_state(pull())
            else:
                pn_link_drain(link.impl, 0)  # proton writes a Flow frame
                answer = drain_to_state(pull())
                pn_link_flow(link.impl, 0)  # proton ends the drain mode
            output += before + answer
        for session in sessions if about_session else ():
            if _open(pn_session_state(session)):
                output += pull()
                _write(session)
                output += pull()
        return output


def _open(*states: int) -> bool:
    return all(state & _OPEN == _OPEN for state in states)


def _write(session: Any) -> None:
    """Make proton write a Flow frame about a session.

    Setting the session window to its present value has this effect.
    """
    pn_session_set_incoming_capacity(session, pn_session_get_incoming_capacity(session))
