# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What is simulated: one flat, checked record, so that a row of a table can be one simulation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TOPOLOGIES = ("full", "ring")


@dataclass(frozen=True, slots=True)
class Setup:
    """One simulation. Exactly one of ``threads``, ``poisson`` and ``agents`` says who calls.

    :param routers: of the mesh
    :param topology: "full": each linked to each; "ring": to two neighbours
    :param router_threads: that a router has at work at once
    :param servers: processes, spread evenly over the routers; they serve one address
    :param executor: threads of a server, ``executor_thread_pool_size``
    :param clients: processes with ``threads`` callers each, spread evenly over the routers
    :param threads: callers of a client; each waits for its reply, thinks, and calls again
    :param think_us: mean of the exponential time that a caller thinks, microseconds
    :param rate: calls per second of all clients, evenly spaced as ``amqp1 bench --rate`` does;
        0: as fast as it goes
    :param poisson: calls per second with exponential gaps, from ``clients`` that never block
    :param agents: processes that call once per ``interval_s``, each at a phase of its own
    :param size: of a request, bytes
    :param reply: of a reply, bytes; negative: as the request
    :param service_us: mean of the time that a call keeps a thread of the server without
        using the processor, as a query of a database does
    :param service_cv: its coefficient of variation: 0 constant, 1 exponential
    :param work_us: Python work of the endpoint, under the interpreter's lock
    :param local: share of the calls that a server at the caller's own router serves; negative: as
        chance has it, 1 / routers
    :param network_us: one way between two machines
    :param cores: of the one machine that all of it shares; 0: everybody has a core of his own
    :param others: cores of it that other processes use in the mean
    :param server_credit: ``rpc_server_credit``
    :param link_credit: what a router gives a sender
    :param reply_credit: ``reply_link_credit``
    :param timeout_s: of a call
    :param calls: that are counted
    :param warmup: calls before these
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
        for name in ("routers", "router_threads", "servers", "executor", "clients", "server_credit",
                     "link_credit", "reply_credit", "calls"):
            self._at_least(name, 1)
        for name in ("threads", "think_us", "rate", "poisson", "agents", "size", "service_us",
                     "service_cv", "work_us", "network_us", "cores", "others",
                     "warmup"):
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
            raise ValueError(f"{self.servers} servers can't be spread evenly over "
                             f"{self.routers} routers")
        if self.fold and not self.agents and not self.poisson:
            raise ValueError("only open arrivals (agents, poisson) can be folded")

    def _at_least(self, name: str, least: int) -> None:
        if getattr(self, name) < least:
            raise ValueError(f"{name} is {getattr(self, name)}: at least {least} is needed")

    @property
    def reply_size(self) -> int:
        """Bytes of a reply."""
        return self.size if self.reply < 0 else self.reply

    @property
    def local_share(self) -> float:
        """Of the calls, served without a link between routers."""
        return 1.0 / self.routers if self.local < 0 or self.routers == 1 else self.local

    @property
    def offered(self) -> float:
        """Calls per second that come whatever becomes of them; 0: as many as are answered."""
        return self.agents / self.interval_s if self.agents else self.poisson or self.rate

    @property
    def mean_hops(self) -> float:
        """Links between routers that a message passes, in the mean."""
        if self.routers == 1:
            return 0.0
        away = range(1, self.routers)
        mean = sum(distance(0, other, self.routers, self.topology) for other in away) / len(away)
        return (1.0 - self.local_share) * mean

    def replace(self, **changes: Any) -> Setup:
        """Another with these changes."""
        return dataclasses.replace(self, **changes)

    def row(self) -> dict[str, Any]:
        """As columns."""
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Setup:
        """From columns; others are left alone. Values may be numpy's."""
        kinds: dict[str, Any] = {each.name: type(each.default) for each in dataclasses.fields(cls)}
        return cls(**{name: kind(row[name]) for name, kind in kinds.items() if name in row})


def distance(one: int, other: int, routers: int, topology: str) -> int:
    """Links on the shortest way between two routers."""
    if topology == "full":
        return int(one != other)
    around = abs(one - other)
    return min(around, routers - around)
