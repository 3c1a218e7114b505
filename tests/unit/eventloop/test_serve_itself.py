# SPDX-License-Identifier: Apache-2.0

"""A thread that stands in goes on to read what it waits for itself."""

import errno
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future as Task
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from amqp1_driver.eventloop import EventLoop, Future, LoopClosed
from amqp1_driver.eventloop.borrowed_fd import BorrowedFd
from amqp1_driver.eventloop.iteration import NAP_SECONDS
from tests.unit.eventloop.helpers import PATIENCE, on_loop
from tests.unit.eventloop.test_stand_in import Baton


class World:
    """A loop with one socket, and a thread that sends and waits."""

    def __init__(self) -> None:
        self.loop = EventLoop("test")
        self.loop_lock = Baton(self.loop.iteration.loop_lock)
        self.loop.iteration.loop_lock = self.loop_lock  # type: ignore[assignment]
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.read: list[tuple[str, bytes]] = []
        self.answer: Future[bytes] = Future(self.loop.iteration.release)
        self.on_readable: Callable[[], object] = self._take
        self.other = ThreadPoolExecutor(1, thread_name_prefix="other")
        self.loop.start()
        on_loop(
            self.loop,
            lambda: self.loop.register(
                self.near.fileno(), lambda: self.on_readable(), lambda: None
            ),
        )
        self.asleep()

    def _take(self) -> None:
        data = self.near.recv(100)
        self.read.append((threading.current_thread().name, data))
        self.answer.set_result(data)

    def asleep(self) -> None:
        """Until the loop's thread sleeps, or the one in its place."""
        assert self.loop_lock.free.acquire(timeout=PATIENCE)
        while self.loop_lock.free.acquire(timeout=0):
            pass

    def call(
        self, work: Callable[[], object] = lambda: None, patience: float = PATIENCE
    ) -> "Task[None]":
        """The other thread does ``work`` and waits for the answer; returns when it does."""
        task = self.other.submit(
            self.loop.put,
            lambda _: work(),
            None,
            PATIENCE,
            True,
            self.answer,
            time.monotonic() + patience,
        )
        assert self.loop_lock.free.acquire(timeout=PATIENCE)
        return task

    def close(self) -> None:
        self.loop.stop(PATIENCE)
        self.other.shutdown()
        self.near.close()
        self.far.close()


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


def test_the_answer_is_read_by_the_thread_that_waits_for_it(world: World) -> None:
    task = world.call()
    world.far.send(b"answer")
    task.result(PATIENCE)
    assert world.answer.result(0) == b"answer"
    assert world.read == [("other_0", b"answer")]


def test_afterwards_the_loop_reads_again(world: World) -> None:
    task = world.call()
    world.far.send(b"answer")
    task.result(PATIENCE)
    world.answer = Future(world.loop.iteration.release)
    world.far.send(b"more")
    assert world.answer.result(PATIENCE) == b"more"
    assert world.read[-1] == ("test", b"more")


def test_it_answers_others_too_and_goes_on(world: World) -> None:
    first, mine = Future[bytes](), world.answer

    def take() -> None:
        data = world.near.recv(1)
        (first if data == b"1" else mine).set_result(data)

    world.on_readable = take
    task = world.call()
    world.far.send(b"1")
    assert first.result(PATIENCE) == b"1"
    assert not task.done()
    world.far.send(b"2")
    task.result(PATIENCE)
    assert mine.result(0) == b"2"


def test_an_answer_that_comes_by_the_loops_own_thread_calls_it_back(world: World) -> None:
    task = world.call()
    seen: list[str] = []

    def answer(_: Any) -> None:
        seen.append(threading.current_thread().name)
        world.answer.set_result(b"by another way")

    world.loop.post(answer)
    task.result(PATIENCE)
    assert world.answer.result(0) == b"by another way"
    assert seen == ["test"]


def test_it_gives_up_in_time_and_the_loop_reads_on(world: World) -> None:
    task = world.call(patience=0.01)
    task.result(PATIENCE)
    assert not world.answer.done()
    world.far.send(b"late")
    assert world.answer.result(PATIENCE) == b"late"
    assert world.read == [("test", b"late")]


def test_a_loop_that_dies_meanwhile_lets_it_go(world: World) -> None:
    world.loop.on_death(lambda error: world.answer.set_exception(error))
    task = world.call()
    world.loop.post(lambda _: 1 / 0)
    task.result(PATIENCE)
    with pytest.raises(ZeroDivisionError):
        world.answer.result(PATIENCE)


def test_an_error_of_what_it_reads_ends_the_loop(world: World) -> None:
    world.loop.on_death(lambda error: world.answer.set_exception(error))

    def fail() -> None:
        raise OSError("broken")

    world.on_readable = fail
    task = world.call()
    world.far.send(b"x")
    task.result(PATIENCE)
    with pytest.raises(OSError, match="broken"):
        world.answer.result(PATIENCE)
    assert world.loop.stop(PATIENCE)


def test_without_a_descriptor_to_spare_the_loop_does_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "eventfd", none_left)
    world.call().result(PATIENCE)
    world.far.send(b"answer")
    assert world.answer.result(PATIENCE) == b"answer"
    assert world.read == [("test", b"answer")]


def test_a_wait_that_fails_ends_the_loop_and_hangs_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(loan: BorrowedFd, seconds: float) -> bool:
        raise MemoryError("no room for the answer of poll")

    monkeypatch.setattr(BorrowedFd, "wait", fail)
    world.loop.on_death(lambda error: world.answer.set_exception(error))
    world.other.submit(
        world.loop.put,
        lambda _: None,
        None,
        PATIENCE,
        True,
        world.answer,
        time.monotonic() + PATIENCE,
    ).result(PATIENCE)
    with pytest.raises(MemoryError):
        world.answer.result(PATIENCE)
    assert world.loop.stop(PATIENCE)


def test_a_loop_that_is_stopped_meanwhile_lets_it_go(world: World) -> None:
    task = world.call()
    assert world.loop.stop(PATIENCE)
    task.result(PATIENCE)
    assert not world.loop.is_alive()


def test_a_connection_that_is_closed_meanwhile_lets_it_go(world: World) -> None:
    task = world.call()
    on_loop(world.loop, lambda: world.loop.unregister(world.near.fileno()))
    task.result(PATIENCE)
    assert not world.answer.done()


def test_a_connection_that_it_closes_itself_lets_it_go(world: World) -> None:
    """Waiting for the number of a closed descriptor returns at once, for ever."""

    def close() -> None:
        world.read.append((threading.current_thread().name, b""))
        world.loop.unregister(world.near.fileno())
        world.near.close()

    on_loop(world.loop, lambda: world.loop.call_later(PATIENCE / 2, lambda: None))
    world.asleep()
    world.on_readable = close
    task = world.call()
    world.far.send(b"x")  # the end of the connection would wake the loop's own thread too
    task.result(PATIENCE / 4)
    assert not world.answer.done()
    assert world.read == [("other_0", b"")]


def test_a_reset_is_read_once_by_whichever_thread_comes_first(world: World) -> None:
    def close() -> None:
        world.read.append((threading.current_thread().name, b""))
        world.loop.unregister(world.near.fileno())
        world.near.close()
        world.answer.set_exception(ConnectionResetError())

    world.on_readable = close
    world.near.send(b"never read")
    task = world.call()
    world.far.close()
    task.result(PATIENCE)
    with pytest.raises(ConnectionResetError):
        world.answer.result(PATIENCE)
    assert len(world.read) == 1
    assert world.loop.is_alive()


def test_a_fork_meanwhile_concerns_it_not(world: World) -> None:
    task = world.call()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            world.loop.put(print, None, 0)
        except LoopClosed:
            watch = world.loop.iteration.watch
            assert watch is not None
            closed = watch._poller._epoll.closed  # type: ignore[attr-defined]
            code = 0 if closed and watch._loan is not None and watch._loan._event == -1 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    world.far.send(b"answer")
    task.result(PATIENCE)
    assert world.read == [("other_0", b"answer")]


def test_the_end_of_the_connection_is_read_by_it(world: World) -> None:
    task = world.call()
    world.far.shutdown(socket.SHUT_WR)
    task.result(PATIENCE)
    assert world.read[0] == ("other_0", b"")  # it is not unregistered here, so it goes on


def test_with_another_descriptor_that_is_watched_it_leaves_both_to_the_loop(world: World) -> None:
    near, far = socket.socketpair()
    on_loop(world.loop, lambda: world.loop.register(near.fileno(), lambda: None, lambda: None))
    world.call().result(PATIENCE)
    world.far.send(b"answer")
    assert world.answer.result(PATIENCE) == b"answer"
    assert world.read == [("test", b"answer")]
    on_loop(world.loop, lambda: world.loop.unregister(near.fileno()))
    near.close()
    far.close()


def test_who_waits_for_output_to_be_taken_leaves_it_to_the_loop(world: World) -> None:
    on_loop(world.loop, lambda: world.loop.set_writable(world.near.fileno(), True))
    world.call().result(PATIENCE)
    assert not world.answer.done()


def test_what_lingers_is_done_by_the_loop_in_a_moment(world: World) -> None:
    again: Future[str] = Future()

    def hook() -> None:
        if threading.current_thread().name == "test":
            again.set_result("test")

    def take() -> None:
        world.loop.iteration.linger = NAP_SECONDS
        world.loop.add_before_sleep(hook)
        world._take()

    world.on_readable = take
    task = world.call()
    world.far.send(b"answer")
    task.result(PATIENCE)
    assert again.result(PATIENCE) == "test"
