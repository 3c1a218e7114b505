# SPDX-License-Identifier: Apache-2.0
"""Bar: the bus is killed and started again 20 times in traffic. No caller outlives its deadline,
nothing is left over, subscriptions come back by themselves, nothing acknowledged is lost.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from amqp1_driver.testing.fixture import BusProcess
from amqp1_driver.testing.proxy import FaultProxy
from tests.bars.ports import lasting_port
from tests.bars.workers import Worker

TIMEOUT = 1.0
#: how long subscriptions and senders may take to come back once the bus has
RECOVERY = 30.0
#: messages of each kind between two disturbances, at least
STEADY = 50
OPTIONS = {
    "default_send_timeout": TIMEOUT,
    "default_notify_timeout": TIMEOUT,
    "connection_retry_interval": 0.2,
    "connection_retry_backoff": 0.2,
    "connection_retry_interval_max": 1.0,
    "link_retry_delay": 0.5,
    "host_selection": "ordered",
}

Start = Callable[[str], Worker]


class Run:
    """A client and a server in traffic, on a bus that is going to be disturbed.

    :param client_url: where the client goes by another way
    """

    def __init__(
        self, start: Start, url: str, client_url: str | None = None, **options: float
    ) -> None:
        self.server, self.client = start("server"), start("client")
        self.disturbed: list[tuple[float, float]] = []
        self.recovery: list[float] = []
        for one, way in ((self.server, url), (self.client, client_url or url)):
            one.do("open", url=way, topic="restarts", options={**OPTIONS, **options})
        self.server.do("serve", name="only")
        self.client.do("start_traffic", timeout=TIMEOUT)
        self.wait_through()

    def disturb(self, fault: Callable[[], object]) -> None:
        """Does that to the bus, and waits until everything is through again."""
        since = time.monotonic()
        fault()
        self.disturbed.append((since, time.monotonic()))
        self.wait_through()

    def wait_through(self) -> None:
        """Until messages of all kinds, sent from now on, are answered and received."""
        since = time.monotonic()
        sent = self.client.begin("through", count=STEADY, timeout=RECOVERY)
        received = self.server.begin("receives", since=since, timeout=RECOVERY)
        assert sent.result(RECOVERY + 5) == [], self.client.log[-3000:]
        assert received.result(RECOVERY + 5) == [], self.server.log[-3000:]
        self.recovery.append(time.monotonic() - since)

    def stop(self) -> dict[str, Any]:
        """Ends the traffic; asserts what holds on every bus."""
        result: dict[str, Any] = self.client.do("stop_traffic")
        assert result["hung"] == 0
        assert result["overrun"] <= 0.5 + result["lateness"]
        assert result["strange"] == []
        return result

    def lost(self, result: dict[str, Any], kind: str) -> list[str]:
        """What was acknowledged but not received."""
        missing: list[str] = self.server.do(
            "lacks", kind=kind, timeout=10, keys=result["acknowledged"][kind]
        )
        return missing

    def close(self) -> None:
        """No thread and no descriptor may be left."""
        assert self.client.do("close") == []
        assert self.server.do("close") == []

    def summary(self, result: dict[str, Any]) -> str:
        counts = {kind: len(keys) for kind, keys in result["acknowledged"].items()}
        return (
            f"{len(self.disturbed)} times, slowest recovery {max(self.recovery):.1f} s "
            f"(with {STEADY} of each kind), "
            f"overrun {result['overrun']:.3f} s (machine's lateness "
            f"{result['lateness']:.3f} s), acknowledged {counts}, "
            f"failed {result['failed']}"
        )


def times(long_form: bool) -> int:
    return 20 if long_form else 5


@pytest.mark.parametrize("mode", ["router", "broker"])
def test_an_embedded_bus_that_is_killed_and_started_again(
    mode: str, worker: Start, long_form: bool, measured: Callable[[str], None]
) -> None:
    with BusProcess(mode, port=lasting_port()) as bus:
        run = Run(worker, bus.url())
        for _ in range(times(long_form)):
            run.disturb(bus.restart)
        result = run.stop()
        measured(run.summary(result))
        # neither stores anything over its end: what comes twice was sent twice
        assert run.server.do("repeated") == {}
        assert run.lost(result, "call") == []
        if mode == "router":  # which acknowledges when the receiver has
            assert run.lost(result, "cast") == []
            assert run.lost(result, "notify") == []
        run.close()


def test_two_routers_killed_in_turn_with_failover(
    worker: Start, long_form: bool, measured: Callable[[str], None]
) -> None:
    ports = lasting_port(), lasting_port()
    with BusProcess("router", port=ports[0]) as one, BusProcess("router", port=ports[1]) as two:
        run = Run(worker, f"amqp://127.0.0.1:{one.port},127.0.0.1:{two.port}")
        here, there = one, two
        for _ in range(times(long_form)):
            run.disturb(here.kill)
            here.start()
            here, there = there, here
        result = run.stop()
        measured(run.summary(result))
        assert run.server.do("repeated") == {}
        for kind in ("call", "cast", "notify"):
            assert run.lost(result, kind) == []
        run.close()


@contextlib.contextmanager
def behind_proxy(mode: str) -> Iterator[FaultProxy]:
    with BusProcess(mode) as bus, FaultProxy("127.0.0.1", bus.port) as proxy:
        yield proxy


@pytest.mark.parametrize("mode", ["router", "broker"])
def test_connections_that_are_cut(
    mode: str, worker: Start, long_form: bool, measured: Callable[[str], None]
) -> None:
    with behind_proxy(mode) as proxy:
        run = Run(worker, f"amqp://127.0.0.1:{proxy.port}")
        for _ in range(times(long_form)):
            run.disturb(proxy.cut)
        result = run.stop()
        measured(run.summary(result))
        # the bus lives: what it took it has, and what it delivers again is known to have come
        for kind in ("call", "cast", "notify"):
            assert run.lost(result, kind) == []
        assert run.server.do("repeated") == {}
        run.close()


def legally_repeated(receipts: list[float], kills: list[tuple[float, float]]) -> bool:
    """Settling the first one was cut off by a kill: so the bus had to deliver it again."""
    return all(
        any(begin - 0.5 <= first <= end and begin <= second for begin, end in kills)
        for first, second in itertools.pairwise(receipts)
    )


@pytest.mark.rabbitmq
def test_rabbitmq_that_is_killed_and_started_again(
    rabbitmq: Any, worker: Start, long_form: bool, measured: Callable[[str], None]
) -> None:
    def restart() -> None:
        rabbitmq.kill()
        rabbitmq.start()

    run = Run(worker, rabbitmq.url())
    for _ in range(times(long_form)):
        run.disturb(restart)
    result = run.stop()
    measured(run.summary(result))
    # its queues are durable: whatever was acknowledged to the sender is there
    for kind in ("call", "cast", "notify"):
        assert run.lost(result, kind) == []
    again = run.server.do("repeated")
    measured(f"received again: { {kind: len(keys) for kind, keys in again.items()} }")
    illegal = {
        key: receipts
        for keys in again.values()
        for key, receipts in keys.items()
        if not legally_repeated(receipts, run.disturbed)
    }
    assert illegal == {}
    run.close()
