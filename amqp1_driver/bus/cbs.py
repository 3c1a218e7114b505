# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Claims-based security: tokens that a connection has put, and the node ``$cbs`` that takes them.

After the OASIS working draft "AMQP Claims-based Security" and Azure's "AMQP 1.0 protocol guide".
Bus thread only.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable

from proton import Message, int32

from .behaviour import Schedule
from .endpoints import Endpoints
from .namespace import Namespace
from .sas import BadToken, Grant, Resource, check, resource
from .tracking import tracked

_TYPES = ("servicebus.windows.net:sastoken", "jwt")


class Claims:
    """What one connection may do. ``always``: rights by SASL, for everything and without end."""

    def __init__(self, always: frozenset[str] = frozenset()) -> None:
        self.always = always
        self.grants: dict[Resource, Grant] = {}
        #: No token was ever accepted, and none was needed.
        self.nobody = not always

    def allow(self, path: str, right: str) -> bool:
        """True if a token, or SASL, gives ``right`` on the entity at ``path``."""
        if right in self.always:
            return True
        wanted = Resource("", path)
        return any(r.covers(wanted) and right in g.rights for r, g in self.grants.items())


class ClaimsNode:
    """Handles put-token. ``known(path)`` says whether an entity exists; ``lost(endpoints)`` is
    called when a token has expired; ``call_at`` runs timers on the bus's clock (``clock``),
    while tokens go by ``wall`` (seconds since 1970)."""

    def __init__(
        self,
        namespace: Namespace,
        known: Callable[[str], bool],
        lost: Callable[[Endpoints], None],
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

    def answer(self, endpoints: Endpoints, request: Message) -> Message:
        """Put the token of a request; the reply says what became of it."""
        try:
            self._put(endpoints, request)
        except BadToken as exc:
            return _reply(exc.status, tracked(str(exc)))
        return _reply(202, "Accepted")

    def _put(self, endpoints: Endpoints, request: Message) -> None:
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
        self._grant(endpoints, Resource("", audience.path), grant)

    def _grant(self, endpoints: Endpoints, audience: Resource, grant: Grant) -> None:
        claims: Claims = endpoints.context
        claims.nobody = False
        claims.grants[audience] = grant
        due = self._clock() + grant.expires - self._wall()
        # Tokens are good for hours, connections may be short: no timer keeps one in memory.
        weak = weakref.ref(endpoints)
        self._call_at(due, lambda: self._expire(weak(), audience, grant))

    def _expire(self, endpoints: Endpoints | None, audience: Resource, grant: Grant) -> None:
        """Unless the token was renewed, what it allowed ends now."""
        if endpoints is None:
            return
        claims: Claims = endpoints.context
        if claims.grants.get(audience) is grant:
            del claims.grants[audience]
            self._lost(endpoints)


def _reply(status: int, description: str) -> Message:
    reply = Message()
    reply.properties = {"status-code": int32(status), "status-description": description}
    return reply
