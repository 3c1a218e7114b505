# SPDX-License-Identifier: Apache-2.0

"""Retry and the delays between attempts."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from amqp1_driver import exceptions
from amqp1_driver.policy.retry import Backoff, Pauses, Retry

RECOVERABLE = exceptions.ConnectionFailed("refused")
FINAL = exceptions.DeliveryRejected(condition="amqp:not-allowed")


@pytest.mark.parametrize(("retry", "left"), [(None, None), (-1, None), (-7, None), (0, 0), (3, 3)])
def test_retry_is_read_as_oslo_messaging_has_it(retry, left):
    assert Retry.of(retry).left == left


def test_no_retry_means_never():
    never = Retry.of(0)
    assert never.exhausted
    assert not never.may_retry(RECOVERABLE)
    with pytest.raises(ValueError, match="no retries left"):
        never.spent()


def test_retries_are_used_up_one_by_one():
    retry = Retry.of(2)
    assert retry.may_retry(RECOVERABLE)
    assert retry.spent().may_retry(RECOVERABLE)
    assert not retry.spent().spent().may_retry(RECOVERABLE)
    assert retry.left == 2


def test_only_recoverable_failures_that_cannot_duplicate_are_retried():
    retry = Retry.of(None)
    assert retry.may_retry(RECOVERABLE)
    assert not retry.may_retry(RECOVERABLE, in_doubt=True)
    assert not retry.may_retry(exceptions.InDoubt())
    assert not retry.may_retry(exceptions.ConnectionLost(in_doubt=True))
    assert not retry.may_retry(FINAL)
    assert not retry.may_retry(KeyError("not ours"))


@pytest.mark.parametrize(
    ("attempt", "longest"), [(1, 1.0), (2, 2.0), (3, 4.0), (5, 16.0), (6, 30.0), (10**9, 30.0)]
)
def test_delays_double_up_to_the_maximum(attempt, longest):
    assert Backoff(interval=1, factor=2, maximum=30).longest(attempt) == longest


@pytest.mark.parametrize("factor", [0, 0.5, 1])
def test_a_factor_up_to_one_makes_the_delay_constant(factor):
    backoff = Backoff(interval=3, factor=factor, maximum=30)
    assert [backoff.longest(n) for n in (1, 2, 500)] == [3.0, 3.0, 3.0]


def test_an_interval_above_the_maximum_is_the_maximum():
    assert Backoff(interval=50, factor=2, maximum=30).longest(1) == 30.0


def test_no_interval_is_no_delay():
    assert Backoff(interval=0).delay(5, random.Random(1)) == 0.0


class Fixed(random.Random):
    """A source of randomness that is none."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def random(self) -> float:
        return self.value


def test_half_of_the_delay_is_random():
    backoff = Backoff(interval=4, factor=2, maximum=30)
    assert backoff.delay(1, Fixed(0.0)) == 2.0
    assert backoff.delay(1, Fixed(0.5)) == 3.0
    assert backoff.delay(2, Fixed(0.0)) == 4.0


def test_the_delay_of_a_retry_grows_with_those_already_spent():
    retry = Retry.of(5, Backoff(interval=4, factor=2, maximum=30))
    assert retry.delay(Fixed(0.0)) == 2.0
    assert retry.spent().delay(Fixed(0.0)) == 4.0
    assert retry.spent().spent().spent().spent().delay(Fixed(0.0)) == 15.0


@given(st.floats(0, 100), st.floats(0, 10), st.floats(0, 100), st.integers(1, 10**6), st.randoms())
def test_delays_are_between_half_of_the_longest_and_the_maximum(
    interval, factor, maximum, attempt, rng
):
    backoff = Backoff(interval, factor, maximum)
    longest = backoff.longest(attempt)
    assert min(interval, maximum) <= longest <= maximum
    assert longest / 2 <= backoff.delay(attempt, rng) <= longest


class RetryMachine(RuleBasedStateMachine):
    """A message that fails again and again in different ways."""

    @initialize(retry=st.none() | st.integers(-2, 6))
    def begin(self, retry):
        self.asked = retry
        self.retry = Retry.of(retry)
        self.resent = 0

    @rule(seed=st.integers(0, 99))
    def fails_recoverably(self, seed):
        if self.retry.may_retry(RECOVERABLE):
            assert 0 < self.retry.delay(random.Random(seed)) <= 30.0
            self.retry = self.retry.spent()
            self.resent += 1
        else:
            assert self.resent == self.asked

    @rule(error=st.sampled_from([FINAL, exceptions.InDoubt(), exceptions.Closed()]))
    def fails_for_good(self, error):
        assert not self.retry.may_retry(error)

    @rule()
    def fails_in_doubt(self):
        assert not self.retry.may_retry(RECOVERABLE, True)

    @invariant()
    def never_more_often_than_asked(self):
        if self.asked is not None and self.asked >= 0:
            assert self.resent <= self.asked
            assert self.retry.left == self.asked - self.resent
        else:
            assert self.retry.left is None
        assert self.retry.spent_so_far == self.resent


TestRetryMachine = RetryMachine.TestCase


class Ones:
    def random(self):
        return 1.0


def test_what_keeps_ending_is_tried_again_more_and_more_seldom():
    pauses = Pauses(Backoff(1.0, 2.0, 30.0), Ones())
    now, seen = 1000.0, []
    for _ in range(7):
        seen.append(pauses.next(now))
        now += seen[-1] + 0.1
    assert seen == [1, 2, 4, 8, 16, 30, 30]


def test_what_has_lasted_begins_anew():
    pauses = Pauses(Backoff(1.0, 2.0, 30.0), Ones())
    assert [pauses.next(1000.0), pauses.next(1001.0)] == [1, 2]
    assert pauses.next(1003.0 + 60.0) == 4
    assert pauses.next(1067.0 + 60.1) == 1
