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

"""The options of the data source ``amqp1``, as reading needs them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping

from amqp1_driver.pipeline import options
from amqp1_driver.pipeline.spool import SpoolLimits

#: of notifications: a queue for each (oslo.messaging's Notifier)
PRIORITIES = ("audit", "debug", "info", "warn", "error", "critical", "sample")
SEGMENT_ROWS = 10_000


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SourceOptions:
    """Checked options; made by :meth:`parse`. Durations are seconds."""

    #: transport URL as oslo.messaging has it; may hold a password
    url: str = dataclasses.field(repr=False)
    #: AMQP addresses, as they go into the link's source
    addresses: tuple[str, ...] = ()
    #: topics of notifications, whose addresses are found as the driver finds them
    topics: tuple[str, ...] = ()
    exchange: str = "openstack"
    #: queues of a pool get copies, beside those without pool
    pool: str | None = None
    priorities: tuple[str, ...] = PRIORITIES
    #: absolute
    spool_dir: str = ""
    max_rows_per_trigger: int = 50_000
    #: tasks in which a batch is read; 0: one for each processor of the planning process's machine
    partitions: int = 0
    #: receiving links for each address
    links: int = 1
    #: messages that the bus may send ahead to each link
    credit: int = 2000
    #: of messages that have come and are not on disc, bytes
    max_buffer_bytes: int = 64 * 1024 ** 2
    #: an address that the bus refuses for so long without a pause is an error; 0: it never is
    refused_timeout: float = 300.0
    max_spool_rows: int = 1_000_000
    max_spool_bytes: int = 4 * 1024 ** 3
    #: rows in one file; less by itself when the spool is to hold few
    segment_rows: int = SEGMENT_ROWS
    #: a message waits at most so long for others to share a file
    linger: float = 0.2
    #: links on which nothing came for so long are idle
    drain_idle: float = 1.0
    #: availableNow and batch reads wait at most so long until links are idle
    drain_max: float = 600.0
    fail_on_data_loss: bool = True
    #: options of the driver by name, values as in a configuration file
    driver: tuple[tuple[str, str], ...] = dataclasses.field(default=(), repr=False)

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SourceOptions:
        """Read what the user gave to ``.option()``.

        :raises ValueError: naming the option and the value at fault; never the URL
        """
        values, driver = _KNOWN.parse(given, "url", "spoolDir")
        if "max_spool_rows" in values:
            values.setdefault("segment_rows", min(SEGMENT_ROWS, values["max_spool_rows"] // 2))
        made = cls(**values, driver=driver)
        made._check()
        return made

    def _check(self) -> None:
        if bool(self.addresses) == bool(self.topics):
            raise ValueError("one of the options 'address' and 'topic' is needed, and not both")
        try:
            self.limits()
        except ValueError as error:
            raise ValueError(
                f"options 'maxSpoolRows' = {self.max_spool_rows}, 'maxSpoolBytes' = "
                f"{self.max_spool_bytes}, 'segmentRows' = {self.segment_rows}: {error}") from None

    def limits(self) -> SpoolLimits:
        """The caps of the spool."""
        return SpoolLimits(self.max_spool_rows, self.max_spool_bytes, self.segment_rows)

    def tasks(self) -> int:
        """In how many tasks a batch is read."""
        return self.partitions or os.cpu_count() or 1


_KNOWN = options.Known(
    ("url", "url", options.text),
    ("addresses", "address", options.names),
    ("topics", "topic", options.names),
    ("exchange", "exchange", options.text),
    ("pool", "pool", options.text),
    ("priorities", "priorities", options.names),
    ("spool_dir", "spoolDir", options.folder),
    ("max_rows_per_trigger", "maxRowsPerTrigger", options.number(1)),
    ("partitions", "partitions", options.number(0)),
    ("links", "links", options.number(1)),
    ("credit", "credit", options.number(1)),
    ("max_buffer_bytes", "maxBufferBytes", options.number(1)),
    ("refused_timeout", "refusedTimeoutMs", options.milliseconds),
    ("max_spool_rows", "maxSpoolRows", options.number(2)),
    ("max_spool_bytes", "maxSpoolBytes", options.number(1)),
    ("segment_rows", "segmentRows", options.number(1)),
    ("linger", "lingerMs", options.milliseconds),
    ("drain_idle", "drainIdleMs", options.milliseconds),
    ("drain_max", "drainMaxMs", options.milliseconds),
    ("fail_on_data_loss", "failOnDataLoss", options.truth),
)
