# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Which messages were lost and which came more than once. Pure."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from amqp1_driver.bench.workers.ledger import FAILED, OK, unpack


class Account(NamedTuple):
    """Counts of messages.

    :param lost: sending succeeded, and they were not received (in a fanout: for each server)
    :param duplicated: copies beyond the first
    :param in_doubt: sending failed, and they were received all the same; this is no loss
    """

    lost: int
    duplicated: int
    in_doubt: int


def account(states: Mapping[str, str], marks: Sequence[Mapping[str, str]], fanout: bool) -> Account:
    """Compare what clients have sent with what servers have received.

    :param states: packed states of the messages of each sender
    :param marks: for each server, packed counts of copies of each sender's messages
    :param fanout: each server gets each message; else one of them
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
        return Account(0, 0, 0)  # the usual case: all sent, each received once
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
