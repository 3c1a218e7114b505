# SPDX-License-Identifier: Apache-2.0
"""The steps of a script: expectations and the reactions to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from amqp1_driver.testing import reactions
from amqp1_driver.testing.state import DERIVED, Event
from amqp1_driver.wire import performatives as p

if TYPE_CHECKING:
    from amqp1_driver.testing.core import PeerCore
    from amqp1_driver.testing.script import Script

Reaction = Callable[[Event], object]


@dataclass(frozen=True)
class Action:
    """A step that the peer takes itself once ``ready`` returns true; ``what`` names the step."""

    what: str
    ready: Callable[[PeerCore], object]
    run: Callable[[PeerCore], object]

    def __str__(self) -> str:
        return self.what


class Step:
    """A step that waits for one frame and reacts to it.

    Each method such as :meth:`respond` or :meth:`drop` adds a reaction; the reactions run in the
    order of the calls. Without a reaction the peer sends no answer. A reaction that is added after
    the arrival of the frame runs at once.
    """

    def __init__(self, kind: type, match: dict[str, Any], times: int | None = 1) -> None:
        known = set(kind.field_names()) if issubclass(kind, p.Composite) else {"protocol"}
        if unknown := set(match) - known - DERIVED:
            raise TypeError(f"{kind.__name__} has no field {', '.join(sorted(unknown))}")
        self.kind = kind
        self.match = match
        self.times = times
        self.reactions: list[Reaction] = []
        self.script: Script | None = None  # the script that has this step
        self._ran: list[Event] = []

    def mismatch(self, event: Event) -> str | None:
        """Return why an event of the right kind does not match; None if it matches."""
        for name, wanted in self.match.items():
            found = event.lookup(name)
            if name == "role" and isinstance(wanted, bool):
                wanted = "receiver" if wanted else "sender"
            if not (wanted(found) if callable(wanted) else wanted == found):
                return f"{self.kind.__name__}.{name} is {found!r}, expected {wanted!r}"
        return None

    def run(self, event: Event) -> None:
        """Run the reactions to an event."""
        self._ran.append(event)
        for reaction in self.reactions:
            reaction(event)

    def call(self, reaction: Reaction) -> Self:
        """Add a reaction: a function of the Event, whose exceptions fail the script."""
        if self.script is None:
            self.reactions.append(reaction)
        else:
            self.script.late(lambda: self._append(reaction))
        return self

    def _append(self, reaction: Reaction) -> None:
        """Add a reaction and run it for frames that came before it, so that there is no race."""
        self.reactions.append(reaction)
        for event in self._ran:
            reaction(event)

    def respond(self, **overrides: Any) -> Self:
        """Send the regular answer, with other values for fields of the answering frame.

        open: also product, version, properties; attach: also credit (granted and topped up) and
        address (the dynamic one); SASL header: mechanisms; sasl-init: outcome.
        """
        return self.call(lambda event: reactions.respond(event, **overrides))

    def send(self, performative: Any, payload: bytes = b"", channel: int = 0) -> Self:
        """Send a frame unchanged."""
        return self.call(lambda event: event.core.send(performative, channel, payload))

    def raw(self, data: bytes) -> Self:
        """Send bytes unchanged."""
        return self.call(lambda event: event.core.raw(data))

    def end_session(self, condition: str | None = None, description: str | None = None) -> Self:
        """End the session of the frame."""

        def react(event: Event) -> None:
            if event.session is not None:
                reactions.end(event.session, condition, description)

        return self.call(react)

    def close(self, condition: str | None = None, description: str | None = None) -> Self:
        """Close the connection with an AMQP close."""
        err = reactions.error(condition, description)
        return self.call(lambda event: event.core.send(p.Close(error=err)))

    def finish(self) -> Self:
        """Close the TCP connection in order, without an AMQP close."""
        return self.call(lambda event: event.core.finish())

    def drop(self) -> Self:
        """Reset the TCP connection."""
        return self.call(lambda event: event.core.drop())

    def silence(self) -> Self:
        """Neither answer nor read from here on; the TCP connection stays up."""
        return self.call(lambda event: setattr(event.core, "silent", True))

    def __str__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.match.items())
        return f"{self.kind.__name__}({fields})"


class LinkStep(Step):
    """A step for frames of one link."""

    def detach(
        self,
        condition: str | None = None,
        description: str | None = None,
        *,
        closed: bool = True,
    ) -> Self:
        """Detach the link."""

        def react(event: Event) -> None:
            if event.link is not None:
                reactions.detach(event.link, condition, description, closed=closed)

        return self.call(react)


class AttachStep(LinkStep):
    """A step for attach."""

    def refuse(self, condition: str, description: str | None = None) -> Self:
        """Refuse the link: attach with a null terminus, then detach with the error (2.6.3)."""
        return self.call(lambda event: reactions.refuse(event, condition, description))

    def grant(self, credit: int) -> Self:
        """Grant the client's sender exactly this credit, without topping it up."""

        def react(event: Event) -> None:
            if event.link is not None:
                event.link.window = 0
                reactions.grant(event.link, credit)

        return self.call(react)


class TransferStep(LinkStep):
    """A step for a whole delivery of the client."""

    def settle(self, state: Any, *, settled: bool = True) -> Self:
        """Send ``state`` as the outcome of the delivery."""

        def react(event: Event) -> None:
            if event.transfer is not None:
                reactions.settle(event.transfer, state, settled=settled)

        return self.call(react)

    def accept(self) -> Self:
        """Settle the delivery as ACCEPTED."""
        return self.settle(p.Accepted())

    def reject(self, condition: str | None = None, description: str | None = None) -> Self:
        """Settle the delivery as REJECTED."""
        return self.settle(p.Rejected(error=reactions.error(condition, description)))

    def release(self) -> Self:
        """Settle the delivery as RELEASED."""
        return self.settle(p.Released())

    def modify(self, failed: bool | None = None, undeliverable: bool | None = None) -> Self:
        """Settle the delivery as MODIFIED."""
        return self.settle(p.Modified(delivery_failed=failed, undeliverable_here=undeliverable))

    def hold(self) -> Self:
        """Send no outcome now; the test sends the outcome later with ``settle`` of the peer."""
        return self
