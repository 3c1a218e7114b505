# SPDX-License-Identifier: Apache-2.0

"""The scenarios of growth: each function measures one row, for one n. Main thread.

Every function returns the row: its figures by key, for the columns of ``report``.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Sequence
from typing import Any

from amqp1_driver.bench.children import Trouble, Worker
from amqp1_driver.bench.scale import figures
from amqp1_driver.bench.scale.stage import Stage
from amqp1_driver.bench.summary import errors

Row = dict[str, Any]

#: threads that a server has in addition to one for each call that it holds
_SPARE = 8
#: number of warm-up steps, in which memory does not count yet
_WARM = 3
#: divisor of the number of calls while Python's allocations are traced, which is slow
_SLOWER = 10
#: growth in bytes for each call from which memory counts as growing. An object takes at least
#: 16 bytes: with less growth, fewer than one call in 16 leaves an object behind
_LEAST = 1.0
#: limit for the arrival of casts after the last one was sent, seconds
_LATE = 5.0
#: number of servers that reconnecting clients call, each with its own transport: one of several
#: transports is connected again soon
_ECHOES = 8


def targets(stage: Stage, n: int) -> Row:
    """Cast to n servers in turn; the first cast to each server attaches its link."""
    threads, passes = stage.settings.threads, stage.settings.passes
    servers = stage.servers(n + 1)
    (client,) = stage.add("sweep")
    stage.one(client, "aim", count=1, first=n)
    stage.one(client, "sweep", what="cast", threads=1, passes=1 + passes)  # connects
    before, bus_before = stage.one(client, "aim", count=n), stage.bus_kib
    first = stage.one(client, "sweep", what="cast", threads=threads, passes=1)
    bus_after = stage.bus_kib
    then = stage.one(client, "sweep", what="cast", threads=threads, passes=passes)
    taken = _tally(stage, servers, 1 + passes)[:n]
    return {
        "n": n,
        "first_s": first["took_ns"] / 1e9,
        "then_s": then["took_ns"] / 1e9 / passes,
        **_latency("first", _flat(first["times"])),
        **_latency("then", _flat(then["times"])),
        "client_kib": _more(first["resident_kib"], before["resident_kib"]),
        "bus_kib": _more(bus_after, bus_before),
        "fewest": min(taken),
        "most": max(taken),
        **_account(n * (1 + passes), sum(taken), first, then),
    }


def listeners(stage: Stage, n: int) -> Row:
    """Start n RPC servers in one process on one connection, then call, cut off and stop them."""
    threads, passes = stage.settings.threads, stage.settings.passes
    (server,) = stage.add("servers")
    before, bus_before = stage.one(server, "listen", count=1, first=n), stage.bus_kib
    after = stage.one(server, "listen", count=n, first=0)
    bus_after = stage.bus_kib
    (client,) = stage.add("sweep")
    stage.one(client, "aim", count=n + 1)
    first = stage.one(client, "sweep", what="call", threads=threads, passes=1)
    then = stage.one(client, "sweep", what="call", threads=threads, passes=passes)
    taken = _tally(stage, [server], 1 + passes)
    lost = stage.one(server, "sever")
    again = stage.one(
        client, "sweep", what="call", threads=threads, passes=1, insist=stage.settings.timeout
    )
    stopped = stage.one(server, "stop")
    return {
        "n": n,
        "listen_s": sum(after["each_ns"]) / 1e9,
        "slowest_ms": max(after["each_ns"]) / 1e6,
        "then_s": then["took_ns"] / 1e9 / passes * n / (n + 1),
        **_latency("then", _flat(then["times"])),
        "fairness": figures.jain([statistics.fmean(times) for times in then["times"]]),
        "server_kib": _more(after["resident_kib"], before["resident_kib"]),
        "bus_kib": _more(bus_after, bus_before),
        "again_s": (again["at"] - lost["at"]) / 1e9,
        "stop_s": sum(stopped["each_ns"]) / 1e9,
        "wait_s": stopped["wait_ns"] / 1e9,
        "fewest": min(taken),
        "most": max(taken),
        **_account(
            (n + 1) * (1 + passes) + n + 1, sum(taken) + len(_flat(again["times"])), first, then
        ),
        "retried": errors(again["errors"]),
    }


def outstanding(stage: Stage, n: int) -> Row:
    """Make n calls at once, which the server answers when it has received all of them.

    :raises Trouble: not all calls have come to the server in time
    """
    (server,) = stage.add("servers", executor=n + _SPARE)
    stage.one(server, "listen", count=1, first=0)
    (client,) = stage.add("sweep")
    stage.one(client, "aim", count=1)
    stage.one(client, "sweep", what="call", threads=1, passes=1)  # connects
    idle = stage.one(client, "idle", count=n)
    before, bus_before = stage.one(client, "rest"), stage.bus_kib
    began = time.monotonic_ns()
    stage.one(client, "begin", count=n)
    gathered = stage.one(server, "gathered", expected=n, seconds=stage.settings.timeout / 2)
    if gathered["held"] < n:
        raise Trouble(f"only {gathered['held']} of {n} calls have come to the server")
    waiting, bus_waiting = stage.one(client, "rest"), stage.bus_kib
    at = stage.one(server, "release")["at"]
    done = stage.one(client, "finish")
    waits = [when - at for _, when in done["returned"]]
    thread = _more(idle["resident_kib"], before["resident_kib"])
    return {
        "n": n,
        "gather_s": (gathered["at"] - began) / 1e9,
        "answer_s": max(waits, default=0) / 1e9,
        **_latency("answer", waits),
        "fairness": figures.jain(waits),
        "wake_s": idle["wake_ns"] / 1e9,
        "driver_s": done["driver_us"] / 1e6,
        "client_kib": _more(waiting["resident_kib"], before["resident_kib"]),
        "thread_kib": thread,
        "bus_kib": _more(bus_waiting, bus_before),
        **_account(n, len(waits), done),
    }


def reconnect(stage: Stage, n: int) -> Row:
    """Let n clients lose the bus at the same moment, and measure how soon each one calls again.

    :raises Trouble: the bus is to be restarted, but the benchmark did not start it
    """
    each, seconds = stage.settings.clients_each, stage.settings.timeout
    restart = stage.settings.how == "restart"
    if restart and (stage.bus is None or stage.bus.kill is None):
        raise Trouble("a bus that was not started here can't be restarted: --how cut")
    (server,) = stage.add("servers", executor=16)
    stage.one(server, "listen", count=_ECHOES, first=0, transports=_ECHOES)
    shares = [min(each, n - first) for first in range(0, n, each)]
    clients = stage.add("clients", len(shares))
    lean, bus_before = stage.ask(clients, "rest"), stage.bus_kib
    began = time.monotonic_ns()
    for group, share in zip(clients, shares, strict=True):
        group.tell(do="connect", count=share, seconds=seconds)
    there = stage.hear(clients, "connect")
    bus_there, cpu_before = stage.bus_kib, stage.bus_cpu_us
    at = up = time.monotonic_ns()
    if restart:
        up = _restart(stage, clients, at)
        cpu_before = None if cpu_before is None else 0.0  # the new bus is another process
    else:
        stage.tell([server], "sever")
        stage.tell(clients, "again", since=at, seconds=seconds, cut=True)
    back = stage.hear(clients, "again")
    cpu = stage.bus_cpu_us
    worked = sorted((when - group["at"]) / 1e9 for group in back for when in group["worked"])
    attempts = [(when - at) / 1e9 for group in back for when in group["attempts"]]
    return {
        "n": n,
        "processes": len(clients),
        "connect_s": (max(w for x in there for w in x["worked"]) - began) / 1e9,
        "away_s": (up - at) / 1e9,
        "first_s": worked[0] if worked else None,
        "median_s": figures.percentile(worked, 50),
        "last_s": worked[-1] if worked else None,
        "attempts": len(attempts) / n,
        "peak_attempts": figures.peak(attempts, 1.0),
        "clients_cpu_s": sum(group["cpu_us"] for group in back) / 1e6,
        "bus_cpu_s": None if cpu is None or cpu_before is None else (cpu - cpu_before) / 1e6,
        "client_kib": float(
            sum(x["resident_kib"] for x in there) - sum(x["resident_kib"] for x in lean)
        ),
        "bus_kib": _more(bus_there, bus_before),
        **_account(n, len(worked), *there),
        "retried": errors(kinds for group in back for kinds in group["errors"]),
    }


def _restart(stage: Stage, clients: Sequence[Worker], at: int) -> int:
    """Kill the bus, order the clients to call, and start the bus again.

    :returns: when the bus was back, monotonic nanoseconds
    """
    bus = stage.bus
    assert bus is not None and bus.kill is not None and bus.revive is not None
    bus.kill()
    stage.tell(clients, "again", since=at, seconds=stage.settings.timeout)
    bus.revive()
    return time.monotonic_ns()


def memory(stage: Stage, n: int) -> Row:
    """Measure the memory that n unused links take, and the memory that calls leave behind.

    This happens twice: first with the memory that the system counts, then with the memory that
    Python counts, which makes everything slower.
    """
    servers = stage.servers(n + 1)
    row: Row = {"n": n}
    answered = expected = 0
    for traced in (False, True):
        calls = max(1, stage.settings.calls // (_SLOWER if traced else 1))
        (client,) = stage.add("sweep")
        if traced:
            stage.one(client, "trace", on=True)
        stage.one(client, "aim", count=1, first=n)
        stage.one(client, "repeat", count=calls, threads=stage.settings.threads)
        before, bus_before = stage.one(client, "aim", count=n), stage.bus_kib
        links = stage.one(client, "sweep", what="cast", threads=stage.settings.threads, passes=1)
        if traced:
            row["link_heap"] = float(links["heap"] - before["heap"])
        else:
            row["link_kib"] = _more(links["resident_kib"], before["resident_kib"])
            row["bus_link_kib"] = _more(stage.bus_kib, bus_before)
        stage.one(client, "aim", count=1, first=n)
        steps = _watch(stage, client, servers[-1], calls)
        answered += sum(step["answered"] for step in steps)
        expected += calls * len(steps)
        row["heap" if traced else "resident"] = _trends(steps, traced, calls)
        row["traced_steps" if traced else "steps"] = steps
    return {**row, **_account(expected, answered)}


def _watch(stage: Stage, client: Worker, server: Worker, calls: int) -> list[Row]:
    """Make calls step by step; return the memory after each step that is not warm-up."""
    found = []
    for _ in range(_WARM + stage.settings.steps):
        done = stage.one(client, "repeat", count=calls, threads=stage.settings.threads)
        there = stage.one(server, "rest")
        found.append(
            {
                "answered": done["answered"],
                "client": done["resident_kib"],
                "server": there["resident_kib"],
                "bus": stage.bus_kib,
                "heap": done["heap"],
            }
        )
    return found[_WARM:]


def _trends(steps: Sequence[Row], traced: bool, calls: int) -> dict[str, dict[str, Any]]:
    """Return the trend of each figure of memory, in bytes for each call."""
    found = {}
    for name in ("heap",) if traced else ("client", "server", "bus"):
        values = [step[name] for step in steps]
        if None not in values and len(values) > 1:
            unit = 1 if traced else 1024
            trend = figures.trend([value * unit / calls for value in values])
            found[name] = {
                "slope": trend.slope,
                "tau": trend.tau,
                "grows": trend.steady and trend.slope >= _LEAST,
            }
    return found


# -- parts ---------------------------------------------------------------------------------


def _tally(stage: Stage, servers: Sequence[Worker], each: int) -> list[int]:
    """Return the number of messages that each server has taken.

    Wait up to ``_LATE`` seconds until every server has taken ``each`` messages.
    """
    found = stage.ask(servers, "tally", each=each, seconds=_LATE)
    return [taken for process in found for taken in process["taken"]]


def _more(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else float(after - before)


def _flat(times: Iterable[Iterable[int]]) -> list[int]:
    return [time for each in times for time in each if time >= 0]


def _latency(name: str, nanoseconds: Sequence[float]) -> dict[str, float | None]:
    p50, p99 = figures.percentile(nanoseconds, 50), figures.percentile(nanoseconds, 99)
    return {
        f"{name}_p50_ms": None if p50 is None else p50 / 1e6,
        f"{name}_p99_ms": None if p99 is None else p99 / 1e6,
    }


def _account(expected: int, got: int, *done: Row) -> dict[str, Any]:
    return {
        "lost": expected - got,
        "errors": errors(kinds for part in done for kinds in part["errors"]),
    }
