# SPDX-License-Identifier: Apache-2.0

"""ReplyLink: what is remembered of addresses at which nobody was."""

from types import SimpleNamespace

import pytest

from amqp1_driver import exceptions
from amqp1_driver.client import replier
from amqp1_driver.policy.retry import Retry


class Bus:
    """Takes what is to be sent; its clock stands still unless it is set."""

    def __init__(self):
        self.now = 100.0
        self.sent = []

    def put(self, send, op, timeout, wake):
        self.sent.append(op)

    def monotonic(self):
        return self.now


@pytest.fixture
def bus(monkeypatch):
    it = Bus()
    monkeypatch.setattr(replier, "time", it)
    return it


@pytest.fixture
def replies(bus):
    settings = SimpleNamespace(
        compression="", pre_settled=frozenset(), reply_backlog=10, default_reply_timeout=10.0
    )
    return replier.Replier(bus, bus.sent.append, settings, "host", Retry.of(0))


def reply(replies):
    replies.reply("queue", b"", "id", b"")


def nobody(bus):
    """The last reply comes back: its address does not exist."""
    bus.sent[-1].fail(exceptions.DeliveryReleased())


def test_an_address_at_which_nobody_was_gets_nothing_for_a_while(bus, replies):
    reply(replies)
    nobody(bus)
    bus.now = 101.999
    reply(replies)
    assert len(bus.sent) == 1


def test_a_caller_that_is_back_at_the_same_address_is_answered_again_soon(bus, replies):
    # as on RabbitMQ 4.0, where the queue for replies keeps its name when its connection was lost
    reply(replies)
    nobody(bus)
    bus.now = 102.0
    reply(replies)
    assert len(bus.sent) == 2
    bus.sent[-1].complete()
    reply(replies)
    assert len(bus.sent) == 3


def test_an_address_that_stays_away_is_tried_less_and_less_often(bus, replies):
    tried = []
    for second in range(100, 240):
        bus.now = float(second)
        before = len(bus.sent)
        reply(replies)
        if len(bus.sent) > before:
            tried.append(second - 100)
            nobody(bus)
    # pauses of 2, 4, 8, 16, 32 and then 60 s
    assert tried == [0, 2, 6, 14, 30, 62, 122]


def test_a_reply_that_had_success_ends_the_suspicion(bus, replies):
    reply(replies)
    nobody(bus)
    bus.now = 102.0
    reply(replies)
    bus.sent[-1].complete()
    reply(replies)
    nobody(bus)
    bus.now = 104.0
    reply(replies)
    assert len(bus.sent) == 4


def test_replies_that_were_under_way_together_count_once(bus, replies):
    for _ in range(5):
        reply(replies)
    for op in list(bus.sent):
        op.fail(exceptions.DeliveryReleased())
    bus.now = 102.0
    reply(replies)
    assert len(bus.sent) == 6


def test_a_deadline_says_nothing_of_the_address(bus, replies):
    reply(replies)
    bus.sent[-1].fail(exceptions.DeadlineExpired())
    reply(replies)
    assert len(bus.sent) == 2


def test_so_many_addresses_are_remembered(bus, replies, monkeypatch):
    monkeypatch.setattr(replier, "DEAD_LIMIT", 2)
    for address in ("a", "b", "c"):
        replies.reply(address, b"", "id", b"")
        nobody(bus)
    replies.reply("a", b"", "id", b"")
    replies.reply("c", b"", "id", b"")
    assert [op.address for op in bus.sent] == ["a", "b", "c", "a"]
