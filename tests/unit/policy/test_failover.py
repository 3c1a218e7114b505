# SPDX-License-Identifier: Apache-2.0

"""The choice of hosts, by scenario and as a state machine."""

import random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from amqp1_driver.options import Host
from amqp1_driver.policy import failover
from amqp1_driver.policy.retry import Backoff

A, B, C = (Host(name, 5672) for name in "abc")
BACKOFF = Backoff(interval=4, factor=2, maximum=30)


class Fixed(random.Random):
    """A source of randomness that is none."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def random(self) -> float:
        return self.value


LEAST, HALF, MOST = Fixed(0.0), Fixed(0.5), Fixed(0.999)


def begin(hosts, strategy="ordered", **options):
    return failover.start(hosts, strategy, random.Random(1), backoff=BACKOFF, **options)


# What happens after each attempt -> the hosts tried and the delays before them, without luck.
# f: the attempt fails. l: it succeeds, and later the connection is lost.
SCENARIOS = [
    ("one host, refused", "ordered", (A,), "ffff", "aaaa", (0, 2, 4, 8)),
    ("back-off is bounded", "ordered", (A,), "ffffff", "aaaaaa", (0, 2, 4, 8, 15, 15)),
    ("a round is tried at once", "ordered", (A, B, C), "fffffff", "abcabca", (0, 0, 0, 2, 0, 0, 4)),
    ("success ends the back-off", "ordered", (A, B), "ffflff", "abababa"[:6], (0, 0, 2, 0, 0, 0)),
    ("ordered returns to the first", "ordered", (A, B, C), "fflfl", "abcab", (0, 0, 0, 0, 0)),
    ("but not to the one just lost", "ordered", (A, B, C), "llll", "abab", (0, 0, 0, 0)),
    ("round-robin goes on", "round-robin", (A, B, C), "llll", "abca", (0, 0, 0, 0)),
    ("one host, lost and refused", "ordered", (A,), "lfff", "aaaa", (0, 0, 2, 4)),
]


@pytest.mark.parametrize(
    ("strategy", "hosts", "events", "tried", "delays"),
    [scenario[1:] for scenario in SCENARIOS],
    ids=[scenario[0] for scenario in SCENARIOS],
)
def test_scenarios(strategy, hosts, events, tried, delays):
    state = begin(hosts, strategy)
    seen, waits = "", []
    for event in events:
        attempt = failover.next_attempt(state, LEAST)
        seen += attempt.host.hostname
        waits.append(attempt.delay)
        if event == "f":
            state = failover.failed(state)
        else:
            state = failover.lost(failover.succeeded(state))
    assert seen == tried
    assert tuple(waits) == delays


def test_the_first_attempt_is_made_at_once():
    assert failover.next_attempt(begin([A, B]), MOST) == (A, 0.0)


def test_after_a_loss_agents_spread_over_the_splay():
    lost = failover.lost(failover.succeeded(begin([A, B])))
    assert failover.next_attempt(lost, LEAST).delay == 0.0
    assert failover.next_attempt(lost, HALF).delay == 0.5


def test_jitter_is_up_to_half_of_the_back_off():
    state = failover.failed(begin([A]))
    assert failover.next_attempt(state, LEAST).delay == 2.0
    assert failover.next_attempt(state, HALF).delay == 3.0


def test_round_robin_starts_where_the_turn_is():
    hosts = [
        failover.next_attempt(begin([A, B], "round-robin", turn=n), HALF).host for n in (0, 1, 2)
    ]
    assert hosts == [A, B, A]


def test_shuffle_has_an_order_of_its_own():
    orders = {failover.start([A, B, C], "shuffle", random.Random(n)).hosts for n in range(50)}
    assert len(orders) == 6
    assert all(set(order) == {A, B, C} for order in orders)


def test_default_back_off_is_that_of_the_options():
    state = failover.start([A], "ordered", random.Random(1))
    assert state.backoff == Backoff(1.0, 2.0, 30.0)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="no hosts"):
        begin([])
    with pytest.raises(ValueError, match="'random'"):
        begin([A], "random")


def test_the_present_host():
    state = begin([A, B])
    assert state.current == A
    state = failover.succeeded(failover.failed(state))
    assert state.current == B
    assert failover.lost(state).current == A


def test_a_loss_begins_a_new_round():
    # also of a connection that was never reported as usable
    state = failover.failed(failover.lost(failover.failed(begin([A, B]))))
    assert failover.next_attempt(state, HALF).delay == 0.0


class FailoverMachine(RuleBasedStateMachine):
    """A connection that goes through any sequence of failures, successes and losses."""

    @initialize(
        count=st.integers(1, 5),
        strategy=st.sampled_from(["ordered", "shuffle", "round-robin"]),
        turn=st.integers(0, 9),
        seed=st.integers(0, 99),
    )
    def begin(self, count, strategy, turn, seed):
        self.hosts = {Host(f"h{n}", 5672) for n in range(count)}
        self.rng = random.Random(seed)
        self.state = failover.start(
            sorted(self.hosts, key=str), strategy, self.rng, turn=turn, backoff=BACKOFF
        )
        self.connected = False
        self.lost_host = None
        self.tried = []  # hosts since the last success
        self.first = True

    def attempt(self):
        host, delay = failover.next_attempt(self.state, self.rng)
        rounds, within = divmod(len(self.tried), len(self.hosts))
        if self.lost_host is not None:
            assert 0 <= delay < 1.0
            assert host != self.lost_host or len(self.hosts) == 1
            self.lost_host = None
        elif rounds and not within:
            longest = min(4 * 2 ** (rounds - 1), 30)
            assert longest / 2 <= delay <= longest
        else:
            assert delay == 0.0
        assert host == self.state.current
        self.tried.append(host)
        # no host twice before all of them had their turn
        assert len(set(self.tried[-len(self.hosts) :])) == min(len(self.tried), len(self.hosts))
        if len(self.tried) >= len(self.hosts):
            assert set(self.tried[-len(self.hosts) :]) == self.hosts

    @rule()
    @precondition(lambda self: not self.connected)
    def attempt_fails(self):
        self.attempt()
        self.state = failover.failed(self.state)

    @rule()
    @precondition(lambda self: not self.connected)
    def attempt_succeeds(self):
        self.attempt()
        self.state = failover.succeeded(self.state)
        self.connected = True
        self.tried = []

    @rule()
    @precondition(lambda self: self.connected)
    def connection_is_lost(self):
        self.lost_host = self.state.current
        self.state = failover.lost(self.state)
        self.connected = False


TestFailoverMachine = FailoverMachine.TestCase


def test_a_detour_is_tried_at_once_instead_of_the_host_that_sends_us_there():
    state = failover.redirected(begin([A, B]), C)
    attempt = failover.next_attempt(state, random.Random(1))
    assert (attempt.host, attempt.delay, state.current) == (C, 0.0, C)


def test_after_a_detour_that_fails_the_host_that_sent_us_there_is_asked_again():
    state = failover.redirected(begin([A, B]), C)
    after = failover.failed(state)
    assert (after.current, after.failures, after.after_loss) == (A, 1, False)


def test_after_a_detour_that_is_lost_too():
    state = failover.succeeded(failover.redirected(begin([A, B]), C))
    assert state.current == C
    after = failover.lost(state)
    assert (after.current, after.failures, after.after_loss) == (A, 0, True)
