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

"""Declares queues on a bus that creates them for the links that ask: ActiveMQ Artemis.

A sending link to ``ADDRESS::QUEUE`` is attached, and closed once the bus has confirmed it.
Lives on the I/O thread.
"""

from functools import partial
from typing import Any

from amqp1_driver.addressing.base import Declaration, Queue
from amqp1_driver.policy.outcome import Disposition
from amqp1_driver.protocol.engine import Engine
from amqp1_driver.protocol.engine_link import EngineSender, EngineSession
from amqp1_driver.protocol.link import Cancellable
from amqp1_driver.protocol.provision import Provisioner

_CAPABILITY = "topic"


class _Attempt:
    """One link that makes the bus create a queue."""

    def __init__(self, owner: "AttachProvisioner", declaration: Declaration) -> None:
        self.link: EngineSender | None = None
        self.timer: Cancellable | None = None
        self.declaration = declaration
        self._owner = owner

    def cancel(self) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def link_attached(self) -> None:
        self._owner.ended(self, None)

    def link_detached(self, name: str | None, description: str | None) -> None:
        self._owner.ended(self, f"{name}: {description}")

    def link_credit(self) -> None:
        """Nothing is sent."""

    def link_outcome(self, key: Any, disposition: Disposition) -> None:
        """Nothing is sent."""


class AttachProvisioner(Provisioner):
    """See the module, and :class:`Provisioner`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._engine: Engine | None = None
        self._session: EngineSession | None = None
        self._attempts: set[_Attempt] = set()

    def attach(self, engine: Engine, session: EngineSession) -> None:
        self._engine, self._session = engine, session
        self._flush()

    def connection_lost(self, cause: BaseException) -> None:
        for attempt in self._attempts:
            attempt.cancel()
        self._attempts.clear()
        self._engine = None
        super().connection_lost(cause)

    def ended(self, attempt: _Attempt, reason: str | None) -> None:
        """The bus has answered, or it is too late."""
        if attempt not in self._attempts:
            return
        self._attempts.discard(attempt)
        attempt.cancel()
        if attempt.link is not None:
            attempt.link.release()
        if reason is None:
            self._declared(attempt.declaration)
        else:
            self._refused(attempt.declaration, reason)

    def _flush(self) -> None:
        engine, session = self._engine, self._session
        while self._queue and engine is not None and session is not None:
            declaration = self._queue.popleft()
            assert isinstance(declaration, Queue)
            self._ids += 1
            attempt = _Attempt(self, declaration)
            attempt.timer = self._scheduler.call_later(
                self._timeout,
                partial(self.ended, attempt, f"no answer within {self._timeout:g} s"))
            self._attempts.add(attempt)
            attempt.link = engine.sender(session, f"declare.{self._ids}.{declaration.name}",
                                         declaration.name, attempt, kind=_CAPABILITY)

    def _named(self, declaration: Declaration) -> tuple[str, str]:
        assert isinstance(declaration, Queue)
        return declaration.name, "attach"
