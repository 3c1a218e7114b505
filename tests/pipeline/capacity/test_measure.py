# SPDX-License-Identifier: Apache-2.0

"""Points from results of the benchmark, without running it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from amqp1_driver.bench.plan import Scenario
from amqp1_driver.pipeline.capacity import measure
from amqp1_driver.pipeline.capacity.setup import Setup


def run(rate: float, p99: float = 2000.0, bus: float | None = 40.0, **more: Any) -> dict[str, Any]:
    return {
        "sent": 100,
        "failed": 0,
        "received": 100,
        "lost": 0,
        "sent_per_s": rate,
        "latency_us": {"p50": 1000.0, "p90": 1500.0, "p99": p99, "max": 3000.0},
        "cpu_us": {"client": 100.0, "server": 120.0, "bus": bus},
        **more,
    }


ONE, TWO = Scenario("call", threads=1), Scenario("call", threads=2)


def test_medians_of_rounds_and_their_range() -> None:
    found = measure.points([(ONE, run(10)), (TWO, run(7)), (ONE, run(30)), (ONE, run(11))])

    assert [point.scenario for point in found] == [ONE, TWO]
    assert found[0].figures == {
        "throughput": 11,
        "p50": 1000,
        "p90": 1500,
        "p99": 2000,
        "client_cpu": 100,
        "router_cpu": 40,
        "server_cpu": 120,
        "others": 0,
    }
    assert found[0].spread["throughput"] == (10, 30)
    assert found[0].rounds == 3


def test_runs_that_are_not_to_be_used() -> None:
    with pytest.raises(ValueError, match="1 calls failed, 0 were lost"):
        measure.points([(ONE, run(10, failed=1))])
    with pytest.raises(ValueError, match="--bus-pid"):
        measure.points([(ONE, run(10, bus=None))])


def test_results_of_amqp1_bench(tmp_path: Path) -> None:
    document = {
        "scenarios": [
            {
                "title": "t",
                "operation": "call",
                "threads": 2,
                "clients": 1,
                "servers": 3,
                "size": 100,
                "reply": None,
                "seconds": 5.0,
                "count": 0,
                "rate": 0.0,
                "entries": [{"runs": [run(10), {"trouble": "none"}, run(12)]}, {"runs": [run(99)]}],
            },
            {"operation": "cast"},
        ]
    }
    [point] = measure.of_document(json.loads(json.dumps(document)))

    assert point.scenario == Scenario("call", threads=2, servers=3)
    assert point.figures["throughput"] == 11
    with pytest.raises(ValueError, match="not a result of amqp1 bench"):
        measure.of_document({"scenarios": [{"operation": "call"}]})


def test_a_scenario_for_the_model() -> None:
    scenario = Scenario("call", threads=3, clients=2, servers=4, size=10, reply=20, rate=5.0)

    assert measure.setup(measure.Point(scenario, {"others": 0.5}), 2, lanes=3) == Setup(
        threads=3,
        clients=2,
        servers=4,
        size=10,
        reply=20,
        rate=5.0,
        cores=2,
        router_threads=3,
        others=0.5,
    )


def test_others_are_what_the_run_has_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    idle, now = iter([50.0, 54.0]), iter([10.0, 12.0])
    monkeypatch.setattr(measure, "_idle", lambda: next(idle))
    monkeypatch.setattr(measure.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(measure.time, "monotonic", lambda: next(now))
    watch = measure.Watch()
    watch.begin()
    watch.end(None)

    # In 2 s 4 of 8 s were idle; 10,000 calls of 260 us are 2.6 s of the others
    used = run(5000, sent=10_000, received=10_000)
    assert watch.others(used) == pytest.approx(0.7)


def test_the_idle_time_is_what_linux_tells_of_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure.os, "sysconf", lambda _: 100)
    monkeypatch.setattr(
        measure.Path, "read_text", lambda _: "cpu  7 8 9 1200 34 5 6 0 0 0\ncpu0 1 2 3 4 5 6 7\n"
    )
    # idle, and waiting for a disk
    assert measure._idle() == 12.34


def test_where_the_idle_time_is_not_known_nobody_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(measure.Path, "read_text", missing)
    watch = measure.Watch()
    watch.begin()
    watch.end(None)
    assert watch.others(run(5000)) == 0.0


def test_disturbed_runs_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    others = {ONE: iter([0.0, 0.9, 0.1, 0.5]), TWO: iter([0.0, 0.1, 0.2])}
    said: list[str] = []

    def one(self: measure.Lab, scenario: Scenario, address: str) -> dict[str, Any]:
        level = next(others[scenario])
        return run(level * 100, others=level)

    monkeypatch.setattr(measure.Lab, "_one", one)
    lab = measure.Lab(url="amqp://127.0.0.1:1/", rounds=2, spare=2, others=0.15)
    found = lab.run([ONE, TWO], said.append)

    # a third run for the first only: 0 and 10 are the quiet ones
    assert [point.figures["throughput"] for point in found] == [5, 5]
    assert [point.spread["others"] for point in found] == [(0, 0.1), (0, 0.1)]
    assert len(said) == 5


def test_kept_runs_are_not_made_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[Scenario] = []

    def one(self: measure.Lab, scenario: Scenario, address: str) -> dict[str, Any]:
        made.append(scenario)
        return run(20, others=0.9 if len(made) == 1 else 0.0)

    monkeypatch.setattr(measure.Lab, "_one", one)
    kept = tmp_path / "runs.jsonl"
    lab = measure.Lab(url="amqp://127.0.0.1:1/", rounds=1, spare=0, kept=str(kept))
    lab.run([ONE])
    assert len(kept.read_text().splitlines()) == 1
    # The one that is there was disturbed: another is made, and then there is one.
    [found] = lab.run([ONE])
    lab.run([ONE])

    assert made == [ONE, ONE]
    assert (found.rounds, found.figures["others"]) == (1, 0.0)
    kept.write_text("{}\n")
    with pytest.raises(ValueError, match="a line that is no run"):
        lab.run([ONE])


def test_where_costs_come_from() -> None:
    found = measure.origin("embedded router")

    assert found["bus"] == "embedded router"
    assert {"when", "commit", "cpus", "processor", "platform", "python"} <= set(found)


@pytest.mark.parametrize(
    ("changes", "made"),
    [
        ({}, 0),
        ({"seconds": 4.0}, 1),
        ({"lanes": 2}, 1),
        ({"url": "amqp://127.0.0.1:2/"}, 1),
        # no bus is started where the URL has a host
        ({"bus": "broker"}, 0),
    ],
    ids=["same", "seconds", "lanes", "url", "bus"],
)
def test_kept_runs_of_other_conditions_do_not_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, changes: dict[str, Any], made: int
) -> None:
    runs = iter([run(20, others=0.0), run(30, others=0.0)])
    monkeypatch.setattr(measure.Lab, "_one", lambda *_: next(runs))
    common = {"rounds": 1, "spare": 0, "kept": str(tmp_path / "runs.jsonl")}
    same = {"url": "amqp://u:secret@127.0.0.1:1/", "seconds": 3.0}
    measure.Lab(**common, **same).run([ONE])
    [found] = measure.Lab(**common, **{**same, **changes}).run([ONE])

    assert (found.rounds, found.figures["throughput"]) == (1, 30 if made else 20)
    kept = (tmp_path / "runs.jsonl").read_text()
    assert len(kept.splitlines()) == 1 + made
    assert "secret" not in kept


def test_kept_runs_of_another_embedded_bus_do_not_count() -> None:
    router, broker = (measure.Lab(bus=bus)._conditions() for bus in ("router", "broker"))
    assert (router["bus"], broker["bus"]) == ("router", "broker")


def test_a_kept_run_whose_conditions_are_not_known_does_not_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(measure.Lab, "_one", lambda *_: run(30, others=0.0))
    kept = tmp_path / "runs.jsonl"
    old = {"scenario": {"operation": "call", "threads": 1}, "run": run(20, others=0.0)}
    kept.write_text(json.dumps(old) + "\n")
    lab = measure.Lab(url="amqp://127.0.0.1:1/", rounds=1, spare=0, kept=str(kept))
    [found] = lab.run([ONE])

    assert (found.rounds, found.figures["throughput"]) == (1, 30)
