# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of scripts: expectations, actions and waits."""

from __future__ import annotations

from typing import Any

from amqp1_driver.testing import reactions
from amqp1_driver.testing.core import PeerCore
from amqp1_driver.testing.script import Script, StepT
from amqp1_driver.testing.state import (
    Disconnect,
    Heartbeat,
    Link,
    LogEntry,
    ReceivedTransfer,
    Session,
)
from amqp1_driver.testing.steps import AttachStep, LinkStep, Step, TransferStep
from amqp1_driver.wire import performatives as p
from amqp1_driver.wire.frames import Header
from amqp1_driver.wire.messages import Message


class Expectations:
    """The expectations of a script: one method per frame that a client sends.

    The arguments are fields of the frame by their names in the specification. Each is a value,
    compared for equality, or a predicate on the value. ``source`` and ``target`` are compared by
    their address. ``role`` is the client's, "sender" or "receiver". Derived fields: ``address`` (of
    the link; of the message on an anonymous link), ``link`` (name), ``body``, ``message``,
    ``dynamic``, ``condition``.
    """

    def _put(self, step: StepT) -> StepT:
        raise NotImplementedError

    def expect_header(self, protocol: int | None = None) -> Step:
        """Expect a protocol header: 0 AMQP, 3 SASL."""
        match = {} if protocol is None else {"protocol": protocol}
        return self._put(Step(Header, match))

    def expect_sasl_init(self, **match: Any) -> Step:
        """Expect a sasl-init, e.g. by mechanism, initial_response, hostname."""
        return self._put(Step(p.SaslInit, match))

    def expect_open(self, **match: Any) -> Step:
        """Expect an open, e.g. by container_id, hostname, idle_time_out."""
        return self._put(Step(p.Open, match))

    def expect_begin(self, **match: Any) -> Step:
        """Expect a begin, e.g. by remote_channel, incoming_window."""
        return self._put(Step(p.Begin, match))

    def expect_attach(self, **match: Any) -> AttachStep:
        """Expect an attach, by name, role, source, target, address, dynamic, snd_settle_mode ..."""
        return self._put(AttachStep(p.Attach, match))

    def expect_flow(self, **match: Any) -> LinkStep:
        """Expect a flow, e.g. by link_credit, drain, address; skip a flow that does not fit."""
        return self._put(LinkStep(p.Flow, match))

    def expect_transfer(self, **match: Any) -> TransferStep:
        """Expect a whole delivery, e.g. by address, body, settled, delivery_tag."""
        return self._put(TransferStep(p.Transfer, match))

    def expect_disposition(self, **match: Any) -> Step:
        """Expect a disposition by role, first, last, settled, state."""
        return self._put(Step(p.Disposition, match))

    def expect_detach(self, **match: Any) -> LinkStep:
        """Expect a detach by link, address, closed, condition; also an answer to our own detach."""
        return self._put(LinkStep(p.Detach, match))

    def expect_end(self, **match: Any) -> Step:
        """Expect an end, e.g. by condition."""
        return self._put(Step(p.End, match))

    def expect_close(self, **match: Any) -> Step:
        """Expect a close, e.g. by condition."""
        return self._put(Step(p.Close, match))

    def expect_heartbeat(self) -> Step:
        """Expect an empty frame (2.4.5)."""
        return self._put(Step(Heartbeat, {}))

    def expect_disconnect(self) -> Step:
        """Expect the client to close or reset the TCP connection."""
        return self._put(Step(Disconnect, {}))


class Scenes(Expectations):
    """Expectations of several steps at once."""

    def _sasl(self, mechanism: str, initial_response: Any = None) -> Step:
        self.expect_header(3).respond(mechanisms=(mechanism,))
        match = {} if initial_response is None else {"initial_response": initial_response}
        self.expect_sasl_init(mechanism=mechanism, **match).respond(outcome=0)
        return self.expect_header(0).respond()

    def expect_sasl_anonymous(self) -> Step:
        """Expect SASL with ANONYMOUS alone, then the AMQP header."""
        return self._sasl("ANONYMOUS")

    def expect_sasl_external(self) -> Step:
        """Expect SASL with EXTERNAL alone, then the AMQP header."""
        return self._sasl("EXTERNAL")

    def expect_sasl_plain(self, user: str, password: str) -> Step:
        """Expect SASL with PLAIN alone and these credentials (RFC 4616), then the AMQP header."""
        wanted = f"{user}\0{password}".encode()
        return self._sasl("PLAIN", lambda got: got is not None and got.split(b"\0", 1)[1] == wanted)

    def reject_sasl(self, code: int = 1, *mechanisms: str) -> Step:
        """Answer the first sasl-init with a failure (5.3.3.6: 1 auth ... 4 sys-temp); close."""
        self.expect_header(3).respond(mechanisms=mechanisms or ("ANONYMOUS", "PLAIN"))
        return self.expect_sasl_init().respond(outcome=code)

    def expect_connection(self, **open_overrides: Any) -> Step:
        """Expect SASL ANONYMOUS, open and begin, and answer all of them."""
        self.expect_sasl_anonymous()
        self.expect_open().respond(**open_overrides)
        return self.expect_begin().respond()


class Rules(Expectations):
    """Deviations from the regular answers: see ``Peer.override``."""

    def __init__(self, script: Script, times: int | None) -> None:
        self._script = script
        self._times = times

    def _put(self, step: StepT) -> StepT:
        step.times = self._times
        return self._script.rule(step)


class Actions:
    """Actions of the peer itself.

    An action has its place in the script; it runs at once if no step is before it. The action
    affects the newest connection. A link argument is a Link, a name, an address, or None for the
    link attached last. The action waits for the steps before it and until its link is attached. A
    transfer also waits for credit.
    """

    script: Script

    def grant(self, credit: int, link: Link | str | None = None) -> None:
        """Set the credit of a link on which the client sends."""

        def run(core: PeerCore) -> None:
            found = _link(core, link)
            found.window = 0
            reactions.grant(found, credit)

        self.script.act(f"grant({credit}, {link!r})", run, lambda core: core.find_link(link))

    def send_transfer(
        self,
        link: Link | str | None,
        message: bytes | Message,
        *,
        ignore_credit: bool = False,
        **fields: Any,
    ) -> None:
        """Send a delivery to the client; ``fields`` as in ``reactions.transfer`` (settled ...)."""

        def ready(core: PeerCore) -> bool:
            found = core.find_link(link)
            if found is None or found.client_sends:
                return False
            return ignore_credit or (found.credit > 0 and found.session.remote_window > 0)

        self.script.act(
            f"send_transfer({link!r}) with credit and session window",
            lambda core: reactions.transfer(_link(core, link), message, **fields),
            ready,
        )

    def settle(
        self,
        transfer: ReceivedTransfer | int = -1,
        state: Any = None,
        *,
        settled: bool = True,
    ) -> None:
        """Send the outcome (default Accepted) of a held delivery.

        :param transfer: the delivery, or its index in ``transfers``
        """
        transfers, outcome = self.script.transfers, p.Accepted() if state is None else state

        def find() -> ReceivedTransfer | None:
            if isinstance(transfer, ReceivedTransfer):
                return transfer
            enough = len(transfers) > (transfer if transfer >= 0 else -transfer - 1)
            return transfers[transfer] if enough else None

        def run(core: PeerCore) -> None:
            found = find()
            assert found is not None
            reactions.settle(found, outcome, settled=settled)

        self.script.act(f"settle({transfer})", run, lambda core: find())

    def flow(self, link: Link | str | None = None, **fields: Any) -> None:
        """Send a flow on a link with these fields (incoming_window=0 blocks the session)."""

        def run(core: PeerCore) -> None:
            found = _link(core, link)
            if "incoming_window" in fields:
                found.session.window = fields["incoming_window"]
            core.flow(found.session, found, **fields)

        self.script.act(f"flow({link!r})", run, lambda core: core.find_link(link))

    def remote_detach(
        self,
        link: Link | str | None = None,
        condition: str | None = None,
        description: str | None = None,
        *,
        closed: bool = True,
    ) -> None:
        """Detach a link."""
        self.script.act(
            f"remote_detach({link!r})",
            lambda core: reactions.detach(_link(core, link), condition, description, closed=closed),
            lambda core: core.find_link(link),
        )

    def end_session(
        self,
        channel: int | None = None,
        condition: str | None = None,
        description: str | None = None,
    ) -> None:
        """End the session on the client's ``channel``; None is the newest."""
        self.script.act(
            f"end_session({channel})",
            lambda core: reactions.end(_session(core, channel), condition, description),
            lambda core: core.sessions if channel is None else channel in core.sessions,
        )

    def close(self, condition: str | None = None, description: str | None = None) -> None:
        """Send an AMQP close."""
        self.script.act(
            "close",
            lambda core: core.send(p.Close(error=reactions.error(condition, description))),
            lambda core: core.remote_open is not None,
        )

    def drop(self) -> None:
        """Reset the TCP connection."""
        self.script.act("drop", lambda core: core.drop())

    def drop_after_bytes(self, count: int, *, received: bool = True) -> None:
        """Reset the connection after ``count`` more bytes received from or sent to the client."""
        self.script.act("drop_after_bytes", lambda core: core.drop_after(count, received))

    def silence(self) -> None:
        """Neither answer nor read on this connection any more; TCP stays up."""
        self.script.act("silence", lambda core: setattr(core, "silent", True))

    def raw(self, data: bytes) -> None:
        """Send bytes unchanged."""
        self.script.act("raw", lambda core: core.raw(data))

    def send(self, performative: Any, payload: bytes = b"", channel: int = 0) -> None:
        """Send a frame unchanged."""
        self.script.act("send", lambda core: core.send(performative, channel, payload))


def _link(core: PeerCore, which: Link | str | None) -> Link:
    link = core.find_link(which)
    assert link is not None, which
    return link


def _session(core: PeerCore, channel: int | None) -> Session:
    return core.sessions[next(reversed(core.sessions)) if channel is None else channel]


class Waits:
    """Methods that wait for events of the peer and raise PeerFailure after ``timeout`` seconds.

    Every wait raises the failure of the script as soon as there is one.
    """

    script: Script

    def wait_done(self, timeout: float = 10.0) -> None:
        """Wait until every step has run."""
        script = self.script
        script.wait_for(
            lambda: not script.steps,
            timeout,
            lambda: "still to come: " + "; ".join(str(step) for step in script.steps),
        )

    def wait_transfers(self, count: int, timeout: float = 10.0) -> list[ReceivedTransfer]:
        """Wait until the client has sent ``count`` deliveries."""
        script = self.script
        script.wait_for(
            lambda: len(script.transfers) >= count,
            timeout,
            lambda: f"{len(script.transfers)} of {count} transfers",
        )
        return list(script.transfers)

    def wait_link(self, link: str | None = None, timeout: float = 10.0) -> Link:
        """Wait until a link with that name or address is attached on the newest connection."""
        found = self.script.wait_for(
            lambda: self.script.core and self.script.core.find_link(link),
            timeout,
            f"no link {link!r}",
        )
        assert isinstance(found, Link)
        return found

    def wait_frames(self, kind: Any, count: int = 1, timeout: float = 10.0) -> list[LogEntry]:
        """Wait until the client has sent ``count`` frames of a class (None: empty frames)."""
        self.script.wait_for(
            lambda: len(self.frames(kind)) >= count,
            timeout,
            lambda: f"{len(self.frames(kind))} of {count} {getattr(kind, '__name__', 'empty')}",
        )
        return self.frames(kind)

    def wait_connections(self, count: int, timeout: float = 10.0) -> None:
        """Wait until the peer has accepted ``count`` TCP connections in all."""
        self.script.wait_for(
            lambda: len(self.script.cores) >= count,
            timeout,
            lambda: f"{len(self.script.cores)} of {count} connections",
        )

    def wait_disconnected(self, timeout: float = 10.0) -> None:
        """Wait until no client is connected."""
        self.script.wait_for(
            lambda: all(core.lost for core in self.script.cores), timeout, "still connected"
        )

    def wait_settled(self, count: int, timeout: float = 10.0) -> None:
        """Wait until the client has settled ``count`` of the deliveries sent to it."""
        self.script.wait_for(
            lambda: sum(item.settled for item in self.script.sent) >= count,
            timeout,
            lambda: f"settled: {[(item.delivery_id, item.state) for item in self.script.sent]}",
        )

    def frames(self, kind: Any) -> list[LogEntry]:
        """Return the frames of that class from the client (None: empty frames)."""
        with self.script.changed:
            return [
                entry
                for entry in self.script.log
                if entry.incoming
                and (
                    entry.performative is None
                    if kind is None
                    else isinstance(entry.performative, kind)
                )
            ]
