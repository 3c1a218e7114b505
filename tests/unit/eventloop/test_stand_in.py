# SPDX-License-Identifier: Apache-2.0

"""A thread does the loop's work in its place while the loop sleeps."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from amqp1_driver.eventloop import EventLoop, Future, LoopClosed
from amqp1_driver.eventloop.iteration import NAP_SECONDS
from tests.unit.eventloop.helpers import PATIENCE, Op, on_loop


class Baton:
    """The loop's, with a word when it is laid down."""

    def __init__(self, loop_lock: Any) -> None:
        self._baton = loop_lock
        self.free = threading.Semaphore(0)

    def acquire(self, blocking: bool = True) -> bool:
        return bool(self._baton.acquire(blocking))

    def release(self) -> None:
        self._baton.release()
        self.free.release()


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    event_loop = EventLoop("test")
    event_loop.iteration.loop_lock = Baton(event_loop.iteration.loop_lock)  # type: ignore[assignment]
    event_loop.start()
    assert event_loop.iteration.loop_lock.free.acquire(timeout=PATIENCE)  # type: ignore[attr-defined]
    yield event_loop
    event_loop.stop(PATIENCE)


@pytest.fixture
def other() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1, thread_name_prefix="other") as executor:
        yield executor


def stand_in(
    loop: EventLoop, other: ThreadPoolExecutor, fn: Callable[[], object], op: Any = None
) -> None:
    other.submit(loop.put, lambda _: fn(), op, PATIENCE, True).result(PATIENCE)


def test_it_runs_at_once_on_the_callers_thread_which_is_the_loops_meanwhile(
    loop: EventLoop, other: ThreadPoolExecutor
) -> None:
    seen: list[object] = []
    stand_in(
        loop,
        other,
        lambda: seen.extend(
            (threading.current_thread().name, loop.in_loop(), loop.assert_in_loop())
        ),
    )
    assert seen == ["other_0", True, None]
    assert other.submit(loop.in_loop).result(PATIENCE) is False


def test_hooks_run_before_those_who_wait_are_woken(
    loop: EventLoop, other: ThreadPoolExecutor
) -> None:
    order: list[str] = []
    loop.add_before_sleep(lambda: order.append("output"))

    def work() -> None:
        order.append("work")
        loop.iteration.later(lambda: order.append("woken"))

    stand_in(loop, other, work)
    assert order[:3] == ["work", "output", "woken"]


def test_what_was_posted_before_runs_first(loop: EventLoop, other: ThreadPoolExecutor) -> None:
    order: list[int] = []

    def first() -> None:
        loop.post(lambda _: order.append(2))
        order.append(1)

    stand_in(loop, other, first)
    on_loop(loop, lambda: order.append(3))
    assert order == [1, 2, 3]


def test_the_main_thread_never_does_for_signal_handlers_may_raise_in_it(loop: EventLoop) -> None:
    seen: Future[str] = Future()
    loop.put(lambda _: seen.set_result(threading.current_thread().name), None, PATIENCE, True)
    assert seen.result(PATIENCE) == "test"


def test_nobody_stands_in_where_the_poller_can_not_be_changed_meanwhile(
    monkeypatch: pytest.MonkeyPatch, other: ThreadPoolExecutor
) -> None:
    import select

    monkeypatch.delattr(select, "epoll")
    event_loop = EventLoop("test")
    event_loop.start()
    seen: Future[str] = Future()
    other.submit(
        event_loop.put,
        lambda _: seen.set_result(threading.current_thread().name),
        None,
        PATIENCE,
        True,
    ).result(PATIENCE)
    assert seen.result(PATIENCE) == "test"
    assert event_loop.stop(PATIENCE)


def test_a_timer_that_is_set_meanwhile_fires_on_the_loop_thread_in_time(
    loop: EventLoop, other: ThreadPoolExecutor
) -> None:
    fired: Future[str] = Future()
    stand_in(
        loop,
        other,
        lambda: loop.call_later(0.001, lambda: fired.set_result(threading.current_thread().name)),
    )
    assert fired.result(PATIENCE) == "test"


def test_an_exception_ends_the_loop_and_aborts_the_operation(
    loop: EventLoop, other: ThreadPoolExecutor
) -> None:
    died: Future[BaseException] = Future()
    loop.on_death(died.set_result)
    op = Op()
    stand_in(loop, other, lambda: 1 / 0, op)
    assert isinstance(died.result(PATIENCE), ZeroDivisionError)
    assert op.aborts == 1
    with pytest.raises(LoopClosed):
        loop.put(print, None, 0)


def test_a_stop_that_comes_meanwhile_is_heeded(loop: EventLoop, other: ThreadPoolExecutor) -> None:
    stand_in(loop, other, lambda: loop.stop(0))
    assert loop.stop(PATIENCE)
    assert not loop.is_alive()


def test_lingering_makes_the_loop_come_round_again(
    loop: EventLoop, other: ThreadPoolExecutor
) -> None:
    again: Future[str] = Future()

    def work() -> None:
        loop.iteration.linger = NAP_SECONDS
        loop.add_before_sleep(hook)

    def hook() -> None:
        name = threading.current_thread().name
        if name == "test":
            again.set_result(name)

    stand_in(loop, other, work)
    assert again.result(PATIENCE) == "test"


def test_an_operation_behind_one_that_fails_is_aborted_too(
    loop: EventLoop, other: ThreadPoolExecutor
) -> None:
    died: Future[BaseException] = Future()
    loop.on_death(died.set_result)
    op, fails = Op(), Op()

    def first(_: object) -> None:
        # Nobody is told: the stand-in finds it when it begins.
        loop.mailbox.entries.append((lambda _: 1 / 0, fails))

    def work() -> None:
        stand_in = loop._stand_in
        assert loop.iteration.loop_lock.acquire(False)
        first(None)
        stand_in.run(threading.get_ident(), Op.run, op, None, 0.0)

    other.submit(work).result(PATIENCE)
    assert isinstance(died.result(PATIENCE), ZeroDivisionError)
    assert (op.ran.is_set(), op.aborts, fails.aborts) == (True, 1, 1)
    assert isinstance(op.error, LoopClosed)


def test_once_a_batch_has_failed_nobody_stands_in(
    loop: EventLoop, other: ThreadPoolExecutor
) -> None:
    op, ran = Op(), list[str]()

    def work() -> None:
        turn = loop.iteration
        assert turn.loop_lock.acquire(False)
        turn.fail(ValueError("the batch before"))
        loop._stand_in.run(threading.get_ident(), lambda _: ran.append("stood in"), op, None, 0.0)
        loop._waker.wake()

    died: Future[BaseException] = Future()
    loop.on_death(died.set_result)
    other.submit(work).result(PATIENCE)
    assert isinstance(died.result(PATIENCE), ValueError)
    assert (ran, op.aborts) == ([], 1)


def test_nobody_stands_in_for_the_loop_of_a_parent(
    loop: EventLoop, other: ThreadPoolExecutor
) -> None:
    ran: list[int] = []

    def in_child() -> int:
        pid = os.fork()
        if pid:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        code = 1
        try:
            loop.put(ran.append, 1, 0, True)
        except LoopClosed:
            code = 2 if ran else 0
        finally:
            os._exit(code)

    assert other.submit(in_child).result(PATIENCE) == 0


def test_there_is_one_loop_thread_at_a_time_and_nothing_is_lost(loop: EventLoop) -> None:
    inside = 0
    done: list[int] = []
    clashes: list[int] = []

    def work(number: int) -> None:
        nonlocal inside
        inside += 1
        if inside != 1:
            clashes.append(number)
        done.append(number)
        inside -= 1

    def caller(low: int) -> None:
        for number in range(low, low + 2000):
            loop.put(work, number, PATIENCE, True)

    with ThreadPoolExecutor(4) as threads:
        for made in [threads.submit(caller, low) for low in (0, 2000, 4000, 6000)]:
            made.result(PATIENCE)
    on_loop(loop, lambda: None)
    assert not clashes
    assert sorted(done) == list(range(8000))
