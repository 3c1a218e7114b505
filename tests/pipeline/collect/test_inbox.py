# SPDX-License-Identifier: Apache-2.0

"""The inbox: the taker is woken once per batch, and sees what is under way at any time."""

import threading

import pytest

from amqp1_driver.pipeline.collect.inbox import Inbox

WAIT = 30.0


class Sized(int):
    """A delivery: a number, and so many bytes."""

    def __new__(cls, number, size=0):
        made = super().__new__(cls, number)
        made.data = b"." * size
        return made


def make():
    return Inbox(lambda: None)


def test_a_taker_waits_for_the_first_and_then_for_enough():
    inbox = make()
    taken = []
    wakes = []
    inbox.use(lambda fn: (wakes.append(len(inbox._entries)), fn()))
    started = threading.Event()

    def take():
        started.set()
        taken.append(inbox.take(3, 10, 30.0, WAIT)[0])

    thread = threading.Thread(target=take)
    thread.start()
    assert started.wait(10)
    for number in range(3):
        inbox.deliver(Sized(number))
    thread.join(10)
    assert taken == [[0, 1, 2]]
    assert set(wakes) <= {1, 2, 3}


def test_no_more_than_was_asked_for_in_order_and_with_times():
    inbox = make()
    for number in range(5):
        inbox.deliver(Sized(number, 10))
    found, times = inbox.take(1, 3, 0.0, WAIT)
    assert found == [0, 1, 2]
    assert len(times) == 3 and times == sorted(times)
    assert (inbox.in_hand, inbox.under_way, inbox.bytes) == (3, 5, 50)
    inbox.done()
    assert (inbox.in_hand, inbox.under_way, inbox.bytes) == (0, 2, 20)
    assert inbox.take(1, 3, 0.0, WAIT)[0] == [3, 4]


def test_few_are_taken_when_the_time_is_over():
    inbox = make()
    inbox.deliver(Sized(1))
    assert inbox.take(100, 100, 0.001, WAIT)[0] == [1]


def test_none_when_none_has_come_in_time():
    assert make().take(1, 100, 30.0, 0.001) == ([], [])


def test_after_the_stop_what_is_there_and_then_nothing():
    inbox = make()
    inbox.deliver(Sized(1))
    inbox.stop()
    assert inbox.take(100, 100, 30.0, WAIT)[0] == [1]
    assert inbox.take(100, 100, 30.0, WAIT) == ([], [])


def test_who_waits_is_woken_by_the_stop():
    inbox = make()
    found = []
    thread = threading.Thread(target=lambda: found.append(inbox.take(1, 1, 30.0, WAIT)))
    thread.start()
    inbox.stop()
    thread.join(10)
    assert found == [([], [])]


def test_an_interrupt_is_passed_on():
    told = []
    Inbox(lambda: told.append(1)).interrupt()
    assert told == [1]


def test_too_many_bytes_are_told_and_taken_without_waiting_for_more():
    told = []
    inbox = Inbox(lambda: None, 100, lambda: told.append(inbox.bytes))
    for number in range(2):
        inbox.deliver(Sized(number, 50))
    assert (inbox.full, told) == (False, [])
    inbox.deliver(Sized(2, 1))
    assert (inbox.full, told) == (True, [101])
    # enough is 1000, but it waits for no more
    found = []
    thread = threading.Thread(target=lambda: found.extend(inbox.take(1000, 2, WAIT, WAIT)[0]))
    thread.start()
    thread.join(10)
    assert found == [0, 1]
    # what is in hand counts until the taker is done with it
    assert inbox.full
    inbox.deliver(Sized(3, 9))
    assert told == [101, 110]
    inbox.done()
    assert (inbox.full, inbox.bytes) == (False, 10)


def test_who_waits_for_enough_is_woken_when_it_is_full():
    inbox = Inbox(lambda: None, 100)
    inbox.deliver(Sized(0, 60))
    found = []
    thread = threading.Thread(target=lambda: found.extend(inbox.take(1000, 1000, WAIT, WAIT)[0]))
    thread.start()
    inbox.deliver(Sized(1, 60))
    thread.join(10)
    assert found and found[0] == 0


@pytest.mark.parametrize("limit", [0, 100])
def test_a_message_larger_than_all_may_hold_comes_through(limit):
    inbox = Inbox(lambda: None, limit)
    inbox.deliver(Sized(0, 101))
    assert inbox.take(1000, 1000, WAIT, WAIT)[0] == [0]
    inbox.done()
    assert not inbox.full
