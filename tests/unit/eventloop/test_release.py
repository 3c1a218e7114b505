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
    loop.release(gate)
    assert not gate.locked()


def test_on_the_loop_gates_open_after_the_output_has_been_flushed(loop):
    gate, seen = locked(), []
    loop.add_before_sleep(lambda: seen.append(gate.locked()) if seen else None)

    def complete(_):
        loop.release(gate)
        seen.append(gate.locked())

    loop.post(complete)
    loop.start()
    assert gate.acquire(timeout=PATIENCE)
    assert seen[:2] == [True, True]


def test_a_future_completed_on_the_loop_is_done_before_its_waiter_wakes(loop):
    future = Future(loop.release)
    loop.post(lambda _: future.set_result(future.done()))
    loop.start()
    assert future.result(PATIENCE) is False
    assert future.done()


def test_no_gate_stays_shut_when_the_loop_dies(loop):
    gate = locked()

    def die(_):
        loop.release(gate)
        raise RuntimeError("on purpose")

    loop.on_death(lambda error: loop.release(other))
    other = locked()
    loop.post(die)
    loop.start()
    assert gate.acquire(timeout=PATIENCE)
    assert other.acquire(timeout=PATIENCE)
