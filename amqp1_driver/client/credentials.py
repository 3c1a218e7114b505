# SPDX-License-Identifier: Apache-2.0


"""The sources of tokens: the key in the transport URL, or a function that the operator provides.

Lives on the I/O thread. The function runs on threads of its own, since it may wait for the
service that makes the token.
"""

import importlib.util
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from amqp1_driver import exceptions
from amqp1_driver.eventloop import offload
from amqp1_driver.eventloop.guard import Guard
from amqp1_driver.options import Host, InvalidOption, Settings
from amqp1_driver.policy import tokens
from amqp1_driver.policy.tokens import Provider, Token

LOG = exceptions.logger(__name__)

Done = Callable[[Token | Exception], None]


def check(settings: Settings, hosts: tuple[Host, ...]) -> None:
    """Check at the service's start that the token function and the packages in use are installed.

    Otherwise the error would show only when the service connects. Application threads.

    :raises InvalidOption: the function can't be loaded, or a package is missing
    """
    if settings.servicebus.token_provider:
        try:
            tokens.provider(settings.servicebus.token_provider)
        except ValueError as error:
            raise InvalidOption(f"option 'token_provider': {error}") from error
    wanted = {
        "transport": ("wsproto", any(settings.tunnel.websocket(host.port) for host in hosts)),
        "proxy": ("h11", bool(settings.tunnel.proxy)),
    }
    for option, (package, needed) in wanted.items():
        if needed and importlib.util.find_spec(package) is None:
            raise InvalidOption(
                f"option {option!r} needs the package {package}, which the extra "
                "'websocket' of this one installs"
            )


class KeySource:
    """A token source that signs tokens with the key of a shared access policy.

    :param host: a host whose user and password are the policy's name and key
    :param life: life of each token, seconds
    """

    wall_clock = staticmethod(time.time)

    def __init__(self, host: Host, life: float) -> None:
        self._rule = host.username or ""
        self._key = host.password or ""
        self._life = life

    def fetch(self, resource: str, done: Done) -> None:
        done(tokens.sas(resource, self._rule, self._key, self.wall_clock(), self._life))


class ProviderSource:
    """A token source that calls the operator's function for each token.

    :param provider: the operator's function
    :param name: name of the function, for errors
    :param timeout: limit for each call, seconds; the source drops a later result
    """

    wall_clock = staticmethod(time.time)

    def __init__(self, loop: Guard, provider: Provider, name: str, timeout: float) -> None:
        self._loop = loop
        self._provider = provider
        self._name = name
        self._timeout = timeout

    def fetch(self, resource: str, done: Done) -> None:
        _Asked(self._loop, self._name, self._timeout, done).ask(
            lambda: tokens.checked(self._provider(resource))
        )


class _Asked:
    """One call of the function; the first of result, error and time-out ends it."""

    def __init__(self, loop: Guard, name: str, timeout: float, done: Done) -> None:
        self._loop = loop
        self._name = name
        self._done: Done | None = done
        self._timer = loop.call_later(
            timeout, partial(self._end, TimeoutError(f"no answer within {timeout:g} s"))
        )

    def ask(self, work: Callable[[], Token]) -> None:
        try:
            offload(work, partial(self._loop.post, self._end))
        except RuntimeError as error:  # no thread can be started
            self._loop.call_later(0.0, partial(self._end, error))

    def _end(self, result: Any) -> None:
        done, self._done = self._done, None
        if done is None:
            return
        self._timer.cancel()
        if isinstance(result, Exception):
            result = ValueError(f"{self._name}: {str(result) or type(result).__name__}")
        done(result)
