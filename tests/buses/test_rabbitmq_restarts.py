# SPDX-License-Identifier: Apache-2.0

"""RPC servers on RabbitMQ that are stopped and started under load: nothing lost, nothing twice.

With AMQP1_LONG=1 100 restarts for each kind of queue and version, of one and of three servers, and
200 stops beside neighbours; otherwise a few of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.bars import restarting
from tests.bars.workers import Worker
from tests.buses.rabbit import WAIT, Events, Management, Node

pytestmark = [pytest.mark.rabbitmq, pytest.mark.timeout(900)]

Start = Callable[[str], Worker]
LONG = os.environ.get("AMQP1_LONG") == "1"
CASES = [
    pytest.param(version, kind, servers, id=f"{version[-2]}.{version[-1]}-{kind}-{servers}")
    for version in ("rabbit40", "rabbit43")
    for kind in ("classic", "quorum")
    for servers in (1, 3)
]
#: seconds for all restarts
RESTARTS = 600


class Run:
    """Servers and clients of one topic in processes of their own, with their books."""

    def __init__(self, worker: Start, node: Node, topic: str, books: Path, **options: Any) -> None:
        self._worker = worker
        self._url = node.url()
        self._topic = topic
        self._books = books
        self._options = options
        self.servers: list[Worker] = []
        self.clients: list[Worker] = []

    def open(self, name: str) -> Worker:
        """A process with a transport."""
        one = self._worker(name)
        one.do("open", url=self._url, topic=self._topic, options=self._options)
        return one

    def serve(self, count: int) -> None:
        for number in range(count):
            self.servers.append(self.open(f"server{number}"))
            self.servers[-1].do(
                "serve_book", name=f"s{number}", path=str(self._books / f"s{number}.runs")
            )

    def load(self, count: int, threads: int, timeout: float = restarting.TIMEOUT) -> None:
        for number in range(count):
            self.clients.append(self.open(f"client{number}"))
            self.clients[-1].do(
                "load",
                path=str(self._books / f"c{number}.sent"),
                threads=threads,
                timeout=timeout,
            )

    def restart(self, times: int) -> None:
        """All servers at the same time, so often each."""
        under_way = [
            one.begin("restart", name=f"s{number}", times=times)
            for number, one in enumerate(self.servers)
        ]
        for each in under_way:
            each.result(RESTARTS)

    def finish(self) -> dict[str, Any]:
        """What became of all that was sent."""
        hung = [one.begin("stop_loads") for one in self.clients]
        assert sum(each.result(2 * restarting.TIMEOUT) for each in hung) == 0
        for one in self.servers:
            one.do("stop_books", within=WAIT)
        found = restarting.verdict(self._books.glob("*.runs"), self._books.glob("*.sent"))
        print(
            {key: value for key, value in found.items() if key not in ("lost", "twice")},
            f"lost {len(found['lost'])}, twice {len(found['twice'])}",
        )
        return found


@pytest.mark.parametrize(("version", "kind", "servers"), CASES if LONG else [CASES[0], CASES[-1]])
def test_servers_that_are_restarted_under_load(
    version: str,
    kind: str,
    servers: int,
    request: pytest.FixtureRequest,
    worker: Start,
    tmp_path: Path,
) -> None:
    node = request.getfixturevalue(version)
    topic = f"restarted-{kind}-{servers}"
    run = Run(worker, node, topic, tmp_path, rpc_queue_type=kind)
    run.serve(servers)
    run.load(2, 3)
    run.restart(100 // servers + 1 if LONG else 2)
    found = run.finish()
    assert (found["lost"], found["twice"], found["errors"]) == ([], [], [])
    assert min(found["successes"][key] for key in ("cast", "call")) > 0
    assert {name for name in node.holds()[0] if topic in name} == {
        f"openstack:rpc:anycast:openstack:{topic}",
        *(f"openstack:rpc:unicast:openstack:{topic}:s{number}" for number in range(servers)),
    }
    with Management(node) as management:
        for name in [name for name in node.holds()[0] if topic in name]:
            management.delete(name)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize("version", ["rabbit40", "rabbit43"] if LONG else ["rabbit43"])
def test_queues_that_others_delete_under_load(
    version: str, kind: str, request: pytest.FixtureRequest, worker: Start, tmp_path: Path
) -> None:
    """What was on its way may fail, and may have run; nothing runs twice."""
    node = request.getfixturevalue(version)
    run = Run(worker, node, f"deleted-{kind}", tmp_path, rpc_queue_type=kind)
    run.serve(1)
    # a call that goes with its queue waits for its deadline: no thread is to wait for long
    run.load(2, 3, timeout=2.0)
    with Management(node) as management:
        for _ in range(25 if LONG else 3):
            run.servers[0].do("wait_for", name="s0", count=restarting.BETWEEN, within=WAIT)
            management.delete(f"openstack:rpc:anycast:openstack:deleted-{kind}")
    found = run.finish()
    assert found["twice"] == []
    assert found["successes"]["cast"] > found["failures"]["cast MessageDeliveryFailure"]


@pytest.mark.parametrize("version", ["rabbit40", "rabbit43"] if LONG else ["rabbit43"])
def test_what_servers_leave_expires(
    version: str, request: pytest.FixtureRequest, worker: Start, tmp_path: Path
) -> None:
    node = request.getfixturevalue(version)
    run = Run(worker, node, "expires", tmp_path, queue_expiry=1)
    mine = {"openstack:rpc:anycast:openstack:expires", "openstack:rpc:unicast:openstack:expires:s0"}
    with Events(node, "queue.deleted") as events:
        run.serve(1)
        # the transport goes on, so the queue of fanouts has to go with its server
        run.servers[0].do("stop_books", within=WAIT)
        events.wait_for(mine)
    assert not {name for name in node.holds()[0] if ":expires" in name}


@pytest.mark.parametrize("version", ["rabbit40", "rabbit43"] if LONG else ["rabbit43"])
def test_a_server_that_is_restarted_leaves_its_neighbours_alone(
    version: str, request: pytest.FixtureRequest, worker: Start, tmp_path: Path
) -> None:
    node = request.getfixturevalue(version)
    run = Run(worker, node, "neighbour", tmp_path)
    both = run.open("both")
    run.servers.append(both)
    both.do("serve_book", name="s0", path=str(tmp_path / "s0.runs"))
    both.do("serve_book", name="s1", path=str(tmp_path / "s1.runs"), topic="restarting")
    run.load(1, 2)
    both.do("load", path=str(tmp_path / "c1.sent"), threads=1, topic="restarting")
    both.do("restart", name="s1", times=200 if LONG else 5, within=RESTARTS)
    run.clients.append(both)
    found = run.finish()
    assert (found["lost"], found["twice"], found["errors"]) == ([], [], [])
    lost = [
        line
        for line in both.log.splitlines()
        if "by the peer" in line or "Lost connection" in line or "unattached" in line
    ]
    assert lost == []
