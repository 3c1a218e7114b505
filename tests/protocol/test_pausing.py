"""A listener that is paused, resumed, resized and stopped while messages come (2.6.7, 2.7.4)."""

import pytest

from amqp1_driver import flowframe
from amqp1_driver.testing import performatives as p
from amqp1_driver.testing import reactions
from amqp1_driver.testing.messages import Message

from .world import rabbitmq

ANY = "unicast.ex.topic"


def flows(world, link):
    """(link-credit, drain, echo) of all that we have sent on a link."""
    return [
        (flow.link_credit, bool(flow.drain), bool(flow.echo))
        for entry in world.peer.frames(p.Flow)
        if (flow := entry.performative).handle == link.attach.handle
        and entry.channel == link.session.their_channel
    ]


def receivers(world):
    """The peer's view of the links that read queues of listeners."""
    return [
        link
        for link in world.peer.links
        if not link.client_sends and link.name.startswith("receive.")
    ]


@pytest.fixture
def broker(path):
    """A RabbitMQ: it echoes, and says what it has available."""
    world, _ = rabbitmq(path)
    return world.start()


def silence(world):
    """The peer answers no Flow frame from now on."""
    world.peer.override(None).expect_flow().call(lambda event: None)


def answer(link, **fields):
    """A Flow frame of the sending end of a link."""
    link.session.core.flow(link.session, link, **fields)


def pause(world, listener):
    told = []
    listener.subscription.pause(told.append)
    world.run()
    return told


# -- with an echo ------------------------------------------------------------------------------


def test_all_credit_is_taken_back_with_an_echo_whose_answer_confirms_it(broker):
    listener = broker.listen(credit=10)
    assert pause(broker, listener) == [True]
    links = receivers(broker)
    assert [link.credit for link in links] == [0, 0, 0]
    assert [flows(broker, link) for link in links] == [[(10, False, False), (0, False, True)]] * 3
    listener.subscription.resume()
    broker.run()
    assert [flows(broker, link)[2:] for link in links] == [[(10, False, False)]] * 3


def test_without_an_answer_it_is_not_confirmed_within_two_seconds(broker, caplog):
    listener = broker.listen(credit=10)
    silence(broker)
    told = pause(broker, listener)
    broker.advance(1.9)
    assert told == []
    broker.advance(0.2)
    assert told == [False]
    assert "host0:5672 does not answer on the link to /queues/" in caplog.text
    assert listener.subscription.paused


def test_what_was_sent_before_the_peer_knew_still_comes_and_makes_no_credit(broker):
    listener = broker.listen(credit=10)
    silence(broker)
    told = pause(broker, listener)
    link = receivers(broker)[0]
    link.credit = 3  # as it was, had the peer not heard yet
    for number in range(3):
        broker.arrive(link.address, str(number), link=link)
    assert (listener.bodies, told) == ([b"0", b"1", b"2"], [])
    assert {credit for credit, _, _ in flows(broker, link)[1:]} == {0}
    for each in receivers(broker):
        answer(each)
    broker.run()
    assert told == [True]
    for delivery in listener.deliveries:
        broker.settle(delivery)
    assert {credit for credit, _, _ in flows(broker, link)[1:]} == {0}
    listener.subscription.resume()
    broker.run()
    assert link.credit == 10
    for _ in range(10):
        broker.arrive(link.address, link=link)
    assert len(listener.deliveries) == 13


def come(world, link, count):
    """Messages that our side has read from the socket and not looked at yet."""
    for number in range(count):
        reactions.transfer(link, Message(str(number)))
    world.connection.data_received(world.core.take_output())


def test_messages_that_have_come_but_were_not_looked_at_have_used_their_credit(broker):
    """Taken back once more it would be less than none: 4294967293 to the peer."""
    listener = broker.listen(credit=10)
    link = receivers(broker)[0]
    come(broker, link, 3)
    assert pause(broker, listener) == [True]
    assert listener.bodies == [b"0", b"1", b"2"]
    # the question waits until what was read is worked off
    assert flows(broker, link) == [(10, False, False), (0, False, False), (0, False, True)]
    listener.subscription.resume()
    broker.run()
    assert flows(broker, link)[3:] == [(7, False, False)]


def test_of_a_smaller_window_too(broker):
    listener = broker.listen(credit=10)
    link = receivers(broker)[0]
    come(broker, link, 8)
    listener.subscription.resize(1)
    broker.run()
    assert len(listener.bodies) == 8
    assert flows(broker, link) == [(10, False, False), (0, False, False)]


def test_what_comes_between_question_and_answer_is_not_held_up(broker):
    listener = broker.listen(credit=10)
    silence(broker)
    pause(broker, listener)
    link = receivers(broker)[1]
    link.credit = 1
    broker.arrive(link.address, "x" * 100000, link=link)
    assert len(listener.bodies[0]) == 100000
    op = broker.cast(server="other")
    assert op.future.done


def test_the_answer_says_how_much_is_available(broker):
    listener = broker.listen(credit=10)
    assert listener.subscription.backlog is None
    silence(broker)
    told = pause(broker, listener)
    for number, link in enumerate(receivers(broker)):
        answer(link, available=100 + number)
    broker.run()
    assert told == [True]
    assert [r.available for r in listener.subscription.receivers] == [100, 101, 102]
    assert listener.subscription.backlog == 303
    assert listener.subscription.counters() == {"stalls": 0, "received": 0, "unsettled": 0}


def test_it_can_be_asked_for_without_touching_the_credit(broker):
    listener = broker.listen(credit=10)
    silence(broker)
    told = []
    listener.subscription.ask(told.append)
    broker.run()
    links = receivers(broker)
    assert [flows(broker, link) for link in links] == [[(10, False, False), (10, False, True)]] * 3
    for link in links:
        answer(link, available=7)
    broker.run()
    assert (told, listener.subscription.backlog) == ([True], 21)
    assert [link.credit for link in links] == [10, 10, 10]


def test_each_question_has_an_answer_of_its_own(broker):
    listener = broker.listen(credit=10)
    silence(broker)
    told = []
    receiver = listener.subscription.receivers[0]
    receiver.ask(lambda ok: told.append("asked"))
    receiver.pause(lambda ok: told.append("paused"))
    broker.run()
    link = receivers(broker)[0]
    answer(link, available=5)
    broker.run()
    assert (told, receiver.available) == (["asked"], 5)
    answer(link, available=9)
    broker.run()
    assert (told, receiver.available) == (["asked", "paused"], 9)
    broker.advance(5)
    assert told == ["asked", "paused"]


def test_each_question_has_its_own_time(broker, caplog):
    listener = broker.listen(credit=10)
    silence(broker)
    told = []
    receiver = listener.subscription.receivers[0]
    link = receivers(broker)[0]
    receiver.ask(told.append)
    broker.advance(1.5)
    receiver.ask(told.append)
    broker.run()
    answer(link, available=5)
    broker.run()
    broker.advance(1.5)
    assert told == [True]
    answer(link, available=5)
    broker.run()
    assert told == [True, True]
    receiver.ask(told.append)
    broker.advance(2.1)
    assert told == [True, True, False]
    assert caplog.text.count("does not answer") == 1


def test_proton_is_traced_only_while_an_answer_is_awaited(broker, capfd):
    listener = broker.listen(credit=10)
    pause(broker, listener)
    broker.cast()
    assert capfd.readouterr().err == ""


def test_it_stays_paused_on_the_next_connection(broker):
    listener = broker.listen(credit=10)
    pause(broker, listener)
    broker.drop().advance(5)
    assert (broker.state, [link.credit for link in receivers(broker)]) == ("ready", [0, 0, 0])
    listener.subscription.resume()
    broker.run()
    assert [link.credit for link in receivers(broker)] == [10, 10, 10]


@pytest.mark.parametrize("lost", ["connection", "link"])
def test_when_it_is_lost_nothing_more_can_come(broker, lost):
    listener = broker.listen(credit=10)
    silence(broker)
    told = pause(broker, listener)
    assert told == []
    if lost == "connection":
        broker.drop()
    else:
        for link in receivers(broker):
            broker.peer.remote_detach(link.address, "amqp:resource-deleted")
        broker.run()
    assert told == [True]


def test_a_listener_without_a_connection_is_paused_at_once(broker):
    listener = broker.listen(credit=10)
    broker.drop()
    assert pause(broker, listener) == [True]
    broker.advance(5)
    assert [link.credit for link in receivers(broker)] == [0, 0, 0]


def test_a_frame_that_can_t_be_read_goes_as_it_is_and_the_link_is_drained(broker, monkeypatch):
    def unreadable(frames):
        raise ValueError("strange")

    monkeypatch.setattr(flowframe, "drain_to_echo", unreadable)
    listener = broker.listen(credit=10)
    assert pause(broker, listener) == [True]
    link = receivers(broker)[0]
    assert flows(broker, link) == [(10, False, False), (0, True, False)]
    listener.subscription.resume()
    broker.run()
    assert [link.credit for link in receivers(broker)] == [10, 10, 10]


# -- by draining -------------------------------------------------------------------------------


def test_a_peer_that_does_not_echo_is_drained(world):
    listener = world.listen(credit=10)
    assert pause(world, listener) == [True]
    assert flows(world, world.link(ANY)) == [(10, False, False), (10, True, False)]
    assert world.link(ANY).credit == 0
    listener.subscription.resume()
    world.run()
    assert world.link(ANY).credit == 10


def test_one_that_has_messages_for_all_credit_sends_no_flow_at_the_end(world):
    listener = world.listen(credit=2)
    silence(world)
    told = []
    listener.subscription.receivers[1].pause(told.append)
    world.run()
    world.arrive(ANY, "1")
    assert told == []
    world.arrive(ANY, "2")
    assert (told, listener.bodies) == ([True], [b"1", b"2"])
    world.settle(listener.deliveries[0])
    world.settle(listener.deliveries[1])
    assert world.link(ANY).credit == 0


def test_without_credit_there_is_nothing_to_drain(world):
    listener = world.listen(credit=1)
    world.arrive(ANY)
    told = []
    listener.subscription.receivers[1].pause(told.append)
    assert told == [True]


# -- more and less credit ----------------------------------------------------------------------


@pytest.mark.parametrize(("credit", "flow"), [(30, 30), (4, 4)])
def test_another_credit_has_effect_at_once(world, credit, flow):
    listener = world.listen(credit=10)
    listener.subscription.resize(credit)
    world.run()
    assert world.link(ANY).credit == flow
    world.arrive(ANY)
    assert world.link(ANY).credit == flow - 1


def test_it_holds_on_the_next_connection_too(world):
    listener = world.listen(credit=10)
    listener.subscription.resize(3)
    world.drop().advance(5)
    assert world.link(ANY).credit == 3


def test_more_than_a_smaller_credit_may_be_on_the_way(world):
    listener = world.listen(credit=10)
    link = world.link(ANY)
    listener.subscription.resize(2)
    world.run()
    link.credit = 10  # as it was, had the peer not heard yet
    for _ in range(10):
        world.arrive(ANY)
    assert len(listener.deliveries) == 10
    for delivery in listener.deliveries[:9]:
        world.settle(delivery)
    assert link.credit == 0
    world.settle(listener.deliveries[9])
    assert link.credit == 2


# -- stop --------------------------------------------------------------------------------------


def test_stopping_waits_for_what_is_on_its_way_and_settles_it_before_the_detach(broker):
    listener = broker.listen(credit=10)
    silence(broker)
    told = []
    broker.connection.stop_subscription(listener.subscription, told.append)
    broker.run()
    links = receivers(broker)
    assert [flows(broker, link)[1:] for link in links] == [[(0, False, True)]] * 3
    links[1].credit = 1
    broker.arrive(links[1].address, "on its way", link=links[1])
    assert (listener.bodies, told) == ([b"on its way"], [])
    for link in links:
        answer(link)
    broker.run()
    assert told == [True]
    broker.settle(listener.deliveries[0])
    broker.connection.unsubscribe(listener.subscription)
    broker.run()
    last = [
        entry.performative
        for entry in broker.peer.log
        if entry.incoming and isinstance(entry.performative, (p.Disposition, p.Detach))
    ]
    assert [type(frame) for frame in last] == [p.Disposition, p.Detach, p.Detach, p.Detach]
    assert last[0].state == p.Accepted()
