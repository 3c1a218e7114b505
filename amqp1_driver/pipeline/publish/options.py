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
from amqp1_driver.pipeline import bus

#: options of the driver's group in oslo.config: ``driver.ssl_ca_file``
DRIVER = "driver."
_KNOWN = {name.lower(): name for name in
          ("url", "address", "topic", "exchange", "priority", "maxInFlight", "timeout", "idPrefix")}
#: what Spark hands to every writer of a stream
_SPARKS = {"checkpointlocation", "path", "queryname"}


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
    def parse(cls, options: Mapping[str, str]) -> WriterOptions:
        """Read what the user gave to ``.option()``.

        :raises ValueError: naming the option and the value at fault; never the URL
        """
        given: dict[str, str] = {}
        driver: list[tuple[str, str]] = []
        for name, text in options.items():
            key = name.lower()
            if key.startswith(DRIVER):
                driver.append((key[len(DRIVER):], text))
            elif key in _SPARKS:
                continue
            elif key not in _KNOWN:
                raise ValueError(f"option {name!r} is not known; writing has "
                                 + ", ".join(sorted(_KNOWN.values())))
            elif text.strip():
                given[_KNOWN[key]] = text.strip()
        if "url" not in given:
            raise ValueError("option 'url' is missing")
        if "address" in given and "topic" in given:
            raise ValueError("only one of the options 'address' and 'topic' may be given")
        return cls(
            url=given["url"], address=given.get("address"), topic=given.get("topic"),
            exchange=given.get("exchange", "openstack"), priority=given.get("priority", "info"),
            max_in_flight=int(_number("maxInFlight", given, 1000, 1)),
            timeout=_number("timeout", given, 60.0, 0.001), id_prefix=given.get("idPrefix"),
            driver=tuple(sorted(driver)))

    def destination(self) -> Destination | None:
        """Of rows that have no address of their own; None: they must have one."""
        if self.topic:
            return bus.notifications(self.topic, self.priority, self.exchange)
        return bus.node(self.address) if self.address else None


def _number(name: str, given: Mapping[str, str], default: float, least: float) -> float:
    text = given.get(name)
    if text is None:
        return default
    try:
        value = int(text) if isinstance(default, int) else float(text)
    except ValueError:
        raise ValueError(f"option {name!r} = {text!r} is no number") from None
    if not least <= value < float("inf"):
        raise ValueError(f"option {name!r} = {text!r} is less than {least:g}")
    return value
