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

"""Which session a link is opened on.  Lives on the I/O thread."""

from amqp1_driver.protocol.engine import Engine
from amqp1_driver.protocol.engine_link import EngineSession

#: RabbitMQ ends a session at its 257th link, and proton, here as in many peers, looks through
#: all links of a session at each attach
LINKS_PER_SESSION = 200


class Sessions:
    """Hands out sessions: one or more for senders, the same for receivers.

    A session that the peer ended is replaced at the next request.

    :param one: for all alike, as long as there is room on it
    """

    def __init__(self, engine: Engine, per_receiver: bool, limit: int, one: bool = False) -> None:
        self._engine = engine
        self._receivers_each = 1 if per_receiver else LINKS_PER_SESSION
        # one is the reply link's and management's
        self._limit = limit - 1
        self._shared: dict[str, EngineSession] = {}
        self._senders: list[EngineSession] = []
        self._receivers: list[EngineSession] = self._senders if one else []
        self._one = one

    def shared(self, use: str) -> EngineSession:
        if self._one:
            return self.for_receiver()
        session = self._shared.get(use)
        if session is None or session.ended:
            session = self._shared[use] = self._engine.session()
        return session

    def for_sender(self) -> EngineSession:
        self._forget_ended()
        return self._chosen(self._senders, LINKS_PER_SESSION,
                            self._limit - len(self._receivers))

    def for_receiver(self) -> EngineSession:
        self._forget_ended()
        # one is left for senders
        return self._chosen(self._receivers, self._receivers_each,
                            self._limit - max(1, len(self._senders)))

    def _forget_ended(self) -> None:
        self._senders[:] = [s for s in self._senders if not s.ended]
        self._receivers[:] = [s for s in self._receivers if not s.ended]

    def _chosen(self, sessions: list[EngineSession], each: int, limit: int) -> EngineSession:
        free = next((s for s in sessions if s.links < each), None)
        if free is not None:
            return free
        if not sessions or len(sessions) < limit:
            sessions.append(self._engine.session())
            return sessions[-1]
        return min(sessions, key=lambda s: s.links)
