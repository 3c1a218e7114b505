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

"""What can go wrong with loops and sockets. Nothing here knows AMQP."""

from collections.abc import Sequence


class LoopClosed(Exception):
    """The event loop has stopped or died: nothing can be handed to it any more.

    ``cause`` is the exception that killed the loop, None after an orderly stop. It is also
    the ``__cause__``, so that a traceback shows it.
    """

    def __init__(self, message: str, cause: BaseException | None = None) -> None:
        super().__init__(message if cause is None else f"{message}: {cause!r}")
        self.cause = cause
        self.__cause__ = cause


class MailboxFull(Exception):
    """The mailbox had no room within the time given."""


class Cancelled(Exception):
    """The result of a future that was cancelled was asked for."""


class ConnectError(Exception):
    """No connection could be made.

    ``failures`` holds (address, exception) for every address that was tried; it is empty
    when the name did not resolve or nothing could be tried in time.
    """

    def __init__(
        self,
        host: str,
        port: int,
        reason: str,
        failures: Sequence[tuple[str, Exception]] = (),
    ) -> None:
        tried = "; ".join(f"{address}: {describe(exc)}" for address, exc in failures)
        text = f"{join_host_port(host, port)}: {reason}" + (f" ({tried})" if tried else "")
        super().__init__(text)
        self.host = host
        self.port = port
        self.reason = reason
        self.failures = tuple(failures)


class TlsError(Exception):
    """TLS could not be set up or broke down; ``reason`` is for humans.

    ``host`` and ``port`` are filled in by the transport, which knows them.
    """

    def __init__(self, reason: str, host: str | None = None, port: int | None = None) -> None:
        super().__init__(_tls_text(reason, host, port))
        self.reason = reason
        self.host = host
        self.port = port

    def at(self, host: str, port: int) -> "TlsError":
        """The same error, naming the peer."""
        error = TlsError(self.reason, host, port)
        error.__cause__ = self.__cause__ or self
        return error


class Disconnected(Exception):
    """An established connection was lost; ``reason`` is for humans."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(f"{join_host_port(host, port)}: {reason}")
        self.host = host
        self.port = port
        self.reason = reason


def describe(exc: BaseException) -> str:
    """The text of an exception in a few words: an OSError's strerror, else its str()."""
    if isinstance(exc, OSError) and exc.strerror:
        return exc.strerror
    return str(exc) or type(exc).__name__


def join_host_port(host: str, port: int | None) -> str:
    """``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _tls_text(reason: str, host: str | None, port: int | None) -> str:
    return reason if host is None else f"{join_host_port(host, port)}: TLS: {reason}"
