# SPDX-License-Identifier: Apache-2.0

"""Contract: a bug inside costs at most the connection, which is made anew; the I/O thread lives.

Each function of the layers that the loop calls raises once in turn, while a server and a client are
at work and their connections are cut.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable
from typing import Any

import oslo_messaging
import pytest

from amqp1_driver.client import network
from amqp1_driver.connection.connection import Connection
from amqp1_driver.connection.subscription import Subscriptions
from amqp1_driver.driver.listener import Listener
from amqp1_driver.testing.proxy import FaultProxy
from tests.contract.apps import PATIENCE, Endpoint

LAYERS = (Connection, Subscriptions, Listener, network.LoopNetwork, network._Stream)
#: run on threads of the application
NOT_THE_LOOP = {
    (Listener, name)
    for name in (
        "poll",
        "hand_to",
        "control",
        "stop",
        "cleanup",
        "finish",
        "settle",
        "again",
        "forget",
    )
}
#: catch what the others raise, or hold no line that could
GUARDS = {
    (Connection, "abort"),
    (Connection, "broken"),
    (Connection, "give_up"),
    (Connection, "send"),
    (Connection, "settle"),
    (Connection, "settle_all"),
    (Subscriptions, "connection_lost"),
    (network.LoopNetwork, "_failed"),
    (network.LoopNetwork, "before_sleep"),
    (network._Stream, "connection_lost"),
}


class Bug(Exception):
    """What nothing expects."""


def functions() -> list[tuple[type, str]]:
    return [
        (layer, name)
        for layer in LAYERS
        for name, fn in vars(layer).items()
        if inspect.isfunction(fn)
        and name != "__init__"
        and (layer, name) not in NOT_THE_LOOP | GUARDS
    ]


def once(fn: Callable[..., Any], raised: list[str]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def faulty(*args: Any, **kwargs: Any) -> Any:
        if not raised:
            raised.append(fn.__name__)
            raise Bug("raised on purpose")
        return fn(*args, **kwargs)

    return faulty


def served(client: Any) -> bool:
    """Whether a call is answered before the time is over; those before may fail."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            return bool(client.prepare(timeout=1.0).call({}, "echo", value=7) == 7)
        except (oslo_messaging.MessagingTimeout, oslo_messaging.MessageDeliveryFailure):
            pass
    return False


@pytest.mark.parametrize(
    ("layer", "name"), functions(), ids=lambda value: getattr(value, "__name__", value)
)
def test_a_bug_costs_a_connection_and_no_more(router, make_app, logged, monkeypatch, layer, name):
    raised: list[str] = []
    monkeypatch.setattr(layer, name, once(vars(layer)[name], raised))
    with FaultProxy("127.0.0.1", router.port) as proxy:
        app = make_app(f"amqp://127.0.0.1:{proxy.port}", connect_timeout=1.0)
        try:
            app.server(Endpoint())
        except oslo_messaging.MessageDeliveryFailure:
            app.server(Endpoint())  # what the application asked for has failed, and it heard so
        client = app.client()
        assert served(client)
        proxy.cut()
        assert served(client)
    assert logged.said(" died: ") == []
