# SPDX-License-Identifier: Apache-2.0

"""Fixtures of the contract tests: the embedded bus in both modes, applications, a scripted peer."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from amqp1_driver.bus import Bus
from amqp1_driver.testing.peer import ScriptedPeer
from tests.contract import apps


@pytest.fixture(autouse=True)
def _impatient_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The executors of oslo.messaging's servers look for their end once a second only."""
    monkeypatch.setattr("futurist._thread.ThreadWorker.MAX_IDLE_FOR", 0.01)


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    """Closes, in reverse order, what tests have opened."""
    with contextlib.ExitStack() as opened:
        yield opened


@pytest.fixture
def logged() -> Iterator[apps.LogWatch]:
    """What the driver logs, at debug level and above."""
    logger, watch = logging.getLogger("amqp1_driver"), apps.LogWatch()
    before = logger.level
    logger.addHandler(watch)
    logger.setLevel(logging.DEBUG)
    yield watch
    logger.setLevel(before)
    logger.removeHandler(watch)


@pytest.fixture(params=["router", "broker"])
def bus(request: pytest.FixtureRequest) -> Iterator[Bus]:
    """The embedded bus, once as a router and once as a broker."""
    with Bus(request.param) as running:
        yield running


@pytest.fixture
def router() -> Iterator[Bus]:
    with Bus("router") as running:
        yield running


@pytest.fixture
def broker() -> Iterator[Bus]:
    with Bus("broker") as running:
        yield running


@pytest.fixture
def make_bus(stack: contextlib.ExitStack) -> Callable[..., Bus]:
    """Buses with settings of their own."""
    return lambda mode="router", **settings: stack.enter_context(Bus(mode, **settings))


@pytest.fixture
def make_app(stack: contextlib.ExitStack) -> Callable[..., apps.App]:
    """Applications on a bus or peer (by its URL), closed before it is."""

    def make(url: str, **settings: Any) -> apps.App:
        return stack.enter_context(apps.App(url, **settings))

    return make


@pytest.fixture
def app(bus: Bus, make_app: Callable[..., apps.App]) -> apps.App:
    """An application on the embedded bus."""
    return make_app(bus.address)


@pytest.fixture
def make_peer(stack: contextlib.ExitStack) -> Callable[..., ScriptedPeer]:
    """Scripted peers, which answer as a broker does unless told otherwise."""
    return lambda **defaults: stack.enter_context(apps.peer(**defaults))
