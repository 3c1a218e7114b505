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

"""The options of the data source ``amqp1``, as reading needs them.

Spark hands over strings, and their names in whatever case the user or Spark chose.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Callable, Mapping
from typing import Any

from amqp1_driver.pipeline.spool import SpoolLimits

#: of notifications: a queue for each (oslo.messaging's Notifier)
PRIORITIES = ("audit", "debug", "info", "warn", "error", "critical", "sample")
#: options of the driver's group in oslo.config: ``driver.ssl_ca_file``
DRIVER = "driver."
SEGMENT_ROWS = 10_000
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


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
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Read what the user gave to ``.option()``.

        :raises ValueError: naming the option and the value at fault; never the URL
        """
        values: dict[str, Any] = {}
        driver: list[tuple[str, str]] = []
        for name, text in options.items():
            key = name.lower()
            if key.startswith(DRIVER):
                driver.append((_driver_option(name), text))
                continue
            if key not in _KNOWN:
                raise ValueError(f"option {name!r} is not known{_similar(key)}")
            field, spelling, convert = _KNOWN[key]
            values[field] = convert(spelling, text)
        for field, spelling in (("url", "url"), ("spool_dir", "spoolDir")):
            if not values.get(field):
                raise ValueError(f"option {spelling!r} is missing")
        if "max_spool_rows" in values:
            values.setdefault("segment_rows", min(SEGMENT_ROWS, values["max_spool_rows"] // 2))
        made = cls(**values, driver=tuple(sorted(driver)))
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


def _driver_option(name: str) -> str:
    option = name[len(DRIVER):].lower()
    if not option:
        raise ValueError(f"option {name!r} names no option of the driver")
    return option


def _similar(key: str) -> str:
    close = difflib.get_close_matches(key, _KNOWN, n=1)
    return f"; did you mean {_KNOWN[close[0]][1]!r}?" if close else ""


def _text(name: str, text: str) -> str:
    if not text.strip():
        raise ValueError(f"option {name!r} is empty")
    return text.strip()


def _folder(name: str, text: str) -> str:
    scheme, colon, path = _text(name, text).partition(":")
    if not colon or "/" in scheme:
        path = scheme + colon + path
    elif scheme.lower() != "file" or (path.startswith("//") and not path.startswith("///")):
        raise ValueError(f"option {name!r} = {text!r} is no path of this machine: the spool is "
                         "forced to disc by means that only mounted file systems have")
    # workers have other working directories
    return os.path.abspath(path)


def _list(name: str, text: str) -> tuple[str, ...]:
    entries = tuple(entry.strip() for entry in text.split(",") if entry.strip())
    if not entries:
        raise ValueError(f"option {name!r} = {text!r} names none")
    if len(set(entries)) < len(entries):
        raise ValueError(f"option {name!r} = {text!r} names one twice")
    return entries


def _number(least: int) -> Callable[[str, str], int]:
    def convert(name: str, text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"option {name!r} = {text!r} is no whole number") from None
        if value < least:
            raise ValueError(f"option {name!r} = {text!r} is less than {least}")
        return value
    return convert


def _milliseconds(name: str, text: str) -> float:
    return _number(0)(name, text) / 1000


def _truth(name: str, text: str) -> bool:
    if text.strip().lower() in _TRUE:
        return True
    if text.strip().lower() in _FALSE:
        return False
    raise ValueError(f"option {name!r} = {text!r} is neither true nor false")


#: by name in small letters: field, name as documented, how to read it
_KNOWN: dict[str, tuple[str, str, Callable[[str, str], Any]]] = {
    spelling.lower(): (field, spelling, convert) for field, spelling, convert in (
        ("url", "url", _text),
        ("addresses", "address", _list),
        ("topics", "topic", _list),
        ("exchange", "exchange", _text),
        ("pool", "pool", _text),
        ("priorities", "priorities", _list),
        ("spool_dir", "spoolDir", _folder),
        ("max_rows_per_trigger", "maxRowsPerTrigger", _number(1)),
        ("partitions", "partitions", _number(0)),
        ("links", "links", _number(1)),
        ("credit", "credit", _number(1)),
        ("max_buffer_bytes", "maxBufferBytes", _number(1)),
        ("refused_timeout", "refusedTimeoutMs", _milliseconds),
        ("max_spool_rows", "maxSpoolRows", _number(2)),
        ("max_spool_bytes", "maxSpoolBytes", _number(1)),
        ("segment_rows", "segmentRows", _number(1)),
        ("linger", "lingerMs", _milliseconds),
        ("drain_idle", "drainIdleMs", _milliseconds),
        ("drain_max", "drainMaxMs", _milliseconds),
        ("fail_on_data_loss", "failOnDataLoss", _truth),
    )
}
