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

"""Looks at what nobody tells: another owner of the spool, an address that is refused for good."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from amqp1_driver import exceptions
from amqp1_driver.client import Client
from amqp1_driver.protocol.subscription import Subscription

#: seconds; nothing of it is in a hurry, and no wait of the collector is longer
EVERY = 5.0


class Refusal(NamedTuple):
    """A link that the bus has refused or detached, while the connection stands."""

    host: str
    address: str | None
    problem: exceptions.AmqpError


def refusals(subscription: Subscription | None) -> list[Refusal]:
    """The links of a subscription that are refused now. Any thread."""
    receivers = subscription.receivers if subscription is not None else []
    return [Refusal(receiver.host, receiver.address, problem) for receiver in receivers
            if (problem := receiver.problem) is not None and not receiver.attached]


def check_alive(client: Client) -> None:
    """:raises LoopDied: the client's I/O thread has died"""
    if client.dead:
        raise exceptions.LoopDied(exceptions.LoopDied.summary)


class Watch:
    """Looks every few seconds. The collector's thread.

    :param checks: each raises if it is over
    :param refused: the links that are refused now
    :param limit: seconds that an address may be refused without a pause; 0: for ever
    """

    def __init__(self, checks: Iterable[Callable[[], object]],
                 refused: Callable[[], Iterable[Refusal]], limit: float) -> None:
        self._checks = tuple(checks)
        self._refused = refused
        self._limit = limit
        self._since: dict[str | None, float] = {}
        self._next = 0.0

    def look(self) -> None:
        """Look, unless that was done just now.

        :raises Exception: what the checks raise
        :raises LinkFailed: an address was refused for too long
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
            f"{problem.message}", host=refusal.host, address=refusal.address,
            condition=problem.condition, description=problem.description)
        error.__cause__ = problem
        return error
