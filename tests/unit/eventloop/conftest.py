# SPDX-License-Identifier: Apache-2.0

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from amqp1_driver.eventloop import EventLoop
from tests.unit.eventloop.certificates import Certificates
from tests.unit.eventloop.helpers import PATIENCE


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    event_loop = EventLoop("test")
    event_loop.start()
    yield event_loop
    assert event_loop.stop(PATIENCE)


@pytest.fixture
def resolve_to(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have every name resolve to the given (address, port) pairs."""

    def use(*addresses: tuple[str, int]) -> None:
        def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
            return [
                (
                    socket.AF_INET6 if ":" in address else socket.AF_INET,
                    socket.SOCK_STREAM,
                    socket.IPPROTO_TCP,
                    "",
                    (address, port, 0, 0) if ":" in address else (address, port),
                )
                for address, port in addresses
            ]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    return use


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))
