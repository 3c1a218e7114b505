# SPDX-License-Identifier: Apache-2.0

"""What nobody tells: looked at every five seconds, an address that is refused for too long."""

from __future__ import annotations

import pytest

from amqp1_driver import exceptions
from amqp1_driver.pipeline.collect import watch
from amqp1_driver.pipeline.collect.watch import Refusal, Watch
from amqp1_driver.pipeline.spool import Fenced


class Bus:
    """What it refuses, and the time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.refused: list[Refusal] = []
        monkeypatch.setattr(watch.time, "monotonic", lambda: self.now)

    def refuse(self, *addresses: str) -> None:
        self.refused = [
            Refusal(
                "host:5672",
                address,
                exceptions.LinkFailed(
                    "link failed",
                    host="host:5672",
                    address=address,
                    condition="amqp:not-found",
                    description="no queue",
                ),
            )
            for address in addresses
        ]

    def later(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Bus:
    return Bus(monkeypatch)


def test_an_address_that_is_refused_for_too_long_is_named_with_the_host(bus: Bus) -> None:
    looks = Watch((), lambda: bus.refused, 10.0)
    bus.refuse("/queues/wrong")
    looks.look()
    bus.later(5)
    looks.look()
    bus.later(5)
    with pytest.raises(exceptions.LinkFailed) as caught:
        looks.look()
    assert str(caught.value) == (
        "the bus has refused the address for 10 s (option refusedTimeoutMs): link failed "
        "(host=host:5672, address=/queues/wrong, condition=amqp:not-found, description=no queue)"
    )
    assert caught.value.__cause__ is bus.refused[0].problem


def test_the_time_begins_anew_when_it_was_taken_or_the_connection_was_gone(bus: Bus) -> None:
    looks = Watch((), lambda: bus.refused, 10.0)
    # at 0, 5 and so on
    for addresses in (["a"], ["a"], [], ["a", "b"], ["a", "b"]):
        bus.refuse(*addresses)
        looks.look()
        bus.later(5)
    bus.refuse("b")
    with pytest.raises(exceptions.LinkFailed, match="address=b,"):
        looks.look()


def test_never_where_the_limit_is_0(bus: Bus) -> None:
    looks = Watch((), lambda: bus.refused, 0.0)
    bus.refuse("a")
    looks.look()
    bus.later(1e9)
    looks.look()


def test_what_a_check_raises_is_raised_and_it_is_asked_every_five_seconds(bus: Bus) -> None:
    asked: list[float] = []

    def check() -> None:
        asked.append(bus.now)
        if len(asked) == 2:
            raise Fenced("another process")

    looks = Watch((check,), lambda: bus.refused, 10.0)
    looks.look()
    bus.later(4.5)
    looks.look()
    assert asked == [1000.0]
    bus.later(0.5)
    with pytest.raises(Fenced):
        looks.look()
    assert asked == [1000.0, 1005.0]
