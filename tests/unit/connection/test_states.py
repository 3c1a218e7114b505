# SPDX-License-Identifier: Apache-2.0

"""The state tables: every (state, event) is in the table or is refused."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from amqp1_driver.connection.states import (
    CONNECTION,
    LINK,
    ConnectionEvent,
    ConnectionState,
    IllegalTransition,
    LinkEvent,
    LinkState,
    Machine,
)

#: what each state of the connection lets through, and where to: written down from the
#: architecture, not taken from the table
CONNECTION_EXPECTED = {
    "idle": {"start": "connecting", "close": "closed"},
    "connecting": {"transport up": "opening", "lost": "backoff", "close": "closing"},
    "opening": {"opened": "attaching", "lost": "backoff", "close": "closing"},
    "attaching": {
        "reply attached": "ready",
        "reply lost": "attaching",
        "lost": "backoff",
        "close": "closing",
    },
    "ready": {"reply lost": "attaching", "lost": "backoff", "close": "closing"},
    "backoff": {"retry": "connecting", "close": "closed"},
    "closing": {"lost": "closed", "close": "closing"},
    "closed": {"close": "closed", "lost": "closed"},
}

LINK_EXPECTED = {
    "detached": {"attach": "attaching", "detach": "detached", "connection lost": "detached"},
    "attaching": {
        "remote attached": "attached",
        "remote detached": "reattach wait",
        "detach": "detaching",
        "connection lost": "detached",
    },
    "attached": {
        "remote detached": "reattach wait",
        "detach": "detaching",
        "connection lost": "detached",
    },
    "detaching": {
        "remote attached": "detaching",
        "remote detached": "detached",
        "detach": "detaching",
        "connection lost": "detached",
    },
    "reattach wait": {"retry": "attaching", "detach": "detached", "connection lost": "detached"},
}


@pytest.mark.parametrize("state", ConnectionState)
@pytest.mark.parametrize("event", ConnectionEvent)
def test_every_event_in_every_state_of_the_connection(state, event):
    _check(CONNECTION, CONNECTION_EXPECTED, state, event)


@pytest.mark.parametrize("state", LinkState)
@pytest.mark.parametrize("event", LinkEvent)
def test_every_event_in_every_state_of_a_link(state, event):
    _check(LINK, LINK_EXPECTED, state, event)


def _check(table, expected, state, event):
    machine = Machine(table, state)
    target = expected[state.value].get(event.value)
    assert machine.can(event) is (target is not None)
    if target is None:
        with pytest.raises(IllegalTransition) as caught:
            machine.fire(event)
        assert str(caught.value) == f"{event.value!r} in state {state.value!r}"
        assert machine.state is state
    else:
        assert machine.fire(event).value == target
        assert machine.state.value == target


def test_the_tables_name_nothing_else():
    for table, expected in ((CONNECTION, CONNECTION_EXPECTED), (LINK, LINK_EXPECTED)):
        assert len(table) == sum(len(events) for events in expected.values())


def test_a_connection_can_be_closed_in_every_state_and_never_comes_back():
    for state in ConnectionState:
        machine = Machine(CONNECTION, state)
        if machine.fire(ConnectionEvent.CLOSE) is not ConnectionState.CLOSED:
            assert machine.fire(ConnectionEvent.LOST) is ConnectionState.CLOSED
        for event in ConnectionEvent:
            if machine.can(event):
                assert machine.fire(event) is ConnectionState.CLOSED


def test_the_loss_of_the_connection_detaches_a_link_in_every_state():
    for state in LinkState:
        assert Machine(LINK, state).fire(LinkEvent.CONNECTION_LOST) is LinkState.DETACHED


class _Walk(RuleBasedStateMachine):
    """Any sequence of events: refused ones change nothing, the others follow the table."""

    table, expected, events, first = CONNECTION, CONNECTION_EXPECTED, ConnectionEvent, "idle"

    def __init__(self):
        super().__init__()
        initial = next(state for state, _ in self.table if state.value == self.first)
        self.machine = Machine(self.table, initial)
        self.model = self.first

    @rule(data=st.data())
    def fire(self, data):
        event = data.draw(st.sampled_from(self.events))
        target = self.expected[self.model].get(event.value)
        if target is None:
            with pytest.raises(IllegalTransition):
                self.machine.fire(event)
        else:
            self.machine.fire(event)
            self.model = target

    @invariant()
    def state_is_that_of_the_model(self):
        assert self.machine.state.value == self.model

    @invariant()
    def there_is_a_way_to_the_end(self):
        assert self.expected[self.model]


class _LinkWalk(_Walk):
    table, expected, events, first = LINK, LINK_EXPECTED, LinkEvent, "detached"


class TestConnectionWalk(_Walk.TestCase):
    settings = settings(max_examples=30, stateful_step_count=30)


class TestLinkWalk(_LinkWalk.TestCase):
    settings = settings(max_examples=30, stateful_step_count=30)
