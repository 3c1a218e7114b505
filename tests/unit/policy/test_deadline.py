# SPDX-License-Identifier: Apache-2.0

import math

import pytest

from amqp1_driver.policy.deadline import Deadline


def test_a_deadline_is_a_point_on_the_clock_of_the_caller():
    deadline = Deadline.after(2.5, 100.0)
    assert deadline == Deadline(102.5)
    assert deadline.remaining(100.0) == 2.5
    assert deadline.remaining(102.25) == 0.25
    assert deadline.remaining(200.0) == 0.0


@pytest.mark.parametrize(("now", "expired"), [(102.4, False), (102.5, True), (103.0, True)])
def test_it_has_expired_when_the_point_is_reached(now, expired):
    assert Deadline(102.5).expired(now) is expired


@pytest.mark.parametrize(
    ("seconds", "ttl_ms"),
    [(30.0, 30000), (0.25, 250), (0.0001, 1), (0.0, 1), (-5.0, 1), (1e9, 4294967295)],
)
def test_time_to_live_is_in_milliseconds_and_never_zero_or_too_large(seconds, ttl_ms):
    assert Deadline.after(seconds, 0.0).ttl_ms(0.0) == ttl_ms


def test_no_time_is_for_ever():
    never = Deadline.after(None, 100.0)
    assert never.remaining(1e18) == math.inf
    assert not never.expired(1e18)
    assert never.ttl_ms(100.0) == 0


def test_deadlines_are_ordered():
    assert min(Deadline(2.0), Deadline.after(None, 0.0), Deadline(1.0)) == Deadline(1.0)
