# SPDX-License-Identifier: Apache-2.0

import threading
from collections import deque
from typing import Any

import pytest

from amqp1_driver.eventloop import LoopClosed, MailboxFull
from amqp1_driver.eventloop.mailbox import Mailbox
from tests.unit.eventloop.helpers import PATIENCE, Op


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def test_operations_run_in_order_and_in_batches() -> None:
    mailbox = Mailbox(10, Counter())
    ran: list[int] = []
    for n in range(5):
        mailbox.post(ran.append, n)
    assert mailbox.drain(3) == 3
    assert ran == [0, 1, 2]
    assert len(mailbox) == 2
    assert mailbox.drain(100) == 2
    assert mailbox.drain(100) == 0
    assert ran == [0, 1, 2, 3, 4]


def test_operations_posted_by_operations_wait_for_the_next_batch() -> None:
    mailbox = Mailbox(10, Counter())
    mailbox.post(lambda _: mailbox.post(lambda _: None))
    assert mailbox.drain(100) == 1
    assert len(mailbox) == 1


def test_only_a_sleeping_loop_is_woken() -> None:
    wake = Counter()
    mailbox = Mailbox(10, wake)
    mailbox.post(print)
    assert wake.count == 0
    mailbox.drain(10)
    mailbox.sleeping = True
    mailbox.post(print)
    assert wake.count == 1
    mailbox.sleeping = False
    mailbox.post(print)
    assert wake.count == 1


def test_post_ignores_the_capacity_and_put_does_not() -> None:
    mailbox = Mailbox(2, Counter())
    mailbox.post(print, 1, bounded=True, timeout=0)
    mailbox.post(print, 2, bounded=True, timeout=0)
    with pytest.raises(MailboxFull):
        mailbox.post(print, 3, bounded=True, timeout=0)
    with pytest.raises(MailboxFull):
        mailbox.post(print, 3, bounded=True, timeout=0.001)
    mailbox.post(print, 4)
    assert len(mailbox) == 3


def test_put_goes_on_when_there_is_room() -> None:
    mailbox = Mailbox(1, Counter())
    ran: list[int] = []
    mailbox.post(ran.append, 0)
    threads = [
        threading.Thread(
            target=mailbox.post,
            args=(ran.append, n),
            kwargs={"bounded": True, "timeout": PATIENCE},
        )
        for n in range(1, 9)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        mailbox.drain(10)
    mailbox.drain(10)
    assert sorted(ran) == [0, 1, 2, 3, 4, 5, 6, 7, 8]


def test_a_bounded_mailbox_stays_bounded_under_many_putters() -> None:
    capacity, threads_count, each = 8, 8, 100
    mailbox = Mailbox(capacity, Counter())
    highest = done = 0

    def put_all() -> None:
        for n in range(each):
            mailbox.post(int, n, bounded=True, timeout=PATIENCE)

    threads = [threading.Thread(target=put_all) for _ in range(threads_count)]
    for thread in threads:
        thread.start()
    while done < threads_count * each:
        highest = max(highest, len(mailbox))
        done += mailbox.drain(3)
    for thread in threads:
        thread.join(PATIENCE)
    # Each of the threads may see the same last free place.
    assert highest <= capacity + threads_count
    assert len(mailbox) == 0


def test_a_waiter_that_is_interrupted_passes_its_room_on(monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox = Mailbox(1, Counter())
    mailbox.post(print, 0)

    def interrupted(gate: Any, deadline: float | None) -> bool:
        mailbox.drain(1)  # grants this waiter its room ...
        raise KeyboardInterrupt  # ... which it cannot use

    monkeypatch.setattr("amqp1_driver.eventloop.mailbox._acquire", interrupted)
    with pytest.raises(KeyboardInterrupt):
        mailbox.post(print, 1, bounded=True, timeout=None)
    mailbox.post(print, 2, bounded=True, timeout=0)
    assert len(mailbox) == 1


def test_close_aborts_what_is_left_and_refuses_the_rest() -> None:
    mailbox = Mailbox(10, Counter())
    ops = [Op(), Op()]
    cause = ZeroDivisionError("x")
    mailbox.post(Op.run, ops[0])
    mailbox.post(lambda _: None)  # nothing to abort
    mailbox.post(Op.run, ops[1])
    mailbox.close("the loop died", cause)
    assert [op.aborts for op in ops] == [1, 1]
    assert isinstance(ops[0].error, LoopClosed)
    assert ops[0].error.cause is cause
    assert ops[0].error is not ops[1].error
    for hand_in in (
        lambda: mailbox.post(print),
        lambda: mailbox.post(print, 1, bounded=True, timeout=None),
    ):
        with pytest.raises(LoopClosed, match="the loop died") as caught:
            hand_in()
        assert caught.value.cause is cause
        assert caught.value.__cause__ is cause


def test_an_abort_that_fails_does_not_spare_the_others() -> None:
    class Bad:
        def abort(self, exc: BaseException) -> None:
            raise RuntimeError

    mailbox = Mailbox(10, Counter())
    op = Op()
    mailbox.post(print, Bad())
    mailbox.post(Op.run, op)
    mailbox.close("stopped")
    assert op.aborts == 1


def test_close_releases_those_who_wait_for_room() -> None:
    mailbox = Mailbox(1, Counter())
    mailbox.post(print)
    errors: list[Exception] = []
    waiting = threading.Event()

    def put() -> None:
        waiting.set()
        try:
            mailbox.post(print, 1, bounded=True, timeout=PATIENCE)
        except LoopClosed as exc:
            errors.append(exc)

    threads = [threading.Thread(target=put) for _ in range(4)]
    for thread in threads:
        thread.start()
    waiting.wait(PATIENCE)
    mailbox.close("stopped")
    for thread in threads:
        thread.join(PATIENCE)
    assert len(errors) == 4


def test_the_operation_that_fails_is_aborted_too() -> None:
    mailbox = Mailbox(10, Counter())
    op = Op()

    def fail(_: Op) -> None:
        raise ZeroDivisionError

    mailbox.post(fail, op)
    with pytest.raises(ZeroDivisionError):
        mailbox.drain(10)
    assert isinstance(op.error, LoopClosed)
    assert isinstance(op.error.cause, ZeroDivisionError)


def test_a_waiter_may_give_up_while_the_mailbox_closes() -> None:
    """It withdraws after close() has seen it, and before close() takes it."""

    class Waiters(deque[Any]):
        def popleft(self) -> Any:
            self.clear()
            return super().popleft()

    mailbox = Mailbox(1, Counter())
    mailbox._waiters = Waiters([threading.Lock()])
    mailbox.close("stopped")
    with pytest.raises(LoopClosed):
        mailbox.post(lambda _: None)


def test_an_operation_that_races_with_close_runs_or_is_aborted() -> None:
    for _ in range(200):
        mailbox = Mailbox(10, Counter())
        op = Op()
        refused: list[LoopClosed] = []
        start = threading.Barrier(2)

        def post(
            mailbox: Mailbox = mailbox,
            op: Op = op,
            start: threading.Barrier = start,
            refused: list[LoopClosed] = refused,
        ) -> None:
            start.wait(PATIENCE)
            try:
                mailbox.post(Op.run, op)
            except LoopClosed as exc:
                refused.append(exc)

        thread = threading.Thread(target=post)
        thread.start()
        start.wait(PATIENCE)
        mailbox.close("stopped")
        thread.join(PATIENCE)
        assert op.aborts + len(refused) == 1
