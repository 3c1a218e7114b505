# SPDX-License-Identifier: Apache-2.0

"""CreditWindow, by example and as a state machine over every order of events."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from amqp1_driver.policy.credit import CreditWindow


def attached(limit: int) -> CreditWindow:
    window = CreditWindow(limit)
    assert window.on_attached() == limit
    return window


def test_the_whole_limit_is_granted_at_attach():
    window = CreditWindow(100)
    assert (window.credit, window.level) == (0, 0)
    assert window.on_attached() == 100
    assert (window.credit, window.level) == (100, 100)


def test_nothing_is_granted_before_the_level_is_below_half():
    window = attached(100)
    for _ in range(51):
        assert window.on_delivery() is False
    assert window.on_settled(50) == 0
    assert window.level == 50
    assert window.on_settled() == 51
    assert (window.level, window.credit, window.unsettled) == (100, 100, 0)


def test_settling_one_by_one_grants_once_per_half_window():
    window = attached(10)
    grants = []
    for _ in range(30):
        window.on_delivery()
        grants.append(window.on_settled())
    assert [n for n in grants if n] == [6, 6, 6, 6, 6]


def test_the_last_credit_is_a_stall():
    window = attached(2)
    assert window.on_delivery() is False
    assert window.on_delivery() is True
    assert window.stalls == 1
    assert window.on_settled() == 0
    assert window.on_settled() == 2


def test_a_delivery_without_credit_is_no_stall_of_ours():
    window = attached(1)
    assert window.on_delivery() is True
    assert window.on_delivery() is False
    assert (window.credit, window.unsettled, window.stalls) == (0, 2, 1)
    assert window.on_settled(2) == 1


def test_after_a_detach_nothing_is_granted_and_nothing_is_unsettled():
    window = attached(10)
    for _ in range(10):
        window.on_delivery()
    window.on_detached()
    assert window.on_settled(10) == 0
    assert window.level == 0
    assert window.on_attached() == 10


def test_settling_more_than_there_is_counts_as_all():
    window = attached(4)
    window.on_delivery()
    assert window.on_settled(3) == 0
    assert window.unsettled == 0


def test_a_larger_window_is_filled_at_once():
    window = attached(10)
    window.on_delivery()
    assert window.resize(15) == 5
    assert window.level == 15


def test_of_a_smaller_window_the_credit_above_its_level_is_taken_back():
    window = attached(10)
    window.on_delivery()
    assert window.resize(4) == -6
    assert (window.credit, window.unsettled, window.level) == (3, 1, 4)
    assert window.on_settled() == 0
    assert window.level == 3


def test_no_more_is_taken_back_than_there_is():
    window = attached(10)
    for _ in range(9):
        window.on_delivery()
    assert window.resize(2) == -1
    assert (window.credit, window.level) == (0, 9)
    # what the sender had sent before it heard of that
    assert window.on_delivery() is False
    assert (window.credit, window.unsettled, window.stalls) == (0, 10, 0)
    assert window.on_settled(9) == 0
    assert window.on_settled() == 2


def test_a_paused_window_gives_up_its_credit_and_grants_nothing_until_it_is_resumed():
    window = attached(10)
    for _ in range(3):
        window.on_delivery()
    assert window.pause() == 7
    assert (window.credit, window.pause()) == (0, 0)
    assert window.on_settled(2) == 0
    assert window.resize(20) == 0
    assert window.resume() == 19
    assert (window.credit, window.unsettled, window.resume()) == (19, 1, 0)


def test_credit_that_was_used_by_what_has_come_can_t_be_taken_back():
    window = attached(10)
    assert window.pause(arrived=4) == 6
    assert (window.credit, window.pause(arrived=4)) == (4, 0)
    window.resume()
    assert window.resize(2, arrived=9) == -1
    assert window.credit == 9


def test_a_window_paused_by_draining_keeps_its_credit_until_the_sender_has_used_or_given_it_up():
    window = attached(10)
    assert window.pause(drain=True) == 0
    assert window.on_delivery() is False
    assert window.credit == 9
    window.on_drained(9)
    assert (window.credit, window.unsettled, window.stalls) == (0, 1, 0)
    assert window.resume() == 9


def test_a_window_stays_paused_over_an_attachment():
    window = attached(10)
    window.pause()
    window.on_detached()
    assert window.on_attached() == 0
    assert window.resume() == 10


def test_a_window_that_is_not_attached_is_resized_without_a_grant():
    window = CreditWindow(10)
    assert window.resize(20) == 0
    assert window.on_attached() == 20


def test_a_stopped_window_grants_nothing_any_more():
    window = attached(2)
    window.on_delivery()
    window.on_delivery()
    window.stop()
    assert window.on_settled(2) == 0
    assert window.resize(5) == 0
    assert window.on_attached() == 0


@pytest.mark.parametrize("limit", [0, -1])
def test_a_window_without_credit_is_an_error(limit):
    with pytest.raises(ValueError):
        CreditWindow(limit)
    with pytest.raises(ValueError):
        attached(1).resize(limit)


class CreditMachine(RuleBasedStateMachine):
    """A bus which sends as long as it has credit, and a consumer which settles in any order.

    The books are kept here: by grants, deliveries and settlements of each attachment.
    """

    def __init__(self):
        super().__init__()
        self.limit = self.largest = 1
        self.window = CreditWindow(1)
        self.link = False
        self.stopped = False
        self.paused = False
        self.granted = self.delivered = self.settled = self.stalls = 0
        self.owed = 0  # deliveries of the present attachment that are not settled yet

    def grant(self, credit: int) -> None:
        assert credit >= 0
        if credit:
            assert self.link and not self.stopped and not self.paused
            self.granted += credit
            # never beyond the limit of the moment
            assert self.granted - self.settled <= self.limit

    @rule()
    @precondition(lambda self: not self.link)
    def attach(self):
        self.link = True
        self.granted = self.delivered = self.settled = 0
        self.largest = self.limit
        self.grant(self.window.on_attached())
        self.owed = 0

    @rule()
    @precondition(lambda self: self.link)
    def detach(self):
        self.link = False
        self.granted = self.delivered = self.settled = 0
        self.window.on_detached()

    @rule(burst=st.integers(1, 30))
    @precondition(lambda self: self.granted > self.delivered)
    def deliver(self, burst):
        for _ in range(min(burst, self.granted - self.delivered)):
            self.delivered += 1
            self.owed += 1
            last = self.granted == self.delivered
            self.stalls += last
            assert self.window.on_delivery() is last

    @rule(data=st.data())
    @precondition(lambda self: self.link and self.owed)
    def settle(self, data):
        n = data.draw(st.integers(1, self.owed))
        self.owed -= n
        self.settled += n
        self.grant(self.window.on_settled(n))

    @rule(limit=st.integers(1, 40))
    def resize(self, limit):
        self.limit = limit
        self.largest = max(self.largest, limit)
        change = self.window.resize(limit)
        if change < 0:
            self.take_back(-change)
            assert self.granted == self.delivered or self.granted - self.settled == limit
        else:
            self.grant(change)

    def take_back(self, credit: int) -> None:
        assert 0 <= credit <= self.granted - self.delivered
        self.granted -= credit

    @rule()
    def pause(self):
        self.paused = True
        self.take_back(self.window.pause())
        assert self.granted == self.delivered

    @rule()
    def resume(self):
        self.paused = False
        self.grant(self.window.resume())

    @rule(burst=st.integers(1, 5))
    @precondition(lambda self: self.link and (self.paused or self.stopped))
    def cross(self, burst):
        """What was sent before the sender heard that its credit is gone."""
        for _ in range(burst):
            if self.granted == self.delivered:
                self.granted += 1
                self.delivered += 1
                self.largest += 1
                self.owed += 1
                assert self.window.on_delivery() is False

    @rule()
    @precondition(lambda self: self.granted > 20)
    def stop(self):
        self.stopped = True
        self.window.stop()

    @invariant()
    def the_books_agree(self):
        assert self.window.credit == self.granted - self.delivered
        assert self.window.unsettled == self.delivered - self.settled
        assert self.window.level <= self.largest
        assert self.window.stalls == self.stalls

    @invariant()
    def there_is_always_progress(self):
        """Whatever is not with the consumer can be sent: at least half of the limit."""
        if self.link and not self.stopped and not self.paused:
            assert self.window.level * 2 >= self.limit


CreditMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestCreditMachine = CreditMachine.TestCase


def test_a_window_within_a_room_is_granted_no_more_than_that():
    window = CreditWindow(10)
    assert window.on_settled_within(0, 4) == 0  # not attached yet
    assert window.on_attached() == 4
    for _ in range(4):
        window.on_delivery()
    assert window.on_settled_within(4, 0) == 0
    assert (window.level, window.limit) == (0, 0)
    assert window.on_settled_within(0, 1) == 1


def test_credit_is_left_where_the_room_shrinks():
    window = attached(10)
    assert window.on_settled_within(0, 3) == 0
    assert (window.credit, window.limit) == (10, 3)
