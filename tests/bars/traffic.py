# SPDX-License-Identifier: Apache-2.0
"""Steady traffic of all kinds from a few threads, which notes how each message ended."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import oslo_messaging as om

#: between two messages of a thread, seconds
PAUSE = 0.004


class NotifierErrors(logging.Handler):
    """oslo.messaging's notifier logs what a driver raises, in the calling thread, and goes on."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._local = threading.local()
        logging.getLogger("oslo_messaging.notify.messaging").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None:
            self._local.error = record.exc_info[1]

    def remove(self) -> None:
        logging.getLogger("oslo_messaging.notify.messaging").removeHandler(self)

    def raise_last(self) -> None:
        error, self._local.error = getattr(self._local, "error", None), None
        if error is not None:
            raise error


class Traffic:
    """Sends until stopped.

    :param rpc: transport for calls, casts, fanouts
    :param notifications: transport for these
    :param topic: of both
    :param timeout: seconds that each message may take; also the drivers' default
    """

    def __init__(self, rpc: Any, notifications: Any, topic: str, timeout: float) -> None:
        self._timeout = timeout
        self._client = om.get_rpc_client(rpc, om.Target(topic=topic), timeout=timeout)
        self._fanout = self._client.prepare(fanout=True)
        self._notifier = om.Notifier(notifications, "publisher", driver="messaging", topics=[topic])
        self._errors = NotifierErrors()
        self._numbers = itertools.count(1)
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._acknowledged: dict[str, list[str]] = {}
        self._failed: Counter[str] = Counter()
        self._successes: Counter[str] = Counter()  # of messages begun since
        self._since = 0.0
        self._overrun = 0.0
        self._strange: list[str] = []
        kinds: dict[str, Callable[[str], None]] = {
            "call": self._call,
            "cast": self._cast,
            "fanout": self._fan,
            "notify": self._notify,
        }
        self._lateness = 0.0
        self._threads = [
            threading.Thread(target=self._run, args=(kind, send), daemon=True)
            for kind, send in kinds.items()
            for _ in range(2)
        ]
        self._threads.append(threading.Thread(target=self._watch, daemon=True))
        for thread in self._threads:
            thread.start()

    def wait_through(self, count: int, timeout: float) -> list[str]:
        """Until so many messages of each kind, begun from now on, had success; kinds without."""

        def missing() -> list[str]:
            return [
                kind
                for kind in ("call", "cast", "fanout", "notify")
                if self._successes[kind] < count
            ]

        with self._changed:
            self._successes.clear()
            self._since = time.monotonic()
            self._changed.wait_for(lambda: not missing(), timeout)
            return missing()

    def stop(self) -> dict[str, Any]:
        """Ends it; how it went."""
        self._stop.set()
        for thread in self._threads:
            thread.join(self._timeout + 5)
        hung = sum(thread.is_alive() for thread in self._threads)
        self._errors.remove()
        return {
            "acknowledged": self._acknowledged,
            "failed": self._failed,
            "hung": hung,
            "overrun": self._overrun,
            "lateness": self._lateness,
            "strange": self._strange[:5],
        }

    def _run(self, kind: str, send: Callable[[str], None]) -> None:
        while not self._stop.wait(PAUSE):
            key = f"{kind}-{next(self._numbers)}"
            began = time.monotonic()
            error: Exception | None = None
            try:
                send(key)
            except Exception as caught:
                error = caught
            with self._changed:
                self._overrun = max(self._overrun, time.monotonic() - began - self._timeout)
                if error is None:
                    self._acknowledged.setdefault(kind, []).append(key)
                    self._successes[kind] += began >= self._since
                else:
                    self._note(kind, error)
                self._changed.notify_all()

    def _watch(self) -> None:
        """How late this machine wakes a thread that uses nothing of the driver."""
        while True:
            due = time.monotonic() + 0.05
            if self._stop.wait(0.05):
                return
            self._lateness = max(self._lateness, time.monotonic() - due)

    def _note(self, kind: str, error: Exception) -> None:
        self._failed[f"{kind} {type(error).__name__}"] += 1
        if not isinstance(error, (om.MessagingTimeout, om.MessageDeliveryFailure)):
            self._strange.append(repr(error))

    def _call(self, key: str) -> None:
        answer = self._client.call({}, "take", kind="call", key=key)
        if answer != key:
            raise AssertionError(f"{key} was answered {answer!r}")

    def _cast(self, key: str) -> None:
        self._client.cast({}, "take", kind="cast", key=key)

    def _fan(self, key: str) -> None:
        self._fanout.cast({}, "take", kind="fanout", key=key)

    def _notify(self, key: str) -> None:
        self._notifier.info({}, "event", {"key": key})
        self._errors.raise_last()
