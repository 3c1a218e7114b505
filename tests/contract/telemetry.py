# SPDX-License-Identifier: Apache-2.0

"""What an application's messages become as records, on whatever bus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import oslo_messaging
import pytest

from tests.contract.apps import App, Endpoint, Events

#: that of the call which times out, seconds
SHORT = 0.5


def lines(folder: Path) -> list[dict[str, Any]]:
    """Records of all finished files, in the order in which they were written."""
    files = sorted(folder.iterdir()) if folder.exists() else []
    return [
        json.loads(line)
        for file in files
        if file.name[0] != "."
        for line in file.read_text().splitlines()
    ]


def some_of_each(app: App) -> None:
    """A call, a cast, a fanout, a call that fails, one that times out, a notification."""
    endpoint, events = Endpoint(), Events()
    transport = app.transport()
    app.server(endpoint, transport=transport)
    client = app.client(transport=transport)
    assert client.call({}, "echo", value=1) == 1
    client.cast({}, "echo", value=2)
    client.prepare(fanout=True).cast({}, "echo", value=3)
    with pytest.raises(oslo_messaging.RemoteError):
        client.call({}, "expected")
    with pytest.raises(oslo_messaging.MessagingTimeout):
        client.prepare(timeout=SHORT).call({}, "wait", value=4)
    endpoint.gate.set()
    assert sorted(endpoint.take() for _ in range(4)) == [1, 2, 3, 4]
    app.listener(events, transport=app.transport())
    app.notify("payload", transport=app.transport())
    assert events.take() == "payload"
    app.close()


def check(records: list[dict[str, Any]], late_reply: str = "accepted") -> None:
    """All records of ``some_of_each``, whose durations fit together.

    :param late_reply: outcome of the reply to the call that has timed out
    """
    sends = [r for r in records if r["kind"] == "send"]
    assert [(r["operation"], r["outcome"], r.get("error"), r.get("stage")) for r in sends] == [
        ("call", "accepted", None, None),
        ("cast", "accepted", None, None),
        ("fanout", "accepted", None, None),
        ("call", "accepted", None, None),
        ("call", "timeout", "DeadlineExpired", "reply"),
        ("notification", "accepted", None, None),
    ]
    replies = [r for r in records if r["kind"] == "reply"]
    assert [(r["operation"], r["outcome"]) for r in replies] == [
        ("reply", "accepted"),
        ("reply", "accepted"),
        ("reply", late_reply),
    ]
    # a reply names the message that it answers
    asked = [r["message_id"] for r in sends if r["operation"] == "call"]
    assert sorted(r["message_id"] for r in replies) == sorted(asked)
    for record in sends:
        assert record["handover_us"] + record["wait_us"] <= record["total_us"]
        assert ("reply_us" in record) == (
            record["operation"] == "call" and record["outcome"] == "accepted"
        )
        assert ("ack_us" in record) or record["operation"] == "call"
        assert record["size"] > 50
    late = next(r for r in sends if r["outcome"] == "timeout")
    assert SHORT * 1e6 <= late["total_us"] < 10e6
    states = [r["state"] for r in records if r["kind"] == "connection"]
    assert {state: states.count(state) for state in set(states)} == dict.fromkeys(
        ("connecting", "opening", "attaching", "ready", "closing", "closed"), 3
    )
    assert {r["state"] for r in records if r["kind"] == "link"} >= {
        "attaching",
        "attached",
        "detaching",
        "detached",
    }
    assert {r["dropped"] for r in records} == {0}
    assert len({r["container"] for r in records}) == 3  # a connection of each transport
