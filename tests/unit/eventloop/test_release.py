# SPDX-License-Identifier: Apache-2.0

"""Waiters are woken together, when the batch that completed them is done."""

import threading

import pytest

from amqp1_driver.eventloop import EventLoop, Future

PATIENCE = 10.0


@pytest.fixture
def loop():
    loop = EventLoop("test")
    yield loop
    assert loop.stop(PATIENCE)


def locked():
    gate = threading.Lock()
    gate.acquire()
    return gate


def test_on_another_thread_a_gate_opens_at_once(loop):
    gate = locked()
    loop.iteration.release(gate)
    assert not gate.locked()


def test_on_the_loop_gates_open_after_the_output_has_been_flushed(loop):
    gate, seen = locked(), []
    loop.add_before_sleep(lambda: seen.append(gate.locked()) if seen else None)

    def complete(_):
        loop.iteration.release(gate)
        seen.append(gate.locked())

    loop.post(complete)
    loop.start()
    assert gate.acquire(timeout=PATIENCE)
    assert seen[:2] == [True, True]


def test_a_future_completed_on_the_loop_is_done_before_its_waiter_wakes(loop):
    future = Future(loop.iteration.release)
    loop.post(lambda _: future.set_result(future.done()))
    loop.start()
    assert future.result(PATIENCE) is False
    assert future.done()


def test_no_gate_stays_shut_when_the_loop_dies(loop):
    gate = locked()

    def die(_):
        loop.iteration.release(gate)
        raise RuntimeError("on purpose")

    loop.on_death(lambda error: loop.iteration.release(other))
    other = locked()
    loop.post(die)
    loop.start()
    assert gate.acquire(timeout=PATIENCE)
    assert other.acquire(timeout=PATIENCE)
