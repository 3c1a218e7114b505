# SPDX-License-Identifier: Apache-2.0

"""The steps of ``amqp1 demo``, each through oslo.messaging's public interface. Main thread."""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import statistics
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import oslo_messaging

from amqp1_driver.cli.demo_servers import Event, Inbox, Server, configuration
from amqp1_driver.testing.fixture import BusProcess

CALLS = 50
CASTS = 20
SERVERS = ("server-1", "server-2", "server-3")
#: in seconds: limits for the start and the end of processes, and for an answer; timeout of the
#: calls that must time out; delay allowed beyond this timeout; limit for the failover
START = 25.0
END = 5.0
ANSWER = 5.0
SHORT = 0.5
LATE = 0.5
FAILOVER = 10.0

#: fixed names, because a broker keeps the queues: otherwise each run would leave new ones
EXCHANGE = "amqp1-demo"
TOPIC = "amqp1-demo"
NOTIFICATION_TOPIC = "amqp1-demo-notifications"


class Failed(Exception):
    """Failure of a step: it did not do what it should; the text says what it did."""


class Shown(NamedTuple):
    """The result of a step, for the table; ``ok`` None: the step was left out."""

    seconds: float | None
    details: list[str]
    ok: bool | None = True


class _NotificationEndpoint:
    """An endpoint that puts this run's notifications into the inbox. Executor's threads."""

    def __init__(self, inbox: Inbox, run: str) -> None:
        self._inbox = inbox
        self._run = run

    def _note(
        self, priority: str, ctxt: Any, publisher: str, event: str, payload: Any, metadata: Any
    ) -> None:
        # a broker may still have notifications of an earlier run
        if payload.get("run") == self._run:
            self._inbox.put("notification", {"number": payload["number"], "priority": priority})

    info = functools.partialmethod(_note, "info")
    warn = functools.partialmethod(_note, "warn")
    error = functools.partialmethod(_note, "error")


class Play:
    """All steps of the demonstration, and the processes that they need. Main thread.

    :param mode: mode of the embedded buses
    :param url: URL of an existing bus, which replaces the embedded buses
    :param verbose: let the servers write their logs to standard error
    """

    def __init__(self, mode: str, url: str | None, verbose: bool) -> None:
        self._mode = mode
        self._url = url or ""
        self._verbose = verbose
        self._inbox = Inbox()
        self._buses: list[BusProcess] = []
        self._servers: list[Server] = []
        self._serving = False
        self._run = uuid.uuid4().hex[:8]
        # a random start: a broker may still have messages with the numbers of an earlier run
        self._numbers = itertools.count(random.randrange(1, 2**31))
        self._opened = contextlib.ExitStack()
        self._client: Any = None
        self._notifier: Any = None

    def steps(self) -> list[tuple[str, Callable[[], Shown]]]:
        """Return name and function of each step, in order. A step raises an error if it fails."""
        return [
            ("start", self._start),
            ("call", self._calls),
            ("call by name", self._calls_by_name),
            ("cast", self._casts),
            ("fanout", self._fanout),
            ("timeout, busy server", self._busy),
            ("timeout, no server", self._nobody),
            ("remote exception", self._exception),
            ("notifications", self._notifications),
            ("failover", self._failover),
        ]

    def close(self) -> None:
        """Close the client's side, and end all processes."""
        self._opened.close()
        deadline = time.monotonic() + (END if self._serving else 0.0)
        for server in self._servers:
            server.hang_up()
        for server in self._servers:
            server.end(deadline)
        for bus in self._buses:
            bus.terminate()

    # -- steps -------------------------------------------------------------------

    def _start(self) -> Shown:
        began = time.monotonic()
        for name in SERVERS:  # one by one: close() ends also the first of them
            self._servers.append(Server(name, self._inbox, self._verbose))
        if not self._url:
            self._buses = [BusProcess(self._mode), BusProcess(self._mode)]
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(BusProcess.start, self._buses))
            hosts = ",".join(bus.address.partition("://")[2] for bus in self._buses)
            # all connect to the first bus, so that all have to fail over to the second
            self._url = f"amqp://{hosts}/?host_selection=ordered"
        for server in self._servers:
            server.serve(url=self._url, exchange=EXCHANGE, topic=TOPIC)
        ready = self._inbox.wait("ready", len(SERVERS), START, unless="ended")
        if len(ready) < len(SERVERS):
            for event in self._inbox.wait("failed", 1, 0):
                raise RuntimeError("{server} did not come up: {text}".format(**event.fields))
            missing = set(SERVERS) - {event.fields["server"] for event in ready}
            raise RuntimeError(f"{min(missing)} did not come up: it says nothing")
        self._serving = True
        # a notifier cannot choose the exchange
        oslo_messaging.set_transport_defaults(control_exchange=EXCHANGE)
        conf = configuration()
        rpc = oslo_messaging.get_rpc_transport(conf, url=self._url)
        self._opened.callback(rpc.cleanup)
        target = oslo_messaging.Target(exchange=EXCHANGE, topic=TOPIC)
        self._client = oslo_messaging.get_rpc_client(rpc, target, timeout=ANSWER)
        notify = oslo_messaging.get_notification_transport(conf, url=self._url)
        self._opened.callback(notify.cleanup)
        listener = oslo_messaging.get_notification_listener(
            notify,
            [oslo_messaging.Target(topic=NOTIFICATION_TOPIC)],
            [_NotificationEndpoint(self._inbox, self._run)],
            executor="threading",
        )
        listener.start()
        self._opened.callback(listener.wait)
        self._opened.callback(listener.stop)
        self._notifier = oslo_messaging.Notifier(
            notify, publisher_id="amqp1-demo", driver="messaging", topics=[NOTIFICATION_TOPIC]
        )
        buses = [f"bus {bus.address}, process {bus.pid}" for bus in self._buses]
        hosts = oslo_messaging.TransportURL.parse(conf, self._url).hosts
        places = ", ".join(f"{h.hostname or 'localhost'}:{h.port or '-'}" for h in hosts)
        servers = ", ".join(f"{s.name} in process {s.pid}" for s in self._servers)
        return Shown(
            time.monotonic() - began,
            [*(buses or [f"bus at {places}"]), servers, "notification listener"],
        )

    def _calls(self) -> Shown:
        timed = [_timed(self._add, self._client, number) for number in range(CALLS)]
        times = [seconds for seconds, _ in timed]
        shares = _shares(answer["server"] for _, answer in timed)
        return Shown(
            statistics.median(times),
            [f"{CALLS} calls to any server (median; slowest {max(times) * 1000:.1f} ms): {shares}"],
        )

    def _calls_by_name(self) -> Shown:
        times = [_timed(self._call_server, s.name, ANSWER)[0] for s in self._servers]
        return Shown(statistics.median(times), ["each server answered to its own name (median)"])

    def _casts(self) -> Shown:
        numbers = [next(self._numbers) for _ in range(CASTS)]
        times = [_timed(self._client.cast, {}, "note", number=number)[0] for number in numbers]
        shares = _shares(e.fields["server"] for e in self._expect("cast", set(numbers), CASTS))
        return Shown(
            statistics.median(times),
            [f"{CASTS} casts, taken over by the bus (median); each arrived once: {shares}"],
        )

    def _fanout(self) -> Shown:
        began = time.monotonic()
        seen = self._announce()
        names = sorted(event.fields["server"] for event in seen)
        if names != list(SERVERS):
            raise Failed(f"not every server once, but: {', '.join(names)}")
        return Shown(seen[-1].at - began, [f"one cast, arrived at {', '.join(names)}"])

    def _busy(self) -> Shown:
        try:
            return self._times_out(TOPIC, "hold", number=next(self._numbers))
        finally:
            self._release()

    def _nobody(self) -> Shown:
        return self._times_out(f"{TOPIC}-nobody", "add", a=1, b=1)

    def _exception(self) -> Shown:
        seconds, error = _raises(LookupError, self._client.call, {}, "find", key="instance-42")
        text = str(error).splitlines()[0]
        if "has no instance-42" not in text:
            raise Failed(f"not the server's text: {text}")
        return Shown(seconds, [f"the server's exception, raised here: LookupError: {text}"])

    def _notifications(self) -> Shown:
        began = time.monotonic()
        numbers = self._notify()
        seen = self._expect("notification", set(numbers.values()), len(numbers))
        got = {event.fields["priority"]: event.fields["number"] for event in seen}
        if got != numbers:
            raise Failed(f"sent {numbers}, the listener got {got}")
        return Shown(seen[-1].at - began, [f"{', '.join(got)}: all at the listener"])

    def _failover(self) -> Shown:
        if not self._buses:
            return Shown(None, ["left out: that bus is not ours to kill"], ok=None)
        first, second = self._buses
        number, pool = next(self._numbers), ThreadPoolExecutor(1)
        client = self._client.prepare(timeout=FAILOVER)
        held = pool.submit(client.call, {}, "hold", number=number)
        pool.shutdown(wait=False)
        self._expect("hold", {number}, 1)
        began, pid = time.monotonic(), first.pid
        first.kill()
        details = [f"bus {first.address}, process {pid}, killed with a call under way"]

        def since() -> str:
            return f"after {(time.monotonic() - began) * 1000:.0f} ms"

        _raises(oslo_messaging.MessageDeliveryFailure, held.result, FAILOVER)
        details.append(f"that call failed {since()}: nobody knows if it was served")
        self._release()
        repeated = sum(self._until_it_answers(s.name, began) for s in self._servers)
        back = time.monotonic() - began
        again = f" ({repeated} calls in doubt made again)" if repeated else ""
        details.append(f"all servers answer on {second.address} {since()}{again}")
        self._announce()
        details.append(f"a fanout arrives at all {len(self._servers)} again")
        # a notifier only logs that it could not send: if one is lost, send again
        if not (self._arrive_again() or self._arrive_again()):
            raise Failed("notifications do not arrive any more")
        details.append(f"notifications arrive again {since()}")
        return Shown(back, details)

    # -- inner -------------------------------------------------------------------

    def _add(self, client: Any, number: int) -> dict[str, Any]:
        answer: dict[str, Any] = client.call({"request": self._run}, "add", a=number, b=1)
        if answer.get("sum") != number + 1 or answer.get("request") != self._run:
            raise Failed(f"wrong answer to {number} + 1: {answer}")
        return answer

    def _call_server(self, name: str, seconds: float) -> None:
        answer = self._add(self._client.prepare(server=name, timeout=seconds), 41)
        if answer["server"] != name:
            raise Failed(f"{answer['server']} answered instead of {name}")

    def _release(self) -> None:
        """Order all servers to answer the calls that they hold."""
        for server in self._servers:
            server.order("release")

    def _announce(self) -> list[Event]:
        """Send a fanout; return its arrivals at the servers."""
        number = next(self._numbers)
        self._client.prepare(fanout=True).cast({}, "announce", number=number)
        return self._expect("fanout", {number}, len(self._servers))

    def _times_out(self, topic: str, method: str, **arguments: int) -> Shown:
        client = self._client.prepare(topic=topic, timeout=SHORT)
        seconds, error = _raises(
            oslo_messaging.MessagingTimeout, client.call, {}, method, **arguments
        )
        if not SHORT - 0.01 <= seconds <= SHORT + LATE:
            raise Failed(f"timed out after {seconds:.3f} s instead of {SHORT} s")
        return Shown(seconds, [f"MessagingTimeout, asked for after {SHORT} s", str(error)])

    def _expect(self, kind: str, numbers: set[int], count: int) -> list[Event]:
        """Wait for the events with these numbers, and return them.

        :raises Failed: their number is not ``count`` in time, or one has arrived twice
        """
        seen = self._inbox.wait(kind, count, FAILOVER, numbers)
        if len(seen) != count:
            raise Failed(f"{len(seen)} of {count} arrived within {FAILOVER:g} s")
        if len({(e.fields["number"], e.fields.get("server")) for e in seen}) != count:
            raise Failed("something arrived twice")
        return seen

    def _until_it_answers(self, name: str, began: float) -> int:
        """Call a server until it answers; return how many calls were in doubt.

        ``add`` changes nothing at the server, so such a call may be made again.

        :raises Failed: the server does not answer within FAILOVER seconds of ``began``
        """
        for repeated in itertools.count():
            left = began + FAILOVER - time.monotonic()
            if left <= 0:
                break
            with contextlib.suppress(oslo_messaging.MessageDeliveryFailure):
                self._call_server(name, left)
                return repeated
        raise Failed(f"{name} did not come over within {FAILOVER:g} s")

    def _notify(self) -> dict[str, int]:
        """Send one notification of each priority; return their numbers by priority."""
        numbers = {priority: next(self._numbers) for priority in ("info", "warn", "error")}
        for priority, number in numbers.items():
            getattr(self._notifier, priority)({}, "demo.step", {"number": number, "run": self._run})
        return numbers

    def _arrive_again(self) -> bool:
        numbers = set(self._notify().values())
        return len(self._inbox.wait("notification", 3, ANSWER, numbers)) == 3


def _timed(work: Callable[..., Any], *arguments: Any, **named: Any) -> tuple[float, Any]:
    """Return how many seconds ``work`` takes, and its result."""
    began = time.monotonic()
    result = work(*arguments, **named)
    return time.monotonic() - began, result


def _raises(
    kind: type[Exception], work: Callable[..., Any], *arguments: Any, **named: Any
) -> tuple[float, Exception]:
    """Return after how many seconds ``work`` raises an error of this kind, and the error.

    :raises Failed: it returns
    """
    began = time.monotonic()
    try:
        work(*arguments, **named)
    except kind as error:
        return time.monotonic() - began, error
    raise Failed(f"the call came back instead of failing with {kind.__name__}")


def _shares(servers: Iterable[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(Counter(servers).items()))
