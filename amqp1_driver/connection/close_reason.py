# SPDX-License-Identifier: Apache-2.0

"""The reasons why physical connections end, as errors and as text for logs.

Lives on the I/O thread; any thread may call :meth:`CloseReason.status_text`.
"""

from collections.abc import Callable

from amqp1_driver import exceptions
from amqp1_driver.connection import diagnosis
from amqp1_driver.connection.hosts import Hosts
from amqp1_driver.connection.states import ConnectionState
from amqp1_driver.options import Settings
from amqp1_driver.policy.redirect import SAME_PLACE, Redirect

_State = ConnectionState

#: the step that a connection attempt waits for, by state
_AWAITED = {
    _State.CONNECTING: "its host name, TCP or TLS",
    _State.OPENING: "SASL and AMQP Open",
    _State.ATTACHING: "the reply link",
}


#: limit of the set of known hosts; a full set is cleared
MAX_KNOWN_HOSTS = 1000


class CloseReason:
    """The reason why the present physical connection ends, and why the last one has ended.

    One object serves all physical connections of a logical connection.

    :param now: the loop's clock, seconds
    """

    def __init__(self, settings: Settings, hosts: Hosts, now: Callable[[], float]) -> None:
        self._settings = settings
        self._hosts = hosts
        self._now = now
        #: why the physical connection has to end; None as long as it may continue
        self.loss: exceptions.AmqpError | None = None
        #: why the last physical connection has ended; None once another is ready
        self.last_error: BaseException | None = None
        self._first = b""
        # hosts that have answered with TLS or AMQP: their ports are right, so errors get no hint
        self._known: set[str] = set()

    @property
    def _host(self) -> str:
        return str(self._hosts.current)

    def begin(self) -> None:
        """Start with a new transport, on which the peer has sent nothing yet.

        With TLS the handshake has succeeded, which makes the host a known one.
        """
        self._first = b""
        if self._settings.tls:
            self._mark_known()

    def first_bytes(self, data: bytes) -> None:
        """Keep the first byte that the peer sends on this transport."""
        if not self._first:
            self._first = bytes(data[:1])
            if self._first == b"A":  # first byte of the AMQP or SASL header
                self._mark_known()

    def _mark_known(self) -> None:
        if len(self._known) >= MAX_KNOWN_HOSTS:  # redirects may name any number of hosts
            self._known.clear()
        self._known.add(self._host)

    # -- reasons to end ------------------------------------------------------------

    def broken(self, error: Exception) -> None:
        """Set :attr:`loss`: the driver's own code has raised ``error``."""
        self.loss = exceptions.ConnectionLost(
            f"internal error: {exceptions.printable(error)}", host=self._host
        )
        self.loss.__cause__ = error

    def virtual_host_refused(self) -> None:
        """Set :attr:`loss`: the peer wants another spelling of the virtual host."""
        self.loss = exceptions.ConnectionLost("virtual host is named anew", host=self._host)

    def closed(
        self, name: str | None, text: str | None, default: type[exceptions.AmqpError]
    ) -> None:
        """Set :attr:`loss`: the peer has closed the connection, or the engine has failed.

        The engine fails, for example, when SASL fails or when the peer sends data that is not
        AMQP.

        :param name: name of the condition (2.8.14); None: there is none
        :param text: description of the condition or failure
        :param default: class of the error, unless the condition stands for another class
        """
        text = diagnosis.plain_words(text, self._settings, self._hosts.current)
        self.loss = exceptions.from_condition(name, text, default=default, host=self._host)

    def follow_connection_redirect(self, redirect: Redirect) -> None:
        """Follow a redirect that the peer has sent in its Close frame.

        If the driver may not follow it, add the reason to the error in :attr:`loss`.
        """
        reason = self._hosts.redirected(redirect, self._now())
        if reason is not None and self.loss is not None:
            self.loss = exceptions.redirect_refused(self.loss, reason)

    def follow(self, redirect: Redirect) -> str | None:
        """Follow a redirect of a link to another host; the whole connection moves there.

        :returns: why the connection stays; None if it moves
        """
        if not redirect.elsewhere(self._hosts.current):
            return SAME_PLACE
        reason = self._hosts.redirected(redirect, self._now())
        if reason is None:
            self.loss = exceptions.ConnectionLost("redirected by a link", host=self._host)
        return reason

    # -- words ---------------------------------------------------------------------

    def timeout_error(self, state: ConnectionState) -> exceptions.AmqpError:
        """Return the error for an attempt that has exceeded the option ``connect_timeout``."""
        doing = _AWAITED.get(state, state.value)
        timeout = self._settings.connection.connect_timeout
        return exceptions.ConnectionFailed(
            f"no answer within {timeout:g} s while waiting for {doing}",
            host=self._host,
        )

    def while_connecting(self, error: exceptions.AmqpError) -> exceptions.AmqpError:
        """Return the error of an attempt that ended before TCP and TLS were up, with a hint.

        The hint names a likely cause. If the host has answered with TLS or AMQP before, there is
        no hint.
        """
        return error if self._host in self._known else diagnosis.while_connecting(error)

    def while_opening(self, error: exceptions.AmqpError) -> exceptions.AmqpError:
        """Return the error of an attempt that ended before the peer's Open, with a likely cause.

        As a side effect the next attempt may spell the virtual host in another way.
        """
        error = diagnosis.while_opening(
            error,
            self._settings,
            self._first,
            self._hosts.virtual_host_name,
            self._host in self._known,
        )
        self._hosts.not_opened()
        return error

    def status_text(self, state: ConnectionState) -> str:
        """Return why the driver can send nothing at present; any thread."""
        awaited, error = _AWAITED.get(state), self.last_error
        host = self._host
        parts = [
            f"{host}: waiting for {awaited}" if awaited else "",
            f"last error: {diagnosis.for_log(error, host if awaited else '')}"
            if error is not None
            else "",
        ]
        return "; ".join(part for part in parts if part)
