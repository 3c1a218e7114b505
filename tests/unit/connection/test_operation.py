# SPDX-License-Identifier: Apache-2.0

"""Operations: completed or failed once, whoever comes first."""

import pytest

from amqp1_driver import codec, exceptions
from amqp1_driver.addressing.base import Destination, Service
from amqp1_driver.connection.operation import (
    Kind,
    Operation,
    Payload,
    Reply,
    Request,
    Stage,
    expired,
)
from amqp1_driver.policy.deadline import Deadline
from amqp1_driver.policy.retry import Retry
from amqp1_driver.testing import messages
from tests.protocol.world import Waiter
from tests.unit.addressing.test_context import context


def request(kind=Kind.CALL, future=None, *, gzip=False, settled=False, **kw):
    return Request(
        Payload(kind, "m1", b"body", settled, gzip),
        Destination(Service.RPC, None, "t"),
        Deadline(110.0),
        Retry.of(0),
        future or Waiter(),
        **kw,
    )


def reply(kind=Kind.REPLY, *, gzip=False, **kw):
    return Reply(
        Payload(kind, "their-id", b"answer", gzip=gzip),
        "caller",
        codec.primitives.encode("their-id"),
        Deadline(110.0),
        Retry.of(1),
        **kw,
    )


def test_an_operation_as_such_can_not_be_encoded():
    op = Operation()
    with pytest.raises(NotImplementedError):
        op.bind(context(), 0.0)


def test_a_cast_is_done_when_the_bus_has_it_a_call_when_the_reply_is_there():
    cast, call = request(Kind.CAST), request()
    cast.accepted()
    call.accepted()
    assert (cast.stage, cast.future.done) == (Stage.DONE, True)
    assert (call.stage, call.future.done, call.finished) == (Stage.ACCEPTED, False, False)
    call.complete("reply")
    assert (call.future.value, call.finished) == ("reply", True)


def test_the_end_of_a_call_removes_its_correlation_once():
    for end in (
        lambda op: op.complete(1),
        lambda op: op.fail(ValueError()),
        lambda op: op.abort(ValueError()),
    ):
        ended = []
        op = request()
        op.on_done = ended.append
        end(op)
        op.fail(ValueError("late"))
        assert ended == ["m1"]


def test_the_first_completion_counts():
    op = request()
    first = ValueError("first")
    op.fail(first)
    op.complete("late")
    assert (op.future.error, op.future.value) == (first, None)


def test_only_a_call_carries_what_is_left_of_its_time():
    call, cast = request(ttl=True), request(Kind.CAST)
    call.bind(context(), 100.5)
    cast.bind(context(), 100.5)
    assert messages.decode(call.data).header.ttl == 9500
    assert messages.decode(cast.data).header.ttl is None
    assert (call.address, call.generation) == ("unicast.ex.t", 1)


def test_a_reply_echoes_the_message_id_as_correlation_id():
    op = reply()
    op.bind(context(), 100.0)
    message = messages.decode(op.data)
    assert (message.properties.to, message.properties.correlation_id, message.body) == (
        "caller",
        "their-id",
        "answer",
    )


def test_a_heartbeat_has_an_explicit_null_body_and_a_time_to_live():
    op = reply(Kind.HEARTBEAT)
    op.bind(context(), 100.0)
    message = messages.decode(op.data)
    assert (message.kind, message.body, message.header.ttl) == ("value", None, 10000)
    assert message.properties.correlation_id == "their-id"


def test_the_end_of_a_reply_is_told_once():
    for end, told in (
        (lambda op: op.complete(), None),
        (lambda op: op.fail(KeyError()), KeyError),
        (lambda op: op.abort(KeyError()), KeyError),
    ):
        ends = []
        op = reply(on_end=lambda op, error, ends=ends: ends.append(error))
        end(op)
        op.fail(ValueError("late"))
        assert [error and type(error) for error in ends] == [told]


def test_a_reply_may_end_without_anybody_listening():
    op = reply()
    op.accepted()
    assert op.finished


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        (Stage.QUEUED, "connection or credit"),
        (Stage.SENT, "acknowledgement"),
        (Stage.ACCEPTED, "reply"),
    ],
)
def test_the_error_of_a_deadline_says_what_was_waited_for(stage, words):
    op = request()
    op.stage = stage
    op.address = "unicast.ex.t"
    error = expired(op, "bus:5672")
    assert isinstance(error, exceptions.DeadlineExpired)
    assert str(error) == (
        f"timed out waiting for {words} (host=bus:5672, address=unicast.ex.t, message-id=m1)"
    )
