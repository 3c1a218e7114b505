# SPDX-License-Identifier: Apache-2.0
"""What a caller does at the end of its time."""

import time
from types import SimpleNamespace

import pytest

from amqp1_driver import exceptions
from amqp1_driver.client.client import Client
from amqp1_driver.eventloop import futures


def waiting(future):
    """A client, as far as waiting needs it, and an operation whose time has passed."""
    posted = []
    client = SimpleNamespace(
        _hosts="h:5672",
        _context=None,
        posted=posted,
        _connection=SimpleNamespace(status_text=None, cancel="cancel"),
        _post=lambda fn, op: posted.append((fn, op)),
    )
    for name in ("_timed_out", "_doing"):
        setattr(client, name, getattr(Client, name).__get__(client))
    op = SimpleNamespace(
        future=future,
        deadline=SimpleNamespace(at=time.monotonic() - 1),
        stage=SimpleNamespace(value="acknowledgement"),
        queue=None,
        heartbeat=None,
        where="q",
        message_id="m-1",
    )
    return client, op


def test_a_result_that_is_claimed_and_never_written_is_no_reason_to_fail_otherwise(monkeypatch):
    """The process was stopped just there, for longer than anybody waits."""
    monkeypatch.setattr(futures, "CLAIM_TO_RESULT_SECONDS", 0.01)
    future = futures.Future()
    future._claims.pop()
    client, op = waiting(future)
    with pytest.raises(exceptions.DeadlineExpired, match=r"acknowledgement.*message-id=m-1"):
        Client._give_up(client, op, future)
    assert client.posted == [("cancel", op)]


def test_a_result_that_comes_in_the_last_moment_counts():
    future = futures.Future()
    future.set_result("answer")
    client, op = waiting(future)
    assert Client._give_up(client, op, future) == "answer"
