# SPDX-License-Identifier: Apache-2.0

"""The options of the data source ``amqp1`` for writing. Pure, for any thread."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from amqp1_driver.addressing.base import Destination
from amqp1_driver.pipeline import bus, options


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class WriterOptions:
    """Checked options; :meth:`parse` makes them."""

    #: transport URL as oslo.messaging defines it; may hold a password
    url: str = dataclasses.field(repr=False)
    #: AMQP address for rows that have none of their own
    address: str | None = None
    #: instead of ``address``: a topic of notifications, which the driver maps to an address
    topic: str | None = None
    exchange: str = "openstack"
    priority: str = "info"
    #: messages of a task under way (not accepted yet), at most
    max_in_flight: int = 1000
    #: seconds in which the bus must accept a message
    timeout: float = 60.0
    #: prefix of message ids; None: the id of the query, or of the job
    id_prefix: str | None = None
    #: options of the driver by name, values as in a configuration file
    driver: tuple[tuple[str, str], ...] = dataclasses.field(default=(), repr=False)

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> WriterOptions:
        """Parse the options that the user gave to ``.option()``.

        :raises ValueError: an option is wrong; the text names option and value, but never the URL
        """
        values, driver = _KNOWN.parse(given, "url")
        if "address" in values and "topic" in values:
            raise ValueError("only one of the options 'address' and 'topic' may be given")
        return cls(**values, driver=driver)

    def destination(self) -> Destination | None:
        """Return the destination of rows without an address; None: each row must have one."""
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
    # options that Spark passes to every writer of a stream
    ignored=("checkpointlocation", "path", "queryname"),
)
