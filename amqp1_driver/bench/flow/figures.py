# SPDX-License-Identifier: Apache-2.0

"""Figures of a run, their medians over rounds, and ratios between drivers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from amqp1_driver.bench.flow.plan import CLASSIC, KINDS, QUORUM
from amqp1_driver.bench.summary import COUNTS, errors, latency, median, ratio

Run = dict[str, Any]
Figure = Callable[[Run], float | None]

ALONE, BOTH = "alone", "both"


def sender(outcome: Mapping[str, Any], at: int) -> dict[str, Any]:
    """Compute the figures of one sender in one phase.

    :param outcome: outcome of the sender, from the report of its worker
    :param at: time at which the sender began, monotonic nanoseconds
    """
    return {
        "sent": outcome["sent"],
        "failed": outcome["failed"],
        "per_s": outcome["sent"] * 1e9 / max(1, outcome["ended"] - at),
        "latency_us": latency([outcome["latency"]]),
        "errors": errors([outcome["errors"]]),
    }


def _rate(name: str, phase: str) -> Figure:
    return lambda run: run["rates"][name][phase]


def _latency(name: str, phase: str, percentile: str) -> Figure:
    return lambda run: run["latency_us"][name][phase][percentile] / 1e3


def _kept(name: str) -> Figure:
    def figure(run: Run) -> float | None:
        rates = run["rates"][name]
        return 100.0 * rates[BOTH] / rates[ALONE] if rates[ALONE] else None

    return figure


def _of(name: str) -> dict[str, Figure]:
    return {
        f"{name} alone/s": _rate(name, ALONE),
        f"{name}/s": _rate(name, BOTH),
        f"{name} kept %": _kept(name),
        f"{name} p50 ms": _latency(name, BOTH, "p50"),
        f"{name} p99 ms": _latency(name, BOTH, "p99"),
    }


#: rows of the table, by kind of scenario; "kept": the rate in phase BOTH as a percentage of the
#: rate in phase ALONE
FIGURES: dict[str, dict[str, Figure]] = {
    KINDS[0]: {
        **_of(CLASSIC),
        **_of(QUORUM),
        "total/s": lambda run: run["rates"][CLASSIC][BOTH] + run["rates"][QUORUM][BOTH],
        "CPUs": lambda run: run["busy"],
    },
    KINDS[1]: {
        "received alone/s": _rate("received", ALONE),
        "received/s": _rate("received", BOTH),
        "received kept %": _kept("received"),
        **_of(QUORUM),
        "CPUs": lambda run: run["busy"],
    },
}
#: names of the figures with ratios, by kind of scenario
COMPARED = {
    KINDS[0]: ("total/s", f"{CLASSIC}/s", f"{QUORUM}/s", f"{CLASSIC} p50 ms", f"{CLASSIC} p99 ms"),
    KINDS[1]: ("received/s", "received kept %", f"{QUORUM}/s", f"{QUORUM} p99 ms"),
}


def summary(kind: str, runs: Sequence[Run]) -> dict[str, Any] | None:
    """Return medians of all figures and sums of all counts; None without runs."""
    if not runs:
        return None
    result: dict[str, Any] = {
        name: median([figure(run) for run in runs]) for name, figure in FIGURES[kind].items()
    }
    for name in COUNTS:
        result[name] = sum(run[name] for run in runs)
    result["connections"] = runs[-1]["connections"]
    return result


def ratios(kind: str, runs: Sequence[Run | None], base: Sequence[Run | None]) -> dict[str, Any]:
    """Return figures as multiples of another driver's.

    :returns: for each figure the ratio of the medians, and the lowest and highest ratio of a round
    """
    return {name: ratio(FIGURES[kind][name], runs, base) for name in COMPARED[kind]}
