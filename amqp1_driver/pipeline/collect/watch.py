# SPDX-License-Identifier: Apache-2.0

"""Periodic checks for events without a callback. The collector's thread.

Such events are: another process owns the spool, or the bus refuses an address for good.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from amqp1_driver import exceptions
from amqp1_driver.client.client import Client
from amqp1_driver.connection.subscription import Subscription

#: seconds between two checks, none of which is urgent; no wait of the collector is longer
EVERY = 5.0


class Refusal(NamedTuple):
    """A link that the bus has refused or detached, while the connection is up."""

    host: str
    address: str | None
    problem: exceptions.AmqpError


def refusals(subscription: Subscription | None) -> list[Refusal]:
    """Return the links of a subscription that the bus refuses now. Any thread."""
    receivers = subscription.receivers if subscription is not None else []
    return [
        Refusal(receiver.host, receiver.address, problem)
        for receiver in receivers
        if (problem := receiver.problem) is not None and not receiver.attached
    ]


def check_alive(client: Client) -> None:
    """Check that the client's I/O thread lives.

    :raises LoopDied: the thread has died
    """
    if client.dead:
        raise exceptions.LoopDied(exceptions.LoopDied.summary)


class Watch:
    """A runner of checks every few seconds. The collector's thread.

    :param checks: functions that raise an error if the collector cannot go on
    :param refused: returns the links that the bus refuses now
    :param limit: seconds for which the bus may refuse an address without a pause; 0: for ever
    """

    def __init__(
        self,
        checks: Iterable[Callable[[], object]],
        refused: Callable[[], Iterable[Refusal]],
        limit: float,
    ) -> None:
        self._checks = tuple(checks)
        self._refused = refused
        self._limit = limit
        self._since: dict[str | None, float] = {}
        self._next = 0.0

    def look(self) -> None:
        """Run all checks, unless the last run was less than :data:`EVERY` seconds ago.

        :raises Exception: the error of a check
        :raises LinkFailed: the bus has refused an address for too long
        """
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + EVERY
        for check in self._checks:
            check()
        found = {refusal.address: refusal for refusal in self._refused()}
        self._since = {address: self._since.get(address, now) for address in found}
        for address, since in self._since.items():
            if self._limit and now - since >= self._limit:
                raise self._error(found[address])

    def _error(self, refusal: Refusal) -> exceptions.LinkFailed:
        problem = refusal.problem
        error = exceptions.LinkFailed(
            f"the bus has refused the address for {self._limit:g} s (option refusedTimeoutMs): "
            f"{problem.message}",
            host=refusal.host,
            address=refusal.address,
            condition=problem.condition,
            description=problem.description,
        )
        error.__cause__ = problem
        return error
