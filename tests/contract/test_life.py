# SPDX-License-Identifier: Apache-2.0

"""A call, a reply and a notification go through the functions that the documentation names."""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.contract.apps import Endpoint, Events

PAGE = Path(__file__).resolve().parents[2] / "doc" / "source" / "life-of-a-message.rst"
#: a reply may come before the outcome of its call, and a settlement whenever it suits
ANY_TIME = {
    "connection.sender:Sender.link_outcome",
    "driver.incoming:Incoming.acknowledge",
    "connection.receiver:Receiver.settle",
}


def stages(section: str) -> list[str]:
    """The functions in the first column of a section's table, in order."""
    text = PAGE.read_text()
    body = text[text.index(f"\n{section}\n") :]
    rows = body.split("\n   * - ")[2:]
    found = []
    for row in rows:
        found += re.findall(r"``([a-z_.]+:[A-Z]\w+\.\w+)``", row.split("\n     - ")[0])
        if "\n\n" in row:  # the table has ended
            break
    return found


class Recorder:
    """The functions of the driver that were called, in order. Any thread."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.wanted = set(stages("A call, on the client") + stages("A call, on the server"))
        self.wanted |= set(stages("A cast and a notification") + stages("A subscription"))

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            code = frame.f_code
            module = frame.f_globals.get("__name__", "").removeprefix("amqp1_driver.")
            name = f"{module}:{code.co_qualname}"
            if name in self.wanted:
                self.called.append(name)


@pytest.fixture
def recorder():
    recorder = Recorder()
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    yield recorder
    sys.setprofile(None)
    threading.setprofile(None)


def in_order(expected: list[str], called: list[str]) -> None:
    """Each is called, and after the one before."""
    assert set(expected) <= set(called)
    left = iter(called)
    for name in expected:
        if name not in ANY_TIME:
            assert name in left, f"{name} is not called in this order"


def test_a_call_and_its_reply(recorder, app):
    app.server(Endpoint())
    client = app.client()
    assert client.call({}, "echo", value=1) == 1
    recorder.called.clear()
    assert client.call({}, "echo", value=2) == 2
    on_client, on_server = stages("A call, on the client"), stages("A call, on the server")
    assert (len(on_client), len(on_server)) == (12, 7)
    sent = on_client.index("connection.sender:Sender.link_outcome")
    reply = [
        "connection.connection:Connection.send",
        "connection.router:Router.send",
        "connection.sender:Sender.transmit",
    ]
    in_order([*on_client[:sent], *on_server, *reply, *on_client[sent + 1 :]], recorder.called)


def test_a_notification(recorder, app):
    app.listener(Events())
    notifier = app.notifier()
    notifier.info({}, "event", {})
    recorder.called.clear()
    notifier.info({}, "event", {})
    expected = stages("A cast and a notification")
    assert len(expected) == 7
    in_order(expected, recorder.called)


def test_a_subscription(recorder, app):
    app.server(Endpoint())
    expected = stages("A subscription")
    assert len(expected) == 8
    in_order(expected, recorder.called)
