"""After the peer's Detach nothing but our own Detach may go out for that handle (2.6.6, 2.7.4).

RabbitMQ ends the session for a Flow on a handle that it has detached, and with it all other links.
"""

import pytest

from amqp1_driver.policy.outcome import Outcome
from amqp1_driver.testing import performatives as p
from amqp1_driver.testing import reactions

from .test_pausing import receivers, silence
from .world import rabbitmq

DELETED = "amqp:resource-deleted"


@pytest.fixture
def broker(path):
    """A RabbitMQ that is served by one listener."""
    world, _ = rabbitmq(path)
    return world.start()


def read(world):
    """Our side has read what the peer has sent, and has not looked at it."""
    world.connection.data_received(world.core.take_output())


def sent_on(world, link):
    """Types of the frames that we have sent for a link, after its Attach."""
    return [
        type(entry.performative)
        for entry in world.peer.log
        if entry.incoming
        and entry.channel == link.session.their_channel
        and getattr(entry.performative, "handle", None) == link.attach.handle
        and not isinstance(entry.performative, p.Attach)
    ]


ACTIONS = {
    "stop": lambda world, one: world.connection.stop_subscription(one.subscription),
    "pause": lambda world, one: one.subscription.pause(bool),
    "ask": lambda world, one: one.subscription.ask(bool),
    "more credit": lambda world, one: one.subscription.resize(50),
    "less credit": lambda world, one: one.subscription.resize(2),
    "unsubscribe": lambda world, one: world.connection.unsubscribe(one.subscription),
    "settle": lambda world, one: [world.connection.settle(each) for each in one.deliveries],
    "release": lambda world, one: [
        (setattr(each, "outcome", Outcome.RELEASED), world.connection.settle(each))
        for each in one.deliveries
    ],
}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("end", ["link", "session"])
def test_only_our_detach_follows_a_detach_that_was_read(broker, action, end):
    listener = broker.listen(credit=10)
    link = receivers(broker)[1]
    for number in range(8):
        broker.arrive(link.address, str(number), link=link)
    before = sent_on(broker, link)
    if end == "link":
        reactions.detach(link, DELETED)
    else:
        reactions.end(link.session, "amqp:internal-error")
    read(broker)
    ACTIONS[action](broker, listener)
    broker.flush()  # the socket takes bytes again
    broker.run()
    assert sent_on(broker, link)[len(before) :] == [p.Detach]


def test_an_answer_that_waits_does_not_ask_a_link_that_has_gone(broker):
    listener = broker.listen(credit=10)
    silence(broker)
    told = []
    link = receivers(broker)[0]
    broker.connection.stop_subscription(listener.subscription, told.append)
    broker.run()
    before = sent_on(broker, link)
    reactions.detach(link, DELETED)
    broker.run()
    broker.advance(5)
    assert sent_on(broker, link)[len(before) :] == [p.Detach]
    assert told == [False]  # the other two have not answered in time


def test_with_nothing_read_the_question_goes_out_with_the_credit(broker):
    listener = broker.listen(credit=10)
    listener.subscription.pause(bool)
    assert broker.flush()
    assert [link.credit for link in receivers(broker)] == [0, 0, 0]


def test_a_question_that_waited_is_asked_and_answered(broker):
    listener = broker.listen(credit=10)
    link = receivers(broker)[0]
    broker.peer.links[0].session.core.flow(link.session, link)
    read(broker)
    told = []
    listener.subscription.pause(told.append)
    broker.run()
    assert told == [True]
    assert [link.credit for link in receivers(broker)] == [0, 0, 0]
