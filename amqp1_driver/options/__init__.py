# SPDX-License-Identifier: Apache-2.0

"""The options of group ``oslo_messaging_amqp``, and the settings that the driver makes of them.

This package is importable without proton and without oslo.messaging, for oslo-config-generator,
and is the only user of oslo.config. Each other module defines one part of the options and, next to
them, the fields of the settings. Options keep the names of the driver that was part of
oslo.messaging until 15.x, because operators' files have them. All durations are seconds.

Any thread.
"""

import copy
import dataclasses
import logging
import os
from typing import Any, TypeVar

from oslo_config import cfg

from amqp1_driver.masking import MASK, masked
from amqp1_driver.options import (
    addressing,
    connection,
    delivery,
    rabbitmq,
    security,
    servicebus,
    telemetry,
    tunnel,
)
from amqp1_driver.options.addressing import AddressingSettings
from amqp1_driver.options.connection import ConnectionSettings
from amqp1_driver.options.delivery import (
    DURABLE,
    LEAST_MESSAGE,
    PRE_SETTLED,
    DeliverySettings,
)
from amqp1_driver.options.rabbitmq import RabbitmqSettings
from amqp1_driver.options.security import SecuritySettings
from amqp1_driver.options.servicebus import ServiceBusSettings
from amqp1_driver.options.tunnel import WEBSOCKET_PORT, TunnelSettings
from amqp1_driver.telemetry.config import Config

__all__ = [
    "DURABLE",
    "GROUP",
    "OPTS",
    "Host",
    "InvalidOption",
    "Settings",
    "default_exchange_for",
    "default_settings",
    "hosts",
    "list_opts",
    "load",
    "redacted",
    "register_opts",
    "register_upstream_groups",
    "virtual_host",
]

LOG = logging.getLogger(__name__)

_Part = TypeVar("_Part")

GROUP = "oslo_messaging_amqp"
AMQP_PORT = 5672
AMQPS_PORT = 5671

OPTS: list[cfg.Opt] = [
    *connection.OPTS,
    *security.OPTS,
    *delivery.OPTS,
    *addressing.OPTS,
    *rabbitmq.OPTS,
    *tunnel.OPTS,
    *servicebus.OPTS,
    *telemetry.OPTS,
]
_BY_NAME: dict[str, cfg.Opt] = {opt.dest: opt for opt in OPTS}


class InvalidOption(cfg.Error, ValueError):  # type: ignore[misc]
    """An option that is unknown, or whose value cannot be used; the text names the option."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The checked values of all options.  Any thread.  Durations in seconds, sizes in bytes.

    The fields have the names of the options; those of ``telemetry`` lack ``telemetry_`` in front.
    """

    connection: ConnectionSettings
    security: SecuritySettings
    delivery: DeliverySettings
    addressing: AddressingSettings
    rabbitmq: RabbitmqSettings
    tunnel: TunnelSettings
    servicebus: ServiceBusSettings
    telemetry: Config

    @property
    def tls(self) -> bool:
        """Return whether to connect by TLS.

        Option ``ssl`` asks for TLS. A CA or client certificate, WebSocket and Azure Service Bus
        imply it: a key must not go to Azure Service Bus in clear.
        """
        implied = (
            self.tunnel.transport == "websocket" or self.addressing.addressing_mode == "servicebus"
        )
        return bool(
            self.security.ssl or self.security.ssl_ca_file or self.security.ssl_cert_file or implied
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Host:
    """One host of the transport URL. ``str()`` is ``hostname:port``, without credentials."""

    hostname: str
    port: int
    username: str | None = None
    password: str | None = dataclasses.field(default=None, repr=False)
    #: name or address to connect to, if a redirect gave one; None: the host name
    network: str | None = None
    #: True: the host comes from a redirect that option redirect_hosts permits, not from the URL
    foreign: bool = False

    def __str__(self) -> str:
        name = f"[{self.hostname}]" if ":" in self.hostname else self.hostname
        return f"{name}:{self.port}"


def register_opts(conf: Any) -> None:
    """Register the options with a ConfigOpts; a second call does nothing."""
    conf.register_opts(OPTS, group=GROUP)


def register_upstream_groups(conf: Any) -> None:
    """Register the groups that oslo.messaging reads from a transport's configuration.

    oslo.messaging registers them with the global configuration only, so an application with a
    ConfigOpts of its own would get NoSuchOptError on its first call.
    """
    from amqp1_driver import compat

    for group, opts in compat.upstream_groups():
        for opt in opts:
            try:
                conf.register_opt(opt, group=group)
            except cfg.DuplicateOptError:
                continue  # the application has defined the option itself


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options for the entry point ``oslo.config.opts``."""
    return [(GROUP, copy.deepcopy(OPTS))]


def default_settings(**changes: Any) -> Settings:
    """Make the settings without any configuration, with ``changes`` (for tests and tools)."""
    values = {name: opt.default for name, opt in _BY_NAME.items()}
    return _checked({**values, **changes})


def load(conf: Any, url: Any) -> Settings:
    """Read the options; those in the query of the transport URL override the configuration.

    :param conf: a ConfigOpts, not necessarily the global one.
    :param url: an oslo_messaging.TransportURL.
    :raises InvalidOption: the URL has an unknown option, or a value cannot be used.
    """
    from amqp1_driver import compat

    register_opts(conf)
    _check_query(url)
    group = compat.ConfigOptsProxy(conf, url, GROUP)[GROUP]
    values = {name: group[name] for name in _BY_NAME}
    if values["addressing_mode"] == "dynamic" and _all_service_bus(url):
        # Its Open frame does not identify Service Bus, and TLS and SASL come before that frame.
        values["addressing_mode"] = "servicebus"
    return _checked(values)


def _all_service_bus(url: Any) -> bool:
    return bool(url.hosts) and all(servicebus.is_service_bus(h.hostname) for h in url.hosts)


def hosts(url: Any, settings: Settings) -> tuple[Host, ...]:
    """Return the hosts of the transport URL in the order written; localhost if it names none.

    User names without a realm get the default realm.

    :raises InvalidOption: a host of Azure Service Bus has no key, and there is no token provider.
    """
    port = AMQPS_PORT if settings.tls else AMQP_PORT
    if settings.tunnel.transport == "websocket":
        port = WEBSOCKET_PORT
    found = tuple(
        Host(
            hostname=entry.hostname or "localhost",
            port=port if entry.port is None else int(entry.port),
            username=_with_realm(entry.username, settings.security.sasl_default_realm),
            password=entry.password,
        )
        for entry in url.hosts
    )
    found = found or (Host("localhost", port),)
    if (
        settings.addressing.addressing_mode == "servicebus"
        and not settings.servicebus.token_provider
    ):
        for host in found:
            if not host.username or not host.password:
                raise InvalidOption(
                    f"Azure Service Bus at {host} needs the name and the key of a shared access "
                    "policy as user and password in the transport URL, or option 'token_provider'"
                )
    return found


def virtual_host(url: Any) -> str | None:
    """Return the virtual host of the transport URL; None if it has none."""
    return url.virtual_host or None


def default_exchange_for(conf: Any) -> str | None:
    """Return oslo.messaging's option ``control_exchange``; None if unregistered or empty."""
    try:
        return conf.control_exchange or None
    except cfg.NoSuchOptError:
        return None


def redacted(url: Any) -> str:
    """Return the transport URL for logs and errors: no passwords, no values of secret options."""
    try:
        return masked(str(url))
    except ValueError:
        # oslo.messaging reads URLs with a null or half a surrogate pair, but cannot write them
        return f"{url.transport}://{MASK}"


def _with_realm(username: str | None, realm: str) -> str | None:
    if username and realm and "@" not in username:
        return f"{username}@{realm}"
    return username or None


def _check_query(url: Any) -> None:
    """Check the options in the query of the transport URL.

    oslo.messaging checks the values too, but its errors do not always name the option.

    :raises InvalidOption: an option is unknown, or has a wrong value; the text names it
    """
    for name, value in url.query.items():
        opt = _BY_NAME.get(name)
        if opt is None:
            raise InvalidOption(
                f"unknown option {name!r} in the transport URL {redacted(url)}: "
                f"there is no such option in group [{GROUP}]"
            )
        try:
            opt.type(value)
        except ValueError as error:
            raise InvalidOption(
                f"option {name!r} in the transport URL {redacted(url)} has a wrong value: {error}"
            ) from None


def _checked(values: dict[str, Any]) -> Settings:
    """Normalise the values, and check what the types of the options cannot check.

    :raises InvalidOption: a value cannot be used; the text names the option.
    """
    for name, value in values.items():
        if value is None and isinstance(_BY_NAME[name].default, str):
            values[name] = ""
        elif isinstance(_BY_NAME[name], cfg.FloatOpt):
            values[name] = float(value)
    values |= {
        "container_name": values["container_name"] or None,
        "websocket_path": values["websocket_path"] or tunnel.WEBSOCKET_PATH,
        "redirect_hosts": tuple(values["redirect_hosts"] or ()),
        "pre_settled": _known(values["pre_settled"]),
        "durable": _kinds("durable", values["durable"], DURABLE),
        # A dead reply address must not cost a server more than one further attempt.
        "default_reply_retry": min(abs(values["default_reply_retry"]), 1),
    }
    settings = Settings(
        connection=_part(ConnectionSettings, values),
        security=_part(SecuritySettings, values),
        delivery=_part(DeliverySettings, values),
        addressing=_part(AddressingSettings, values),
        rabbitmq=_part(RabbitmqSettings, values),
        tunnel=_part(TunnelSettings, values),
        servicebus=_part(ServiceBusSettings, values),
        telemetry=_part(Config, values, "telemetry_"),
    )
    if 0 < settings.delivery.max_message_size < LEAST_MESSAGE:
        raise InvalidOption(f"option 'max_message_size' must be 0 or at least {LEAST_MESSAGE}")
    _check_files(settings)
    _check_tunnel(settings)
    trouble = telemetry.trouble(settings.telemetry)
    if trouble is not None:
        raise InvalidOption(trouble)
    return settings


def _part(kind: type[_Part], values: dict[str, Any], prefix: str = "") -> _Part:
    """Make one part of the settings.

    :param prefix: prefix of the options' names, which the names of the fields do not have
    """
    names = (field.name for field in dataclasses.fields(kind))  # type: ignore[arg-type]
    return kind(**{name: values[prefix + name] for name in names})


def _check_tunnel(settings: Settings) -> None:
    try:
        tunnel.proxy(settings.tunnel.proxy)
    except ValueError as error:
        raise InvalidOption(f"option 'proxy': {error}") from None
    if not settings.tunnel.websocket_path.startswith("/"):
        raise InvalidOption("option 'websocket_path' must begin with a slash")


def _kinds(option: str, value: Any, possible: tuple[str, ...]) -> frozenset[str]:
    """Return the kinds of messages that an option names.

    :raises InvalidOption: a kind is unknown
    """
    names, unknown = _names(value, possible)
    if unknown:
        raise InvalidOption(
            f"option {option!r}: unknown value {', '.join(unknown)}; "
            f"possible values are {', '.join(possible)}"
        )
    return names


def _names(value: Any, possible: tuple[str, ...]) -> tuple[frozenset[str], list[str]]:
    """Split the value of an option: repeated values in a file, one string with commas in a URL.

    :returns: all names, and the unknown ones in order
    """
    entries = [value] if isinstance(value, str) else value
    names = frozenset(name.strip() for entry in entries for name in entry.split(",")) - {""}
    return names, sorted(names - set(possible))


def _known(value: Any) -> frozenset[str]:
    """Return the kinds of messages that ``pre_settled`` names, without unknown ones.

    The driver in oslo.messaging ignored unknown kinds too; an error would end services that run
    today. Ignoring a kind here puts no message at risk; ignoring one in ``durable`` would.
    """
    names, unknown = _names(value, PRE_SETTLED)
    if unknown:
        LOG.warning(
            "Option 'pre_settled': unknown value %s is ignored; possible values are %s",
            ", ".join(unknown),
            ", ".join(PRE_SETTLED),
        )
    return names - set(unknown)


def _check_files(settings: Settings) -> None:
    if settings.security.ssl_key_file and not settings.security.ssl_cert_file:
        raise InvalidOption("option 'ssl_key_file' is set but 'ssl_cert_file' is not")
    for name in ("ssl_ca_file", "ssl_cert_file", "ssl_key_file"):
        path = getattr(settings.security, name)
        if path and not os.path.isfile(path):
            raise InvalidOption(f"option {name!r}: there is no file {path}")
    path = settings.security.sasl_config_dir
    if path and not os.path.isdir(path):
        raise InvalidOption(f"option 'sasl_config_dir': there is no directory {path}")
