# SPDX-License-Identifier: Apache-2.0

"""Claims-based security: the tokens of a connection, and the node ``$cbs`` that accepts them.

The sources are the OASIS working draft "AMQP Claims-based Security" and Azure's "AMQP 1.0 protocol
guide". Bus thread only.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable

from proton import Message, int32

from .engine import Engine
from .namespace import Namespace
from .sas import BadToken, Grant, Resource, check, resource
from .timers import Schedule
from .tracking import tracked

#: Types of tokens that the node accepts. Azure's guide names ``amqp:jwt`` and ``amqp:swt``;
#: Microsoft's SDK sends ``jwt``.
_TYPES = ("servicebus.windows.net:sastoken", "jwt", "amqp:jwt", "amqp:swt")


class Claims:
    """The rights of one connection.

    :param always: rights by SASL, for all entities and without expiry
    """

    def __init__(self, always: frozenset[str] = frozenset()) -> None:
        self.always = always
        self.grants: dict[Resource, Grant] = {}
        #: True while the connection has no rights by SASL and has never put a valid token.
        self.nobody = not always

    def allow(self, path: str, right: str) -> bool:
        """Return whether SASL or a token gives ``right`` on the entity at ``path``."""
        if right in self.always:
            return True
        wanted = Resource("", path)
        return any(r.covers(wanted) and right in g.rights for r, g in self.grants.items())


class ClaimsNode:
    """The node ``$cbs``, which handles put-token.

    :param known: returns whether an entity exists at a path
    :param lost: called with the engine of a connection after one of its tokens has expired
    :param call_at: schedules timers on the bus's clock
    :param clock: the bus's clock, seconds
    :param wall: seconds since 1970, the clock of tokens
    """

    def __init__(
        self,
        namespace: Namespace,
        known: Callable[[str], bool],
        lost: Callable[[Engine], None],
        call_at: Schedule,
        clock: Callable[[], float],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._rules = namespace.known_rules
        self._secret = namespace.jwt_secret
        self._known = known
        self._lost = lost
        self._call_at = call_at
        self._clock = clock
        self._wall = wall

    def answer(self, engine: Engine, request: Message) -> Message:
        """Handle a put-token request; return the reply with the status."""
        try:
            self._put(engine, request)
        except BadToken as exc:
            return _reply(exc.status, tracked(str(exc)))
        return _reply(202, "Accepted")

    def _put(self, engine: Engine, request: Message) -> None:
        properties = request.properties or {}
        operation, kind = properties.get("operation"), properties.get("type")
        name = properties.get("name")
        if operation != "put-token":
            raise BadToken(400, f"BadRequest: unknown operation {operation!r}")
        if kind not in _TYPES:
            raise BadToken(400, f"BadRequest: unknown type of token {kind!r}")
        if not isinstance(name, str) or not name:
            raise BadToken(400, "BadRequest: the application property 'name' is missing")
        if not isinstance(request.body, str):
            raise BadToken(400, "BadRequest: the token must be an amqp-value string")
        audience = resource(name)
        grant = check(request.body, self._rules, self._secret, self._wall())
        if not grant.scope.covers(audience):
            raise BadToken(401, f"InvalidAudience: The token is not for {name}")
        if audience.path and not self._known(audience.path):
            raise BadToken(404, f"The messaging entity '{name}' could not be found.")
        self._grant(engine, Resource("", audience.path), grant)

    def _grant(self, engine: Engine, audience: Resource, grant: Grant) -> None:
        claims: Claims = engine.context
        claims.nobody = False
        claims.grants[audience] = grant
        due = self._clock() + grant.expires - self._wall()
        # A token may be valid for hours while its connection is short: the weak reference keeps the
        # timer from holding the connection in memory.
        weak = weakref.ref(engine)
        self._call_at(due, lambda: self._expire(weak(), audience, grant))

    def _expire(self, engine: Engine | None, audience: Resource, grant: Grant) -> None:
        """Remove the grant of an expired token, unless a newer token has replaced it."""
        if engine is None:
            return
        claims: Claims = engine.context
        if claims.grants.get(audience) is grant:
            del claims.grants[audience]
            self._lost(engine)


def _reply(status: int, description: str) -> Message:
    reply = Message()
    reply.properties = {"status-code": int32(status), "status-description": description}
    return reply
