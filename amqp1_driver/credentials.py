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


"""Where tokens come from: the key in the transport URL, or a function of the operator's.

Lives on the I/O thread; the function is called on threads of its own, since it may wait for
some service to make the token.
"""

import importlib.util
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from amqp1_driver.eventloop import EventLoop, offload
from amqp1_driver.options import Host, InvalidOption, Settings
from amqp1_driver.policy import tokens
from amqp1_driver.policy.tokens import Provider, Token

LOG = logging.getLogger(__name__)

Done = Callable[[Token | Exception], None]


def check(settings: Settings, hosts: tuple[Host, ...]) -> None:
    """What the options ask for has to be there when the service starts, not when it connects.

    :raises InvalidOption: a function can't be loaded, or a package is missing
    """
    if settings.token_provider:
        try:
            tokens.provider(settings.token_provider)
        except ValueError as error:
            raise InvalidOption(f"option 'token_provider': {error}") from error
    wanted = {"transport": ("wsproto", any(settings.websocket(host.port) for host in hosts)),
              "proxy": ("h11", bool(settings.proxy))}
    for option, (package, needed) in wanted.items():
        if needed and importlib.util.find_spec(package) is None:
            raise InvalidOption(f"option {option!r} needs the package {package}, which the extra "
                                "'websocket' of this one installs")


class KeySource:
    """Signs tokens with the key of a shared access policy.

    :param host: user and password are the name of the policy and its key
    :param life: of each token, seconds
    """

    wall_clock = staticmethod(time.time)

    def __init__(self, host: Host, life: float) -> None:
        self._rule = host.username or ""
        self._key = host.password or ""
        self._life = life

    def fetch(self, resource: str, done: Done) -> None:
        done(tokens.sas(resource, self._rule, self._key, self.wall_clock(), self._life))


class ProviderSource:
    """Asks a function for each token.

    :param name: of the function, for errors
    :param timeout: for each, seconds; what comes later is dropped
    """

    wall_clock = staticmethod(time.time)

    def __init__(self, loop: EventLoop, provider: Provider, name: str, timeout: float) -> None:
        self._loop = loop
        self._provider = provider
        self._name = name
        self._timeout = timeout

    def fetch(self, resource: str, done: Done) -> None:
        _Asked(self._loop, self._name, self._timeout, done).ask(
            lambda: tokens.checked(self._provider(resource)))


class _Asked:
    """One call of the function: the first end counts."""

    def __init__(self, loop: EventLoop, name: str, timeout: float, done: Done) -> None:
        self._loop = loop
        self._name = name
        self._done: Done | None = done
        self._timer = loop.call_later(timeout, partial(self._end, TimeoutError(
            f"no answer within {timeout:g} s")))

    def ask(self, work: Callable[[], Token]) -> None:
        try:
            offload(work, partial(self._loop.post, self._end))
        except RuntimeError as error:  # out of threads
            self._loop.call_later(0.0, partial(self._end, error))

    def _end(self, result: Any) -> None:
        done, self._done = self._done, None
        if done is None:
            return
        self._timer.cancel()
        if isinstance(result, Exception):
            result = ValueError(f"{self._name}: {str(result) or type(result).__name__}")
        done(result)
