# SPDX-License-Identifier: Apache-2.0

"""Explanations of connection failures in terms of the configuration; pure, for any thread."""

import copy

from amqp1_driver import exceptions
from amqp1_driver.engine.security import anonymous, clear_allowed, mechanisms
from amqp1_driver.options import Host, Settings

#: first byte of a TLS record that holds an alert (RFC 8446, 5.1)
_TLS_ALERT = b"\x15"
_AMQP_HEADER = b"A"
#: text of the event loop's error for a reset during the TLS handshake
_BROKEN_OFF = "the peer broke off the handshake"
#: end of proton's text for a SASL failure before any mechanism was chosen
_NO_MECHANISM = "[mech=none]"


def plain_words(text: str | None, settings: Settings, host: Host) -> str | None:
    """Return the description of a failure, with a clearer text where SASL found no mechanism.

    The clearer text names the mechanisms that the configuration allows. It also names the option
    that forbids PLAIN without TLS, if that option is the reason.

    :param text: the description from proton or the peer; None if there is none
    """
    if text and text.endswith(_NO_MECHANISM):
        allowed = mechanisms(settings, host)
        names = " ".join(allowed) or "none"
        text = f"no SASL mechanism in common with the peer; allowed here: {names}"
        if not (settings.tls or clear_allowed(settings, host) or anonymous(settings, host)):
            why = "redirect_hosts" if host.foreign else "sasl_allow_insecure_mechs"
            text += f"; PLAIN only with TLS ({why})"
    return text


def while_connecting(error: exceptions.AmqpError) -> exceptions.AmqpError:
    """Return the error of an attempt that ended before TCP and TLS were established.

    If the peer broke off the TLS handshake, the error asks whether its port works without TLS. Do
    not call this for a host with which TLS or AMQP has worked before.
    """
    if isinstance(error, exceptions.TlsFailed) and _BROKEN_OFF in error.message:
        return _with(error, "; is this a clear port?")
    return error


def while_opening(
    error: exceptions.AmqpError,
    settings: Settings,
    first: bytes,
    virtual_host: str | None = None,
    known: bool = False,
) -> exceptions.AmqpError:
    """Return the error of an attempt that ended before the peer's Open frame.

    If the failure suggests it, the error asks whether the port is for TLS, or whether the virtual
    host exists. A server that expects TLS answers our AMQP header with a TLS alert, or closes the
    socket. RabbitMQ closes the socket without an error if the virtual host does not exist, or if
    the user may not use it.

    :param first: the first byte that the peer has sent; empty if the peer has sent nothing
    :param virtual_host: the virtual host in our Open frame; None if there was none
    :param known: whether this host has spoken AMQP to us before
    """
    if not settings.tls and not known and first in (b"", _TLS_ALERT):
        return _with(error, "; is this a TLS port?")
    if (
        virtual_host is not None
        and first == _AMQP_HEADER
        and error.condition is None
        and not isinstance(error, exceptions.AuthenticationFailed)
    ):
        return _with(error, f"; is there a virtual host {virtual_host!r}, and may the user use it?")
    return error


def _with(error: exceptions.AmqpError, question: str) -> exceptions.AmqpError:
    """Return a new error with a question at the end of the message; the given error is its cause.

    A TlsFailed keeps its type; any other error becomes a ConnectionFailed.
    """
    kind = type(error) if isinstance(error, exceptions.TlsFailed) else exceptions.ConnectionFailed
    explained = kind(
        f"{error.message}{question}",
        host=error.host,
        condition=error.condition,
        description=error.description,
    )
    explained.__cause__ = error
    return explained


def for_log(error: BaseException, host: str) -> str:
    """Return the text of an error for a log line that already names the host."""
    if isinstance(error, exceptions.AmqpError) and error.host == host:
        error = copy.copy(error)
        error.host = None
    return str(error)
