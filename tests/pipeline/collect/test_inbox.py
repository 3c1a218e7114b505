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

"""The inbox: the taker is woken once per batch, and sees what is under way at any time."""

import threading

from amqp1_driver.pipeline.collect.inbox import Inbox


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
        taken.append(inbox.take(3, 10, 30.0)[0])

    thread = threading.Thread(target=take)
    thread.start()
    assert started.wait(10)
    for number in range(3):
        inbox.deliver(number)
    thread.join(10)
    assert taken == [[0, 1, 2]]
    assert set(wakes) <= {1, 2, 3}


def test_no_more_than_was_asked_for_in_order_and_with_times():
    inbox = make()
    for number in range(5):
        inbox.deliver(number)
    found, times = inbox.take(1, 3, 0.0)
    assert found == [0, 1, 2]
    assert len(times) == 3 and times == sorted(times)
    assert (inbox.in_hand, inbox.under_way) == (3, 5)
    inbox.in_hand = 0
    assert inbox.take(1, 3, 0.0)[0] == [3, 4]


def test_few_are_taken_when_the_time_is_over():
    inbox = make()
    inbox.deliver(1)
    assert inbox.take(100, 100, 0.001)[0] == [1]


def test_after_the_stop_what_is_there_and_then_nothing():
    inbox = make()
    inbox.deliver(1)
    inbox.stop()
    assert inbox.take(100, 100, 30.0)[0] == [1]
    assert inbox.take(100, 100, 30.0) == ([], [])


def test_who_waits_is_woken_by_the_stop():
    inbox = make()
    found = []
    thread = threading.Thread(target=lambda: found.append(inbox.take(1, 1, 30.0)))
    thread.start()
    inbox.stop()
    thread.join(10)
    assert found == [([], [])]


def test_an_interrupt_is_passed_on():
    told = []
    Inbox(lambda: told.append(1)).interrupt()
    assert told == [1]
