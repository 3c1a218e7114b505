# SPDX-License-Identifier: Apache-2.0

"""Bar: flow control.  RabbitMQ echoes, tells its backlog and has single active consumers."""

from __future__ import annotations

import concurrent.futures
import logging
import queue
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import oslo_messaging
import pytest

from amqp1_driver import flow
from amqp1_driver.bus import Bus
from tests.bars.support import Logged
from tests.contract.apps import PATIENCE, App, Events


@pytest.fixture
def app(rabbitmq: Any) -> Iterator[App]:
    with App(rabbitmq.url()) as made:
        yield made


@pytest.mark.rabbitmq
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


@pytest.mark.rabbitmq
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_listener_that_stops_hands_over_in_order(
    app: App, kind: str, measured: Callable[[str], None]
) -> None:
    """Three listeners wait for their turn; nothing is lost, doubled or out of order."""
    app.set(notification_single_active_consumer=True, notification_queue_type=kind)
    total, turns, topic = 1200, 3, f"single-{kind}"
    seen: queue.Queue[tuple[int, int]] = queue.Queue()
    listeners, threads = [], []

    def work(turn: int, listener: Any) -> None:
        while batch := listener.poll():
            seen.put((turn, batch[0].message["payload"]))
            batch[0].acknowledge()

    transport = app.notification_transport()

    def send(first: int, last: int) -> None:
        for number in range(first, last):
            app.notify(number, topic=topic, transport=transport)

    send(0, total // 2)  # so that as many as the credit allows are on their way
    for turn in range(turns):
        listeners.append(
            app.notification_transport()
            ._driver.listen_for_notifications(
                [(oslo_messaging.Target(topic=topic), "info")], None, 1, None
            )
            .listener
        )
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


def _suspended(node: Any, queue: str, action: str) -> None:
    """Stops a queue's process as an overload would, or has it go on."""
    node.ctl(
        "eval",
        f'{{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, '
        f'<<"{queue}">>)), sys:{action}(amqqueue:get_pid(Q)).',
    )


def _rate(app: App, transport: Any, count: int) -> float:
    """Notifications per second that one thread gets rid of."""
    begun = time.monotonic()
    for number in range(count):
        app.notify(number, topic="free", transport=transport)
    return count / (time.monotonic() - begun)


def _compare(
    app: App, block: Callable[[], None], release: Callable[[], None], senders: int, count: int
) -> list[float]:
    """The rate to one target while another is full, as a part of what it is else; in turns."""
    transport = app.notification_transport()
    app.notify("made", topic="full", transport=transport)
    _rate(app, transport, count)
    ratios = []
    for _ in range(5):
        free = _rate(app, transport, count)
        block()
        _rate(app, transport, 1)  # until the driver knows
        waiting = [
            app.later(app.notify, number, topic="full", transport=transport)
            for number in range(senders)
        ]
        _rate(app, transport, 20)  # until all wait
        ratios.append(_rate(app, transport, count) / free)
        assert not any(future.done() for future in waiting)
        release()
        for future in waiting:
            future.result(PATIENCE)
    return ratios


def _assert_unharmed(ratios: list[float], long_form: bool, measured: Callable[[str], None]) -> None:
    """At least 90 %: by the median; where others use the machine too, by the best turn."""
    middle = statistics.median(ratios)
    measured(
        f"rate to the other target: {middle:.0%} (median of {len(ratios)}), "
        f"best {max(ratios):.0%}, worst {min(ratios):.0%}"
    )
    assert (middle if long_form else max(ratios)) >= 0.9


def test_a_full_target_slows_only_its_own_senders_on_the_embedded_broker(
    long_form: bool, measured: Callable[[str], None]
) -> None:
    address = "unicast.openstack.full.info"
    with Bus("broker") as bus, App(bus.address, default_notify_timeout=60) as app:
        app.listener(Events(), topic="free")
        ratios = _compare(
            app,
            lambda: bus.pause_credit(address),
            lambda: bus.resume_credit(address),
            32,
            3000 if long_form else 300,
        )
    _assert_unharmed(ratios, long_form, measured)


@pytest.mark.rabbitmq
def test_a_full_target_slows_only_its_own_senders_on_rabbitmq(
    rabbitmq: Any, long_form: bool, measured: Callable[[str], None]
) -> None:
    """200 messages wait: more than the 170 that RabbitMQ takes unconfirmed on a link."""
    name = "openstack:notify:openstack:full.info"
    with App(rabbitmq.url(), default_notify_timeout=60) as app:
        app._pool = concurrent.futures.ThreadPoolExecutor(200)
        app.listener(Events(), topic="free")
        ratios = _compare(
            app,
            lambda: _suspended(rabbitmq, name, "suspend"),
            lambda: _suspended(rabbitmq, name, "resume"),
            200,
            2000 if long_form else 400,
        )
    _assert_unharmed(ratios, long_form, measured)


@pytest.mark.rabbitmq
def test_an_alarm_of_rabbitmq_holds_back_what_is_sent_and_nothing_else(
    rabbitmq: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It closes the window of the session: what waits was not sent, and is told apart."""
    caplog.set_level(logging.INFO, "amqp1_driver")
    with App(rabbitmq.url(), blocked_warning_interval=0.3) as app:
        events = Events()
        control = flow.control(app.listener(events, topic="alarm"))
        transport = app.notification_transport()
        app.notify("before", topic="alarm", transport=transport)
        assert events.take() == "before"
        control.pause()
        app.notify("kept", topic="alarm", transport=transport)
        rabbitmq.ctl("set_vm_memory_high_watermark", "0.0000001")
        try:
            app.set(default_notify_timeout=1.0)
            with pytest.raises(
                oslo_messaging.MessageDeliveryFailure, match="its queue to be declared"
            ):
                app.notify("never", topic="alarm", transport=app.notification_transport())
            with Logged("closed its session's window") as told:
                late = app.later(app.notify, "late", topic="alarm", transport=transport)
                told.wait(PATIENCE)
            control.resume()
            assert events.take() == "kept"
            assert not late.done()
        finally:
            rabbitmq.ctl("set_vm_memory_high_watermark", "0.6")
        late.result(PATIENCE)
        assert events.take() == "late"
    said = [record.getMessage() for record in caplog.records]
    assert any("blocked since" in text and "closed its session's window" in text for text in said)
    assert any("goes on: blocked for" in text for text in said)
