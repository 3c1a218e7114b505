# SPDX-License-Identifier: Apache-2.0

"""Medians, ratios with their spread, and the figures of a run."""

from __future__ import annotations

from typing import Any

import pytest

from amqp1_driver.bench.figures import ratios, summary
from amqp1_driver.bench.run import summarise
from amqp1_driver.bench.workers.ledger import pack
from amqp1_driver.bench.workers.usage import Usage


def run(
    rate: float = 100.0,
    p50: float = 10.0,
    client: float = 5.0,
    bus: float | None = 2.0,
    **more: Any,
) -> dict[str, Any]:
    return {
        "sent": 10,
        "failed": 1,
        "received": 10,
        "lost": 0,
        "duplicated": 0,
        "in_doubt": 0,
        "errors": {},
        "seconds": 1.0,
        "sent_per_s": rate,
        "received_per_s": rate,
        "latency_us": {"p50": p50, "p90": 1.0, "p99": p50 * 2, "max": 1.0},
        "delivery_us": {"p50": 1.0, "p90": 1.0, "p99": 1.0, "max": 1.0},
        "cpu_us": {"client": client, "server": 5.0, "bus": bus},
        "switches": {"client": 1.0, "server": 1.0, "bus": bus},
        "peak_mib": {"client": 1.0, "server": 1.0, "bus": bus},
        **more,
    }


def test_figures_are_medians_over_the_rounds() -> None:
    found = summary([run(100, 10), run(900, 30), run(300, 20)])
    assert found is not None
    assert (found["sent_per_s"], found["latency_us"]["p50"]) == (300, 20)


def test_counts_and_errors_are_sums_so_that_none_is_hidden() -> None:
    failed = run(lost=3, errors={"Timeout": {"count": 2, "first": "late"}})
    more = run(errors={"Timeout": {"count": 5, "first": "later"}})
    found = summary([run(), failed, more])
    assert found is not None
    assert (found["sent"], found["failed"], found["lost"]) == (30, 3, 3)
    assert found["errors"] == {"Timeout": {"count": 7, "first": "late"}}


def test_without_runs_there_is_no_summary() -> None:
    assert summary([]) is None


def test_what_is_not_known_is_left_out_of_the_median() -> None:
    found = summary([run(bus=None), run(bus=4.0), run(bus=None)])
    assert found is not None and found["cpu_us"]["bus"] == 4.0
    unknown = summary([run(bus=None)])
    assert unknown is not None and unknown["cpu_us"]["bus"] is None


def test_ratios_are_of_medians_with_the_spread_over_the_rounds() -> None:
    found = ratios([run(300, 5), run(400, 6), run(330, 4)], [run(100), run(200), run(110)])
    # medians 330 and 110; by round 3, 2, 3
    assert found["sent/s"] == {"ratio": 3.0, "low": 2.0, "high": 3.0}
    assert found["p50"] == {"ratio": 0.5, "low": 0.4, "high": 0.6}


def test_processor_time_is_added_up_before_it_is_compared() -> None:
    found = ratios([run(client=15.0, bus=10.0)], [run(client=5.0, bus=2.0)])
    assert found["CPU client+server"] == {"ratio": 2.0, "low": 2.0, "high": 2.0}
    assert found["CPU all"] == {"ratio": 2.5, "low": 2.5, "high": 2.5}


def test_rounds_that_came_to_nothing_are_left_out() -> None:
    found = ratios([None, run(300)], [run(50), run(100)])
    assert found["sent/s"] == {"ratio": 4.0, "low": 3.0, "high": 3.0}


@pytest.mark.parametrize(
    ("runs", "base"), [([None], [run()]), ([run()], [None]), ([run()], [run(bus=None)])]
)
def test_what_can_not_be_compared_has_no_ratio(runs: list[Any], base: list[Any]) -> None:
    assert ratios(runs, base)["CPU all"] is None


def worker(**more: Any) -> dict[str, Any]:
    return {
        "cpu_us": 500.0,
        "switches": 20,
        "peak_kib": 2048,
        "latency": {"max": 250, "buckets": [[100, 98], [250, 2]]},
        "delivery": {"max": 50, "buckets": [[50, 10]]},
        **more,
    }


def test_the_figures_of_a_run() -> None:
    client = worker(
        sent=4,
        failed=1,
        ended=3_000_000_000,
        states={"0": pack(b"\1\1\1\1\2")},
        errors={"Timeout": [1, "late"]},
    )
    server = worker(received=4, last=5_000_000_000, marks={"0": pack(b"\1\1\0\2\0")})
    found = summarise(1_000_000_000, [client], [server], False, Usage(80.0, 8), 1024)
    assert found["seconds"] == 2.0
    assert (found["sent_per_s"], found["received_per_s"]) == (2.0, 1.0)
    assert (found["lost"], found["duplicated"], found["in_doubt"]) == (1, 1, 0)
    assert found["errors"] == {"Timeout": {"count": 1, "first": "late"}}
    assert found["latency_us"] == {"p50": 0.1, "p90": 0.1, "p99": 0.25, "max": 0.25}
    # the client's by what it tried to send, the others' by what was received
    assert found["cpu_us"] == {"client": 100.0, "server": 125.0, "bus": 20.0}
    assert found["switches"] == {"client": 4.0, "server": 5.0, "bus": 2.0}
    assert found["peak_mib"] == {"client": 2.0, "server": 2.0, "bus": 1.0}


def test_a_run_in_which_nothing_was_received() -> None:
    client = worker(sent=1, failed=0, ended=2_000_000_000, states={"0": pack(b"\1")}, errors={})
    server = worker(received=0, last=0, marks={})
    found = summarise(1_000_000_000, [client], [server], False, None, None)
    assert (found["lost"], found["received_per_s"]) == (1, 0.0)
    assert (found["cpu_us"]["server"], found["cpu_us"]["bus"]) == (None, None)
