# SPDX-License-Identifier: Apache-2.0

"""The whole model: closed networks, windows, timeouts, and folding against the full mesh."""

from __future__ import annotations

from typing import Any

import pytest

from amqp1_driver.pipeline.capacity.costs import Costs, Part
from amqp1_driver.pipeline.capacity.mesh import simulate
from amqp1_driver.pipeline.capacity.setup import Setup

#: nothing random, nobody waits to begin
PLAIN = Costs(Part(200), Part(60), Part(240))
REAL = Costs(
    Part(90, 50),
    Part(30, 20),
    Part(110, 60),
    latency_us=15,
    batch=20,
    stretch=1.2,
    noise=0.3,
    disorder=0.3,
)


def test_a_lone_caller_is_the_sum_of_the_parts() -> None:
    found = simulate(Setup(threads=1, size=0, calls=100, warmup=10, cores=2), PLAIN)

    # 200 + 60 + 240 us, one after the other
    assert found.throughput == pytest.approx(2000.0)
    assert found.p50 == found.p99 == pytest.approx(500.0)
    assert (found.client_used, found.router_used, found.server_used) == pytest.approx(
        (0.4, 0.12, 0.48), rel=0.01
    )


def test_payload_network_hops_service_and_work_come_to_it() -> None:
    costs = Costs(Part(200, 0, 1), Part(60, 0, 2), Part(240, 0, 3))
    setup = Setup(
        threads=1,
        size=1024,
        reply=2048,
        routers=2,
        servers=2,
        local=0.0,
        network_us=50,
        service_us=1000,
        service_cv=0,
        work_us=70,
        calls=100,
        warmup=10,
    )
    found = simulate(setup, costs)

    # client 203, server 249 + 70, service 1000, two routers 66 each;
    # network: client, router, router, server, and back: 6 * 50
    assert found.p50 == pytest.approx(203 + 319 + 1000 + 132 + 300)
    # of each router the CPU of each call: both have it
    assert found.router_cpu == pytest.approx(132.0)


def test_beginnings_and_latency_of_a_lone_caller() -> None:
    costs = Costs(Part(200, 10), Part(60, 20), Part(240, 30), latency_us=5)
    found = simulate(Setup(threads=1, size=0, calls=100, warmup=10), costs)

    # Each message is a batch. After the reply the client goes on at once, and so does the server
    # from receiving to replying: four times somebody begins who had nothing to do.
    assert (found.client_wakes, found.router_wakes, found.server_wakes) == pytest.approx(
        (2.0, 2.0, 2.0), abs=0.02
    )
    assert found.p50 == pytest.approx(500 + 2 * 10 + 2 * 20 + 2 * 30 + 4 * 5)


def test_who_has_paused_pays_for_it() -> None:
    costs = PLAIN.replace(cold=1.0, cooling_us=1.0)
    closed = simulate(Setup(threads=1, size=0, calls=100, warmup=10), costs)
    agents = simulate(Setup(agents=1, interval_s=1.0, size=0, calls=100, warmup=10), costs)

    # Twice the price, but not for the reply in the server, nor (of a thread that goes on at once)
    # for the next call: 100 + 200, 2 * 60, 240 + 120
    assert closed.p50 == pytest.approx(780.0)
    assert (closed.client_chill, closed.router_chill, closed.server_chill) == pytest.approx(
        (1.5, 2.0, 1.5), rel=0.01
    )
    # an agent has paused before its call, too
    assert agents.p50 == pytest.approx(880.0)


def test_many_callers_reach_the_bound_and_do_not_pass_it() -> None:
    found = simulate(Setup(threads=50, size=0, calls=2000, warmup=500), PLAIN)

    # the server: 1 / 240 us; in a closed network all callers are somewhere: 50 * 240 us
    assert found.throughput == pytest.approx(4166.7, rel=0.002)
    assert found.p50 == pytest.approx(12_000, rel=0.02)
    assert found.server_used == pytest.approx(1.0, abs=0.001)


def test_cores_bound_it_too() -> None:
    found = simulate(Setup(threads=50, size=0, calls=2000, warmup=500, cores=1), PLAIN)

    # 1 core: 200 + 60 + 240 us of it for each call
    assert found.throughput == pytest.approx(2000.0, rel=0.01)


def test_thinking_callers() -> None:
    found = simulate(Setup(threads=10, size=0, think_us=99_500, calls=5000, warmup=500), PLAIN)

    # hardly anybody waits: 10 / (99,500 + 500) us
    assert found.throughput == pytest.approx(100.0, rel=0.04)


def test_open_arrivals_at_one_router_queue_as_theory_says() -> None:
    found = simulate(
        Setup(poisson=6000, size=0, calls=40_000, warmup=4000), Costs(Part(0), Part(100), Part(0))
    )

    assert found.router_used == pytest.approx(0.6, rel=0.02)
    # Work of 100 us in two turns of 50: between M/D/1, one after the other,
    # 100 + 0.6 * 100 / (2 * 0.4), and all at the same time, 100 / (1 - 0.6).
    assert 175.0 < found.mean < 250.0


def test_the_same_seed_gives_the_same_and_another_not() -> None:
    setup = Setup(agents=2000, interval_s=1.0, routers=2, servers=4, calls=2000, warmup=200)

    assert simulate(setup, REAL) == simulate(setup, REAL)
    assert simulate(setup, REAL) != simulate(setup.replace(seed=2), REAL)


def test_a_rate_is_kept_and_latency_counts_from_when_a_call_was_due() -> None:
    slow = simulate(Setup(threads=2, rate=100, size=0, calls=200, warmup=20), PLAIN)
    assert slow.throughput == pytest.approx(100.0, rel=0.01)
    assert slow.p99 == pytest.approx(500.0)
    # 4166.7 calls per second are the most: the callers are late, and later and later
    late = simulate(Setup(threads=50, rate=5000, size=0, calls=1000, warmup=0), PLAIN)
    assert late.throughput == pytest.approx(4166.7, rel=0.02)
    # after 1000 calls: 0.24 s that they took less 0.2 s that they should have
    assert late.max == pytest.approx(40_000, rel=0.1)


def test_executor_threads_hold_back_what_the_server_took() -> None:
    setup = Setup(
        threads=20, size=0, executor=2, service_us=10_000, service_cv=0, calls=1000, warmup=100
    )
    found = simulate(setup, PLAIN)

    # two at a time, each 10 ms and the reply of 120 us
    assert found.throughput == pytest.approx(197.6, rel=0.02)


def test_credit_of_the_server_stalls_calls_at_the_router() -> None:
    setup = Setup(
        threads=30,
        size=0,
        executor=1,
        server_credit=5,
        service_us=1000,
        service_cv=0,
        calls=1000,
        warmup=100,
    )

    assert simulate(setup, PLAIN).server_stalls > 0.9
    assert simulate(setup.replace(server_credit=100), PLAIN).server_stalls == 0.0


def test_credit_of_the_router_stalls_the_client() -> None:
    setup = Setup(
        threads=30,
        size=0,
        executor=1,
        link_credit=4,
        service_us=1000,
        service_cv=0,
        calls=1000,
        warmup=100,
    )

    assert simulate(setup, PLAIN).link_stalls > 0.9
    assert simulate(setup.replace(link_credit=250), PLAIN).link_stalls == 0.0


def test_credit_of_replies() -> None:
    # A client whose own work is the slowest takes replies late.
    costs = Costs(Part(2000), Part(10), Part(10))
    setup = Setup(threads=30, size=0, reply_credit=3, calls=1000, warmup=100)

    assert simulate(setup, costs).reply_stalls > 0.1
    assert simulate(setup.replace(reply_credit=200), costs).reply_stalls == 0.0


def test_calls_time_out_and_their_callers_go_on() -> None:
    setup = Setup(
        threads=20,
        size=0,
        executor=1,
        service_us=10_000,
        service_cv=0,
        timeout_s=0.05,
        calls=1000,
        warmup=0,
    )
    found = simulate(setup, PLAIN)

    assert found.timeouts > 500
    assert found.max <= 50_000
    # no call waits longer than 50 ms: 20 callers begin 400 a second
    assert 1000 / found.seconds == pytest.approx(400.0, rel=0.15)


def test_overload_shows_as_less_than_offered() -> None:
    found = simulate(Setup(poisson=8000, size=0, calls=8000, warmup=500), PLAIN)

    assert found.throughput == pytest.approx(4166.7, rel=0.02)


MESH = Setup(
    agents=4000,
    interval_s=1.0,
    routers=4,
    servers=8,
    router_threads=1,
    service_us=3000,
    network_us=60,
    size=512,
    calls=8000,
    warmup=1500,
)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"topology": "ring"},
        {"local": 0.7},
        {"agents": 14_000, "interval_s": 1.0},
    ],
    ids=["full", "ring", "local", "loaded"],
)
def test_a_folded_mesh_is_as_the_full_one(changes: dict[str, Any]) -> None:
    setup = MESH.replace(**changes)
    full, folded = (simulate(setup.replace(fold=fold), REAL) for fold in (False, True))

    assert folded.throughput == pytest.approx(full.throughput, rel=0.02)
    assert folded.p50 == pytest.approx(full.p50, rel=0.03)
    assert folded.p99 == pytest.approx(full.p99, rel=0.1)
    assert folded.router_used == pytest.approx(full.router_used, rel=0.03)
    assert folded.server_used == pytest.approx(full.server_used, rel=0.03)


def test_two_clients_share_what_one_would_get() -> None:
    one = simulate(Setup(threads=40, size=0, calls=2000, warmup=500, cores=2), PLAIN)
    two = simulate(Setup(threads=20, clients=2, size=0, calls=2000, warmup=500, cores=2), PLAIN)

    # 500 us of 2 cores for each call bound both: 4000; the server's 4166 do not
    assert one.throughput <= 4000.1
    assert two.throughput == pytest.approx(one.throughput, rel=0.06)


def test_two_servers_relieve_the_only_one() -> None:
    found = simulate(Setup(threads=60, size=0, servers=2, calls=2000, warmup=500), PLAIN)

    # now the client is the slowest: 1 / 200 us
    assert found.throughput == pytest.approx(5000.0, rel=0.005)
