# SPDX-License-Identifier: Apache-2.0


"""Azure Service Bus, as its documentation has it, on top of a scripted peer."""

from __future__ import annotations

from typing import Any

from amqp1_driver.policy.tokens import Token
from amqp1_driver.testing import reactions
from amqp1_driver.testing.messages import Message, Properties
from amqp1_driver.testing.peer import Event, Link
from amqp1_driver.testing.wire import Long, Symbol, Timestamp

from .world import World

REPLY = "openstack--reply"
MANAGEMENT = f"{REPLY}/$management"
LOCKED_UNTIL = Symbol("com.microsoft:locked-until-utc")
HOST = "sb://host0/"


class Source:
    """Tokens that live for so long by the clock of the world.

    ``error``: what is told instead; ``held``: requests that are not answered while ``hold``.
    """

    def __init__(self, world: World, life: float) -> None:
        self.wall_clock = world.clock
        self.life = life
        self.asked: list[str] = []
        self.error: Exception | None = None
        self.hold = False
        self.held: list[tuple[str, Any]] = []

    def fetch(self, resource: str, done: Any) -> None:
        self.asked.append(resource)
        if self.hold:
            self.held.append((resource, done))
        else:
            done(self.error or self.token(resource))

    def token(self, resource: str) -> Token:
        return Token(f"token for {resource}", "jwt", self.wall_clock() + self.life)


class Azure:
    """Entities, ``$cbs``, and links that are dropped when their token expires.

    :param entities: that are there; None: all that are asked for

    ``answers``: status and description by resource, None for no answer. ``lock``: seconds for
    which a session is locked, None = it does not say. ``renewals``: sessions whose lock was
    renewed, which ``renew`` may refuse by its status.
    """

    def __init__(
        self,
        world: World,
        entities: set[str] | None = None,
        life: float = 3600.0,
        *,
        tokens: bool = True,
    ) -> None:
        self.world = world
        self.entities = entities
        self.source = Source(world, life)
        world.port.tokens = self.source if tokens else None
        self.wanted = tokens
        #: resource -> when its token expires
        self.good: dict[str, float] = {}
        self.puts: list[Message] = []
        self.answers: dict[str, tuple[int, str] | None] = {}
        self.late: list[tuple[Event, Message]] = []
        self.lock: float | None = 300.0
        self.renew = 200
        self.renewals: list[str] = []
        rules = world.peer.override(None)
        rules.expect_attach().call(self._attach)
        world.peer.override(None).expect_transfer(address="$cbs").call(self._serve)
        world.peer.override(None).expect_transfer(address=MANAGEMENT).call(self._manage)

    def _attach(self, event: Event) -> None:
        link = event.link
        assert link is not None
        address = link.address or ""
        if address in ("$cbs", MANAGEMENT):
            reactions.respond(event)
        elif (
            self.lock is not None
            and address == REPLY
            and not link.client_sends
            and self.allowed(address)
            and (self.entities is None or address in self.entities)
        ):
            reactions.respond(event, properties={LOCKED_UNTIL: self._ticks()})
        elif self.wanted and not self.allowed(address):
            reactions.refuse(event, "amqp:unauthorized-access", "no token")
        elif self.entities is not None and address not in self.entities:
            reactions.refuse(event, "amqp:not-found", f"entity {address} could not be found")
        else:
            reactions.respond(event)

    def _ticks(self) -> Long:
        """Since the year 1, in tenths of a microsecond."""
        assert self.lock is not None
        return Long(621355968000000000 + round((self.world.clock() + self.lock) * 10000000))

    def _manage(self, event: Event) -> None:
        assert event.transfer is not None and event.session is not None
        message = event.transfer.message
        reactions.respond(event)
        assert message.application_properties == {"operation": "com.microsoft:renew-session-lock"}
        self.renewals.append(message.body["session-id"])
        back = next(
            link
            for link in event.session.links.values()
            if link.attach.target.address == message.properties.reply_to
        )
        end = round((self.world.clock() + (self.lock or 0.0)) * 1000)
        reactions.transfer(
            back,
            Message(
                {"expiration": Timestamp(end)} if self.renew < 300 else None,
                properties=Properties(correlation_id=message.properties.message_id),
                application_properties={"statusCode": self.renew, "statusDescription": "as said"},
            ),
        )

    def allowed(self, address: str) -> bool:
        now = self.world.clock()
        return any(self.good.get(resource, 0) > now for resource in (HOST + address, HOST))

    def expire(self) -> World:
        """Drop the links whose token has expired."""
        for link in self.open_links():
            if not self.allowed(link.address or ""):
                reactions.detach(link, "amqp:unauthorized-access", "expired")
        return self.world.run()

    def open_links(self) -> list[Link]:
        return [
            link
            for link in self.world.peer.links
            if not link.detached and link.address not in ("$cbs", MANAGEMENT)
        ]

    def _serve(self, event: Event) -> None:
        assert event.transfer is not None
        message = event.transfer.message
        self.puts.append(message)
        reactions.respond(event)
        given = message.application_properties
        answer = self.answers.get(given["name"], (202, "Accepted"))
        if answer is None:
            self.late.append((event, message))
        else:
            self._answer(event, message, *answer)

    def _answer(self, event: Event, message: Message, status: int, text: str) -> None:
        given = message.application_properties
        if status < 300:
            self.good[given["name"]] = given["expiration"] / 1000
        assert event.session is not None
        back = next(
            link
            for link in event.session.links.values()
            if link.attach.target.address == message.properties.reply_to
        )
        assert back.credit > 0
        reactions.transfer(
            back,
            Message(
                None,
                properties=Properties(correlation_id=message.properties.message_id),
                application_properties={"status-code": status, "status-description": text},
            ),
        )

    def answer_late(self, status: int = 202, text: str = "Accepted") -> World:
        late, self.late = self.late, []
        for event, message in late:
            self._answer(event, message, status, text)
        return self.world.run()

    @property
    def names(self) -> list[str]:
        """Resources for which tokens were put."""
        return [message.application_properties["name"] for message in self.puts]


def azure(
    path: Any = None,
    entities: set[str] | None = None,
    life: float = 3600.0,
    *,
    tokens: bool = True,
    **kw: Any,
) -> tuple[World, Azure]:
    """A world whose peer says nothing of itself, as Service Bus; not started."""
    kw = {"addressing_mode": "servicebus", **kw}
    world = World(path, peer={"product": "", "version": "", "offered_capabilities": ()}, **kw)
    return world, Azure(world, entities, life, tokens=tokens)
