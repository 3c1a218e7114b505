# SPDX-License-Identifier: Apache-2.0

"""Growth of time, memory and fairness with n: the number of targets, listeners, calls, clients.

A function for each scenario measures one row, for one n, on a stage of its own, and returns the
figures by key. Main thread.
"""

from __future__ import annotations

import contextlib
import functools
import resource
import secrets
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from amqp1_driver.bench import buses, figures
from amqp1_driver.bench.children import Crew, Trouble, Worker
from amqp1_driver.bench.figures import Run, errors, exponent
from amqp1_driver.bench.plan import Entry
from amqp1_driver.bench.plot import Chart, Panel, draw_charts
from amqp1_driver.bench.session import Runner
from amqp1_driver.bench.table import errors as error_lines
from amqp1_driver.bench.table import number, table

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
#: limit for the start of a process, seconds
_START = 60.0
#: limit of open file descriptors for the bus and its clients
_DESCRIPTORS = 65536
#: expected duration of a row, for the progress bar; seconds
_EXPECTED = 30.0


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of all rows.

    :param entry: the driver
    :param bus: kind of the bus to start for each row; None: the bus at the entry's URL
    :param threads: number of threads that send at once
    :param passes: messages to each target or listener, after the first
    :param servers_each: RPC servers in one process, where there are several processes
    :param clients_each: reconnecting clients in one process
    :param how: how reconnecting clients lose the bus: by "restart" of the bus, or by "cut" of all
        connections
    :param calls: number of calls in a step of the memory scenario
    :param steps: number of these steps
    :param timeout: limit for a call, seconds; a step of a worker may take twice as long
    """

    entry: Entry
    bus: str | None = "router"
    threads: int = 8
    passes: int = 3
    servers_each: int = 1000
    clients_each: int = 125
    how: str = "restart"
    calls: int = 10000
    steps: int = 10
    timeout: float = 120.0


class Stage:
    """The bus and the processes of one row. Main thread.

    :param bus: the bus that was started for this row; None: the bus at the entry's URL
    """

    def __init__(self, settings: Settings, bus: buses.Bus | None, crew: Crew) -> None:
        self.settings = settings
        self.bus = bus
        self.crew = crew
        self.url = settings.entry.on(bus.address if bus is not None else "")
        name = f"scale-{secrets.token_hex(4)}"
        self._order: dict[str, Any] = {
            "kind": "scale",
            "url": self.url,
            "operation": "call",
            "topic": name,
            "exchange": f"{name}-x",
            "executor": 1,
            "timeout": settings.timeout,
            "options": list(settings.entry.options),
        }

    def add(self, role: str, number: int = 1, **order: Any) -> list[Worker]:
        """Start ``number`` processes, and return them when they are ready.

        :param role: the class of ``workers.scale`` that they run
        :param order: further fields of their first order
        """
        python, order = self.settings.entry.python, {**self._order, "role": role, **order}
        added = [
            self.crew.add(f"{role}-{len(self.crew.workers) + 1}", python, order)
            for _ in range(number)
        ]
        self.crew.wait("ready", added, _START)
        return added

    def servers(self, count: int) -> list[Worker]:
        """Start processes with ``count`` RPC servers in all.

        :returns: the processes, when all servers listen
        """
        each = self.settings.servers_each
        shares = [min(each, count - first) for first in range(0, count, each)]
        workers = self.add("servers", len(shares), shared=True)
        for index, (worker, share) in enumerate(zip(workers, shares, strict=True)):
            worker.tell(do="listen", count=share, first=index * each)
        self.hear(workers, "listen")
        return workers

    def hear(self, workers: Sequence[Worker], step: str) -> list[Row]:
        """Wait until all workers have completed a step, and return their results."""
        return self.crew.wait(step, workers, 2 * self.settings.timeout)

    def ask(self, workers: Sequence[Worker], step: str, **fields: Any) -> list[Row]:
        """Order all workers to take a step at once, and return their results."""
        return self.crew.ask(step, workers, 2 * self.settings.timeout, **fields)

    def one(self, worker: Worker, step: str, **fields: Any) -> Row:
        """Order one worker to take a step, and return its result."""
        return self.ask([worker], step, **fields)[0]

    # -- the bus ----------------------------------------------------------------------------

    @property
    def bus_kib(self) -> int | None:
        """Return the bus's resident memory, KiB; None if its process is not known."""
        return buses.resident_kib(buses.serving(self.url))

    @property
    def bus_cpu_us(self) -> float | None:
        """Return the bus's processor time, microseconds; None if its process is not known."""
        used = buses.used(buses.serving(self.url))
        return None if used is None else used.cpu_us


@contextlib.contextmanager
def staged(settings: Settings, tick: Callable[[], None]) -> Iterator[Stage]:
    """Provide a stage with a bus of its own, so that rows do not affect each other.

    If the settings name no bus to start, the stage uses the bus at the entry's URL.

    :param tick: called about ten times a second while the crew waits
    :raises Trouble: the settings name no bus to start, and the URL has no host
    """
    with contextlib.ExitStack() as stack:
        bus = None
        if settings.bus is not None:
            bus = stack.enter_context(buses.started(settings.bus))
        elif settings.entry.needs_bus:
            raise Trouble("no bus: neither one to start nor a URL with a host")
        crew = stack.enter_context(Crew(tick))
        yield Stage(settings, bus, crew)


# -- scenarios -----------------------------------------------------------------------------


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
        server.tell(do="sever")
        for group in clients:
            group.tell(do="again", since=at, seconds=seconds, cut=True)
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
    for group in clients:
        group.tell(do="again", since=at, seconds=stage.settings.timeout)
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


# -- parts of rows ---------------------------------------------------------------------------------


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


# -- tables --------------------------------------------------------------------------------


class Column(NamedTuple):
    """One column.

    :param key: key of the value in a row; a row may lack it
    :param by: factor for the value
    :param each: show the value divided by n; the exponent remains that of the total
    :param grows: show the exponent of growth in the next column
    """

    title: str
    key: str
    by: float = 1.0
    each: bool = False
    grows: bool = False


def _total(title: str, key: str, by: float = 1.0) -> Column:
    return Column(title, key, by, grows=True)


def _each(title: str, key: str, by: float = 1.0) -> Column:
    return Column(title, key, by, each=True, grows=True)


_LOST = Column("lost", "lost")
_VERDICT = {True: "it grows", False: "no growth"}

COLUMNS: dict[str, tuple[Column, ...]] = {
    "targets": (
        _total("first s", "first_s"),
        Column("us each", "first_s", 1e6, each=True),
        Column("p50 ms", "first_p50_ms"),
        Column("p99", "first_p99_ms"),
        _total("then s", "then_s"),
        Column("us each", "then_s", 1e6, each=True),
        Column("p50 ms", "then_p50_ms"),
        Column("p99", "then_p99_ms"),
        _each("KiB each client", "client_kib"),
        _each("bus", "bus_kib"),
        Column("taken", "fewest"),
        Column("to", "most"),
        _LOST,
    ),
    "listeners": (
        _total("listen s", "listen_s"),
        Column("ms each", "listen_s", 1e3, each=True),
        Column("slowest", "slowest_ms"),
        _total("calls s", "then_s"),
        Column("p50 ms", "then_p50_ms"),
        Column("p99", "then_p99_ms"),
        Column("Jain", "fairness"),
        _each("KiB each server", "server_kib"),
        _each("bus", "bus_kib"),
        _total("again s", "again_s"),
        _total("stop s", "stop_s"),
        Column("wait", "wait_s"),
        Column("taken", "fewest"),
        Column("to", "most"),
        _LOST,
    ),
    "outstanding": (
        _total("gather s", "gather_s"),
        Column("us each", "gather_s", 1e6, each=True),
        _total("answer s", "answer_s"),
        Column("us each", "answer_s", 1e6, each=True),
        Column("p50 ms", "answer_p50_ms"),
        Column("p99", "answer_p99_ms"),
        Column("Jain", "fairness"),
        _total("threads alone s", "wake_s"),
        _total("driver's CPU s", "driver_s"),
        Column("us each", "driver_s", 1e6, each=True),
        _each("KiB each client", "client_kib"),
        Column("of it thread", "thread_kib", each=True),
        _each("bus", "bus_kib"),
        _LOST,
    ),
    "reconnect": (
        Column("processes", "processes"),
        Column("bus away s", "away_s"),
        Column("first s", "first_s"),
        Column("median", "median_s"),
        _total("last", "last_s"),
        Column("attempts each", "attempts"),
        Column("most in 1 s", "peak_attempts"),
        _total("CPU s clients", "clients_cpu_s"),
        Column("ms each", "clients_cpu_s", 1e3, each=True),
        _total("bus", "bus_cpu_s"),
        Column("ms each", "bus_cpu_s", 1e3, each=True),
        _each("KiB each client", "client_kib"),
        _each("bus", "bus_kib"),
        _LOST,
    ),
    "memory": (
        _each("KiB a link, client", "link_kib"),
        Column("B of Python", "link_heap", each=True),
        _each("bus", "bus_link_kib"),
        _LOST,
    ),
}


def lines(name: str, title: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the table of one scenario, followed by remarks."""
    good = [row for row in rows if "trouble" not in row]
    result = [title]
    if good:
        result += table([_head(name), *(_cells(name, good, index) for index in range(len(good)))])
    for row in rows:
        result += _remarks(row)
    return result


def _head(name: str) -> list[str]:
    cells = ["n"]
    for column in COLUMNS[name]:
        cells += [column.title, "^n"] if column.grows else [column.title]
    return cells


def _cells(name: str, rows: Sequence[dict[str, Any]], index: int) -> list[str]:
    row = rows[index]
    cells = [str(row["n"])]
    for column in COLUMNS[name]:
        cells.append(number(_value(column, row)))
        if column.grows:
            cells.append(_growth(rows, index, column.key))
    return cells


def _value(column: Column, row: dict[str, Any]) -> float | None:
    value: float | None = row.get(column.key)
    if value is None:
        return None
    value = value * column.by if column.by != 1.0 else value
    return value / row["n"] if column.each else value


def draw(document: dict[str, Any], path: str) -> None:
    """Draw over n the columns whose growth the tables show; see ``plot.draw``."""
    charts = []
    for scenario in document["scenarios"]:
        panels = [
            Panel(
                f"{column.key}{' / n' if column.each else ''}",
                "",
                [functools.partial(_value, column)],
                "log",
            )
            for column in COLUMNS[scenario["name"]]
            if column.grows
        ]
        rows = scenario["rows"]
        drivers = [(document["settings"]["entry"], [[row] for row in rows])]
        charts.append(Chart(scenario["title"], panels, "n", [row["n"] for row in rows], drivers))
    draw_charts(charts, document["when"][:10], path)


def _growth(rows: Sequence[dict[str, Any]], index: int, key: str) -> str:
    if not index:
        return ""
    before, after = rows[index - 1], rows[index]
    power = exponent((before["n"], before.get(key)), (after["n"], after.get(key)))
    return "-" if power is None else f"{power:.2f}"


def _remarks(row: dict[str, Any]) -> list[str]:
    n = f"n = {row['n']}"
    if "trouble" in row:
        return [f"{n}: {row['trouble']}"]
    found: list[str] = []
    for key, words in (("errors", ""), ("retried", ", and the client called again")):
        found += error_lines(n, row.get(key, {}), words)
    for kind, words in (("resident", "resident memory of the"), ("heap", "memory of Python's")):
        for who, trend in row.get(kind, {}).items():
            found.append(
                f"{n}: {words} {who}: {trend['slope']:+.3f} B for each call, "
                f"tau {trend['tau']:+.2f}: {_VERDICT[trend['grows']]}"
            )
    return found


# -- all rows ------------------------------------------------------------------------------

Known = tuple[Callable[[Stage, int], Row], str, tuple[int, ...]]

#: name -> function, title, default values of n
SCENARIOS: dict[str, Known] = {
    "targets": (targets, "casts to n targets", (100, 1000, 10000)),
    "listeners": (listeners, "n RPC servers on one connection", (10, 100, 1000)),
    "outstanding": (outstanding, "n calls at once", (100, 1000, 10000)),
    "reconnect": (reconnect, "n clients lose the bus", (10, 100, 1000)),
    "memory": (memory, "n idle links, then calls", (1000,)),
}


class Session(Runner):
    """A run of scenario after scenario; each n has a bus and processes of its own. Main thread.

    :param sizes: values of n for all scenarios; None: each scenario has its own defaults
    """

    def __init__(
        self,
        settings: Settings,
        names: Sequence[str],
        sizes: Sequence[int] | None,
        known: Mapping[str, Known] = SCENARIOS,
    ) -> None:
        self._settings, self._known = settings, known
        self._plan = [(name, tuple(sizes) if sizes else known[name][2]) for name in names]
        head = {"settings": {**asdict(settings), "entry": settings.entry.shown}}
        super().__init__(head, sum(len(sizes) for _, sizes in self._plan), _EXPECTED)

    def scenarios(self) -> Iterator[Iterable[str]]:
        """Run each scenario for each of its values of n."""
        allow_descriptors()
        for name, sizes in self._plan:
            rows: list[Run] = []
            title = self._known[name][1]
            self.document["scenarios"].append({"name": name, "title": title, "rows": rows})
            for n in sizes:
                row = self.attempt(f"{name}, n = {n}", functools.partial(self._row, name, n))
                rows.append({"n": n, **row})
            yield lines(name, f"{name}: {title} ({rows[0].get('bus', 'no bus')})", rows)

    def results(self) -> list[Run]:
        """Return all rows so far."""
        return [row for scenario in self.document["scenarios"] for row in scenario["rows"]]

    def _row(self, name: str, n: int) -> Run:
        with staged(self._settings, self.progress.tick) as stage:
            row = self._known[name][0](stage, n)
            return {"bus": stage.bus.name if stage.bus else "a bus of its own", **row}


def allow_descriptors() -> None:
    """Raise the limit of open descriptors for this process and its children.

    The new limit is ``_DESCRIPTORS``, or the hard limit if that is lower.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft < most:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
