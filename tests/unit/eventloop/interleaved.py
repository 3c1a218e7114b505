# SPDX-License-Identifier: Apache-2.0


"""The event loop under a scheduler: callers, a peer, other threads; and what must always hold."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from amqp1_driver.eventloop import EventLoop, Future, LoopClosed, Transport
from amqp1_driver.eventloop import borrowed_fd as loan_module
from amqp1_driver.eventloop import caller_runs as standin_module
from amqp1_driver.eventloop import futures as futures_module
from amqp1_driver.eventloop import iteration as turn_module
from amqp1_driver.eventloop import loop as loop_module
from amqp1_driver.eventloop import mailbox as mailbox_module
from amqp1_driver.eventloop import poller as poller_module
from amqp1_driver.eventloop import timers as timers_module
from amqp1_driver.eventloop import watch as watch_module
from amqp1_driver.eventloop.dial import Arrival
from amqp1_driver.eventloop.transport import State
from tests.unit.eventloop.kernel import Kernel, Os, Runtime, Socket
from tests.unit.eventloop.scheduler import (
    Clock,
    Scheduler,
    Strategy,
    Task,
    Threading,
    Violation,
)

#: seconds that a call may take; virtual
TIMEOUT = 5.0
#: the files in which each line is a switch point, if that is asked for
FILES = frozenset(
    str(module.__file__)
    for module in (
        futures_module,
        loan_module,
        loop_module,
        mailbox_module,
        poller_module,
        standin_module,
        timers_module,
        turn_module,
        watch_module,
    )
)


class Lost(Exception):
    """The connection broke while a call was under way."""


class Injected(Exception):
    """A failure that the test has made."""


class Log:
    """Takes down what the loop says of its end."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def error(self, text: str, *values: object, **_: object) -> None:
        self.lines.append(text % values)

    exception = error


class Call:
    """An operation with a future."""

    def __init__(self, number: int, future: Future[int]) -> None:
        self.number = number
        self.future = future
        self.runs = 0
        self.aborts = 0

    def abort(self, error: BaseException) -> None:
        self.aborts += 1
        self.future.set_exception(error)


class World:
    """One schedule: a loop, one connection that is made anew when it is lost, and its peer."""

    def __init__(
        self, patch: pytest.MonkeyPatch, strategy: Strategy, fine: bool = False, size: int = 100
    ) -> None:
        self.scheduler = scheduler = Scheduler(strategy, FILES if fine else ())
        self.kernel = Kernel(scheduler)
        threading, clock, system = Threading(scheduler), Clock(scheduler), Os(self.kernel)
        native, self.log = Runtime(self.kernel), Log()
        for module in (loop_module, turn_module, mailbox_module, futures_module):
            patch.setattr(module, "threading", threading)
        for module in (loop_module, turn_module, standin_module, mailbox_module):
            patch.setattr(module, "time", clock)
        for module in (poller_module, loan_module):
            patch.setattr(module, "os", system)
            patch.setattr(module, "runtime", native)
        for module in (loop_module, mailbox_module):
            patch.setattr(module, "LOG", self.log)
        self._size = size
        self.loop: EventLoop
        self.calls: list[Call] = []
        self.refused: list[Call] = []
        self.ends: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.over = False
        self.reconnect: float | None = None  # seconds; None: at once
        self.ticks: float | None = None  # seconds between those of a timer
        self.room = 100  # bytes that a socket takes
        self._numbers = itertools.count()
        self._inside: str | None = None
        self._pending: dict[int, Call] = {}
        self._waiting: list[Call] = []
        self._output = bytearray()
        self._socket: Socket | None = None
        self._transport: Transport | None = None
        self._tasks: list[Task] = []

    def run(self, *works: Callable[[], object], stop: bool = True) -> None:
        """Run each in a thread of its own, beside the loop, and check what holds in the end."""
        self.scheduler.run("main", lambda: self._main(works, stop))
        assert not self.wrong, self.wrong
        assert not self.kernel.files, f"left open: {self.kernel.files}"
        for call in self.calls:
            assert call.future.done(), f"call {call.number} never ended"
            assert call.runs + call.aborts == 1, (
                f"call {call.number} ran {call.runs} times and was aborted {call.aborts} times"
            )
        assert not any(call.runs for call in self.refused)

    def _main(self, works: Iterable[Callable[[], object]], stop: bool) -> None:
        scheduler = self.scheduler
        self.loop = loop = EventLoop("test", mailbox_size=self._size)
        loop.add_before_sleep(self._flush)
        loop.on_death(self._died)
        loop.post(self._connect)
        if self.ticks is not None:
            loop.post(self._tick)
        loop.start()
        self._tasks = [
            scheduler.spawn(f"{work.__name__}-{number}", work) for number, work in enumerate(works)
        ]
        scheduler.block(
            lambda: all(task.over for task in self._tasks if not task.name.startswith("peer"))
        )
        self.over = True
        if stop and not loop.stop():
            self.wrong.append("the loop does not stop")

    @property
    def connection(self) -> Socket | None:
        """The one that is up."""
        return self._socket

    def operation(self) -> Call:
        """An operation of another kind."""
        return Call(-1, Future(self.loop.iteration.release))

    # -- threads ---------------------------------------------------------------------------

    def caller(self, count: int = 2, timeout: float = TIMEOUT) -> Callable[[], None]:
        """Calls, one after the other, as the driver's client makes them."""

        def caller() -> None:
            for _ in range(count):
                self._call(timeout)

        return caller

    def _call(self, timeout: float) -> None:
        loop, scheduler = self.loop, self.scheduler
        call = Call(next(self._numbers), Future(loop.iteration.release))
        until = scheduler.now + timeout
        try:
            loop.put(self.send, call, timeout, True, call.future, until)
        except LoopClosed:
            self.ends["refused"] += 1
            self.refused.append(call)
            return
        self.calls.append(call)
        try:
            try:
                answer = call.future.result(max(0.0, until - scheduler.now))
            except TimeoutError:
                if call.future.cancel() or not call.future.done():
                    self.ends["late"] += 1
                    if timeout == TIMEOUT:
                        self.wrong.append(f"nobody woke the caller of {call.number}")
                    return
                answer = call.future.result(0)
            self.ends["answered"] += 1
            if answer != call.number:
                self.wrong.append(f"{call.number} was answered {answer}")
        except Lost:
            self.ends["lost"] += 1
        except (LoopClosed, Injected):
            self.ends["failed"] += 1

    def peer(self, *actions: str) -> Callable[[], None]:
        """Does so to each request in turn: answer, reset, end (in order). In the end it answers."""
        script = iter(actions)

        def peer() -> None:
            while True:
                self.scheduler.block(lambda: self.over or self._asked())
                if self.over:
                    return
                sock = self._socket
                assert sock is not None
                action = next(script, "answer")
                if action == "answer":
                    sock.received.append(sock.sent.pop(0))
                elif action == "reset":
                    sock.reset = True
                else:
                    sock.ended = True

        return peer

    def _asked(self) -> bool:
        sock = self._socket
        return (
            sock is not None and bool(sock.sent) and not (sock.reset or sock.ended or sock.closed)
        )

    # -- on the loop -----------------------------------------------------------------------

    def alone(self) -> None:
        """Note if two threads are the loop thread."""
        name = self.scheduler.current.name
        if self._inside is not None:
            self.wrong.append(f"{name} and {self._inside} are the loop thread")
        self._inside = name
        self.scheduler.point()
        self._inside = None
        self.loop.assert_in_loop()

    def send(self, call: Call) -> None:
        self.alone()
        call.runs += 1
        if self._socket is None:
            self._waiting.append(call)
        else:
            self._pending[call.number] = call
            self._output.append(call.number)

    def raises(self, call: Call) -> None:
        self.alone()
        raise Injected

    def _connect(self, _: object = None) -> None:
        self._socket = sock = Socket(self.kernel, self.room)
        self._transport = transport = Transport(self.loop, self, "peer", 1, timeout=TIMEOUT)
        transport._state = State.APPROACH
        self.loop.attach(transport)
        transport._on_arrival(Arrival(sock, "virtual", None))  # type: ignore[arg-type]

    def _tick(self, _: object = None) -> None:
        assert self.ticks is not None
        self.loop.call_later(self.ticks, self._tick)

    def _flush(self) -> None:
        if self._transport is not None:
            self._transport.flush()

    def _died(self, cause: BaseException) -> None:
        self._fail(cause)

    def _fail(self, error: BaseException) -> None:
        pending, self._pending = self._pending, {}
        waiting, self._waiting = self._waiting, []
        for call in [*pending.values(), *waiting]:
            call.future.set_exception(error)

    # as a handler of the transport

    def connected(self, description: str) -> None:
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            self._pending[call.number] = call
            self._output.append(call.number)

    def data_received(self, data: bytes) -> None:
        self.alone()
        for number in data:
            if not self._pending.pop(number).future.set_result(number):
                self.ends["too late"] += 1

    def pending_output(self) -> memoryview | None:
        return memoryview(bytes(self._output)) if self._output else None

    def output_written(self, n: int) -> None:
        del self._output[:n]

    def connection_lost(self, exc: Exception | None) -> None:
        self.alone()
        self._socket = self._transport = None
        unsent = [self._pending.pop(number) for number in self._output]
        self._output.clear()
        pending, self._pending = self._pending, {}
        self._waiting += unsent
        for call in pending.values():
            call.future.set_exception(Lost("in doubt"))
        if isinstance(exc, LoopClosed):
            self._fail(exc)
        elif self.reconnect is None:
            self._connect()
        else:
            self.loop.call_later(self.reconnect, self._connect)


def explore(
    strategies: Iterable[Strategy],
    scenario: Callable[[World], Any],
    fine: bool = False,
    size: int = 100,
) -> tuple[int, int, Counter[str]]:
    """Run a scenario under each schedule.

    :returns: how many there were, with how many steps, and how the calls ended
    """
    count, steps, ends = 0, 0, Counter[str]()
    for strategy in strategies:
        with pytest.MonkeyPatch.context() as patch:
            world = World(patch, strategy, fine, size)
            try:
                scenario(world)
            except Exception as error:
                raise Violation(f"schedule {count}: {error}; {world.log.lines}") from error
        count += 1
        steps += world.scheduler.steps
        ends += world.ends
    return count, steps, ends
