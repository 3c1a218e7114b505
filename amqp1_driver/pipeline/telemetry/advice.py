# SPDX-License-Identifier: Apache-2.0

"""Recommendations for options: a value, a verdict and the reason.  Pure; any thread.

The general rules:

* A percentile needs :data:`LEAST` samples, else there is no recommendation. From :data:`MANY`
  samples on, the recommendation is sure.
* The callers multiply an observed need by :data:`HEADROOM`, since records only hold what happened.
* A value that is higher than needed stays: it costs little, and the worst day may not be in the
  records.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

#: samples that a p99 or p99.9 needs at least, and samples that make it sure
LEAST, MANY = 1_000, 10_000
#: factor over the observed need
HEADROOM = 1.5

RAISE, LOWER, KEEP, LOOK, UNKNOWN = "raise", "lower", "keep", "look into it", "too few records"

Current = Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class Advice:
    """A recommendation for one option.

    :ivar option: name of the option, with its group where that is not ``oslo_messaging_amqp``
    :ivar current: present value of the option, by ``source``
    :ivar source: "records", "configuration" or "default"
    :ivar enough: the bound by the records, before rounding; None: not known
    :ivar recommended: the value to set; None: no recommendation
    :ivar unit: unit of the three values
    :ivar verdict: raise, lower, keep, look into it, too few records, set a bound
    :ivar why: the reason, in words
    :ivar samples: number of values that the recommendation rests on
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
    """The present value of an option.

    :ivar source: "records", "configuration" or "default"
    """

    option: str
    value: float
    source: str
    unit: str


def enough(known: Known, need: float, why: str, samples: int) -> Advice:
    """Recommend at least ``need``: raise a lower value, keep any other."""
    if need > known.value:
        return _made(known, need, rounded_up(need), RAISE, why, samples)
    return _made(known, need, known.value, KEEP, why, samples)


def at_most(known: Known, bound: float, why: str, samples: int) -> Advice:
    """Recommend at most ``bound``: lower a higher value, keep any other."""
    if known.value > bound:
        return _made(known, bound, rounded_down(bound), LOWER, why, samples)
    return _made(known, bound, known.value, KEEP, why, samples)


def none(known: Known, why: str, samples: int, verdict: str = UNKNOWN) -> Advice:
    """Return an advice that recommends no value and gives the reason."""
    return Advice(
        known.option,
        known.value,
        known.source,
        None,
        None,
        known.unit,
        verdict,
        why,
        samples,
        "none",
    )


def _made(known: Known, need: float, value: float, verdict: str, why: str, samples: int) -> Advice:
    return Advice(
        known.option,
        known.value,
        known.source,
        need,
        value,
        known.unit,
        verdict,
        why,
        samples,
        "high" if samples >= MANY else "medium",
    )


def too_few(what: str, samples: int, least: int = LEAST) -> str:
    """Return the reason for no recommendation: the number of samples is below ``least``."""
    return f"{samples:,} {what}; {least:,} are needed"


def rounded_up(value: float) -> float:
    """Round up to two significant digits: 122 becomes 130."""
    step = _step(value)
    # The term 1e-9 absorbs the rounding error of the division, which could add a step.
    return round(math.ceil(value / step - 1e-9) * step, 6)


def rounded_down(value: float) -> float:
    """Round down to two significant digits: 28.9 becomes 28."""
    step = _step(value)
    return round(math.floor(value / step + 1e-9) * step, 6)


def _step(value: float) -> float:
    if value <= 0:
        return 1.0
    return float(10.0 ** (math.floor(math.log10(value)) - 1))


def said(seconds: float) -> str:
    """Format a duration, given in seconds, with its unit."""
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def said_bytes(size: float) -> str:
    """Format a size, given in bytes, with its unit."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:,.3g} GiB"
