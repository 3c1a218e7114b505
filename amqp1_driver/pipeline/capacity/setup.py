# SPDX-License-Identifier: Apache-2.0

"""Input of a simulation: one flat, checked record, so that a table has a row for each. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TOPOLOGIES = ("full", "ring")


@dataclass(frozen=True, slots=True)
class Setup:
    """The input of one simulation. Exactly one of ``threads``, ``poisson`` and ``agents`` is set.

    :param routers: number of routers of the mesh
    :param topology: "full": each router has a link to each other; "ring": to two neighbours
    :param router_threads: threads of a router that work at the same time
    :param servers: processes, spread evenly over the routers; they serve one address
    :param executor: threads of a server, ``executor_thread_pool_size``
    :param clients: processes with ``threads`` callers each, spread evenly over the routers
    :param threads: callers of a client; each waits for its reply, thinks, and calls again
    :param think_us: mean of the exponential time that a caller thinks, microseconds
    :param rate: calls per second of all clients, evenly spaced as ``amqp1 bench --rate`` does;
        0: each caller calls again as soon as it has its reply and has thought
    :param poisson: calls per second with exponential gaps, from callers that never block
    :param agents: processes that call once per ``interval_s``, each at a phase of its own
    :param interval_s: seconds between two calls of an agent
    :param size: bytes of a request
    :param reply: bytes of a reply; negative: as many as the request has
    :param service_us: mean of the time for which a call keeps a thread of the server without
        using the processor, as a query of a database does, microseconds
    :param service_cv: coefficient of variation of that time: 0 constant, 1 exponential
    :param work_us: Python work of the endpoint, under the interpreter's lock, microseconds
    :param local: share of the calls that a server at the caller's own router serves; negative:
        1 / routers, the share of servers chosen at random
    :param network_us: latency from one machine to another, microseconds
    :param cores: cores of the one machine that all processes share; 0: each process has a machine
        of its own, with a core for each of its threads that work at the same time
    :param others: mean number of cores of the shared machine that other processes use
    :param server_credit: ``rpc_server_credit``
    :param link_credit: credit that a router grants a sender
    :param reply_credit: ``reply_link_credit``
    :param timeout_s: timeout of a call, seconds
    :param calls: number of calls that count
    :param warmup: number of calls before these
    :param fold: simulate one router's share only, see ``mesh``
    """

    routers: int = 1
    topology: str = "full"
    router_threads: int = 1
    servers: int = 1
    executor: int = 64
    clients: int = 1
    threads: int = 0
    think_us: float = 0.0
    rate: float = 0.0
    poisson: float = 0.0
    agents: int = 0
    interval_s: float = 10.0
    size: int = 100
    reply: int = -1
    service_us: float = 0.0
    service_cv: float = 1.0
    work_us: float = 0.0
    local: float = -1.0
    network_us: float = 0.0
    cores: int = 0
    others: float = 0.0
    server_credit: int = 100
    link_credit: int = 250
    reply_credit: int = 200
    timeout_s: float = 60.0
    calls: int = 10_000
    warmup: int = 1_000
    seed: int = 1
    fold: bool = False

    def __post_init__(self) -> None:
        for name in (
            "routers",
            "router_threads",
            "servers",
            "executor",
            "clients",
            "server_credit",
            "link_credit",
            "reply_credit",
            "calls",
        ):
            self._at_least(name, 1)
        for name in (
            "threads",
            "think_us",
            "rate",
            "poisson",
            "agents",
            "size",
            "service_us",
            "service_cv",
            "work_us",
            "network_us",
            "cores",
            "others",
            "warmup",
        ):
            self._at_least(name, 0)
        if self.topology not in TOPOLOGIES:
            raise ValueError(f"topology {self.topology!r} is none of {', '.join(TOPOLOGIES)}")
        if sum(map(bool, (self.threads, self.poisson, self.agents))) != 1:
            raise ValueError("one of threads, poisson and agents says who calls, and only one")
        if self.rate and not self.threads:
            raise ValueError("a rate needs threads that call")
        if self.interval_s <= 0 or self.timeout_s <= 0:
            raise ValueError("interval_s and timeout_s are positive")
        if self.local > 1:
            raise ValueError("local is a share: 1 at most")
        if self.others and self.others >= self.cores:
            raise ValueError("others use less than the cores of a shared machine")
        if self.servers % self.routers:
            raise ValueError(
                f"{self.servers} servers can't be spread evenly over {self.routers} routers"
            )
        if self.fold and not self.agents and not self.poisson:
            raise ValueError("only open arrivals (agents, poisson) can be folded")

    def _at_least(self, name: str, least: int) -> None:
        if getattr(self, name) < least:
            raise ValueError(f"{name} is {getattr(self, name)}: at least {least} is needed")

    @property
    def reply_size(self) -> int:
        """Return the bytes of a reply."""
        return self.size if self.reply < 0 else self.reply

    @property
    def local_share(self) -> float:
        """Return the share of calls whose messages pass no link between routers."""
        return 1.0 / self.routers if self.local < 0 or self.routers == 1 else self.local

    @property
    def offered(self) -> float:
        """Return the calls per second that the setup prescribes; 0: as many as are answered."""
        return self.agents / self.interval_s if self.agents else self.poisson or self.rate

    @property
    def mean_hops(self) -> float:
        """Return the mean number of links between routers that a message passes."""
        if self.routers == 1:
            return 0.0
        away = range(1, self.routers)
        mean = sum(distance(0, other, self.routers, self.topology) for other in away) / len(away)
        return (1.0 - self.local_share) * mean

    def replace(self, **changes: Any) -> Setup:
        """Return a copy with these changes."""
        return dataclasses.replace(self, **changes)

    def row(self) -> dict[str, Any]:
        """Return the setup as columns."""
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Setup:
        """Create a setup from columns, and ignore unknown ones. Values may be numpy's.

        :raises ValueError: a value is not possible
        """
        kinds: dict[str, Any] = {each.name: type(each.default) for each in dataclasses.fields(cls)}
        return cls(**{name: kind(row[name]) for name, kind in kinds.items() if name in row})


def distance(one: int, other: int, routers: int, topology: str) -> int:
    """Return the number of links on the shortest way between two routers."""
    if topology == "full":
        return int(one != other)
    around = abs(one - other)
    return min(around, routers - around)
