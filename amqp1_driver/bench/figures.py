# SPDX-License-Identifier: Apache-2.0

"""Figures of runs: lost messages, medians, ratios with their spread, growth, trends. Pure."""

from __future__ import annotations

import itertools
import math
import operator
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from amqp1_driver.bench.workers.ledger import OK, Histogram, unpack

Run = dict[str, Any]
Figure = Callable[[Run], float | None]

#: figures that a summary adds up over all rounds, because a median would hide rare losses
COUNTS = ("sent", "failed", "received", "lost", "duplicated", "in_doubt")
_PERCENTILES = (("p50", 50.0), ("p90", 90.0), ("p99", 99.0))
_PLAIN = ("seconds", "sent_per_s", "received_per_s")
_NESTED = ("latency_us", "delivery_us", "cpu_us", "switches", "peak_mib")


def _cpu(*names: str) -> Figure:
    def figure(run: Run) -> float | None:
        parts = [run["cpu_us"][name] for name in names]
        return None if None in parts else sum(parts)

    return figure


def tail(run: Run) -> float | None:
    """Return the latency p99 divided by p50; None if p50 is 0."""
    latency = run["latency_us"]
    return latency["p99"] / latency["p50"] if latency["p50"] else None


#: figures for ratios and spreads, by name
FIGURES: dict[str, Figure] = {
    "sent/s": lambda run: run["sent_per_s"],
    "recv/s": lambda run: run["received_per_s"],
    "p50": lambda run: run["latency_us"]["p50"],
    "p99": lambda run: run["latency_us"]["p99"],
    "p99/p50": tail,
    "CPU client+server": _cpu("client", "server"),
    "CPU all": _cpu("client", "server", "bus"),
}


def median(values: Iterable[float | None]) -> float | None:
    """Return the median of the values that are not None; None if there are none."""
    there = [value for value in values if value is not None]
    return statistics.median(there) if there else None


def summary(runs: Sequence[Run]) -> dict[str, Any] | None:
    """Summarise the rounds: medians and spreads of figures, sums of counts and of errors.

    :returns: None without runs
    """
    if not runs:
        return None
    result: dict[str, Any] = {name: sum(run[name] for run in runs) for name in COUNTS}
    result["errors"] = errors(
        {kind: (error["count"], error["first"]) for kind, error in run["errors"].items()}
        for run in runs
    )
    for name in _PLAIN:
        result[name] = median([run[name] for run in runs])
    for name in _NESTED:
        result[name] = {key: median([run[name][key] for run in runs]) for key in runs[0][name]}
    result["latency_us"]["p99/p50"] = median(map(tail, runs))
    result["cpu_us"]["client+server"] = median(map(FIGURES["CPU client+server"], runs))
    result["spread"] = {name: _spread(map(figure, runs)) for name, figure in FIGURES.items()}
    return result


def _spread(values: Iterable[float | None]) -> dict[str, float] | None:
    there = [value for value in values if value is not None]
    return {"low": min(there), "high": max(there)} if there else None


def latency(parts: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Return percentiles and the maximum of latencies, in microseconds.

    :param parts: histograms in the form of ``Histogram.dump``; the function merges them
    """
    merged = Histogram.merged(parts)
    found = {name: merged.percentile(percent) / 1e3 for name, percent in _PERCENTILES}
    return {**found, "max": merged.max / 1e3}


def errors(parts: Iterable[Mapping[str, Sequence[Any]]]) -> dict[str, dict[str, Any]]:
    """Add up errors by kind.

    :param parts: for each kind the number of errors, and the text of the first one
    """
    found: dict[str, dict[str, Any]] = {}
    for part in parts:
        for kind, (count, words) in part.items():
            found.setdefault(kind, {"count": 0, "first": words})["count"] += count
    return found


def ratios(
    runs: Sequence[Run | None],
    base: Sequence[Run | None],
    figures: Mapping[str, Figure] = FIGURES,
) -> dict[str, Any]:
    """Return figures as multiples of those of another driver.

    :param runs: by round; None: the run failed
    :param base: runs of the other driver, by round
    :returns: for each figure the ratio of the medians, and the lowest and highest ratio of a round;
        None if no round has a value for both drivers, or if the other driver's median is 0
    """
    return {name: _ratio(figure, runs, base) for name, figure in figures.items()}


def _ratio(
    figure: Figure, runs: Sequence[Run | None], base: Sequence[Run | None]
) -> dict[str, float] | None:
    ours = [None if run is None else figure(run) for run in runs]
    theirs = [None if run is None else figure(run) for run in base]
    middle, reference = median(ours), median(theirs)
    rounds = [
        one / other for one, other in zip(ours, theirs, strict=True) if one is not None and other
    ]
    if middle is None or not reference or not rounds:
        return None
    return {"ratio": middle / reference, "low": min(rounds), "high": max(rounds)}


# -- accounts ------------------------------------------------------------------------------


class Account(NamedTuple):
    """Counts of messages; in a fanout, the copy for each server counts as a message.

    :param lost: messages that the client sent successfully and no server received
    :param duplicated: copies beyond the first
    :param in_doubt: messages that a server received although sending failed; this is no loss
    """

    lost: int
    duplicated: int
    in_doubt: int


def account(states: Mapping[str, str], marks: Sequence[Mapping[str, str]], fanout: bool) -> Account:
    """Compare the messages that clients sent with the messages that servers received.

    :param states: for each sender, the packed states of its messages
    :param marks: for each server and each sender, the packed counts of received copies
    :param fanout: True: every server gets every message; False: one server gets it
    """
    total = Account(0, 0, 0)
    for sender, packed in states.items():
        sent = unpack(packed)
        copies = [unpack(server[sender]) if sender in server else b"" for server in marks]
        for received in copies if fanout else [_together(copies)]:
            total = Account(*map(operator.add, total, _one(sent, received)))
    return total


def _together(copies: Sequence[bytes]) -> Sequence[int]:
    if len(copies) == 1:
        return copies[0]
    return [sum(column) for column in itertools.zip_longest(*copies, fillvalue=0)]


def _one(sent: bytes, received: Sequence[int]) -> Account:
    if received == sent and not sent.strip(bytes([OK])):
        return Account(0, 0, 0)  # the usual case: every message sent, and received once
    lost = duplicated = in_doubt = 0
    for state, count in itertools.zip_longest(sent, received):
        duplicated += max(0, (count or 0) - 1)
        lost += state == OK and not count
        in_doubt += state != OK and bool(count)
    return Account(lost, duplicated, in_doubt)


# -- growth, fairness, trends --------------------------------------------------------------


def exponent(before: tuple[float, float | None], after: tuple[float, float | None]) -> float | None:
    """Return the power of n by which a total has grown from one (n, total) to the next.

    1: in proportion to n; 2: with the square of n; 0: not at all.

    :returns: None if a total is missing or not positive, or if both n are equal
    """
    (small, low), (large, high) = before, after
    if low is None or high is None or low <= 0 or high <= 0 or small == large:
        return None
    return math.log(high / low) / math.log(large / small)


def jain(shares: Sequence[float]) -> float | None:
    """Return Jain's index of fairness: 1 if all shares are equal, 1/n if one has everything.

    :returns: None if all shares are 0
    """
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else None


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return the value that ``percent`` % of the values do not exceed (nearest rank)."""
    if not values:
        return None
    rank = max(1, math.ceil(len(values) * percent / 100))
    return sorted(values)[rank - 1]


def peak(times: Sequence[float], window: float) -> int:
    """Return the largest number of times within any window of this length."""
    ordered = sorted(times)
    most = first = 0
    for index, at in enumerate(ordered):
        while at - ordered[first] >= window:
            first += 1
        most = max(most, index - first + 1)
    return most


class Trend(NamedTuple):
    """The trend of a figure from step to step.

    :param slope: growth per step: the median of the slopes between all pairs of steps (Theil and
        Sen). It shows lasting growth, also in chunks, but no jump at the beginning or the end
    :param tau: Kendall's tau: 1 if the figure only rises, 0 if rises and falls are in balance
    """

    slope: float
    tau: float

    @property
    def steady(self) -> bool:
        """Return whether the figure rises steadily; noise has a tau near 0."""
        return self.slope > 0 and self.tau >= 0.6


def trend(values: Sequence[float]) -> Trend:
    """Return the trend of at least two values, in the order of their measurement."""
    pairs = itertools.combinations(enumerate(values), 2)
    slopes = [(after - before) / (j - i) for (i, before), (j, after) in pairs]
    signs = sum((slope > 0) - (slope < 0) for slope in slopes)
    return Trend(statistics.median(slopes), signs / len(slopes))
