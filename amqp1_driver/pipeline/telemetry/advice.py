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

"""What an option had better be, and why. Pure: numbers in, words and numbers out.

The general rules:

* Nothing is recommended on few samples: :data:`LEAST` are needed for a percentile, and from
  :data:`MANY` on it counts as sure.
* What is enough is multiplied by a head-room, since records only hold what happened.
* What is higher than needed is kept: it costs little, and the worst day may not be in the records.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

#: samples that a p99 or p99.9 needs at least, and for being sure
LEAST, MANY = 1_000, 10_000
#: over what was seen
HEADROOM = 1.5

RAISE, LOWER, KEEP, LOOK, UNKNOWN = "raise", "lower", "keep", "look into it", "too few records"

Current = Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class Advice:
    """About one option.

    :ivar option: its name, with its group where that is not ``oslo_messaging_amqp``
    :ivar current: its value, as far as it is known: by the records, the configuration or default
    :ivar source: which of them: "records", "configuration", "default"
    :ivar enough: what would do; None: not known
    :ivar recommended: what to set; None: no recommendation
    :ivar verdict: raise, lower, keep, look into it, too few records
    :ivar sure: "high", "medium" or "none"
    """

    option: str
    current: float
    source: str
    enough: float | None
    recommended: float | None
    unit: str
    verdict: str
    why: str
    samples: int
    sure: str


@dataclasses.dataclass(frozen=True)
class Known:
    """An option's present value."""

    option: str
    value: float
    source: str
    unit: str


def enough(known: Known, need: float, why: str, samples: int) -> Advice:
    """At least ``need`` is needed: raise what is less, keep what is not."""
    if need > known.value:
        return _made(known, need, rounded_up(need), RAISE, why, samples)
    return _made(known, need, known.value, KEEP, why, samples)


def at_most(known: Known, bound: float, why: str, samples: int) -> Advice:
    """No more than ``bound`` makes sense: lower what is more, keep what is not."""
    if known.value > bound:
        return _made(known, bound, rounded_down(bound), LOWER, why, samples)
    return _made(known, bound, known.value, KEEP, why, samples)


def none(known: Known, why: str, samples: int, verdict: str = UNKNOWN) -> Advice:
    """No recommendation, and the reason."""
    return Advice(known.option, known.value, known.source, None, None, known.unit, verdict, why,
                  samples, "none")


def _made(known: Known, need: float, value: float, verdict: str, why: str, samples: int) -> Advice:
    return Advice(known.option, known.value, known.source, need, value, known.unit, verdict, why,
                  samples, "high" if samples >= MANY else "medium")


def too_few(what: str, samples: int, least: int = LEAST) -> str:
    """Why nothing is recommended."""
    return f"{samples:,} {what}; {least:,} are needed"


def rounded_up(value: float) -> float:
    """Two digits that count: 122 becomes 130."""
    step = _step(value)
    # 1.2 / 0.1 is a little more than 12
    return round(math.ceil(value / step - 1e-9) * step, 6)


def rounded_down(value: float) -> float:
    """Two digits that count: 28.9 becomes 28."""
    step = _step(value)
    return round(math.floor(value / step + 1e-9) * step, 6)


def _step(value: float) -> float:
    if value <= 0:
        return 1.0
    return float(10.0 ** (math.floor(math.log10(value)) - 1))


def said(seconds: float) -> str:
    """A duration in words."""
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def said_bytes(size: float) -> str:
    """A size in words."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:,.3g} GiB"
