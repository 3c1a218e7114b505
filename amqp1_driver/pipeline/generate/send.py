# SPDX-License-Identifier: Apache-2.0

"""Sending of messages with the driver's own client, at a rate or as fast as the bus accepts them.

On the caller's thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from amqp1_driver.addressing.base import Destination
from amqp1_driver.pipeline import bus
from amqp1_driver.pipeline.generate.story import Emission
from amqp1_driver.pipeline.publish.publisher import Publisher

#: messages in a block; send() pauses for the rate and calls ``tell`` after each block
_BLOCK = 100


class Sent(NamedTuple):
    """The number of messages that the bus has accepted, and the seconds that sending took."""

    messages: int
    seconds: float


def send(
    url: str,
    emissions: Iterable[Emission],
    topic: str = "notifications",
    rate: float | None = None,
    exchange: str | None = None,
    tell: Callable[[int], None] | None = None,
) -> Sent:
    """Send all messages, and wait until the bus has accepted them.

    :param url: transport URL
    :param rate: messages per second; None: no limit
    :param tell: function that send() calls with the number of messages sent so far, after each
        block of 100
    :raises AmqpError: the bus has not accepted one of the messages
    """
    began = time.monotonic()
    known: dict[str, Destination] = {}
    number = 0
    with Publisher(bus.make_client(url, exchange)) as publisher:
        for number, emission in enumerate(emissions, 1):
            where = known.get(emission.priority)
            if where is None:
                where = bus.notifications(topic, emission.priority, exchange)
                known[emission.priority] = where
            publisher.send(where, emission.message_id, emission.body)
            if number % _BLOCK == 0:
                if rate is not None:
                    time.sleep(max(0.0, began + number / rate - time.monotonic()))
                if tell is not None:
                    tell(number)
        publisher.flush()
    return Sent(number, time.monotonic() - began)
