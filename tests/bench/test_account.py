# SPDX-License-Identifier: Apache-2.0

"""Which messages were lost, came twice, or came though their sending failed."""

from __future__ import annotations

import pytest

from amqp1_driver.bench.figures import Account, account
from amqp1_driver.bench.workers.ledger import pack

OK, FAILED = b"\1", b"\2"


@pytest.mark.parametrize(
    ("sent", "received", "expected"),
    [
        (OK * 3, b"\1\1\1", Account(lost=0, duplicated=0, in_doubt=0)),
        (OK * 3, b"\1\0\1", Account(lost=1, duplicated=0, in_doubt=0)),
        (OK * 3, b"\1", Account(lost=2, duplicated=0, in_doubt=0)),
        (OK * 3, b"\1\3\2", Account(lost=0, duplicated=3, in_doubt=0)),
        (OK + FAILED * 2, b"\1\1\0", Account(lost=0, duplicated=0, in_doubt=1)),
        (FAILED * 2, b"\2\2", Account(lost=0, duplicated=2, in_doubt=2)),
        (OK, b"\1\1", Account(lost=0, duplicated=0, in_doubt=1)),
        (b"", b"", Account(lost=0, duplicated=0, in_doubt=0)),
    ],
)
def test_one_sender_and_one_server(sent: bytes, received: bytes, expected: Account) -> None:
    assert account({"0": pack(sent)}, [{"0": pack(received)}], fanout=False) == expected


def test_one_of_several_servers_gets_each_message() -> None:
    marks = [{"0": pack(b"\1\0\0\1")}, {"0": pack(b"\0\1")}, {}]
    assert account({"0": pack(OK * 4)}, marks, fanout=False) == Account(1, 0, 0)


def test_the_same_message_at_two_servers_came_twice() -> None:
    marks = [{"0": pack(b"\1")}, {"0": pack(b"\1")}]
    assert account({"0": pack(OK)}, marks, fanout=False) == Account(0, 1, 0)


def test_in_a_fanout_each_server_gets_each_message() -> None:
    marks = [{"0": pack(b"\1\1")}, {"0": pack(b"\0\2")}, {}]
    assert account({"0": pack(OK * 2)}, marks, fanout=True) == Account(3, 1, 0)


def test_senders_add_up() -> None:
    states = {"0": pack(OK * 2), "5": pack(OK * 2)}
    assert account(states, [{"0": pack(b"\1"), "5": pack(b"\2\1")}], fanout=False) == Account(
        1, 1, 0
    )
