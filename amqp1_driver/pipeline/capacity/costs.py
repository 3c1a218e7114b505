# SPDX-License-Identifier: Apache-2.0

"""Costs of a message: measured on one machine, stored with their origin in a JSON file."""

from __future__ import annotations

import dataclasses
import importlib.resources
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: version of the file format; it changes when a reader of the old format would misread a new file
SCHEMA = 1
#: folder of the costs that the package contains, a file for each bus
SHIPPED = importlib.resources.files("amqp1_driver.pipeline.capacity") / "measured"


@dataclass(frozen=True, slots=True)
class Part:
    """Processor time of one kind of process, microseconds.

    :param call: for each call, all of its messages together, in a process that is never idle
    :param wake: in addition, for each batch of messages that the process takes at once: it wakes
        threads and makes system calls; the messages of a batch share this cost
    :param kib: for each KiB of payload that passes through the process
    """

    call: float
    wake: float = 0.0
    kib: float = 0.0

    def __post_init__(self) -> None:
        if min(self.call, self.wake, self.kib) < 0:
            raise ValueError(f"a cost below zero: {self}")


@dataclass(frozen=True, slots=True)
class Costs:
    """All parameters of the model that come from measurements. Times are microseconds.

    :param latency_us: from the arrival of a message at an idle process until the process runs
    :param batch: limit of the messages that a process takes at once and passes on together; the
        limit varies from batch to batch, this is the mean of its geometric distribution
    :param stretch: seconds for which a busy process holds its core (and the interpreter's lock)
        for each second of processor time, because its threads hand the lock over; at least 1
    :param noise: coefficient of variation of a single piece of work, and of a wake
    :param disorder: share of the pieces that a process takes at random and not in turn, like
        threads that wait for one lock
    :param cold: share by which a batch costs more after a long idle time, when the caches are cold
        and the core sleeps
    :param cooling_us: idle time after which a batch has 63 % of the extra cost ``cold``
    :param hop_us: latency of a link between two routers, without the latency of the network and
        without the cost of the second router
    :param burst_us: mean time for which other processes of a shared machine want a core at a time
    :param slice_us: time slice of the operating system: a process runs so long while others wait
    :param origin: machine, commit, bus, measurements and how well the costs fit them
    """

    client: Part
    router: Part
    server: Part
    latency_us: float = 0.0
    batch: float = 1.0
    stretch: float = 1.0
    noise: float = 0.0
    disorder: float = 0.0
    cold: float = 0.0
    cooling_us: float = 10_000.0
    hop_us: float = 0.0
    burst_us: float = 1000.0
    slice_us: float = 3000.0
    origin: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.stretch < 1 or min(self.slice_us, self.burst_us, self.cooling_us) <= 0:
            raise ValueError("stretch is 1 or more, slice_us, burst_us and cooling_us above 0")
        if not 0 <= self.disorder <= 1 or self.batch < 1:
            raise ValueError("disorder is 0 to 1, batch 1 or more")
        if min(self.latency_us, self.noise, self.cold, self.hop_us) < 0:
            raise ValueError("a cost below zero")

    def chill(self, idle: float) -> float:
        """Return the share by which a batch costs more after ``idle`` microseconds without work."""
        return self.cold * -math.expm1(-idle / self.cooling_us)

    def replace(self, **changes: Any) -> Costs:
        """Return a copy with these changes."""
        return dataclasses.replace(self, **changes)

    def document(self) -> dict[str, Any]:
        """Return the costs as a JSON document."""
        return {"schema": SCHEMA, **dataclasses.asdict(self)}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Costs:
        """Create costs from a JSON document.

        :raises ValueError: the document has another schema or other content
        """
        if document.get("schema") != SCHEMA:
            raise ValueError(f"not a file of costs of schema {SCHEMA}")
        values = {name: value for name, value in document.items() if name != "schema"}
        try:
            for name in ("client", "router", "server"):
                values[name] = Part(**values[name])
            return cls(**values)
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a file of costs: {error}") from None


def shipped() -> list[str]:
    """Return the names of the costs that the package contains."""
    return sorted(
        entry.name.removesuffix(".json")
        for entry in SHIPPED.iterdir()
        if entry.name.endswith(".json")
    )


def load(name: str) -> Costs:
    """Load costs that the package contains, by their name, or a file of costs, by its path.

    :raises ValueError: there is neither, or the file is not a file of costs
    """
    source = SHIPPED / f"{name}.json" if name in shipped() else Path(name)
    try:
        return Costs.of(json.loads(source.read_text(encoding="utf-8")))
    except OSError as error:
        raise ValueError(
            f"no costs {name!r}: {error.strerror or error}; "
            f"those that come along: {', '.join(shipped())}"
        ) from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{name}: {error}") from None


def save(costs: Costs, path: str | Path) -> None:
    """Write a file of costs."""
    Path(path).write_text(json.dumps(costs.document(), indent=1) + "\n", encoding="utf-8")
