# SPDX-License-Identifier: Apache-2.0

"""Counts of the messages that were lost, duplicated or in doubt in a run. Pure."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from amqp1_driver.bench.workers.ledger import FAILED, OK, unpack


class Account(NamedTuple):
    """Counts of messages; in a fanout, the copy for each server counts as a message.

    :param lost: messages that the client sent successfully and no server received
    :param duplicated: copies beyond the first
    :param in_doubt: messages that a server received although sending failed; this is no loss
    """

    lost: int
    duplicated: int
    in_doubt: int


def account(states: Mapping[str, str], marks: Sequence[Mapping[str, str]], fanout: bool) -> Account:
    """Compare the messages that clients sent with the messages that servers received.

    :param states: for each sender, the packed states of its messages
    :param marks: for each server and each sender, the packed counts of received copies
    :param fanout: True: every server gets every message; False: one server gets it
    """
    total = Account(0, 0, 0)
    for sender, packed in states.items():
        sent = unpack(packed)
        copies = [unpack(server[sender]) if sender in server else b"" for server in marks]
        for received in copies if fanout else [_together(copies)]:
            total = Account(*map(operator.add, total, _one(sent, received)))
    return total


def _together(copies: Sequence[bytes]) -> Sequence[int]:
    if len(copies) == 1:
        return copies[0]
    length = max(map(len, copies), default=0)
    padded = [part.ljust(length, b"\0") for part in copies]
    return [sum(column) for column in zip(*padded, strict=True)]


def _one(sent: bytes, received: Sequence[int]) -> Account:
    if received == sent and not sent.strip(bytes([OK])):
        return Account(0, 0, 0)  # the usual case: every message sent, and received once
    lost = duplicated = in_doubt = 0
    for number in range(max(len(sent), len(received))):
        state = sent[number] if number < len(sent) else FAILED
        count = received[number] if number < len(received) else 0
        if count > 1:
            duplicated += count - 1
        if state == OK and not count:
            lost += 1
        elif state == FAILED and count:
            in_doubt += 1
    return Account(lost, duplicated, in_doubt)
