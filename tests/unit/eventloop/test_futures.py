# SPDX-License-Identifier: Apache-2.0

import gc
import threading
import weakref

import pytest

from amqp1_driver.eventloop import Future
from amqp1_driver.eventloop.errors import Cancelled
from tests.unit.eventloop.helpers import PATIENCE


def test_the_first_completion_counts_and_says_so() -> None:
    future: Future[int] = Future()
    assert not future.done()
    assert future.set_result(1)
    assert not future.set_result(2)
    assert not future.set_exception(ValueError())
    assert not future.cancel()
    assert future.done()
    assert not future.cancelled()
    assert future.result() == 1
    assert future.result(0) == 1


def test_an_exception_is_raised_to_whoever_asks() -> None:
    future: Future[int] = Future()
    error = ValueError("no")
    assert future.set_exception(error)
    for _ in range(2):
        with pytest.raises(ValueError) as caught:
            future.result(0)
        assert caught.value is error


def test_a_cancelled_future_refuses_the_result() -> None:
    future: Future[int] = Future()
    assert future.cancel()
    assert future.cancelled()
    assert not future.set_result(1)
    with pytest.raises(Cancelled):
        future.result(0)


@pytest.mark.parametrize("timeout", [0, -1, 0.001])
def test_a_timeout_leaves_the_future_pending(timeout: float) -> None:
    future: Future[int] = Future()
    with pytest.raises(TimeoutError):
        future.result(timeout)
    assert not future.wait(timeout)
    assert future.set_result(7)
    assert future.result(timeout) == 7


def test_a_timeout_beyond_what_locks_take_is_for_ever() -> None:
    future: Future[str] = Future()
    timer = threading.Timer(0, future.set_result, ["done"])
    timer.start()
    assert future.result(1e300) == "done"
    timer.join()


def test_all_waiters_get_the_result() -> None:
    future: Future[int] = Future()
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda: results.append(future.result(PATIENCE))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    future.set_result(3)
    for thread in threads:
        thread.join(PATIENCE)
    assert results == [3] * 8


def test_one_of_many_racing_completions_wins() -> None:
    for _ in range(100):
        future: Future[int] = Future()
        start = threading.Barrier(4)
        wins: list[int] = []

        def complete(
            n: int,
            future: Future[int] = future,
            start: threading.Barrier = start,
            wins: list[int] = wins,
        ) -> None:
            start.wait(PATIENCE)
            if future.set_result(n):
                wins.append(n)

        threads = [threading.Thread(target=complete, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert wins == [future.result(0)]


def test_a_result_that_is_being_written_is_there_once_cancelling_has_failed() -> None:
    """The claim and the result are two steps: a caller may look between them."""
    future: Future[int] = Future()
    claimed, go_on = threading.Event(), threading.Event()

    class Claims(list[None]):
        def pop(self, *_: object) -> None:
            super().pop()
            claimed.set()
            go_on.wait(PATIENCE)

    future._claims = Claims([None])
    completing = threading.Thread(target=future.set_result, args=(5,))
    completing.start()
    assert claimed.wait(PATIENCE)
    wait = future.wait

    def waits(_: Future[int], timeout: float) -> bool:
        if timeout > 0:
            go_on.set()
        return wait(timeout)

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Future, "wait", waits)
            assert future.cancel() is False
            assert future.result(0) == 5
    finally:
        go_on.set()
        completing.join(PATIENCE)


def test_a_raised_exception_keeps_no_circle_alive() -> None:
    class Marker(Exception):
        pass

    class Referable(Future[int]):
        pass

    gc.disable()
    try:
        future = Referable()
        future.set_exception(Marker())
        reference = weakref.ref(future)
        try:
            future.result(0)
        except Marker:
            pass
        del future
        assert reference() is None
    finally:
        gc.enable()
