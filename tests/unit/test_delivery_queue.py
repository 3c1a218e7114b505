# SPDX-License-Identifier: Apache-2.0

"""The queue between the I/O thread and the pollers of a listener."""

import threading
import time
from collections import deque

import pytest

from amqp1_driver.driver.delivery_queue import DeliveryQueue

PATIENCE = 10.0


def in_thread(work):
    """Run ``work`` on a thread of its own; ``join()`` returns what it did."""
    result = []
    thread = threading.Thread(target=lambda: result.append(work()), daemon=True)
    thread.start()

    def join():
        thread.join(PATIENCE)
        assert not thread.is_alive()
        return result[0]

    return join


class Gates(deque):
    """The gates of waiting pollers; tells when one is added."""

    def __init__(self):
        super().__init__()
        self.added = threading.Semaphore(0)

    def append(self, gate):
        super().append(gate)
        self.added.release()


@pytest.fixture
def queue():
    queue = DeliveryQueue()
    queue._gates = Gates()
    return queue


def waiting(queue, pollers=1):
    """Until so many pollers have begun to wait."""
    for _ in range(pollers):
        assert queue._gates.added.acquire(timeout=PATIENCE)


def test_what_is_delivered_is_taken_in_order(queue):
    for number in (1, 2, 3):
        queue.deliver(number)
    assert [queue.take(None) for _ in range(3)] == [1, 2, 3]


def test_nothing_comes_before_the_time_is_up(queue):
    since = time.monotonic()
    assert queue.take(since + 0.05) is None
    assert time.monotonic() - since >= 0.05
    assert not queue._gates


def test_a_waiting_poller_is_woken(queue):
    taken = in_thread(lambda: queue.take(None))
    waiting(queue)
    queue.deliver("a")
    assert taken() == "a"


def test_an_interrupt_ends_one_wait_and_only_one(queue):
    taken = in_thread(lambda: queue.take(None))
    waiting(queue)
    queue.interrupt()
    assert taken() is None
    queue.deliver("a")
    assert queue.take(None) == "a"


def test_after_stop_what_is_left_can_be_taken_and_nothing_is_waited_for(queue):
    first, second = (in_thread(lambda: queue.take(None)) for _ in range(2))
    waiting(queue, 2)
    queue.stop()
    assert (first(), second()) == (None, None)
    queue.deliver("late")
    assert not queue.put_back("later")
    assert (queue.take(None), queue.take(None)) == ("late", None)


def test_drain_takes_all(queue):
    queue.deliver(1)
    assert queue.put_back(2)
    assert (queue.drain(), queue.drain()) == ([1, 2], [])


def test_no_wake_up_is_lost_between_many_threads(queue):
    pollers = [in_thread(lambda: [queue.take(None) for _ in range(2000)]) for _ in range(4)]
    givers = [
        in_thread(lambda low=low: [queue.deliver(low + n) for n in range(4000)])
        for low in (0, 4000)
    ]
    for join in givers:
        join()
    taken = [number for join in pollers for number in join()]
    assert sorted(taken) == list(range(8000))
