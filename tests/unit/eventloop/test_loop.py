# SPDX-License-Identifier: Apache-2.0

import logging
import os
import select
import socket
import threading
import weakref
from typing import Any

import pytest

from amqp1_driver.eventloop import EventLoop, Future, LoopClosed, MailboxFull
from amqp1_driver.eventloop import poller as poller_module
from amqp1_driver.eventloop.poller import (
    ERROR,
    READ,
    WRITE,
    EpollPoller,
    SelectPoller,
    Waker,
)
from amqp1_driver.eventloop.watch import Watch
from tests.unit.eventloop.helpers import PATIENCE, Op, on_loop, open_descriptors


@pytest.fixture(params=["epoll", "select"])
def any_loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param == "select":
        monkeypatch.delattr(select, "epoll")
    event_loop = EventLoop("test")
    event_loop.start()
    yield event_loop
    assert event_loop.stop(PATIENCE)


def test_the_loop_runs_operations_on_a_daemon_thread_of_its_own(any_loop: EventLoop) -> None:
    thread = on_loop(any_loop, threading.current_thread)
    assert thread.name == "test"
    assert thread.daemon
    assert on_loop(any_loop, any_loop.in_loop)
    on_loop(any_loop, any_loop.assert_in_loop)
    assert not any_loop.in_loop()
    with pytest.raises(AssertionError):
        any_loop.assert_in_loop()
    with pytest.raises(AssertionError):
        any_loop.call_later(1, print)


def test_no_wake_up_is_lost(any_loop: EventLoop) -> None:
    """Many threads, each waiting for its operation: a lost wake-up would stall one of them."""
    rounds, count = 500, 16
    done: list[int] = []

    def work() -> None:
        for n in range(rounds):
            future: Future[int] = Future()
            any_loop.post(future.set_result, n)
            assert future.result(PATIENCE) == n
        done.append(rounds)

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert done == [rounds] * count


def test_operations_of_one_thread_keep_their_order_and_all_run(any_loop: EventLoop) -> None:
    count = 5000
    ran: list[tuple[int, int]] = []

    def work(name: int) -> None:
        for n in range(count):
            any_loop.put(ran.append, (name, n), PATIENCE)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    on_loop(any_loop, lambda: None)
    assert len(ran) == 4 * count
    for name in range(4):
        assert [n for who, n in ran if who == name] == list(range(count))


def test_posts_while_the_loop_works_make_one_wake_up() -> None:
    waker = Waker()
    waker.open()
    for _ in range(5):
        waker.wake()
    assert os.eventfd_read(waker.fileno()) == 1
    waker.clear(read=True)  # nothing to read is no error
    waker.wake()
    assert os.eventfd_read(waker.fileno()) == 1
    waker.close()
    waker.wake()  # too late: must not touch the number, which may be another file's now
    waker.close()


def test_a_pipe_stands_in_for_eventfd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "eventfd")
    before = open_descriptors()
    waker = Waker()
    waker.open()
    assert open_descriptors() == before + 2
    assert not os.get_inheritable(waker.fileno())
    waker.wake()
    waker.wake()
    assert select.select([waker.fileno()], [], [], 0)[0]
    waker.clear(read=True)
    assert not select.select([waker.fileno()], [], [], 0)[0]
    waker.close()
    assert open_descriptors() == before
    loop = EventLoop("pipe")
    loop.start()
    assert on_loop(loop, lambda: 5) == 5
    assert on_loop(loop, lambda: 6) == 6
    assert loop.stop(PATIENCE)


def test_what_was_posted_before_the_start_runs_first() -> None:
    loop = EventLoop("early")
    ran: list[int] = []
    loop.post(ran.append, 1)
    loop.start()
    on_loop(loop, lambda: ran.append(2))
    assert ran == [1, 2]
    with pytest.raises(RuntimeError):
        loop.start()
    loop.stop(PATIENCE)


def test_timers_fire_not_before_their_time_and_can_be_cancelled(any_loop: EventLoop) -> None:
    fired: Future[float] = Future()
    ran: list[int] = []

    def plan() -> float:
        any_loop.call_later(0.01, lambda: ran.append(1)).cancel()
        start = any_loop.now()
        any_loop.call_at(start + 0.02, lambda: fired.set_result(any_loop.now()))
        return start

    start = on_loop(any_loop, plan)
    assert fired.result(PATIENCE) - start >= 0.02
    assert ran == []


def test_an_earlier_timer_shortens_the_sleep(any_loop: EventLoop) -> None:
    fired = threading.Event()
    on_loop(any_loop, lambda: any_loop.call_later(3600, print))
    on_loop(any_loop, lambda: any_loop.call_later(0.001, fired.set))
    assert fired.wait(PATIENCE)


def test_before_sleep_hooks_run_after_each_batch(any_loop: EventLoop) -> None:
    batches: list[int] = []
    count = 0

    def operation(_: object) -> None:
        nonlocal count
        count += 1

    def hook() -> None:
        batches.append(count)

    gate = threading.Event()
    any_loop.post(lambda _: gate.wait(PATIENCE))
    any_loop.post(lambda _: any_loop.add_before_sleep(hook))
    for _ in range(20):
        any_loop.post(operation)
    gate.set()
    on_loop(any_loop, lambda: None)
    on_loop(any_loop, lambda: None)
    seen = list(batches)
    # The 20 were handed in while the loop was held up: they are not flushed one by one.
    assert seen[-1] == 20
    assert len(seen) < 10


def test_readable_and_writable_descriptors_are_served(any_loop: EventLoop) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    got: Future[bytes] = Future()
    writable = threading.Event()
    writes: list[int] = []

    def on_writable() -> None:
        writes.append(1)
        any_loop.set_writable(ours.fileno(), False)
        writable.set()

    def register() -> None:
        any_loop.register(ours.fileno(), lambda: got.set_result(ours.recv(10)), on_writable)

    on_loop(any_loop, register)
    assert any_loop.is_registered(ours.fileno())
    theirs.send(b"hello")
    assert got.result(PATIENCE) == b"hello"
    assert writes == []  # not asked for
    on_loop(any_loop, lambda: any_loop.set_writable(ours.fileno(), True))
    assert writable.wait(PATIENCE)
    on_loop(any_loop, lambda: any_loop.unregister(ours.fileno()))
    assert not any_loop.is_registered(ours.fileno())
    theirs.send(b"more")
    on_loop(any_loop, lambda: None)
    assert writes == [1]
    ours.close()
    theirs.close()


def test_events_of_a_descriptor_closed_in_the_same_batch_are_void(any_loop: EventLoop) -> None:
    """The number is taken by a new descriptor at once; the old one's event is not for it."""
    pairs = [socket.socketpair(), socket.socketpair()]
    spare = socket.socketpair()
    calls: list[str] = []

    def first_reads(index: int) -> None:
        if calls:
            return
        calls.append("first")
        other = pairs[1 - index][0]
        number = other.fileno()
        any_loop.unregister(number)
        os.dup2(spare[0].fileno(), number)
        any_loop.register(number, lambda: calls.append("successor"), lambda: None)
        any_loop.unregister(pairs[index][0].fileno())

    def register() -> None:
        for index, (ours, theirs) in enumerate(pairs):
            any_loop.register(ours.fileno(), lambda index=index: first_reads(index), lambda: None)
            theirs.send(b"x")

    on_loop(any_loop, register)
    on_loop(any_loop, lambda: None)
    on_loop(any_loop, lambda: None)
    assert calls == ["first"]
    on_loop(
        any_loop,
        lambda: [
            any_loop.unregister(o.fileno()) for o, _ in pairs if any_loop.is_registered(o.fileno())
        ],
    )
    for one, two in [*pairs, spare]:
        one.close()
        two.close()


@pytest.mark.parametrize(
    "bits", [select.EPOLLERR, select.EPOLLHUP, select.EPOLLIN | select.EPOLLERR | select.EPOLLHUP]
)
def test_a_descriptor_in_error_is_ready_for_all_it_is_watched_for(bits: int) -> None:
    watch, told = Watch(Waker()), list[str]()
    ours, theirs = socket.socketpair()
    watch.register(ours.fileno(), lambda: told.append("read"), lambda: told.append("write"))
    watch.dispatch([(ours.fileno(), bits)])
    assert told == ["read"]
    watch.set_writable(ours.fileno(), True)
    watch.dispatch([(ours.fileno(), bits)])
    assert told == ["read", "read", "write"]
    watch.close()
    ours.close()
    theirs.close()


def test_a_descriptor_in_error_may_be_unwatched_before_the_poller_returns() -> None:
    """epoll_wait has returned, and the interpreter has gone to a thread that stands in."""

    class Slow:
        def __init__(self) -> None:
            self.epoll = select.epoll()
            self.register, self.unregister = self.epoll.register, self.epoll.unregister

        def poll(self, *arguments: Any) -> list[tuple[int, int]]:
            events = self.epoll.poll(*arguments)
            poller.remove(ours.fileno())
            return events

    ours, theirs = socket.socketpair()
    epoll = Slow()
    poller = EpollPoller(epoll)
    poller.add(ours.fileno(), READ)
    theirs.close()
    assert poller.poll(0) == [(ours.fileno(), READ | select.EPOLLHUP)]
    epoll.epoll.close()
    ours.close()


def test_both_pollers_agree() -> None:
    ours, theirs = socket.socketpair()
    theirs.send(b"x")
    for poller in (EpollPoller(select.epoll()), SelectPoller(select.select)):
        fd = ours.fileno()
        poller.add(fd, READ)
        assert poller.poll(0) == [(fd, READ)]
        poller.change(fd, READ | WRITE)
        assert poller.poll(0) == [(fd, READ | WRITE)]
        poller.change(fd, WRITE)
        assert poller.poll(0) == [(fd, WRITE)]
        poller.remove(fd)
        poller.close()
    ours.close()
    theirs.close()


def test_the_values_of_epoll_are_the_systems() -> None:
    assert READ == select.EPOLLIN
    assert WRITE == select.EPOLLOUT
    assert ERROR == select.EPOLLERR | select.EPOLLHUP
    assert poller_module._EPOLLET == select.EPOLLET


def test_stop_runs_what_was_posted_joins_and_closes_all(any_loop: EventLoop) -> None:
    del any_loop  # only for the patch of its fixture
    before = open_descriptors()
    loop = EventLoop("short")
    loop.start()
    assert loop.is_alive()
    assert open_descriptors() > before
    op = Op()
    loop.post(Op.run, op)
    assert loop.stop(PATIENCE)
    assert op.ran.is_set()
    assert op.aborts == 0
    assert not loop.is_alive()
    assert open_descriptors() == before
    assert loop.stop(0)
    with pytest.raises(LoopClosed, match="short has stopped") as caught:
        loop.post(print)
    assert caught.value.cause is None
    with pytest.raises(LoopClosed):
        loop.put(print, timeout=1)
    with pytest.raises(LoopClosed):
        loop.start()


def test_stop_gives_up_after_its_timeout() -> None:
    loop = EventLoop("busy")
    loop.start()
    release = threading.Event()
    loop.post(lambda _: release.wait(PATIENCE))
    assert not loop.stop(0.01)
    release.set()
    assert loop.stop(PATIENCE)


def test_stop_on_the_loop_thread_does_not_wait_for_itself() -> None:
    loop = EventLoop("self")
    loop.start()
    assert on_loop(loop, lambda: loop.stop(PATIENCE)) is False
    assert loop.stop(PATIENCE)


def test_a_loop_that_never_started_stops_too() -> None:
    loop = EventLoop("never")
    op = Op()
    loop.post(Op.run, op)
    assert loop.stop()
    assert loop.stop()
    assert op.aborts == 1
    with pytest.raises(LoopClosed):
        loop.post(print)


def test_another_thread_with_the_number_of_the_dead_loop_is_not_the_loop() -> None:
    loop = EventLoop("gone")
    loop.start()
    ident = on_loop(loop, threading.get_ident)
    assert loop.stop(PATIENCE)
    for _ in range(20):
        seen: list[bool] = []
        thread = threading.Thread(target=lambda seen=seen: seen.append(loop.in_loop()))
        thread.start()
        number = thread.ident
        thread.join(PATIENCE)
        assert seen == [False]
        if number == ident:
            return


def test_a_callback_that_raises_ends_the_loop_and_fails_all_that_waits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = open_descriptors()
    loop = EventLoop("doomed")
    deaths: list[BaseException] = []
    died = threading.Event()
    loop.on_death(lambda exc: 1 / 0)  # a bad one must not keep the others from theirs
    loop.on_death(deaths.append)
    loop.on_death(lambda exc: died.set())
    loop.start()
    hold = threading.Event()
    error = ValueError("broken")

    def fail(_: object) -> None:
        raise error

    ops = [Op(), Op(), Op()]
    loop.post(lambda _: hold.wait(PATIENCE))
    loop.post(fail, ops[0])
    loop.post(Op.run, ops[1])
    loop.post(Op.run, ops[2])
    hold.set()
    assert died.wait(PATIENCE)
    assert loop.stop(PATIENCE)
    assert deaths == [error]
    for op in ops:
        assert op.aborts == 1
        assert isinstance(op.error, LoopClosed)
        assert op.error.cause is error
    with pytest.raises(LoopClosed, match="doomed died") as caught:
        loop.post(print)
    assert caught.value.cause is error
    assert open_descriptors() == before
    assert "event loop doomed died: ValueError('broken')" in caplog.text
    late: list[BaseException] = []
    loop.on_death(late.append)
    assert late == [error]


@pytest.mark.parametrize("where", ["timer", "hook", "readable"])
def test_the_loop_dies_of_any_callback(where: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    loop = EventLoop("doomed")
    died = threading.Event()
    loop.on_death(lambda exc: died.set())
    loop.start()
    ours, theirs = socket.socketpair()

    def fail() -> None:
        raise ValueError

    if where == "timer":
        loop.post(lambda _: loop.call_later(0, fail))
    elif where == "hook":
        loop.post(lambda _: loop.add_before_sleep(fail))
    else:
        loop.post(lambda _: loop.register(ours.fileno(), fail, fail))
        theirs.send(b"x")
    assert died.wait(PATIENCE)
    assert loop.stop(PATIENCE)
    ours.close()
    theirs.close()


def test_an_orderly_stop_is_no_death() -> None:
    loop = EventLoop("calm")
    deaths: list[BaseException] = []
    loop.on_death(deaths.append)
    loop.start()
    assert loop.stop(PATIENCE)
    assert deaths == []


def test_resources_learn_that_the_loop_ends() -> None:
    class Thing:
        error: Exception | None = None

        def loop_closed(self, exc: Exception) -> None:
            self.error = exc

        def abandon(self) -> None: ...

    loop = EventLoop("host")
    loop.start()
    kept, gone = Thing(), Thing()
    on_loop(loop, lambda: loop.attach(kept))
    on_loop(loop, lambda: loop.attach(gone))
    on_loop(loop, lambda: loop.detach(gone))
    on_loop(loop, lambda: loop.detach(gone))
    assert loop.stop(PATIENCE)
    assert isinstance(kept.error, LoopClosed)
    assert gone.error is None


def test_put_waits_for_room_but_never_on_the_loop_itself() -> None:
    loop = EventLoop("small", mailbox_size=1)
    loop.start()
    hold = threading.Event()
    held = threading.Event()

    def block(_: object) -> None:
        held.set()
        hold.wait(PATIENCE)

    loop.post(block)
    assert held.wait(PATIENCE)
    loop.put(print, timeout=0)
    with pytest.raises(MailboxFull):
        loop.put(print, timeout=0.001)
    ran = threading.Event()
    loop.post(lambda _: [loop.put(lambda _: None) for _ in range(3)])
    hold.set()
    loop.put(lambda _: ran.set(), timeout=PATIENCE)
    assert ran.wait(PATIENCE)
    assert loop.stop(PATIENCE)


def test_a_start_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(*_: Any, **__: Any) -> None:
        raise RuntimeError("can't start new thread")

    before = open_descriptors()
    loop = EventLoop("stillborn")
    op = Op()
    loop.post(Op.run, op)
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(RuntimeError):
        loop.start()
    assert op.aborts == 1
    assert open_descriptors() == before
    with pytest.raises(LoopClosed):
        loop.post(print)
    assert loop.stop(PATIENCE)
    assert not loop.is_alive()


def test_an_interrupt_while_the_thread_comes_up_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        real(thread)
        raise KeyboardInterrupt

    before = open_descriptors()
    loop = EventLoop("interrupted")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            loop.start()
    assert loop.stop(PATIENCE)
    assert open_descriptors() == before


def test_a_log_handler_that_fails_keeps_nobody_waiting() -> None:
    class Failing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("disk full")

    logger, handler = logging.getLogger("amqp1_driver.eventloop.loop"), Failing()
    loop = EventLoop("doomed")
    died: Future[BaseException] = Future()
    loop.on_death(died.set_result)
    logger.addHandler(handler)
    try:
        loop.start()
        loop.post(lambda _: 1 / 0)
        assert isinstance(died.result(PATIENCE), ZeroDivisionError)
        assert loop.stop(PATIENCE)
    finally:
        logger.removeHandler(handler)


def test_a_wake_up_that_fails_keeps_no_other_waiting(caplog: pytest.LogCaptureFixture) -> None:
    woken: Future[None] = Future()
    loop = EventLoop("doomed")
    gate = threading.Lock()
    gate.acquire()

    def work(_: object) -> None:
        loop.iteration.release(gate)
        for fn in (lambda: 1 / 0, lambda: 1 / 0, lambda: woken.set_result(None)):
            loop.iteration.later(fn)

    loop.post(work)
    loop.start()
    assert woken.wait(PATIENCE)
    assert gate.acquire(timeout=PATIENCE)
    assert loop.stop(PATIENCE)
    assert "failed while its event loop ended" in caplog.text


def test_a_stopped_loop_is_not_kept_alive() -> None:
    loop = EventLoop("free")
    loop.start()
    loop.stop(PATIENCE)
    reference = weakref.ref(loop)
    del loop
    import gc

    gc.collect()
    assert reference() is None
