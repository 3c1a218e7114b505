# SPDX-License-Identifier: Apache-2.0

"""The declaration of queues on a bus that creates them for links: ActiveMQ Artemis.

The provisioner attaches a sending link to ``ADDRESS::QUEUE``, and detaches it once the bus has
answered with an Attach.  Lives on the I/O thread.
"""

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

from amqp1_driver.addressing.base import Declaration, Queue
from amqp1_driver.engine.connection import Engine
from amqp1_driver.engine.link import EngineSender
from amqp1_driver.engine.session import EngineSession
from amqp1_driver.interfaces import Scheduler
from amqp1_driver.policy.outcome import Disposition
from amqp1_driver.provisioning.base import DeclaringProvisioner

_CAPABILITY = "topic"


class _Attempt:
    """A sending link whose only purpose is to make the bus create a queue."""

    def __init__(
        self, owner: "AttachProvisioner", declaration: Queue, scheduler: Scheduler, timeout: float
    ) -> None:
        self.link: EngineSender | None = None
        self.declaration = declaration
        self.timer = scheduler.call_later(
            timeout, partial(owner.ended, self, f"no answer within {timeout:g} s")
        )
        self._owner = owner

    def link_attached(self) -> None:
        self._owner.ended(self, None)

    def link_detached(self, name: str | None, description: str | None) -> None:
        self._owner.ended(self, f"{name}: {description}")

    waits = False

    def link_credit(self) -> None:
        """Ignore credit: the link sends nothing."""

    def link_outcome(self, key: Any, disposition: Disposition) -> None:
        """Ignore outcomes: the link sends nothing."""


class AttachProvisioner(DeclaringProvisioner):
    """The provisioner for ActiveMQ Artemis, which deletes its queues itself; see the module."""

    def __init__(self, scheduler: Scheduler, host: str, timeout: float) -> None:
        super().__init__(scheduler, host, timeout)
        self._engine: Engine | None = None
        self._session: EngineSession | None = None
        self._attempts: set[_Attempt] = set()
        self._numbers = count(1)

    def attach(self, engine: Engine, session: Callable[[], EngineSession]) -> None:
        self._engine, self._session = engine, session()
        self._flush()

    def connection_lost(self, cause: BaseException) -> None:
        for attempt in self._attempts:
            attempt.timer.cancel()
        self._attempts.clear()
        self._engine = None
        super().connection_lost(cause)

    def ended(self, attempt: _Attempt, reason: str | None) -> None:
        """End an attempt: the bus has answered, or the request has timed out.

        :param reason: why the queue is not declared; None: the queue is declared
        """
        if attempt not in self._attempts:
            return
        self._attempts.discard(attempt)
        attempt.timer.cancel()
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
            attempt = _Attempt(self, declaration, self._scheduler, self._timeout)
            self._attempts.add(attempt)
            attempt.link = engine.sender(
                session,
                f"declare.{next(self._numbers)}.{declaration.name}",
                declaration.name,
                attempt,
                kind=_CAPABILITY,
            )

    def _describe(self, declaration: Declaration) -> tuple[str, str]:
        assert isinstance(declaration, Queue)
        return declaration.name, "attach"
