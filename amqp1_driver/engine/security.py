# SPDX-License-Identifier: Apache-2.0

"""SASL and Open frame parameters from the configuration; pure, for any thread."""

from typing import Any

from amqp1_driver.addressing.peer import forced_profile
from amqp1_driver.engine.sasl_guard import CLEAR
from amqp1_driver.options import Host, Settings

#: mechanisms for a user with a password, the strongest first; ANONYMOUS must not replace them
_WITH_PASSWORD = ("SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN")


def mechanisms(settings: Settings, host: Host) -> tuple[str, ...]:
    """Return the SASL mechanisms that the driver may use with a host, in upper case.

    The option ``sasl_mechanisms`` names them. Without that option the first of these cases decides:

    - a bus that wants tokens after SASL: ANONYMOUS;
    - a user in the transport URL: the mechanisms with a password;
    - a client certificate: EXTERNAL, or ANONYMOUS if the bus does not offer EXTERNAL;
    - otherwise ANONYMOUS.

    Without TLS, the mechanisms that expose the password are left out unless :func:`clear_allowed`
    permits them.
    """
    names = _chosen(settings, host)
    if settings.tls or clear_allowed(settings, host):
        return names
    return tuple(name for name in names if name not in CLEAR)


def clear_allowed(settings: Settings, host: Host) -> bool:
    """Return whether a host may get the password in clear if there is no TLS.

    A host that is not in the transport URL, but in a redirect, never gets the password in clear.
    """
    return settings.security.sasl_allow_insecure_mechs and not host.foreign


def _chosen(settings: Settings, host: Host) -> tuple[str, ...]:
    """Return the mechanisms as :func:`mechanisms` does, but regardless of TLS."""
    if settings.security.sasl_mechanisms:
        return tuple(settings.security.sasl_mechanisms.upper().split())
    profile = forced_profile(settings.addressing.addressing_mode)
    if profile is not None and profile.needs_tokens:
        return ("ANONYMOUS",)
    if host.username:
        return _WITH_PASSWORD
    return ("EXTERNAL", "ANONYMOUS") if settings.security.ssl_cert_file else ("ANONYMOUS",)


def anonymous(settings: Settings, host: Host) -> bool:
    """Return whether SASL does not identify the driver: ANONYMOUS is the only mechanism."""
    return mechanisms(settings, host) == ("ANONYMOUS",)


def external(names: tuple[str, ...]) -> bool:
    """Return whether the client certificate is the identity.

    proton does not see the certificate, so :class:`ExternalSasl` has to make the exchange.
    """
    return names in (("EXTERNAL",), ("EXTERNAL", "ANONYMOUS"))


def engine_properties(settings: Settings, host: Host, virtual_host: str | None) -> dict[str, Any]:
    """Return the connection properties for :class:`Engine`, which include those of pyngus.

    :param virtual_host: ``hostname`` field of the Open frame; None: the name of the host
    :returns: no SASL properties if :func:`external` is true
    """
    properties: dict[str, Any] = {
        "hostname": virtual_host or host.hostname,
        "max-frame-size": settings.connection.max_frame_size,
        "x-max-message-size": settings.delivery.max_message_size,
    }
    if settings.delivery.session_window:
        properties["x-session-window"] = settings.delivery.session_window
    if settings.connection.idle_timeout:
        properties["idle-time-out"] = settings.connection.idle_timeout
    if settings.connection.trace:
        properties["x-trace-protocol"] = True
    names = mechanisms(settings, host)
    if external(names):
        return properties
    properties["x-sasl-mechs"] = " ".join(names)
    if host.username and not anonymous(settings, host):
        properties["x-username"] = host.username
        properties["x-password"] = host.password or ""
        if not settings.tls:
            properties["x-password-in-clear"] = clear_allowed(settings, host)
    if settings.security.sasl_config_dir:
        properties["x-sasl-config-dir"] = settings.security.sasl_config_dir
    if settings.security.sasl_config_name:
        properties["x-sasl-config-name"] = settings.security.sasl_config_name
    return properties
