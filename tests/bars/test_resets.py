# SPDX-License-Identifier: Apache-2.0

"""Bar: connections that are reset under load cost what is in doubt on them, and nothing else.

Single callers serve themselves, several share the I/O thread: both are there.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import oslo_messaging as om

from amqp1_driver.testing.fixture import BusProcess
from amqp1_driver.testing.proxy import FaultProxy
from tests.bars.support import Transports

#: seconds that a call may take, which is far more than the next connection does
TIMEOUT = 10.0
#: after its deadline, seconds
GRACE = 0.5
#: connections at a time; after a loss each stays away for up to a second
CONNECTIONS = 32
#: the errors of what may have been sent; all else has to move to the next connection
SENT = ("in doubt", "the reply address was lost while the call was waiting for its reply")
#: for one more connection to be reset, seconds
PATIENCE = 30.0


class Deaths(logging.Handler):
    """Takes down what event loops say of their end. A context manager."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []
        self._logger = logging.getLogger("amqp1_driver.eventloop")

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def __enter__(self) -> Deaths:
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)


class Load:
    """Calls in some threads for each client, which notes how they end."""

    def __init__(self, clients: list[Any]) -> None:
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.ends: Counter[str] = Counter()
        self.strange: list[str] = []
        self.longest = 0.0
        # one thread serves itself; two and three hinder each other in it
        self._threads = [
            threading.Thread(target=self._run, args=(client,), daemon=True)
            for number, client in enumerate(clients)
            for _ in range(1 + number % 3)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> int:
        """End it; the number of threads that hang."""
        self._stop.set()
        for thread in self._threads:
            thread.join(TIMEOUT + 5)
        return sum(thread.is_alive() for thread in self._threads)

    def _run(self, client: Any) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            strange = ""
            try:
                if client.call({}, "echo", text="hello") != "hello":
                    strange = "another's answer"
                end = "answered"
            except om.MessageDeliveryFailure as error:
                end = next((end for end in SENT if end in str(error)), "failed")
                if end == "failed":
                    strange = str(error)
            except Exception as error:
                end, strange = type(error).__name__, str(error)
            took = time.monotonic() - began
            with self._lock:
                self.ends[end] += 1
                self.longest = max(self.longest, took)
                if strange:
                    self.strange.append(strange)


def loops() -> set[threading.Thread]:
    """The I/O threads of this process."""
    return {thread for thread in threading.enumerate() if thread.name == "amqp1-io"}


def test_connections_that_are_reset_end_no_loop_and_keep_no_caller(
    transports: Transports, long_form: bool, measured: Callable[[str], None]
) -> None:
    count = 10_000 if long_form else 200
    rng = random.Random(14)
    with (
        BusProcess("router") as bus,
        FaultProxy("127.0.0.1", bus.port) as proxy,
        Deaths() as deaths,
    ):
        transports.serve(bus.url())
        # One that is reset again and again while it opens stays away longer each time: not for
        # as long as a call may take.
        clients = [
            transports.client(
                f"amqp://127.0.0.1:{proxy.port}",
                TIMEOUT,
                connection_retry_interval=0.1,
                connection_retry_interval_max=0.5,
            )
            for _ in range(CONNECTIONS)
        ]
        for client in clients:
            assert client.call({}, "echo", text="hello") == "hello"
        before = loops()
        assert len(before) >= CONNECTIONS + 1
        load, began = Load(clients), time.monotonic()
        for number in range(1, count + 1):
            # within the connection's opening, a request, an answer, or between them
            proxy.cut_after(rng.randrange(1, 4000), "down" if number % 2 else "up")
            proxy.wait_cut(number, PATIENCE)
        seconds = time.monotonic() - began
        assert load.stop() == 0
        for client in clients:
            assert client.call({}, "echo", text="hello") == "hello"
        after = loops()
    measured(
        f"{count} connections reset in {seconds:.1f} s, calls: {dict(load.ends)}, the longest "
        f"{load.longest:.2f} s, loops that died: {len(before - after)}"
    )
    assert deaths.lines == []
    assert before <= after
    assert load.strange == []
    assert set(load.ends) <= {"answered", *SENT}
    assert load.longest <= TIMEOUT + GRACE
