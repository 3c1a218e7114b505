# SPDX-License-Identifier: Apache-2.0


"""Where tokens come from: the key of the URL, or a function on a thread of its own."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from amqp1_driver import options
from amqp1_driver.client import credentials
from amqp1_driver.eventloop import EventLoop, Future
from amqp1_driver.options import Host, default_settings
from amqp1_driver.policy.tokens import Token

PATIENCE = 20.0
RESOURCE = "sb://ns.servicebus.windows.net/q"


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    found = EventLoop("test")
    found.start()
    yield found
    assert found.stop(PATIENCE)


def fetched(loop: EventLoop, provider: Any, timeout: float = PATIENCE) -> Any:
    """What a provider's source tells, and that it does so on the loop thread."""
    told: Future[Any] = Future()

    def fetch(_: object) -> None:
        source = credentials.ProviderSource(loop, provider, "p:f", timeout)
        source.fetch(RESOURCE, lambda result: told.set_result((result, loop.in_loop())))

    loop.post(fetch)
    result, in_loop = told.result(PATIENCE)
    assert in_loop
    return result


def test_a_key_signs_tokens_at_once() -> None:
    source = credentials.KeySource(Host("h", 5671, "rule", "key"), 60.0)
    told: list[Any] = []
    before = source.wall_clock()
    source.fetch(RESOURCE, told.append)
    [token] = told
    assert token.text.startswith(
        "SharedAccessSignature sr=sb%3A%2F%2Fns.servicebus.windows.net%2Fq&sig="
    )
    assert token.text.endswith("&skn=rule")
    assert before + 59 <= token.expires <= before + 61


def test_a_provider_is_called_on_another_thread(loop: EventLoop) -> None:
    names: list[str] = []

    def provider(resource: str) -> Any:
        names.append(f"{threading.current_thread().name} {resource}")
        return "token", "jwt", 1700000000

    assert fetched(loop, provider) == Token("token", "jwt", 1700000000.0)
    assert names == [f"amqp1-resolver {RESOURCE}"]


@pytest.mark.parametrize(
    ("provider", "reason"),
    [
        (lambda resource: None, "p:f: a token provider must return (token, type, expiry)"),
        (lambda resource: 1 // 0, "p:f: integer division or modulo by zero"),
        (lambda resource: (_ for _ in ()).throw(KeyError()), "p:f: KeyError"),
    ],
)
def test_a_provider_that_fails(loop: EventLoop, provider: Any, reason: str) -> None:
    error = fetched(loop, provider)
    assert isinstance(error, ValueError)
    assert str(error) == reason


def test_a_provider_that_takes_too_long(loop: EventLoop) -> None:
    go = threading.Event()

    def provider(resource: str) -> Any:
        go.wait(PATIENCE)
        return "token", "jwt", 1

    assert str(fetched(loop, provider, timeout=0.2)) == "p:f: no answer within 0.2 s"
    go.set()  # what comes now is dropped


def test_no_thread_to_be_had(loop: EventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    def offload(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(credentials, "offload", offload)
    assert str(fetched(loop, lambda resource: None)) == "p:f: can't start new thread"


HOSTS = (Host("h", 5671),)


def test_what_is_asked_for_has_to_be_there_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    credentials.check(default_settings(), HOSTS)
    credentials.check(
        default_settings(token_provider="time:time", proxy="http://p:1", transport="websocket"),
        HOSTS,
    )
    with pytest.raises(options.InvalidOption, match="option 'token_provider': no_such:thing"):
        credentials.check(default_settings(token_provider="no_such:thing"), HOSTS)
    monkeypatch.setattr(credentials.importlib.util, "find_spec", lambda name: None)
    credentials.check(default_settings(), HOSTS)
    with pytest.raises(options.InvalidOption, match="option 'proxy' needs the package h11"):
        credentials.check(default_settings(proxy="http://p:1"), HOSTS)
    for settings, hosts in (
        (default_settings(transport="websocket"), HOSTS),
        (default_settings(), (Host("h", 443),)),
    ):
        with pytest.raises(options.InvalidOption, match="'transport' needs the package wsproto"):
            credentials.check(settings, hosts)
