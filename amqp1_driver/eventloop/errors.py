# SPDX-License-Identifier: Apache-2.0

"""The errors of loops and sockets, without AMQP; any thread may raise them."""

from collections.abc import Sequence


class LoopClosed(Exception):
    """The error after an event loop has stopped or died: the loop accepts no more operations.

    :param cause: the exception that ended the loop, None after an orderly stop; it becomes the
        ``__cause__`` too, so that a traceback shows it
    """

    def __init__(self, message: str, cause: BaseException | None = None) -> None:
        super().__init__(message if cause is None else f"{message}: {cause!r}")
        self.cause = cause
        self.__cause__ = cause


class MailboxFull(Exception):
    """The error of a mailbox that had no room within the time given."""


class Cancelled(Exception):
    """The error that Future.result() raises after cancel()."""


class _PeerError(Exception):
    """An error of the connection to a host.

    :param reason: for humans
    :param detail: put behind the reason in the text
    """

    def __init__(self, host: str, port: int, reason: str, detail: str = "") -> None:
        super().__init__(f"{join_host_port(host, port)}: {reason}{detail}")
        self.host = host
        self.port = port
        self.reason = reason


class ConnectError(_PeerError):
    """The error of a connection that could not be made.

    :param failures: (address, exception) for every address that was tried; empty if the name did
        not resolve or if time was up before the first attempt
    """

    def __init__(
        self,
        host: str,
        port: int,
        reason: str,
        failures: Sequence[tuple[str, Exception]] = (),
    ) -> None:
        tried = "; ".join(f"{address}: {describe(exc)}" for address, exc in failures)
        super().__init__(host, port, reason, f" ({tried})" if tried else "")
        self.failures = tuple(failures)


class Disconnected(_PeerError):
    """The error of an established connection that was lost."""


class TlsError(Exception):
    """The error of TLS that could not be set up or broke down.

    :param reason: for humans
    :param host: None until the transport, which knows the peer, fills in ``host`` and ``port``
    """

    def __init__(self, reason: str, host: str | None = None, port: int | None = None) -> None:
        text = reason if host is None else f"{join_host_port(host, port)}: TLS: {reason}"
        super().__init__(text)
        self.reason = reason
        self.host = host
        self.port = port

    def at(self, host: str, port: int) -> "TlsError":
        """Return the same error with the name of the peer."""
        error = TlsError(self.reason, host, port)
        error.__cause__ = self.__cause__ or self
        return error


def describe(exc: BaseException) -> str:
    """Return the text of an exception in a few words: an OSError's strerror, else str()."""
    if isinstance(exc, OSError) and exc.strerror:
        return exc.strerror
    return str(exc) or type(exc).__name__


def join_host_port(host: str, port: int | None) -> str:
    """Return ``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
