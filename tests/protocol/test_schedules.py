# SPDX-License-Identifier: Apache-2.0

"""Random schedules of everything that can happen, against the real connection.

Whatever the order: each operation ends exactly once and in time, nothing is sent twice that
might have been taken, credit keeps to its limit, no timer is left after the close, and no
event finds a state that does not allow it (which would be logged as an internal error).
"""

import logging
import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from amqp1_driver import exceptions
from amqp1_driver.connection.housekeeping import SWEEP_INTERVAL
from amqp1_driver.connection.operation import Kind
from amqp1_driver.engine.deliveries import ProtonDeliveries
from amqp1_driver.engine.speedups import SpeedupDeliveries
from amqp1_driver.policy.outcome import Outcome
from amqp1_driver.testing import performatives as p
from amqp1_driver.testing import reactions

from .world import Broker, World

TOPICS = ("a", "b")
CREDIT = 4
#: a message may go out again after these, with the option
SAFE = (p.Released, p.Modified)

STATES = st.sampled_from(
    [
        p.Accepted(),
        p.Accepted(),
        p.Released(),
        p.Modified(),
        p.Modified(delivery_failed=True),
        p.Rejected(error=p.Error(condition="amqp:not-found")),
        p.Rejected(),
        None,
    ]
)


#: for what ends so much that little can happen afterwards
SELDOM = st.integers(0, 5).map(lambda number: number == 5)


class Errors(logging.Handler):
    """Internal errors are logged, not raised: the connection survives them."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.found = []

    def emit(self, record):
        if record.exc_info or "internal error" in record.getMessage():
            self.found.append(self.format(record))


class Tracked:
    """An operation, and what the peer did with it."""

    def __init__(self, op, deadline, ends=None):
        self.op = op
        self.deadline = deadline
        self.ends = ends
        self.first = None  # how it ended first

    @property
    def count(self):
        """How often it has ended."""
        return len(self.ends) if self.ends is not None else int(self.op.future.done)

    @property
    def end(self):
        if self.ends is not None:
            return self.ends[0] if self.ends else None
        return self.op.future.error


class Schedules(RuleBasedStateMachine):
    """One connection, two hosts, a peer that does anything that a peer may do."""

    path = SpeedupDeliveries()
    #: RELEASED does not say that nobody had the message
    in_doubt = False
    product = "scripted-peer"

    @initialize(resend=st.booleans(), abrupt=st.booleans(), relay=st.booleans())
    def begin(self, resend, abrupt, relay):
        rabbit = self.product == "RabbitMQ"
        self.world = World(
            self.path,
            hosts=2,
            abrupt=abrupt,
            resend_released=resend,
            link_retry_delay=1.0,
            reply_link_credit=CREDIT,
            connect_timeout=5.0,
            connection_retry_interval_max=3.0,
            default_sender_link_timeout=6.0,
            peer={
                "product": self.product,
                "version": "4.0.0",
                "credit": 6,
                "offered_capabilities": ("ANONYMOUS-RELAY",) if relay or rabbit else (),
            },
        )
        self.errors = Errors()
        logging.getLogger("amqp1_driver").addHandler(self.errors)
        self.resend = resend
        self.peer = self.world.peer
        self.peer.override(None).expect_transfer().hold()
        self.broker = Broker(self.world) if rabbit else None
        self.operations = []
        self.listeners = []
        self.listeners_made = 0
        self.held = set()  # transfers without an outcome, by identity
        self.outcomes = {}  # message-id -> outcomes that the peer gave
        self.closing = False
        self.world.start()

    def teardown(self):
        if not hasattr(self, "world"):
            return
        try:
            self._finish()
        finally:
            logging.getLogger("amqp1_driver").removeHandler(self.errors)

    # -- trouble: one rule for each kind, so that most of what happens is work ------------------

    @rule(
        what=st.sampled_from(["no credit", "refuse", "detach"]),
        index=st.integers(0, 20),
        flag=st.booleans(),
    )
    def small_trouble(self, what, index, flag):
        if what == "no credit":
            self.no_credit_at_attach(flag)
        elif what == "refuse":
            self.attach_is_refused("amqp:not-found" if flag else "amqp:not-allowed")
        else:
            self.link_is_detached(index, flag)

    @rule(
        what=st.sampled_from(["session", "break", "peer closes", "host", "host", "close"]),
        index=st.integers(0, 20),
        host=st.sampled_from(["host0:5672", "host1:5672"]),
        mode=st.sampled_from(["up", "refuse", "silent"]),
        now=SELDOM,
    )
    def big_trouble(self, what, index, host, mode, now):
        if what == "session":
            self.session_is_ended(index)
        elif what == "break":
            self.connection_breaks()
        elif what == "peer closes":
            self.peer_closes()
        elif what == "host":
            self.host_changes(host, mode)
        elif now:
            self.close()

    # -- the application ---------------------------------------------------------------------

    @rule(
        kind=st.sampled_from([Kind.CALL, Kind.CAST, Kind.NOTIFY]),
        topic=st.sampled_from(TOPICS),
        retry=st.sampled_from([None, 0, 1, 3]),
        settled=st.booleans(),
        timeout=st.sampled_from([0.3, 8.0, 30.0]),
    )
    def send(self, kind, topic, retry, settled, timeout):
        world = self.world
        op = world.request(
            kind,
            topic,
            retry=retry,
            settled=settled,
            timeout=timeout,
            body=f"{kind.value}-{len(self.operations)}".encode(),
        )
        self.operations.append(Tracked(op, world.clock() + timeout))
        world.send(op)

    @rule(
        timeout=st.sampled_from([0.3, 2.0, 8.0]),
        retry=st.sampled_from([0, 1]),
        address=st.sampled_from(["caller1", "caller2"]),
    )
    def reply(self, timeout, retry, address):
        op, ends = self.world.make_reply(
            address, retry=retry, timeout=timeout, body=f"reply-{len(self.operations)}".encode()
        )
        self.operations.append(Tracked(op, self.world.clock() + timeout, ends))
        self.world.send(op)

    @rule(index=st.integers(0, 50), now=SELDOM)
    @precondition(lambda self: self.operations)
    def cancel(self, index, now):
        """What a caller does that gives up."""
        if not now:
            return
        tracked = self.operations[index % len(self.operations)]
        if tracked.ends is None:
            self.world.connection.cancel(tracked.op)
            self.world.run()

    @rule(topic=st.sampled_from(TOPICS))
    @precondition(lambda self: len(self.listeners) < 3 and not self.closing)
    def listen(self, topic):
        self.listeners.append(self.world.listen(topic, credit=CREDIT))
        self.listeners_made += 1

    @rule(
        index=st.integers(0, 5),
        outcome=st.sampled_from(
            [None, Outcome.ACCEPTED, Outcome.RELEASED, Outcome.REJECTED, Outcome.MODIFIED]
        ),
        twice=st.booleans(),
    )
    @precondition(lambda self: any(listener.deliveries for listener in self.listeners))
    def settle(self, index, outcome, twice):
        listener = next(item for item in self.listeners if item.deliveries)
        delivery = listener.deliveries.pop(index % len(listener.deliveries))
        self.world.settle(delivery, outcome)
        if twice:
            self.world.settle(delivery, Outcome.RELEASED)

    @rule(index=st.integers(0, 5), end=st.booleans())
    @precondition(lambda self: self.listeners)
    def stop_listener(self, index, end):
        listener = self.listeners[index % len(self.listeners)]
        self.world.connection.stop_subscription(listener.subscription)
        if end:
            self.world.connection.unsubscribe(listener.subscription)
            self.listeners.remove(listener)
        self.world.run()

    def close(self):
        if not self.closing:
            self.closing = True
            self.world.close()

    # -- time and network ----------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.05, 0.3, 1.0, 2.5, 7.0]))
    def time_passes(self, seconds):
        """In small steps, so that callers can give up at their deadlines."""
        until = self.world.clock() + seconds
        while self.world.clock() < until - 1e-9:
            step = min(0.1, until - self.world.clock())
            self.world.advance(step)
            self._callers()

    @rule()
    @precondition(lambda self: not self.closing and self.world.state != "ready")
    def it_comes_up(self):
        """Everything else is worth little without a connection."""
        self.world.modes.clear()
        self.peer.script.rules[:] = [
            step for step in self.peer.script.rules if step.kind is not p.Attach
        ]
        self.time_passes(2.5)

    def connection_breaks(self):
        if self.world.core is not None:
            self.world.drop()

    def host_changes(self, host, mode):
        self.world.modes[host] = mode
        self.world.run()

    # -- the peer --------------------------------------------------------------------------------

    @rule(index=st.integers(0, 20), state=STATES)
    def outcome(self, index, state):
        open_ = [
            t
            for t in self.peer.transfers
            if not t.settled
            and t.link.session.core is self.world.core
            and not t.link.detached
            and not t.link.session.ended
            and t.address != "/management"
        ]
        if not open_ or not open_[0].link.session.core.usable():
            return
        transfer = open_[index % len(open_)]
        self.outcomes.setdefault(transfer.body, []).append(state)
        reactions.settle(transfer, state)
        self.world.run()

    @rule(index=st.integers(0, 20), heartbeat=st.booleans())
    @precondition(lambda self: self.world.context is not None)
    def answer(self, index, heartbeat):
        calls = [t.op for t in self.operations if t.op.kind is Kind.CALL and t.op.attempts]
        links = [
            link
            for link in self.peer.links
            if not link.client_sends
            and not link.detached
            and link.address == self.world.context.reply_address
            and link.credit > 0
        ]
        if calls and links and not self.closing:
            op = calls[index % len(calls)]
            self.world.answer(op, None if heartbeat else "answer", link=links[-1])

    @rule(index=st.integers(0, 20), settled=st.booleans())
    def message_arrives(self, index, settled):
        links = [
            link
            for link in self._links()
            if not link.client_sends
            and link.credit > 0
            and (
                "topic" in str(link.address)
                or ".ex." in str(link.address)
                or "anycast" in str(link.address)
            )
        ]
        if links:
            self.world.arrive("", link=links[index % len(links)], settled=settled)

    @rule(index=st.integers(0, 20), credit=st.integers(0, 3))
    def credit_changes(self, index, credit):
        links = [
            link for link in self._links() if link.client_sends and link.address != "/management"
        ]
        if links:
            link = links[index % len(links)]
            link.window = 0
            # credit that was given may be used: it is not taken back
            reactions.grant(link, link.credit + credit)
            self.world.run()

    def no_credit_at_attach(self, credit):
        self.peer.override().expect_attach(
            role="sender", address=lambda a: a != "/management"
        ).respond(credit=int(credit))

    def attach_is_refused(self, condition):
        self.peer.override().expect_attach(address=lambda a: a != "/management").refuse(condition)

    def link_is_detached(self, index, closed):
        links = self._links()
        if links:
            reactions.detach(links[index % len(links)], "amqp:link:detach-forced", closed=closed)
            self.world.run()

    def session_is_ended(self, index):
        core = self.world.core
        sessions = [s for s in core.sessions.values() if s.begun and not s.ended] if core else []
        if sessions and core.usable():
            reactions.end(sessions[index % len(sessions)], "amqp:internal-error")
            self.world.run()

    def peer_closes(self):
        core = self.world.core
        if core is not None and core.remote_open is not None and not core.close_sent:
            self.peer.close("amqp:connection:forced", "shutdown")
            self.world.run()

    @rule(answers=st.sampled_from(["201", "409", None]))
    @precondition(lambda self: self.broker is not None)
    def management_changes(self, answers):
        self.broker.answers = _Always(answers)

    # -- what must hold --------------------------------------------------------------------------

    @invariant()
    def nothing_went_wrong_inside(self):
        if hasattr(self, "world"):
            assert self.errors.found == []
            assert self.peer.script.failure is None

    @invariant()
    def operations_end_once(self):
        for tracked in getattr(self, "operations", ()):
            assert tracked.count <= 1
            if tracked.count and tracked.first is None:
                tracked.first = (tracked.end, tracked.op.attempts)
            if tracked.first is not None:
                assert tracked.first == (tracked.end, tracked.op.attempts)
                assert tracked.op.finished

    @invariant()
    def operations_end_in_time(self):
        for tracked in getattr(self, "operations", ()):
            if not tracked.count:
                # a caller gives up within a step of 0.1 s, replies are swept
                assert self.world.clock() <= tracked.deadline + SWEEP_INTERVAL + 0.2, tracked.op

    @invariant()
    def nothing_is_sent_again_that_may_have_been_taken(self):
        if not hasattr(self, "world"):
            return
        sent = {}
        for transfer in self.peer.transfers:
            if transfer.address != "/management":
                sent.setdefault(transfer.body, []).append(transfer)
        for body, transfers in sent.items():
            for earlier in transfers[:-1]:
                assert not earlier.link.session.core.script.failure
                states = self.outcomes.get(body, [])
                assert len(states) >= len(transfers) - 1, body
            for state in self.outcomes.get(body, [])[: len(transfers) - 1]:
                self._may_be_resent(body, state)

    def _may_be_resent(self, body, state):
        reply = body.startswith("reply")
        assert reply or (self.resend and not self.in_doubt), (body, state)
        if isinstance(state, p.Modified):
            assert not state.delivery_failed
        elif isinstance(state, p.Rejected):
            assert reply and state.error.condition == "amqp:not-found"
        else:
            assert isinstance(state, p.Released), (body, state)

    @invariant()
    def our_credit_keeps_to_its_limit(self):
        for link in self._links() if hasattr(self, "world") else ():
            if not link.client_sends and link.address != "/management":
                unsettled = sum(not sent.settled for sent in self.peer.sent if sent.link is link)
                assert link.credit + unsettled <= CREDIT, link

    @invariant()
    def timers_do_not_pile_up(self):
        if hasattr(self, "world"):
            # each link may wait for its next attempt, each declaration for its answer
            timers = len(self.world.port.timers.live)
            under_way = sum(not tracked.count for tracked in self.operations)
            assert timers <= 20 + 8 * self.listeners_made + under_way

    # -- helpers -----------------------------------------------------------------------------------

    def _links(self):
        core = self.world.core
        if core is None or not core.usable() or core.close_sent:
            return []
        return [
            link
            for session in core.sessions.values()
            if not session.ended
            for link in session.links.values()
            if link.attached and not link.detached
        ]

    def _callers(self):
        """Each caller gives up at its deadline."""
        now = self.world.clock()
        for tracked in self.operations:
            if tracked.ends is None and not tracked.count and now >= tracked.deadline:
                self.world.connection.cancel(tracked.op)
        self.world.run()

    def _finish(self):
        """Close; then nobody waits and nothing is left."""
        if not self.closing:
            self.world.close()
        self.world.advance(2.5)
        assert self.world.state == "closed"
        assert self.world.closed == 1
        for tracked in self.operations:
            assert tracked.count == 1, tracked.op.message_id
            assert tracked.end is None or isinstance(tracked.end, exceptions.AmqpError)
        assert self.world.port.timers.live == set()
        assert self.errors.found == []
        attaches = [
            (entry.connection, entry.performative.name, entry.performative.role)
            for entry in self.peer.frames(p.Attach)
        ]
        assert len(attaches) == len(set(attaches))  # link names are never used again


class _Always(dict):
    """The same answer for every path."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def get(self, key, default=None):
        return self.answer


class PublicSchedules(Schedules):
    path = ProtonDeliveries()


class RabbitSchedules(Schedules):
    product = "RabbitMQ"
    in_doubt = True


class PublicRabbitSchedules(RabbitSchedules):
    path = ProtonDeliveries()


def _case(machine):
    case = machine.TestCase
    case.settings = settings(max_examples=25, stateful_step_count=30)
    return case


TestSchedules = _case(Schedules)
TestPublicSchedules = _case(PublicSchedules)
TestRabbitSchedules = _case(RabbitSchedules)
TestPublicRabbitSchedules = _case(PublicRabbitSchedules)


def weighted(machine, seed, steps):
    """One long schedule in which most of what happens is work: deeper than the short ones."""
    rng = random.Random(seed)
    machine.begin(rng.random() < 0.5, rng.random() < 0.5, rng.random() < 0.5)
    kinds = [Kind.CALL, Kind.CALL, Kind.CAST, Kind.NOTIFY]
    outcomes = [
        p.Accepted(),
        p.Accepted(),
        p.Accepted(),
        p.Released(),
        p.Released(),
        p.Modified(),
        p.Modified(delivery_failed=True),
        p.Rejected(),
        None,
        p.Rejected(error=p.Error(condition="amqp:not-found")),
    ]
    given = [None, Outcome.ACCEPTED, Outcome.RELEASED, Outcome.MODIFIED]

    def index():
        return rng.randrange(21)

    def settle():
        if any(listener.deliveries for listener in machine.listeners):
            machine.settle(index(), rng.choice(given), rng.random() < 0.3)

    def listen():
        if len(machine.listeners) < 3:
            machine.listen(rng.choice(TOPICS))

    def stop_listener():
        if machine.listeners:
            machine.stop_listener(index(), rng.random() < 0.8)

    def answer():
        if machine.world.context is not None:
            machine.answer(index(), rng.random() < 0.2)

    def cancel():
        if machine.operations:
            machine.cancel(rng.randrange(len(machine.operations)), True)

    def management():
        if machine.broker is not None:
            machine.management_changes(rng.choice(["201", "201", "409", None]))

    actions = {
        lambda: machine.send(
            rng.choice(kinds),
            rng.choice(TOPICS),
            rng.choice([None, 0, 1, 3]),
            rng.random() < 0.2,
            rng.choice([0.3, 8.0, 30.0]),
        ): 12,
        lambda: machine.reply(rng.choice([0.3, 2.0, 8.0]), rng.choice([0, 1]), "caller"): 4,
        lambda: machine.outcome(index(), rng.choice(outcomes)): 12,
        lambda: machine.message_arrives(index(), rng.random() < 0.3): 12,
        lambda: machine.credit_changes(index(), rng.randrange(4)): 4,
        lambda: machine.time_passes(rng.choice([0.05, 0.3, 1.0, 2.5])): 6,
        lambda: machine.small_trouble(
            rng.choice(["no credit", "refuse", "detach"]), index(), rng.random() < 0.5
        ): 3,
        lambda: machine.big_trouble(
            rng.choice(["session", "break", "peer closes", "host"]),
            index(),
            rng.choice(["host0:5672", "host1:5672"]),
            rng.choice(["up", "refuse", "silent"]),
            False,
        ): 1,
        settle: 10,
        listen: 3,
        stop_listener: 1,
        answer: 6,
        cancel: 1,
        management: 2,
    }
    choices = rng.choices(list(actions), list(actions.values()), k=steps)
    for number, action in enumerate(choices):
        action()
        if machine.world.state != "ready" and number % 10 == 0:
            machine.it_comes_up()
        machine.nothing_went_wrong_inside()
        machine.operations_end_once()
        machine.our_credit_keeps_to_its_limit()
        if number % 10 == 0:
            machine.operations_end_in_time()
            machine.timers_do_not_pile_up()
            machine.nothing_is_sent_again_that_may_have_been_taken()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "machine", [Schedules, PublicSchedules, RabbitSchedules, PublicRabbitSchedules]
)
def test_a_long_schedule(machine, seed):
    schedule = machine()
    try:
        weighted(schedule, seed, 250)
    finally:
        schedule.teardown()


@pytest.fixture(autouse=True)
def quiet(caplog):
    """pytest's own capture costs more than the tests."""
    caplog.set_level(logging.ERROR)
