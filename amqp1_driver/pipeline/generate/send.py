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

"""Messages to a bus by the driver's own client, at a rate or as fast as they are taken."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from amqp1_driver.addressing.base import Destination
from amqp1_driver.pipeline import bus
from amqp1_driver.pipeline.generate.story import Emission
from amqp1_driver.pipeline.publish.publisher import Publisher

#: the rate is kept over so many messages, not from each to the next
_BLOCK = 100


class Sent(NamedTuple):
    """How many messages the bus has accepted, and the seconds that took."""

    messages: int
    seconds: float


def send(url: str, emissions: Iterable[Emission], topic: str = "notifications",
         rate: float | None = None, exchange: str | None = None,
         tell: Callable[[int], None] | None = None) -> Sent:
    """Send all, and wait until the bus has accepted them.

    :param url: transport URL
    :param rate: messages per second; None: no limit
    :param tell: called with the number of messages sent so far, now and then
    :raises AmqpError: the bus has not taken one
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
