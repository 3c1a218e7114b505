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

"""Bar: flow control on RabbitMQ: it echoes, tells its backlog, has single active consumers."""

from __future__ import annotations

import concurrent.futures
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import oslo_messaging
import pytest

from amqp1_driver import flow
from amqp1_driver.addressing import rabbitmq as addresses
from tests.contract.apps import PATIENCE, App, Events

pytestmark = pytest.mark.rabbitmq


@pytest.fixture
def app(rabbitmq: Any) -> Iterator[App]:
    with App(rabbitmq.url()) as made:
        yield made


@pytest.fixture
def single(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queues that serve one listener at a time, in order."""
    durable = addresses._durable
    monkeypatch.setattr(addresses, "_durable", lambda name, *arguments: durable(
        name, ("x-single-active-consumer", True), *arguments))


def test_a_pause_is_confirmed_and_the_backlog_is_told(app: App) -> None:
    events = Events()
    control = flow.control(app.listener(events, topic="paused"))
    app.notify("before", topic="paused")
    assert events.take() == "before"
    assert (control.pause(), control.backlog) == (True, 0)
    for number in range(5):
        app.notify(number, topic="paused")
    assert (control.ask_backlog(), control.counters()["backlog"]) == (5, 5)
    control.resume()
    assert [events.take() for _ in range(5)] == [0, 1, 2, 3, 4]


def test_a_listener_that_stops_hands_over_in_order(
        app: App, single: None, measured: Callable[[str], None]) -> None:
    """Three listeners wait for their turn; nothing is lost, doubled or out of order."""
    total, turns = 1200, 3
    seen: queue.Queue[tuple[int, int]] = queue.Queue()
    listeners, threads = [], []

    def work(turn: int, listener: Any) -> None:
        while batch := listener.poll():
            seen.put((turn, batch[0].message["payload"]))
            batch[0].acknowledge()

    transport = app.notification_transport()

    def send(first: int, last: int) -> None:
        for number in range(first, last):
            app.notify(number, topic="single", transport=transport)

    send(0, total // 2)  # so that as many as the credit allows are on their way
    for turn in range(turns):
        listeners.append(app.notification_transport()._driver.listen_for_notifications(
            [(oslo_messaging.Target(topic="single"), "info")], None, 1, None).listener)
        threads.append(threading.Thread(target=work, args=(turn, listeners[-1])))
        threads[-1].start()
    with concurrent.futures.ThreadPoolExecutor(1) as sender:
        sent = sender.submit(send, total // 2, total)
        got = []
        for turn in range(turns):
            wanted = total // turns * (turn + 1) if turn < turns - 1 else total
            while len(got) < wanted:
                got.append(seen.get(timeout=PATIENCE))
            listeners[turn].stop()
            threads[turn].join(PATIENCE)
            listeners[turn].cleanup()
        sent.result(PATIENCE)
    assert [number for _, number in got] == list(range(total))
    assert seen.empty()
    assert [turn for turn, _ in got] == sorted(turn for turn, _ in got)
    measured(f"messages by turn: {[sum(t == turn for t, _ in got) for turn in range(turns)]}")
