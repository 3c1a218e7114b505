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

"""The options of the data source ``amqp1``, as writing needs them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from amqp1_driver.addressing.base import Destination
from amqp1_driver.pipeline import bus, options


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class WriterOptions:
    """Checked options; made by :meth:`parse`."""

    #: transport URL as oslo.messaging has it; may hold a password
    url: str = dataclasses.field(repr=False)
    #: AMQP address for rows that have none of their own
    address: str | None = None
    #: or a topic of notifications, whose address is found as the driver finds it
    topic: str | None = None
    exchange: str = "openstack"
    priority: str = "info"
    #: messages of a task that the bus has not accepted yet, at most
    max_in_flight: int = 1000
    #: seconds that each message has
    timeout: float = 60.0
    #: what ids begin with; None: the id of the query, or of the job
    id_prefix: str | None = None
    #: options of the driver by name, values as in a configuration file
    driver: tuple[tuple[str, str], ...] = dataclasses.field(default=(), repr=False)

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> WriterOptions:
        """Read what the user gave to ``.option()``.

        :raises ValueError: naming the option and the value at fault; never the URL
        """
        values, driver = _KNOWN.parse(given, "url")
        if "address" in values and "topic" in values:
            raise ValueError("only one of the options 'address' and 'topic' may be given")
        return cls(**values, driver=driver)

    def destination(self) -> Destination | None:
        """Of rows that have no address of their own; None: they must have one."""
        if self.topic:
            return bus.notifications(self.topic, self.priority, self.exchange)
        return bus.node(self.address) if self.address else None


_KNOWN = options.Known(
    ("url", "url", options.text),
    ("address", "address", options.text),
    ("topic", "topic", options.text),
    ("exchange", "exchange", options.text),
    ("priority", "priority", options.text),
    ("max_in_flight", "maxInFlight", options.number(1)),
    ("timeout", "timeout", options.seconds(0.001)),
    ("id_prefix", "idPrefix", options.text),
    # what Spark hands to every writer of a stream
    ignored=("checkpointlocation", "path", "queryname"),
)
