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

"""What a message costs: measured on one machine, kept with its origin in a JSON file."""

from __future__ import annotations

import dataclasses
import importlib.resources
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: of the file; it changes when a reader of older ones would go wrong
SCHEMA = 1
#: costs that come along, by name of the bus
SHIPPED = importlib.resources.files("amqp1_driver.pipeline.capacity") / "measured"


@dataclass(frozen=True, slots=True)
class Part:
    """Processor time of one kind of process, microseconds.

    :param call: for each call, all of its messages together, while there is always more to do
    :param wake: in addition, for each batch of messages that it takes at once: threads
        that are woken, system calls; a batch of messages shares it
    :param kib: for each KiB of a payload that passes
    """

    call: float
    wake: float = 0.0
    kib: float = 0.0

    def __post_init__(self) -> None:
        if min(self.call, self.wake, self.kib) < 0:
            raise ValueError(f"a cost below zero: {self}")


@dataclass(frozen=True, slots=True)
class Costs:
    """All that the model takes from measurements.

    :param latency_us: from a message's arrival at a process that has nothing to do until it runs
    :param batch: messages that a process takes at once and gives on together, at most; mean of a
        geometric distribution
    :param stretch: time that a process with much to do holds its core (and the interpreter's lock)
        for each second of processor time: hand-over between threads; at least 1
    :param noise: coefficient of variation of a single piece of work, and of a wake
    :param disorder: share of the pieces that are taken not in turn but at random, as threads
        that wait for one lock are
    :param cold: share by which a batch costs more after a long idle time: caches are cold, the
        core sleeps
    :param cooling_us: idle time after which it is 63 % of that
    :param hop_us: of a link between two routers, beyond the network and what the router on the
        other side costs
    :param burst_us: how long other processes of a shared machine want a core at a time, in the mean
    :param slice_us: that the operating system lets a process run when others wait
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
        """Share by which a batch costs more after having been idle for so many microseconds."""
        return self.cold * -math.expm1(-idle / self.cooling_us)

    def replace(self, **changes: Any) -> Costs:
        """Others with these changes."""
        return dataclasses.replace(self, **changes)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"schema": SCHEMA, **dataclasses.asdict(self)}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Costs:
        """From JSON; ValueError if it is something else."""
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
    """Names of the costs that come along."""
    return sorted(entry.name.removesuffix(".json") for entry in SHIPPED.iterdir()
                  if entry.name.endswith(".json"))


def load(name: str) -> Costs:
    """Costs that come along, by name, or a file of them; ValueError if there is neither."""
    source = SHIPPED / f"{name}.json" if name in shipped() else Path(name)
    try:
        return Costs.of(json.loads(source.read_text(encoding="utf-8")))
    except OSError as error:
        raise ValueError(f"no costs {name!r}: {error.strerror or error}; "
                         f"those that come along: {', '.join(shipped())}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{name}: {error}") from None


def save(costs: Costs, path: str | Path) -> None:
    """Write a file of costs."""
    Path(path).write_text(json.dumps(costs.document(), indent=1) + "\n", encoding="utf-8")
