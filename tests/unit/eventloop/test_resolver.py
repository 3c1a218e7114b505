# SPDX-License-Identifier: Apache-2.0

import socket
import threading
from functools import partial
from typing import Any

import pytest

from amqp1_driver.eventloop import Future
from amqp1_driver.eventloop.dial import lookup
from amqp1_driver.eventloop.runtime import offload
from tests.unit.eventloop.helpers import PATIENCE


def resolved(host: str, port: int) -> Any:
    future: Future[Any] = Future()
    offload(partial(lookup, host, port), future.set_result)
    return future.result(PATIENCE)


def test_addresses_come_in_the_form_of_getaddrinfo() -> None:
    [(family, kind, _, _, address)] = resolved("127.0.0.1", 5672)
    assert family == socket.AF_INET
    assert kind == socket.SOCK_STREAM
    assert address == ("127.0.0.1", 5672)


def test_a_failure_is_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    error = resolved("nowhere.invalid", 5672)
    assert isinstance(error, socket.gaierror)


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "a..example"])
def test_a_host_that_is_no_name_is_an_error_like_others(host: str) -> None:
    assert isinstance(resolved(host, 5672), OSError)


def test_the_work_is_done_on_a_short_lived_daemon_thread() -> None:
    future: Future[Any] = Future()
    offload(threading.current_thread, future.set_result)
    thread = future.result(PATIENCE)
    assert thread is not threading.current_thread()
    assert thread.daemon
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_delivery_that_fails_is_nobodys_business(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", seen.append)
    threads: list[threading.Thread] = []

    def deliver(thread: Any) -> None:
        threads.append(thread)
        delivered.set()
        raise RuntimeError

    delivered = threading.Event()
    offload(threading.current_thread, deliver)
    assert delivered.wait(PATIENCE)
    threads[0].join(PATIENCE)
    assert seen == []
