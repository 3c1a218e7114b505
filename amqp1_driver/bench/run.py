# SPDX-License-Identifier: Apache-2.0

"""One run of a benchmark: one driver, one scenario, worker processes of its own. Main thread."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from amqp1_driver.bench import buses
from amqp1_driver.bench.children import Crew, Trouble, Worker
from amqp1_driver.bench.figures import account, errors, latency
from amqp1_driver.bench.plan import Entry, Scenario
from amqp1_driver.bench.workers import usage
from amqp1_driver.bench.workers.load import Load, share

if TYPE_CHECKING:
    from amqp1_driver.bench.profile.session import Recorder

#: seconds that a run waits for late copies of messages
_SETTLE = 0.2
#: nanoseconds from the order to begin until the clients begin, so that all of them begin together
_LEAD_NS = 20_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits of a run, all in seconds.

    :param warmup: duration of a warm-up, whose messages do not count
    :param timeout: limit for a message, and for a worker's answer to an order
    :param start: limit for the start of the workers, and then for the arrival of the first message
    :param deadline: limit for the sending in a run without a duration; in ``bench-flow`` the limit
        for filling or reading a queue
    :param drain: time without progress after which the messages under way count as lost
    """

    warmup: float = 1.0
    timeout: float = 30.0
    start: float = 30.0
    deadline: float = 300.0
    drain: float = 3.0


@dataclass(frozen=True, slots=True)
class Place:
    """The bus of a run, and how servers use it.

    :param address: address of the bus, for URLs without a host
    :param bus_pid: process id of the bus; None: the local process that listens on the URL's port
    :param executor: number of threads of a server's executor
    :param far: URL of another router of the same mesh, for the servers; empty: the clients' URL
    """

    address: str = ""
    bus_pid: int | None = None
    executor: int = 64
    far: str = ""


def measure(
    entry: Entry,
    scenario: Scenario,
    place: Place,
    limits: Limits,
    tick: Callable[[], None] = lambda: None,
    recorder: Recorder | None = None,
) -> dict[str, Any]:
    """Perform a run and return its figures, ready for JSON. Main thread.

    :param tick: called repeatedly while the run waits for its workers
    :param recorder: recorder that samples the workers between warm-up and the end of the run; this
        function closes it
    :raises Trouble: the run failed
    """
    with Crew(tick) as crew:
        try:
            return _Run(entry, scenario, place, limits, crew, recorder).result()
        finally:
            if recorder is not None:
                recorder.close()


class _Run:
    def __init__(
        self,
        entry: Entry,
        scenario: Scenario,
        place: Place,
        limits: Limits,
        crew: Crew,
        recorder: Recorder | None,
    ) -> None:
        self._entry, self._scenario, self._limits, self._crew = entry, scenario, limits, crew
        self._recorder = recorder
        url = _tcp_url() if entry.kind == "tcp" else entry.on(place.address)
        self._pid = place.bus_pid
        if self._pid is None and entry.kind in ("messaging", "raw"):
            self._pid = buses.serving(url)
        name = f"bench-{secrets.token_hex(4)}"
        self._order: dict[str, Any] = {
            "kind": entry.kind,
            "url": url,
            "operation": scenario.operation,
            "topic": name,
            "exchange": f"{name}-x",
            "size": scenario.size,
            "payload": scenario.payload,
            "reply": scenario.reply,
            "executor": place.executor,
            "timeout": limits.timeout,
            "servers": scenario.servers,
            "options": list(entry.options),
        }
        self._far = place.far or url
        self._copies = scenario.servers if scenario.operation == "fanout" else 1
        self._servers: list[Worker] = []
        self._clients: list[Worker] = []
        self._warm = 0

    def result(self) -> dict[str, Any]:
        about = self._start()
        self._warm_up()
        self._drain("warm", self._warm * self._copies)
        if self._recorder is not None:
            self._recorder.begin(self._crew, self._clients, self._servers)
        self._ask("mark")
        before = buses.used(self._pid)
        at = time.monotonic_ns() + _LEAD_NS
        clients = self._send(at)
        self._drain("received", sum(client["sent"] for client in clients) * self._copies)
        bus = buses.used(self._pid)
        if self._recorder is not None:
            self._recorder.end(self._crew)
        self._crew.pause(_SETTLE)
        servers = self._ask("report")
        used = bus.since(before) if bus is not None and before is not None else None
        peak = usage.peak_kib(self._pid) if used is not None and self._pid else None
        fanout = self._scenario.operation == "fanout" and bool(self._servers)
        return {"about": about, **summarise(at, clients, servers, fanout, used, peak)}

    # -- steps -------------------------------------------------------------------

    def _start(self) -> dict[str, Any]:
        kind = self._entry.kind
        servers = {"floor": 0, "tcp": 1}.get(kind, self._scenario.servers)
        self._servers = self._add("server", servers, self._far)
        if kind == "tcp":
            self._crew.wait("ready", self._servers, self._limits.start)
        self._clients = self._add("client", self._scenario.clients, self._order["url"])
        waited = self._clients if kind == "tcp" else self._crew.workers
        ready = self._crew.wait("ready", waited, self._limits.start)
        about: dict[str, Any] = ready[-1]["about"]
        return about

    def _add(self, role: str, count: int, url: str) -> list[Worker]:
        names = [f"{role}-{number + 1}" for number in range(count)]
        order = {**self._order, "role": role, "url": url}
        return [self._crew.add(name, self._entry.python, {**order, "name": name}) for name in names]

    def _warm_up(self) -> None:
        """Send messages that do not count until they arrive, in a fanout at every server.

        :raises Trouble: nothing arrives within ``Limits.start``
        """
        deadline = time.monotonic() + self._limits.start
        while True:
            done = self._send(time.monotonic_ns(), warm=True)
            self._warm += sum(client["sent"] for client in done)
            warm = [count["warm"] for count in self._ask("count")]
            if (min if self._copies > 1 else max)(warm) > 0:
                return
            if time.monotonic() > deadline:
                raise Trouble(f"no message comes through: {_first_error(done)}")

    def _send(self, at: int, warm: bool = False) -> list[dict[str, Any]]:
        scenario, clients = self._scenario, self._clients
        seconds = scenario.seconds or self._limits.deadline
        if warm:
            seconds = self._limits.warmup
        senders = len(clients) * scenario.threads
        for index, client in enumerate(clients):
            count = share(scenario.count, len(clients), index) if scenario.count else 0
            first = index * scenario.threads
            if warm:
                count, first = 0, -1
            load = Load(at, seconds, count, scenario.threads, first, scenario.rate, senders)
            client.tell(do="carry", load=asdict(load))
        return self._crew.wait("done", clients, seconds + 2 * self._limits.timeout)

    def _drain(self, what: str, expected: int) -> None:
        """Wait until the servers have received ``expected`` messages, or make no progress.

        :param what: counter of the servers: "warm" or "received"
        """
        most, since = -1, time.monotonic()
        while (got := sum(count[what] for count in self._ask("count"))) < expected:
            if got > most:
                most, since = got, time.monotonic()
            elif time.monotonic() - since > self._limits.drain:
                return
            self._crew.pause(0.05)

    def _ask(self, step: str) -> list[dict[str, Any]]:
        """Ask the servers; of kind "floor" a client is its own server."""
        return self._crew.ask(step, self._servers or self._clients, self._limits.timeout)


def summarise(
    at: int,
    clients: Sequence[dict[str, Any]],
    servers: Sequence[dict[str, Any]],
    fanout: bool,
    bus: usage.Usage | None,
    bus_peak: int | None,
) -> dict[str, Any]:
    """Compute the figures of a run from the reports of its workers. Pure.

    :param at: time at which the clients began, monotonic nanoseconds
    :param fanout: True: every server gets every message; False: one server gets it
    :param bus: resources that the bus used during the run; None: unknown
    :param bus_peak: peak memory of the bus, KiB; None: unknown
    """
    sent = sum(client["sent"] for client in clients)
    failed = sum(client["failed"] for client in clients)
    received = sum(server["received"] for server in servers)
    states = {sender: marks for client in clients for sender, marks in client["states"].items()}
    lost, duplicated, in_doubt = account(states, [server["marks"] for server in servers], fanout)
    sending = max(1, max(client["ended"] for client in clients) - at)
    receiving = max(1, max(server["last"] for server in servers) - at) if received else 1

    def per_message(name: str) -> dict[str, float | None]:
        used = None if bus is None else getattr(bus, name)
        return {
            "client": _ratio(sum(client[name] for client in clients), sent + failed),
            "server": _ratio(sum(server[name] for server in servers), received),
            "bus": None if used is None else _ratio(used, received),
        }

    return {
        "sent": sent,
        "failed": failed,
        "received": received,
        "lost": lost,
        "duplicated": duplicated,
        "in_doubt": in_doubt,
        "errors": errors(client["errors"] for client in clients),
        "seconds": sending / 1e9,
        "sent_per_s": sent * 1e9 / sending,
        "received_per_s": received * 1e9 / receiving,
        "latency_us": latency(client["latency"] for client in clients),
        "delivery_us": latency(server["delivery"] for server in servers),
        "cpu_us": per_message("cpu_us"),
        "switches": per_message("switches"),
        "peak_mib": {
            "client": max(client["peak_kib"] for client in clients) / 1024,
            "server": max(server["peak_kib"] for server in servers) / 1024,
            "bus": None if bus_peak is None else bus_peak / 1024,
        },
    }


def _ratio(amount: float, count: int) -> float | None:
    return amount / count if count else None


def _first_error(done: Sequence[dict[str, Any]]) -> str:
    for kind, error in errors(client["errors"] for client in done).items():
        return f"{kind}: {error['first']}"
    return "the client has no error, the servers have received nothing"


def _tcp_url() -> str:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{sock.getsockname()[1]}"
