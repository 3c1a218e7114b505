# SPDX-License-Identifier: Apache-2.0
"""Numbered messages of all kinds from one process, each noted in the history."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import oslo_messaging as om

from tests.bars.traffic import NotifierErrors
from tests.chaos.history import Writer

KINDS = ("call", "cast", "fanout", "notify")
#: errors that leave it open whether the message was executed
DOUBTFUL = (om.MessagingTimeout, om.MessageDeliveryFailure)
TOPIC, EVENTS = "chaos", "chaos-events"


class WrongAnswer(Exception):
    """A call was answered with something else."""


class Sender:
    """Sends one message at a time and waits for its end. Any thread.

    :param history: where each message is noted
    :param name: first part of the ids
    :param rpc: transport for calls, casts and fanouts
    :param notifications: transport for these
    :param timeout: seconds that each message may take; also the defaults of both transports
    """

    def __init__(
        self, history: Writer, name: str, rpc: Any, notifications: Any, timeout: float
    ) -> None:
        self._history = history
        self._name = name
        self._timeout = timeout
        self._client = om.get_rpc_client(rpc, om.Target(topic=TOPIC), timeout=timeout)
        self._to_all = self._client.prepare(fanout=True)
        self._notifications = notifications
        self._notifiers: dict[str, Any] = {}
        self._errors = NotifierErrors()
        self._lock = threading.Lock()
        self._number = 0

    def send(self, kind: str, to: str | None = None) -> bool:
        """Send one message, to any server or one with a name; whether it had success."""
        with self._lock:
            self._number += 1
            key = f"{self._name}/{kind}/{self._number}"
        self._history.add("invoke", id=key, k=kind, limit=self._timeout, to=to)
        try:
            getattr(self, f"_{kind}")(key, to)
        except DOUBTFUL as error:
            self._history.add("info", id=key, k=kind, error=f"{type(error).__name__}: {error}")
            return False
        except Exception as error:
            self._history.add("fail", id=key, k=kind, error=repr(error))
            return False
        self._history.add("ok", id=key, k=kind)
        return True

    def close(self) -> None:
        self._errors.remove()

    def _call(self, key: str, to: str | None) -> None:
        client = self._client if to is None else self._client.prepare(server=to)
        answer = client.call({}, "take", key=key)
        if answer != key:
            raise WrongAnswer(repr(answer))

    def _cast(self, key: str, to: str | None) -> None:
        client = self._client if to is None else self._client.prepare(server=to)
        client.cast({}, "take", key=key)

    def _fanout(self, key: str, to: str | None) -> None:
        self._to_all.cast({}, "take", key=key)

    def _notify(self, key: str, to: str | None) -> None:
        topic = EVENTS if to is None else f"{EVENTS}-{to}"
        with self._lock:
            notifier = self._notifiers.get(topic)
            if notifier is None:
                notifier = self._notifiers[topic] = om.Notifier(
                    self._notifications, self._name, driver="messaging", topics=[topic]
                )
        notifier.info({}, "event", {"key": key})
        self._errors.raise_last()


class Traffic:
    """Sends at a steady rate, one thread for each kind, until stopped.

    :param rate: messages per second of each kind
    :param seed: of the pauses
    """

    def __init__(self, sender: Sender, rate: float, seed: int) -> None:
        self._sender = sender
        self._pause = 1.0 / rate
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(
                target=self._run, args=(kind, random.Random(seed + n)), name=f"traffic-{kind}"
            )
            for n, kind in enumerate(KINDS)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self, timeout: float) -> list[str]:
        """End it; names of the threads that have not ended within so many seconds."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout)
        return [thread.name for thread in self._threads if thread.is_alive()]

    def _run(self, kind: str, rng: random.Random) -> None:
        send: Callable[[str], bool] = self._sender.send
        while not self._stop.wait(rng.uniform(0.5, 1.5) * self._pause):
            send(kind)
