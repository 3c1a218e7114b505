# SPDX-License-Identifier: Apache-2.0

"""The outbox: each message is in one queue, and leaves it once."""

import pytest

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Destination, Service
from amqp1_driver.connection.operation import Kind, Operation, Payload, Place, Queue, Request
from amqp1_driver.connection.outbox import Outbox
from amqp1_driver.policy.deadline import Deadline
from amqp1_driver.policy.retry import Retry
from tests.protocol.world import Waiter

NOW = 100.0


def message(name="m", deadline=110.0, retry=0, **kw):
    return Request(
        Payload(Kind.CAST, name, b"body"),
        Destination(Service.RPC, None, "t"),
        Deadline(deadline),
        Retry.of(retry),
        Waiter(),
        **kw,
    )


@pytest.fixture
def outbox():
    return Outbox(lambda: "bus:5672")


@pytest.fixture
def link():
    return Queue(Place.LINK, "credit")


def names(operations: list[Operation]) -> list[str]:
    return [op.message_id for op in operations]


def test_messages_leave_a_queue_in_their_order(outbox, link):
    for name in "abc":
        outbox.hold(message(name), link)
    assert outbox
    assert names(outbox.take(link)) == ["a", "b", "c"]
    assert outbox.take(link) == []
    assert not outbox


def test_a_message_knows_its_queue_and_is_removed_once(outbox, link):
    op = message()
    assert op.queue is None
    outbox.hold(op, link)
    assert op.queue is link
    assert outbox.remove(op)
    assert not outbox.remove(op)
    assert not outbox


def test_a_message_without_a_connection_waits_for_one(outbox):
    op = message()
    outbox.submit(op, NOW)
    assert op.queue is outbox.connection
    assert (op.queue.place, op.queue.waits_for) == (Place.CONNECTION, "a connection")


def test_a_message_that_comes_too_late_fails_at_once(outbox):
    op = message(deadline=NOW)
    outbox.submit(op, NOW)
    assert isinstance(op.future.error, exceptions.DeadlineExpired)
    assert not outbox


def test_a_message_whose_caller_has_its_result_is_not_queued(outbox):
    op = message()
    op.complete()
    outbox.submit(op, NOW)
    assert not outbox


def test_a_closed_outbox_takes_nothing_and_keeps_what_is_before_links(outbox, link):
    early, linked, late = message("early"), message("linked"), message("late")
    outbox.submit(early, NOW)
    outbox.hold(linked, link)
    closed = exceptions.Closed("the transport was closed", host="bus:5672")
    outbox.close(closed)
    outbox.submit(late, NOW)
    assert isinstance(early.future.error, exceptions.Closed)
    assert isinstance(late.future.error, exceptions.Closed)
    assert (late.future.error.host, late.future.error.message_id) == ("bus:5672", "late")
    assert not linked.future.done
    outbox.fail_all(closed)
    assert isinstance(linked.future.error, exceptions.Closed)
    assert not outbox


def test_messages_before_a_link_go_back_in_their_order_when_the_connection_is_lost(outbox, link):
    outbox.submit(message("a"), NOW)
    for name in "bc":
        outbox.hold(message(name), link)
    outbox.requeue(link)
    waiting = outbox.take(outbox.connection)
    assert names(waiting) == ["a", "b", "c"]
    assert not any(outbox.remove(op) for op in waiting)


def test_messages_expire_in_every_queue_each_at_its_own_time(outbox, link):
    first, second, third = message("1", 101), message("2", 102), message("3", 103)
    outbox.submit(second, NOW)
    for op in (first, third):
        outbox.hold(op, link)
    outbox.expire(101.0)
    assert [op.finished for op in (first, second, third)] == [True, False, False]
    assert isinstance(first.future.error, exceptions.DeadlineExpired)
    assert (first.future.error.host, first.future.error.message_id) == ("bus:5672", "1")
    outbox.expire(103.0)
    assert [op.finished for op in (first, second, third)] == [True, True, True]
    assert not outbox


def test_a_message_that_ended_otherwise_is_dropped_by_the_next_look(outbox, link):
    op = message(deadline=1e9)
    outbox.hold(op, link)
    op.complete()
    outbox.expire(NOW)
    assert not outbox
    assert op.future.error is None


LOST = exceptions.ConnectionLost(host="bus:5672")
REFUSED = exceptions.AuthenticationFailed("no", host="bus:5672")
MISSING = exceptions.LinkFailed("no queue", host="bus:5672", condition="amqp:not-found")


@pytest.mark.parametrize(
    ("retry", "mandatory", "error", "before_link", "before_connection"),
    [
        # (does it stay before a link, does it stay before a connection)
        (0, False, LOST, False, False),
        (1, False, LOST, True, True),
        (None, False, LOST, True, True),
        (1, False, REFUSED, False, False),
        (None, False, REFUSED, False, True),
        (1, False, MISSING, True, True),
        (1, True, MISSING, False, True),
        (None, True, MISSING, False, True),
    ],
)
def test_a_failed_attempt(outbox, link, retry, mandatory, error, before_link, before_connection):
    one = message("one", retry=retry, mandatory=mandatory)
    other = message("other", retry=retry, mandatory=mandatory)
    outbox.hold(one, link)
    outbox.submit(other, NOW)
    outbox.fail_attempt(link, error)
    outbox.fail_attempt(outbox.connection, error)
    assert (one.finished, other.finished) == (not before_link, not before_connection)
    for op, stays in ((one, before_link), (other, before_connection)):
        if stays:
            assert op.retry.left == (None if retry is None else retry - 1)
        else:
            assert type(op.future.error) is type(error)
            assert op.future.error.message_id == op.message_id


def test_a_failed_attempt_is_that_of_one_queue(outbox, link):
    op = message(retry=0)
    outbox.hold(op, link)
    outbox.fail_attempt(outbox.connection, LOST)
    assert not op.finished


def test_a_message_may_be_queued_again_while_a_queue_is_taken(outbox):
    """What a new connection sends may have to wait for the next at once."""
    for name in "ab":
        outbox.submit(message(name), NOW)
    for op in outbox.take(outbox.connection):
        outbox.submit(op, NOW)
    assert names(outbox.take(outbox.connection)) == ["a", "b"]
