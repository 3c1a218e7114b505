# SPDX-License-Identifier: Apache-2.0

"""Medians over rounds, and ratios between drivers with their spread. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from amqp1_driver.bench.workers.ledger import Histogram

Run = dict[str, Any]

#: figures that a summary adds up over all rounds, because a median would hide rare losses
COUNTS = ("sent", "failed", "received", "lost", "duplicated", "in_doubt")
_PERCENTILES = (("p50", 50.0), ("p90", 90.0), ("p99", 99.0))
_PLAIN = ("seconds", "sent_per_s", "received_per_s")
_NESTED = ("latency_us", "delivery_us", "cpu_us", "switches", "peak_mib")


def _cpu(*names: str) -> Callable[[Run], float | None]:
    def figure(run: Run) -> float | None:
        parts = [run["cpu_us"][name] for name in names]
        return None if None in parts else sum(parts)

    return figure


def tail(run: Run) -> float | None:
    """Return the latency p99 divided by p50; None if p50 is 0."""
    latency = run["latency_us"]
    return latency["p99"] / latency["p50"] if latency["p50"] else None


#: figures for ratios and spreads, by name
FIGURES: dict[str, Callable[[Run], float | None]] = {
    "sent/s": lambda run: run["sent_per_s"],
    "recv/s": lambda run: run["received_per_s"],
    "p50": lambda run: run["latency_us"]["p50"],
    "p99": lambda run: run["latency_us"]["p99"],
    "p99/p50": lambda run: tail(run),
    "CPU client+server": _cpu("client", "server"),
    "CPU all": _cpu("client", "server", "bus"),
}


def median(values: Sequence[float | None]) -> float | None:
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
    result["latency_us"]["p99/p50"] = median([tail(run) for run in runs])
    result["cpu_us"]["client+server"] = median([FIGURES["CPU client+server"](run) for run in runs])
    result["spread"] = {
        name: _spread([figure(run) for run in runs]) for name, figure in FIGURES.items()
    }
    return result


def _spread(values: Sequence[float | None]) -> dict[str, float] | None:
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


def ratios(runs: Sequence[Run | None], base: Sequence[Run | None]) -> dict[str, Any]:
    """Return all figures as multiples of those of another driver.

    :param runs: by round; None: the run failed
    :param base: runs of the other driver, by round
    :returns: for each figure the ratio of the medians, and the lowest and highest ratio of a round
    """
    return {name: ratio(figure, runs, base) for name, figure in FIGURES.items()}


def ratio(
    figure: Callable[[Run], float | None], runs: Sequence[Run | None], base: Sequence[Run | None]
) -> dict[str, float] | None:
    """Return one figure as a multiple of another driver's.

    :returns: None if no round has a value for both drivers, or if the other driver's median is 0
    """
    ours = [None if run is None else figure(run) for run in runs]
    theirs = [None if run is None else figure(run) for run in base]
    middle, reference = median(ours), median(theirs)
    rounds = [
        one / other for one, other in zip(ours, theirs, strict=True) if one is not None and other
    ]
    if middle is None or not reference or not rounds:
        return None
    return {"ratio": middle / reference, "low": min(rounds), "high": max(rounds)}
