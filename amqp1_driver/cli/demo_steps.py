# SPDX-License-Identifier: Apache-2.0

"""The steps of ``amqp1 demo``, each through oslo.messaging's public interface. Main thread."""

from __future__ import annotations

import dataclasses
import itertools
import random
import statistics
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import oslo_messaging

from amqp1_driver.cli.demo_stage import Event, Stage
from amqp1_driver.cli.demo_worker import configuration

CALLS = 50
CASTS = 20
#: in seconds: limit for an answer; timeout of the calls that must time out; delay allowed beyond
#: this timeout; limit for the failover to another bus
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

    def __init__(self, text: str, seconds: float | None = None) -> None:
        super().__init__(text)
        self.seconds = seconds


@dataclasses.dataclass
class Shown:
    """The result of a step, for the table; ``ok`` None: the step was left out."""

    seconds: float | None
    details: list[str]
    ok: bool | None = True


class _NotificationEndpoint:
    """An endpoint that puts this run's notifications into the inbox. Executor's threads."""

    def __init__(self, stage: Stage, run: str) -> None:
        self._stage = stage
        self._run = run

    def info(self, ctxt: Any, publisher: str, event: str, payload: Any, metadata: Any) -> None:
        self._note("info", payload)

    def warn(self, ctxt: Any, publisher: str, event: str, payload: Any, metadata: Any) -> None:
        self._note("warn", payload)

    def error(self, ctxt: Any, publisher: str, event: str, payload: Any, metadata: Any) -> None:
        self._note("error", payload)

    def _note(self, priority: str, payload: Any) -> None:
        # a broker may still have notifications of an earlier run
        if payload.get("run") == self._run:
            fields = {"number": payload["number"], "priority": priority}
            self._stage.inbox.put("notification", fields)


class Play:
    """All steps of the demonstration, from the client's side. Main thread.

    :param stage: the buses and servers
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._run = uuid.uuid4().hex[:8]
        # a random start: a broker may still have messages with the numbers of an earlier run
        self._numbers = itertools.count(random.randrange(1, 2**31))
        self._opened: list[Callable[[], object]] = []
        self._client: Any = None
        self._notifier: Any = None

    def steps(self) -> list[tuple[str, Callable[[], Shown]]]:
        """Return name and function of each step, in order."""
        found = [
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
        return [(name, self._guarded(step)) for name, step in found]

    def close(self) -> None:
        """Close what the client's side has opened, in reverse order."""
        while self._opened:
            self._opened.pop()()

    @staticmethod
    def _guarded(step: Callable[[], Shown]) -> Callable[[], Shown]:
        def run() -> Shown:
            began = time.monotonic()
            try:
                return step()
            except Failed as error:
                error.seconds = error.seconds or time.monotonic() - began
                raise
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
                raise Failed(text, time.monotonic() - began) from error

        return run

    # -- steps -------------------------------------------------------------------

    def _start(self) -> Shown:
        began = time.monotonic()
        self._stage.start(EXCHANGE, TOPIC)
        # a notifier cannot choose the exchange
        oslo_messaging.set_transport_defaults(control_exchange=EXCHANGE)
        conf = configuration()
        rpc = oslo_messaging.get_rpc_transport(conf, url=self._stage.url)
        self._opened.append(rpc.cleanup)
        target = oslo_messaging.Target(exchange=EXCHANGE, topic=TOPIC)
        self._client = oslo_messaging.get_rpc_client(rpc, target, timeout=ANSWER)
        notify = oslo_messaging.get_notification_transport(conf, url=self._stage.url)
        self._opened.append(notify.cleanup)
        listener = oslo_messaging.get_notification_listener(
            notify,
            [oslo_messaging.Target(topic=NOTIFICATION_TOPIC)],
            [_NotificationEndpoint(self._stage, self._run)],
            executor="threading",
        )
        listener.start()
        self._opened += [listener.wait, listener.stop]
        self._notifier = oslo_messaging.Notifier(
            notify, publisher_id="amqp1-demo", driver="messaging", topics=[NOTIFICATION_TOPIC]
        )
        buses = [f"bus {bus.address}, process {bus.pid}" for bus in self._stage.buses]
        where = oslo_messaging.TransportURL.parse(conf, self._stage.url)
        servers = ", ".join(f"{w.name} in process {w.pid}" for w in self._stage.workers)
        return Shown(
            time.monotonic() - began,
            [*(buses or [f"bus at {_hosts(where)}"]), servers, "notification listener"],
        )

    def _calls(self) -> Shown:
        times, servers = [], Counter[str]()
        for number in range(CALLS):
            began = time.monotonic()
            answer = self._add(self._client, number)
            times.append(time.monotonic() - began)
            servers[answer["server"]] += 1
        shares = ", ".join(f"{name} {count}" for name, count in sorted(servers.items()))
        return Shown(
            statistics.median(times),
            [f"{CALLS} calls to any server (median; slowest {max(times) * 1000:.1f} ms): {shares}"],
        )

    def _calls_by_name(self) -> Shown:
        times = []
        for worker in self._stage.workers:
            began = time.monotonic()
            self._call_server(worker.name, ANSWER)
            times.append(time.monotonic() - began)
        return Shown(statistics.median(times), ["each server answered to its own name (median)"])

    def _casts(self) -> Shown:
        numbers = [next(self._numbers) for _ in range(CASTS)]
        times = []
        for number in numbers:
            began = time.monotonic()
            self._client.cast({}, "note", number=number)
            times.append(time.monotonic() - began)
        seen = self._expect("cast", set(numbers), CASTS)
        shares = Counter(event.fields["server"] for event in seen)
        text = ", ".join(f"{name} {count}" for name, count in sorted(shares.items()))
        return Shown(
            statistics.median(times),
            [f"{CASTS} casts, taken over by the bus (median); each arrived once: {text}"],
        )

    def _fanout(self) -> Shown:
        number, began = next(self._numbers), time.monotonic()
        self._client.prepare(fanout=True).cast({}, "announce", number=number)
        seen = self._expect("fanout", {number}, len(self._stage.workers))
        names = sorted(event.fields["server"] for event in seen)
        if names != sorted(worker.name for worker in self._stage.workers):
            raise Failed(f"not every server once, but: {', '.join(names)}")
        return Shown(seen[-1].at - began, [f"one cast, arrived at {', '.join(names)}"])

    def _busy(self) -> Shown:
        try:
            return self._times_out(TOPIC, "hold")
        finally:
            self._stage.release()

    def _nobody(self) -> Shown:
        return self._times_out(f"{TOPIC}-nobody", "add")

    def _times_out(self, topic: str, method: str) -> Shown:
        client = self._client.prepare(topic=topic, timeout=SHORT)
        arguments = {"number": next(self._numbers)} if method == "hold" else {"a": 1, "b": 1}
        began = time.monotonic()
        try:
            client.call({}, method, **arguments)
        except oslo_messaging.MessagingTimeout as error:
            seconds = time.monotonic() - began
            if not SHORT - 0.01 <= seconds <= SHORT + LATE:
                raise Failed(f"timed out after {seconds:.3f} s instead of {SHORT} s") from error
            return Shown(seconds, [f"MessagingTimeout, asked for after {SHORT} s", str(error)])
        raise Failed("the call came back instead of timing out")

    def _exception(self) -> Shown:
        began = time.monotonic()
        try:
            self._client.call({}, "find", key="instance-42")
        except LookupError as error:
            seconds = time.monotonic() - began
            text = str(error).splitlines()[0]
            if "has no instance-42" not in text:
                raise Failed(f"not the server's text: {text}") from error
            return Shown(seconds, [f"the server's exception, raised here: LookupError: {text}"])
        raise Failed("the call came back instead of failing")

    def _notifications(self) -> Shown:
        began = time.monotonic()
        numbers = self._notify()
        seen = self._expect("notification", set(numbers.values()), len(numbers))
        got = {event.fields["priority"]: event.fields["number"] for event in seen}
        if got != numbers:
            raise Failed(f"sent {numbers}, the listener got {got}")
        return Shown(seen[-1].at - began, [f"{', '.join(got)}: all at the listener"])

    def _failover(self) -> Shown:
        if len(self._stage.buses) < 2:
            return Shown(None, ["left out: that bus is not ours to kill"], ok=None)
        first, second = self._stage.buses
        number = next(self._numbers)
        held = _in_thread(
            lambda: self._client.prepare(timeout=FAILOVER).call({}, "hold", number=number)
        )
        self._expect("hold", {number}, 1)
        began = time.monotonic()
        pid = first.pid
        first.kill()
        details = [
            f"bus {first.address}, process {pid}, killed with a call under way",
            self._in_doubt(held, began),
        ]
        self._stage.release()
        back, repeated = self._until_back(began)
        again = f" ({repeated} calls in doubt made again)" if repeated else ""
        details.append(f"all servers answer on {second.address} after {back * 1000:.0f} ms{again}")
        number = next(self._numbers)
        self._client.prepare(fanout=True).cast({}, "announce", number=number)
        self._expect("fanout", {number}, len(self._stage.workers))
        details.append(f"a fanout arrives at all {len(self._stage.workers)} again")
        details.append(self._notified_again(began))
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

    def _expect(self, kind: str, numbers: set[int], count: int) -> list[Event]:
        """Wait for the events with these numbers, and return them.

        :raises Failed: their number is not ``count`` in time, or one has arrived twice
        """
        seen = self._stage.inbox.wait(kind, count, FAILOVER, numbers)
        if len(seen) != count:
            raise Failed(f"{len(seen)} of {count} arrived within {FAILOVER:g} s")
        if len({(e.fields["number"], e.fields.get("server")) for e in seen}) != count:
            raise Failed("something arrived twice")
        return seen

    def _in_doubt(self, held: Future[Any], began: float) -> str:
        """Check that the call that was under way fails before its timeout; return a line on it.

        :raises Failed: the call timed out, or returned
        """
        try:
            held.result(FAILOVER)
        except oslo_messaging.MessageDeliveryFailure:
            seconds = time.monotonic() - began
            return f"that call failed after {seconds * 1000:.0f} ms: nobody knows if it was served"
        except oslo_messaging.MessagingTimeout as error:
            raise Failed(f"the call under way was left waiting: {error}") from error
        raise Failed("the call under way came back from a dead bus")

    def _until_back(self, began: float) -> tuple[float, int]:
        """Call every server by name until all have answered.

        ``add`` changes nothing at the server, so a call that failed in doubt may be repeated.

        :returns: seconds since ``began``, number of repeated calls
        :raises Failed: a server has not answered in time
        """
        repeated = 0
        for worker in self._stage.workers:
            while True:
                left = began + FAILOVER - time.monotonic()
                if left <= 0:
                    raise Failed(f"{worker.name} did not come over within {FAILOVER:g} s")
                try:
                    self._call_server(worker.name, left)
                    break
                except oslo_messaging.MessageDeliveryFailure:
                    repeated += 1
        return time.monotonic() - began, repeated

    def _notify(self) -> dict[str, int]:
        """Send one notification of each priority; return their numbers by priority."""
        numbers = {priority: next(self._numbers) for priority in ("info", "warn", "error")}
        for priority, number in numbers.items():
            getattr(self._notifier, priority)({}, "demo.step", {"number": number, "run": self._run})
        return numbers

    def _notified_again(self, began: float) -> str:
        """Check that notifications arrive again; return a line on it.

        A notifier only logs that it could not send. So this sends again if one does not arrive.

        :raises Failed: notifications do not arrive the second time either
        """
        for _ in range(2):
            numbers = set(self._notify().values())
            if len(self._stage.inbox.wait("notification", 3, ANSWER, numbers)) == 3:
                seconds = time.monotonic() - began
                return f"notifications arrive again after {seconds * 1000:.0f} ms"
        raise Failed("notifications do not arrive any more")


def _in_thread(work: Callable[[], Any]) -> Future[Any]:
    """Run ``work`` in a daemon thread, which does not keep the process from ending."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def _hosts(url: Any) -> str:
    return ", ".join(f"{host.hostname or 'localhost'}:{host.port or '-'}" for host in url.hosts)
