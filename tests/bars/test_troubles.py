# SPDX-License-Identifier: Apache-2.0
"""Bar: a host that can't be used is named with the cause, within the timeout; the next is tried.

No password is ever shown.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import oslo_messaging as om
import pytest

from tests.bars.certificates import Authority
from tests.bars.support import Outcome, Transports, outcome
from tests.bars.troubles import OF_HOSTS, OF_SETTINGS, SECRETS, WRONG, Trouble

TIMEOUT = 0.6


@pytest.fixture(autouse=True)
def no_secrets(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], transports: Transports
) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    transports.cleanup()
    shown = caplog.text + "".join(capfd.readouterr())
    assert [secret for secret in SECRETS if secret in shown] == []


@pytest.fixture
def trouble(request: pytest.FixtureRequest, authority: Authority) -> Iterator[Trouble]:
    with request.param(authority) as one:
        yield one


def call(client: Any) -> Outcome:
    return outcome(lambda: client.call({}, "echo", text="hello"))


def assert_refused(
    transports: Transports,
    url: str,
    settings: dict[str, Any],
    host: str,
    cause: str,
    timeout: float = TIMEOUT,
) -> None:
    once = transports.client(url, timeout=10, retry=0, **settings)
    patient = transports.client(url, timeout=timeout, **settings)
    with ThreadPoolExecutor(2) as pool:
        at_once, at_timeout = (
            future.result(20)
            for future in [pool.submit(call, client) for client in (once, patient)]
        )
    assert isinstance(at_timeout.error, om.MessagingTimeout)
    assert timeout <= at_timeout.seconds <= timeout + 0.5
    assert isinstance(at_once.error, om.MessageDeliveryFailure)
    # the next attempt, if the first failed before the message was there: after 1 s at most
    assert at_once.seconds <= timeout + 1.5
    for one in (at_once, at_timeout):
        assert f"host={host}" in one.text
        assert cause in one.text
        assert "message-id=" in one.text
        assert [secret for secret in SECRETS if secret in one.text] == []


def each(troubles: list[Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "trouble", troubles, indirect=True, ids=[trouble.__name__ for trouble in troubles]
    )


@each(OF_HOSTS + OF_SETTINGS)
def test_the_error_names_host_and_cause_within_the_timeout(
    trouble: Trouble, transports: Transports
) -> None:
    assert_refused(
        transports,
        f"amqp://{trouble.host}",
        trouble.settings,
        f"{trouble.name}:{trouble.port}",
        trouble.cause,
    )


@each(OF_HOSTS)
def test_the_next_host_is_tried(trouble: Trouble, transports: Transports) -> None:
    with trouble.good() as bus:
        good = bus.url(host=trouble.good_name).partition("://")[2]
        transports.serve(f"amqp://{good}", **trouble.settings)
        client = transports.client(
            f"amqp://{trouble.host},{good}", timeout=3, host_selection="ordered", **trouble.settings
        )
        first = call(client)
        assert (first.error, first.value) == (None, "hello")
        assert first.seconds <= 1


@pytest.mark.rabbitmq
def test_a_wrong_password_on_rabbitmq(rabbitmq: Any, transports: Transports) -> None:
    # it thinks for 3 s about a wrong password
    assert_refused(
        transports,
        rabbitmq.url(WRONG),
        {},
        f"127.0.0.1:{rabbitmq.port}",
        "authentication failed",
        timeout=4,
    )
