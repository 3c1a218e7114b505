# SPDX-License-Identifier: Apache-2.0

"""The queues, topics and subscriptions of an embedded Service Bus; bus thread only."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from .counters import Counters
from .locks import LockQueue
from .namespace import Namespace
from .sas import resource
from .sessions import Session, SessionQueue
from .timers import Schedule

Q = TypeVar("Q", bound=LockQueue)


class Entities:
    """The entities of a namespace.

    ``queues``: path in lower case -> queue, subscription or dead-letter queue. ``topics``: name in
    lower case -> queues of the subscriptions.

    :param clock: returns the time of the bus's clock in seconds
    :param wall: returns seconds since 1970
    """

    def __init__(
        self,
        namespace: Namespace,
        counters: Counters,
        clock: Callable[[], float],
        wall: Callable[[], float],
        call_at: Schedule,
    ) -> None:
        self.queues: dict[str, LockQueue | SessionQueue] = {}
        self.topics: dict[str, list[LockQueue]] = {}
        self._duration = namespace.lock_duration
        self._max_delivery_count = namespace.max_delivery_count
        self._counters = counters
        self._clock = clock
        self._wall = wall
        self._call_at = call_at
        for name in namespace.queues:
            self._add(name)
        for name in namespace.session_queues:
            self._add_sessions(name)
        for name, subscriptions in namespace.topics.items():
            queues = [self._add(f"{name}/subscriptions/{s}") for s in subscriptions]
            self.topics[name.lower()] = queues

    def depth(self, address: str) -> int:
        """Return the number of messages in a queue, subscription, dead-letter queue or topic."""
        path = resource(address).path
        if path in self.topics:
            return sum(queue.depth for queue in self.topics[path])
        return self.queues[path].depth if path in self.queues else 0

    # -- making them -----------------------------------------------------------

    def _add(self, name: str) -> LockQueue:
        """Create a queue or subscription, with its dead-letter queue."""
        dead = self._add_dead(name)
        queue = self._new(LockQueue, name, lock_duration=self._duration, dead_letters=dead)
        self.queues[name.lower()] = queue
        return queue

    def _add_sessions(self, name: str) -> None:
        dead = self._add_dead(name)

        def new_session(session_id: str) -> Session:
            return self._new(Session, name, lock_duration=math.inf, dead_letters=dead)

        self.queues[name.lower()] = SessionQueue(name, self._duration, new_session)

    def _add_dead(self, name: str) -> LockQueue:
        path = f"{name}/$DeadLetterQueue"
        queue = self._new(LockQueue, path, lock_duration=self._duration, dead_letters=None)
        self.queues[path.lower()] = queue
        return queue

    def _new(self, kind: type[Q], name: str, **options: Any) -> Q:
        return kind(
            name,
            self._counters,
            self._clock,
            self._wall,
            self._call_at,
            max_delivery_count=self._max_delivery_count,
            **options,
        )
