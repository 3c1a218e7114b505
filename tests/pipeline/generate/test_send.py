# SPDX-License-Identifier: Apache-2.0

"""Made notifications through the driver's client to the embedded bus, read by oslo.messaging."""

from __future__ import annotations

import datetime
import json
import threading
from typing import Any

import oslo_messaging
from oslo_config import cfg

from amqp1_driver.pipeline.generate import __main__ as command
from amqp1_driver.pipeline.generate import cloud, faults, send
from amqp1_driver.testing.fixture import BusFixture


class _Endpoint:
    """Notes what oslo.messaging hands over."""

    def __init__(self, count: int) -> None:
        self.seen: list[tuple[str, str, str]] = []
        self.all = threading.Event()
        self._count = count

    def _take(
        self,
        ctxt: dict[str, Any],
        publisher: str,
        event: str,
        payload: Any,
        metadata: dict[str, Any],
    ) -> None:
        self.seen.append((metadata["message_id"], event, ctxt.get("request_id", "")))
        if len(self.seen) == self._count:
            self.all.set()

    info = error = _take


def test_a_listener_of_oslo_messaging_reads_them() -> None:
    made = list(cloud.notifications(1, 300, datetime.datetime(2026, 3, 5), per_day=2000))
    with BusFixture("broker") as bus:
        sent = send.send(bus.url(), faults.emissions(made, faults.Faults(), 1), rate=5000.0)
        assert sent.messages == 300
        assert sent.seconds >= 0.06
        conf = cfg.ConfigOpts()
        conf([], project="")
        transport = oslo_messaging.get_notification_transport(conf, bus.url())
        endpoint = _Endpoint(300)
        listener = oslo_messaging.get_notification_listener(
            transport,
            [oslo_messaging.Target(topic="notifications")],
            [endpoint],
            executor="threading",
        )
        listener.start()
        try:
            assert endpoint.all.wait(30)
        finally:
            listener.stop()
            listener.wait()
            transport.cleanup()
    assert sorted(endpoint.seen) == sorted(
        (n.message_id, n.event_type, n.request_id or "") for n in made
    )


def test_the_command_tells_how_many(capsys: Any) -> None:
    with BusFixture("broker") as bus:
        assert command.main(["--url", bus.url(), "--count", "1000"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "sent 1000"
    assert json.loads(lines[1])["messages"] == 1000
