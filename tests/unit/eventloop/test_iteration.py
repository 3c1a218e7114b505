# SPDX-License-Identifier: Apache-2.0

"""How long an iteration waits."""

import pytest

from amqp1_driver.eventloop import iteration
from amqp1_driver.eventloop.mailbox import Mailbox


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class Watch:
    """Nothing happens; notes how long it may wait."""

    changes = 0

    def __init__(self) -> None:
        self.waits: list[float | None] = []

    def wait(self, patience: float | None, _: int) -> list[tuple[int, int]]:
        self.waits.append(patience)
        return []


def test_a_batch_that_takes_long_does_not_put_a_timer_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a SIGSTOP in the midst of it."""
    clock, watch, fired = Clock(), Watch(), list[float]()
    monkeypatch.setattr(iteration, "time", clock)
    mailbox = Mailbox(10, lambda: None)
    turn = iteration.Iteration(mailbox)
    turn.timers.call_at(5.0, lambda: fired.append(clock.now))
    mailbox.post(lambda _: setattr(clock, "now", 4.0))
    turn.run(watch)  # type: ignore[arg-type]
    mailbox.post(lambda _: setattr(clock, "now", 60.0))
    turn.run(watch)  # type: ignore[arg-type]
    turn.run(watch)  # type: ignore[arg-type]
    assert watch.waits == [0, 0, 0]
    assert fired == [60.0]
