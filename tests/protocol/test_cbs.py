# SPDX-License-Identifier: Apache-2.0


"""Claims-based security: tokens before links, renewal, refusals; on a peer like Service Bus."""

import re

import pytest

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Service
from amqp1_driver.connection.operation import Kind, Stage
from amqp1_driver.policy.outcome import Outcome
from amqp1_driver.testing import performatives as p
from amqp1_driver.testing import reactions
from amqp1_driver.testing.messages import Message, Properties

from .azure import HOST, MANAGEMENT, REPLY, azure

ANY = "openstack--rpc--any--ex--topic"
ONE = "openstack--rpc--one--ex--topic--server"
ALL = "openstack--rpc--all--ex--topic"
OURS = f"{ALL}/Subscriptions/server"


@pytest.fixture
def bus(path):
    world, cloud = azure(path)
    world.start()
    assert world.state == "ready"
    return world, cloud


def sent(world):
    return [(address, body) for address, body in world.sent() if address != "$cbs"]


def answer(op):
    return Message(
        "answer", properties=Properties(correlation_id=op.message_id, group_id="unique-1")
    )


# -- tokens before links --------------------------------------------------------------------------


def test_the_first_token_is_for_replies_and_nothing_is_attached_before(path):
    world, cloud = azure(path)
    cloud.answers[HOST + REPLY] = None
    world.start()
    assert world.state == "attaching"
    assert [a.source.address for a in world.attaches("receiver")] == ["$cbs"]
    cloud.answer_late()
    assert world.state == "ready"
    [message] = cloud.puts
    assert message.body == f"token for {HOST}{REPLY}"
    assert message.application_properties == {
        "operation": "put-token",
        "type": "jwt",
        "name": f"{HOST}{REPLY}",
        "expiration": 4600000,
    }


def test_requests_and_responses_are_matched_by_the_documented_properties(bus):
    _, cloud = bus
    back = next(a for a in cloud.world.attaches("receiver") if a.source.address == "$cbs")
    assert cloud.puts[0].properties.reply_to == back.target.address
    assert cloud.puts[0].properties.message_id == "request-1"


def test_the_address_for_responses_is_unique_among_clients_and_hard_to_guess(path):
    addresses = []
    for _ in range(2):
        world, cloud = azure(path)
        world.start()
        addresses.append(cloud.puts[0].properties.reply_to)
    # 128 random bits
    assert all(re.fullmatch(r"request\.\$cbs\.[0-9a-f]{32}", address) for address in addresses)
    assert addresses[0] != addresses[1]


def test_that_for_responses_of_the_management_node_is_unique_and_hard_to_guess_too(path):
    addresses = []
    for _ in range(2):
        world, cloud = azure(path)
        world.start().advance(300)
        # the peer answers at the reply-to of the request
        assert cloud.renewals == ["unique-1"]
        [attach] = [a for a in world.attaches("receiver") if a.source.address == MANAGEMENT]
        addresses.append(attach.target.address)
    pattern = r"request\.openstack--reply/\$management\.[0-9a-f]{32}"  # 128 random bits
    assert all(re.fullmatch(pattern, address) for address in addresses)
    assert addresses[0] != addresses[1]


def test_a_message_waits_for_its_token(bus):
    world, cloud = bus
    cloud.answers[HOST + ANY] = None
    ops = [world.cast(body=b"%d" % n) for n in range(3)]
    assert (sent(world), [op.stage for op in ops]) == ([], [Stage.QUEUED] * 3)
    assert [op.queue.waits_for for op in ops] == ["a token"] * 3
    assert [a.target.address for a in world.attaches("sender")] == ["$cbs"]
    assert world.cast("other").future.error is None
    cloud.answer_late()
    assert [op.future.error for op in ops] == [None] * 3
    assert [body for _, body in sent(world)] == ["body", "0", "1", "2"]
    assert cloud.names.count(HOST + ANY) == 1


def test_who_gives_up_while_waiting_is_not_sent(bus):
    world, cloud = bus
    cloud.answers[HOST + ANY] = None
    op = world.cast()
    world.connection.cancel(op)
    cloud.answer_late()
    assert isinstance(op.future.error, exceptions.DeadlineExpired)
    assert sent(world) == []


def test_a_listener_has_tokens_for_all_that_it_reads(bus):
    world, cloud = bus
    listener = world.listen()
    assert cloud.names[1:] == [HOST + ONE, HOST + ANY, HOST + OURS]
    assert [a.source.address for a in world.attaches("receiver")[2:]] == [ONE, ANY, OURS]
    assert listener.ready == 1


def test_one_token_may_do_for_all(path):
    world, cloud = azure(path, token_scope="namespace")
    world.start()
    world.listen()
    world.cast("other")
    assert cloud.names == [HOST]
    assert sent(world) == [("openstack--rpc--any--ex--other", "body")]


def test_all_is_put_anew_on_the_next_connection(bus):
    world, cloud = bus
    world.cast()
    cloud.good.clear()
    world.drop().advance(5)
    assert world.cast().future.error is None
    assert cloud.names == [HOST + REPLY, HOST + ANY] * 2


def test_all_links_are_on_one_session(bus):
    world, _ = bus
    world.listen()
    world.cast("other")
    assert len({id(link.session) for link in world.peer.links}) == 1


def test_with_plain_there_are_no_tokens(path):
    world, cloud = azure(path, tokens=False)
    world.start()
    assert world.cast().future.error is None
    assert (cloud.puts, world.state) == ([], "ready")


# -- renewal --------------------------------------------------------------------------------------


def test_tokens_of_five_seconds_under_traffic_lose_nothing(path):
    world, cloud = azure(path, life=5.0)
    world.start()
    listener = world.listen()
    done = []
    for number in range(300):
        done.append(world.cast(body=b"%d" % number))
        world.arrive(ONE, f"in {number}")
        world.settle(listener.deliveries[-1])
        world.advance(0.1)
        cloud.expire()
    assert [op.future.error for op in done] == [None] * 300
    assert listener.bodies == [b"in %d" % number for number in range(300)]
    assert world.port.connects == [world.hosts[0]]
    # every link was attached once: nobody waited for a token
    assert len(world.attaches("receiver")) == 5
    assert len(world.attaches("sender")) == 2
    assert 6 <= cloud.names.count(HOST + ONE) <= 10


def test_a_renewal_that_fails_is_repeated_while_the_old_token_counts(path):
    world, cloud = azure(path, life=5.0)
    world.start()
    assert world.cast().future.error is None
    cloud.answers[HOST + ANY] = (500, "busy")
    world.advance(4.5)
    assert cloud.names.count(HOST + ANY) >= 3
    assert world.cast().future.error is None
    del cloud.answers[HOST + ANY]
    world.advance(0.4)
    cloud.expire()
    assert world.cast().future.error is None
    assert len(world.attaches("sender")) == 2


def test_what_has_expired_is_asked_for_again(path):
    world, cloud = azure(path, life=5.0)
    world.start()
    world.cast()
    cloud.answers[HOST + ANY] = (401, "key revoked")
    world.advance(5.0)
    cloud.expire()
    op = world.cast()
    assert "key revoked" in str(op.future.error)
    del cloud.answers[HOST + ANY]
    world.advance(10.0)
    assert world.cast().future.error is None


def test_a_listener_comes_back_after_its_token_has_expired(path):
    world, cloud = azure(path, life=5.0)
    world.start()
    listener = world.listen()
    for name in (ONE, ANY, OURS):
        cloud.answers[HOST + name] = (401, "key revoked")
    world.advance(5.0)
    cloud.expire()
    assert not any(
        link.attached and not link.detached for link in cloud.open_links() if link.address == ONE
    )
    cloud.answers.clear()
    world.advance(20.0)
    world.arrive(ONE, "hello again")
    assert listener.bodies == [b"hello again"]


def test_no_timer_is_left_when_the_transport_is_closed(bus):
    world, _ = bus
    world.listen()
    world.cast()
    world.close()
    assert world.port.timers.live == set()


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "meaning"), [(401, "unauthorized"), (403, "forbidden")])
def test_a_refusal_fails_who_waits_at_once_and_says_why(bus, status, meaning):
    world, cloud = bus
    cloud.answers[HOST + ANY] = (status, "InvalidSignature: The token has an invalid signature.")
    before = world.clock()
    op = world.cast()
    error = op.future.error
    assert isinstance(error, exceptions.AuthenticationFailed)
    assert str(error) == (
        f"token for queue {ANY}: refused with status {status} ({meaning}) (host=host0:5672, "
        f"address={ANY}, message-id={op.message_id}, "
        "description=InvalidSignature: The token has an invalid signature.)"
    )
    assert world.clock() == before


def test_a_refused_call_does_not_wait_for_a_reply(path):
    world, cloud = azure(path)
    cloud.answers[HOST + REPLY] = (401, "wrong key")
    world.start()
    assert world.state == "ready"
    op = world.call()
    assert isinstance(op.future.error, exceptions.AuthenticationFailed)
    assert f"queue {REPLY} (with sessions): refused with status 401" in str(op.future.error)
    assert world.cast().future.error is None  # the right to send does not need that of replies
    del cloud.answers[HOST + REPLY]
    world.advance(1.0)
    op = world.call()
    world.arrive(REPLY, message=answer(op))
    assert op.future.value.body == b"answer"


def test_a_refused_listener_is_told_and_tried_again(bus):
    world, cloud = bus
    cloud.answers[HOST + ONE] = (403, "no Listen claim")
    listener = world.listen()
    [error] = listener.errors
    assert f"token for queue {ONE}: refused with status 403 (forbidden)" in str(error)
    assert "description=no Listen claim" in str(error)
    puts = len(cloud.puts)
    world.advance(60.0)
    assert 5 <= cloud.names[puts:].count(HOST + ONE) <= 20  # with growing pauses
    cloud.answers.clear()
    world.advance(10.0)
    assert listener.ready == 1


def test_a_refusal_is_remembered_for_a_while_and_then_tried_again(bus):
    world, cloud = bus
    cloud.answers[HOST + ANY] = (401, "wrong key")
    first, second = world.cast(), world.cast()
    assert str(second.future.error).startswith(str(first.future.error).partition(" (host")[0])
    assert cloud.names.count(HOST + ANY) == 1
    del cloud.answers[HOST + ANY]
    world.advance(0.2)
    assert world.cast().future.error is None


def test_what_is_no_refusal_is_tried_again_while_somebody_waits(bus):
    world, cloud = bus
    cloud.answers[HOST + ANY] = (503, "busy")
    op = world.cast()
    world.advance(1.0)
    assert not op.future.done
    assert cloud.names.count(HOST + ANY) >= 3
    del cloud.answers[HOST + ANY]
    world.advance(2.0)
    assert (op.future.done, op.future.error) == (True, None)


def test_more_messages_do_not_shorten_the_pauses(bus):
    """Service Bus answers 503 when it has too much to do."""
    world, cloud = bus
    cloud.answers[HOST + ANY] = (503, "busy")
    ops = [world.cast() for _ in range(50)]
    assert cloud.names.count(HOST + ANY) == 1
    del cloud.answers[HOST + ANY]
    world.advance(0.2)
    assert cloud.names.count(HOST + ANY) == 2
    assert [op.future.error for op in ops] == [None] * 50
    assert all(op.future.done for op in ops)


def test_no_answer_is_no_refusal(path):
    world, cloud = azure(path, connect_timeout=2)
    world.start()
    cloud.answers[HOST + ANY] = None
    op = world.cast()
    world.advance(1.9)
    assert (op.future.done, len(cloud.puts)) == (False, 2)
    cloud.answers.clear()
    world.advance(0.3)
    assert (op.future.done, op.future.error) == (True, None)


def test_a_request_that_is_rejected_is_tried_again(bus):
    world, cloud = bus
    world.peer.override().expect_transfer(address="$cbs").reject("amqp:internal-error", "oops")
    op = world.cast()
    assert not op.future.done
    world.advance(0.2)
    assert (op.future.done, op.future.error) == (True, None)
    assert cloud.names.count(HOST + ANY) == 1


def test_the_links_to_the_node_are_attached_again(bus):
    world, _ = bus
    node = next(link for link in world.peer.links if link.address == "$cbs" and link.client_sends)
    reactions.detach(node, "amqp:internal-error", "restarting")
    world.run()
    op = world.cast()
    world.advance(1.0)
    assert (op.future.done, op.future.error, world.state) == (True, None, "ready")


def test_an_undecodable_response_costs_its_request_the_time(path, caplog):
    world, cloud = azure(path, connect_timeout=2)
    world.start()
    cloud.answers[HOST + ANY] = None
    op = world.cast()
    back = next(
        link for link in world.peer.links if link.address == "$cbs" and not link.client_sends
    )
    world.arrive("", message=b"\x00\x53\x73\xff", link=back)
    assert "Undecodable response of $cbs at host0:5672" in caplog.text
    cloud.answers.clear()
    world.advance(2.2)
    assert op.future.error is None and op.future.done


# -- where tokens come from -----------------------------------------------------------------------


def test_no_token_to_be_had_is_a_refusal(bus):
    world, cloud = bus
    cloud.source.error = ValueError("the token service is away")
    op = world.cast()
    assert isinstance(op.future.error, exceptions.AuthenticationFailed)
    assert str(op.future.error).startswith(
        f"token for queue {ANY}: no token can be had: the token service is away (host=host0:5672"
    )
    cloud.source.error = None
    world.advance(0.2)
    assert world.cast().future.error is None


def test_a_token_that_has_expired_already_is_a_refusal(bus):
    world, cloud = bus
    cloud.source.life = -1.0
    assert "has expired already" in str(world.cast().future.error)


def test_a_token_that_comes_after_the_connection_has_gone_is_dropped(bus):
    world, cloud = bus
    cloud.source.hold = True
    world.cast()
    [(resource, done)] = cloud.source.held
    cloud.source.hold = False
    world.drop()
    done(cloud.source.token(resource))
    world.advance(5)
    assert world.state == "ready"


# -- entities that are missing --------------------------------------------------------------------


def test_a_message_to_a_missing_entity_fails_at_once_and_names_it(path):
    world, _ = azure(path, {REPLY})
    world.start()
    op = world.cast()
    assert isinstance(op.future.error, exceptions.LinkFailed)
    assert str(op.future.error).startswith(
        f"entities are missing on Azure Service Bus: queue {ANY} (host=host0:5672, address={ANY}"
    )
    assert exceptions.nobody_there(op.future.error)


def test_a_message_goes_once_the_entity_is_made(path):
    world, cloud = azure(path, {REPLY})
    world.start()
    world.cast()
    cloud.entities.add(ANY)
    assert world.cast().future.error is None


def test_all_that_a_listener_misses_is_named(path):
    world, cloud = azure(path, {REPLY, ANY})
    world.start()
    listener = world.listen()
    [error] = listener.errors
    assert str(error).startswith(
        f"entities are missing on Azure Service Bus: queue {ONE}, subscription {OURS} (host="
    )
    cloud.entities |= {ONE, OURS}
    world.advance(10)
    assert (listener.ready, len(listener.errors)) == (1, 1)


def test_a_call_names_the_queue_of_replies_and_its_target(path):
    world, cloud = azure(path, {ANY})
    world.start()
    assert world.state == "ready"
    op = world.call()
    assert str(op.future.error).startswith(
        "entities are missing on Azure Service Bus: queue openstack--reply (with sessions) "
        f"(also needed: queue {ANY}) (host=host0:5672"
    )
    assert world.cast().future.error is None
    cloud.entities.add(REPLY)
    world.advance(10)
    op = world.call()
    world.arrive(REPLY, message=answer(op))
    assert op.future.value.body == b"answer"


def test_calls_that_wait_when_the_queue_of_replies_is_deleted_fail(bus):
    world, cloud = bus
    op = world.call()
    cloud.entities = {ANY}
    world.peer.remote_detach(REPLY, "amqp:not-found")
    world.run()
    assert isinstance(op.future.error, exceptions.InDoubt)
    assert world.state == "ready"


def test_entities_for_which_no_token_can_be_had_are_missing_too(bus):
    world, cloud = bus
    for name in (ONE, OURS):
        cloud.answers[HOST + name] = (404, "could not be found")
    listener = world.listen()
    [error] = listener.errors
    assert isinstance(error, exceptions.LinkFailed)
    assert str(error) == (
        f"entities are missing on Azure Service Bus: queue {ONE}, subscription {OURS} "
        "(host=host0:5672, condition=amqp:not-found, description=could not be found)"
    )
    assert [a.source.address for a in world.attaches("receiver")] == ["$cbs", REPLY]
    again = world.listen()  # at once, from memory
    assert [str(error) for error in again.errors] == [str(error) for error in listener.errors]
    cloud.answers.clear()
    world.advance(10)
    assert (listener.ready, again.ready) == (1, 1)


def test_a_refusal_tells_more_than_what_is_missing(bus):
    world, cloud = bus
    cloud.answers[HOST + ONE] = (404, "could not be found")
    cloud.answers[HOST + ANY] = (401, "wrong key")
    listener = world.listen()
    assert [type(error) for error in listener.errors] == [exceptions.AuthenticationFailed]


def test_a_message_for_whose_entity_no_token_can_be_had(bus):
    world, cloud = bus
    cloud.answers[HOST + ANY] = (404, "could not be found")
    op = world.cast()
    assert str(op.future.error).startswith(
        f"entities are missing on Azure Service Bus: queue {ANY} (host=host0:5672, address={ANY}"
    )
    assert exceptions.nobody_there(op.future.error)


def test_a_call_when_no_token_can_be_had_for_replies(path):
    world, cloud = azure(path)
    cloud.answers[HOST + REPLY] = (404, "could not be found")
    world.start()
    op = world.call()
    assert str(op.future.error).startswith(
        "entities are missing on Azure Service Bus: queue openstack--reply (with sessions) "
        f"(also needed: queue {ANY}) (host=host0:5672"
    )


# -- replies in sessions --------------------------------------------------------------------------


def reply_attaches(world):
    return [a for a in world.attaches("receiver") if a.source.address == REPLY]


def test_replies_are_read_from_a_session_of_our_own(bus):
    world, _ = bus
    [attach] = reply_attaches(world)
    assert attach.source.filter == {"com.microsoft:session-filter": "unique-1"}
    op = world.call()
    assert world.peer.transfers[-1].message.properties.reply_to == f"{REPLY}#unique-1"
    world.arrive(REPLY, message=answer(op))
    assert op.future.value.body == b"answer"


def test_a_new_connection_has_a_new_session(bus):
    world, _ = bus
    world.drop().advance(5)
    assert [a.source.filter["com.microsoft:session-filter"] for a in reply_attaches(world)] == [
        "unique-1",
        "unique-2",
    ]


def test_calls_survive_the_loss_of_the_sessions_lock(bus):
    world, _ = bus
    op = world.call()
    world.peer.remote_detach(REPLY, "com.microsoft:session-lock-lost")
    world.run()
    assert (world.state, op.future.done) == ("ready", False)
    world.advance(0.2)
    world.arrive(REPLY, message=answer(op))
    assert op.future.value.body == b"answer"
    assert (
        len({a.source.filter["com.microsoft:session-filter"] for a in reply_attaches(world)}) == 1
    )


def test_the_lock_on_our_session_is_renewed_while_it_lasts(bus):
    world, cloud = bus
    world.advance(200)
    assert cloud.renewals == []
    world.advance(1000)
    assert set(cloud.renewals) == {"unique-1"}
    assert 5 <= len(cloud.renewals) <= 6
    assert len(reply_attaches(world)) == 1
    management = [
        a
        for a in world.attaches()
        if "openstack--reply/$management" in (a.source.address, a.target.address)
    ]
    assert [a.role for a in management] == [True, False]


def test_a_lock_of_unknown_length_is_renewed_soon(path):
    world, cloud = azure(path)
    cloud.lock = None
    world.start().advance(30)
    assert cloud.renewals[:1] == ["unique-1"]


def test_a_renewal_of_the_lock_that_fails_is_repeated(bus, caplog):
    world, cloud = bus
    cloud.renew = 500
    world.advance(290)
    assert len(cloud.renewals) >= 3
    assert (
        "The lock on session unique-1 of openstack--reply at host0:5672 was not renewed: "
        "status 500: as said; again in "
    ) in caplog.text
    cloud.renew = 200
    world.advance(8)
    count = len(cloud.renewals)
    world.advance(200)
    assert len(cloud.renewals) == count


def test_no_lock_is_renewed_that_was_lost(bus):
    world, cloud = bus
    world.advance(250)
    cloud.renewals.clear()
    world.drop()
    cloud.good.clear()
    world.advance(200)
    assert cloud.renewals == []
    world.advance(60)
    assert set(cloud.renewals) == {"unique-2"}
    world.close()
    assert world.port.timers.live == set()


@pytest.mark.parametrize("kind", [Kind.REPLY, Kind.HEARTBEAT])
def test_a_reply_goes_into_the_session_of_its_caller(bus, kind):
    world, cloud = bus
    world.reply(f"{REPLY}#theirs-7", kind=kind)
    [transfer] = [t for t in world.peer.transfers if t.address == REPLY]
    assert transfer.message.properties.group_id == "theirs-7"
    assert transfer.message.properties.to == REPLY
    assert cloud.names == [HOST + REPLY]


def test_a_reply_to_another_queue_waits_for_its_token(bus):
    world, cloud = bus
    cloud.answers[HOST + "their.replies"] = None
    ends = world.reply("their.replies")
    assert (ends, sent(world)) == ([], [])
    cloud.answer_late()
    assert (ends, sent(world)) == ([None], [("their.replies", "answer")])


def test_a_reply_that_waits_for_a_token_in_vain_ends(bus):
    world, cloud = bus
    cloud.answers[HOST + "their.replies"] = None
    ends = world.reply("their.replies", timeout=3.0)
    world.advance(3.5)
    assert [type(end) for end in ends] == [exceptions.DeadlineExpired]


# -- locks ----------------------------------------------------------------------------------------


def test_no_more_is_asked_for_than_may_be_locked(path):
    world, _ = azure(path, servicebus_credit=4)
    world.start()
    world.listen(credit=100)
    assert world.link(ONE).credit == 4
    world.listen("other", credit=2)
    assert world.link("openstack--rpc--any--ex--other").credit == 2


def test_a_batch_may_be_had_as_a_whole(path):
    world, _ = azure(path, servicebus_credit=4)
    world.start()
    world.listen("events.info", None, service=Service.NOTIFY, credit=20, batched=True)
    assert world.link("openstack--notify--ex--events.info/Subscriptions/default").credit == 20


def test_outcomes_are_those_of_peek_lock(bus):
    world, _ = bus
    listener = world.listen()
    for outcome in (Outcome.ACCEPTED, Outcome.RELEASED, Outcome.REJECTED, Outcome.MODIFIED):
        world.arrive(ONE, "m")
        world.settle(listener.deliveries[-1], outcome)
    assert [type(s.state) for s in world.peer.sent[-4:]] == [
        p.Accepted,
        p.Released,
        p.Rejected,
        p.Modified,
    ]
    assert world.peer.sent[-1].state.delivery_failed is True


def test_what_the_application_requeues_is_counted(bus):
    world, _ = bus
    listener = world.listen()
    assert {r.return_outcome for r in listener.subscription.receivers} == {Outcome.MODIFIED}
