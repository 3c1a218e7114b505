# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

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
