# SPDX-License-Identifier: Apache-2.0

"""The options of group ``oslo_messaging_amqp``, and the settings that the driver makes of them.

This package is importable without proton and without oslo.messaging, for oslo-config-generator,
and is the only user of oslo.config. Options keep the names of the driver that was part of
oslo.messaging until 15.x, because operators' files have them. Any thread.
"""

import copy
import dataclasses
import importlib.util
import logging
import os
from typing import Any
from urllib.parse import unquote, urlsplit

from oslo_config import cfg

from amqp1_driver.masking import MASK, masked
from amqp1_driver.options.definitions import (
    DURABLE,
    PRE_SETTLED,
    WEBSOCKET_PORT,
    DeliverySettings,
    SecuritySettings,
    Settings,
    TelemetrySettings,
)

__all__ = [
    "DURABLE",
    "GROUP",
    "OPTS",
    "DeliverySettings",
    "Host",
    "InvalidOption",
    "Settings",
    "TelemetrySettings",
    "default_exchange_for",
    "default_settings",
    "hosts",
    "list_opts",
    "load",
    "parse_proxy",
    "redacted",
    "register_opts",
    "register_upstream_groups",
    "virtual_host",
]

LOG = logging.getLogger(__name__)

GROUP = "oslo_messaging_amqp"
AMQP_PORT = 5672
AMQPS_PORT = 5671
#: path if the option is empty. It is not the option's default: oslo.config would take the dollar
#: for the beginning of a reference to another option
WEBSOCKET_PATH = "/$servicebus/websocket"
#: least value of max_message_size, bytes: fast paths do not check smaller received messages
LEAST_MESSAGE = 65536
#: domains of the hosts of Azure Service Bus, one for each Azure cloud
SERVICE_BUS_DOMAINS = (
    ".servicebus.windows.net",
    ".servicebus.usgovcloudapi.net",
    ".servicebus.chinacloudapi.cn",
    ".servicebus.cloudapi.de",
)

#: options by part of the settings and by field; those of the part ``telemetry`` have a prefix
_PARTS: dict[Any, dict[str, cfg.Opt]] = {
    part: {
        field.name: field.metadata["option"](
            f"telemetry_{field.name}" if part.name == "telemetry" else field.name
        )
        for field in dataclasses.fields(part.type)  # type: ignore[arg-type]
    }
    for part in dataclasses.fields(Settings)
}
OPTS: list[cfg.Opt] = [opt for part in _PARTS.values() for opt in part.values()]
_BY_NAME: dict[str, cfg.Opt] = {opt.dest: opt for opt in OPTS}


class InvalidOption(cfg.Error, ValueError):  # type: ignore[misc]
    """An option that is unknown, or whose value cannot be used; the text names the option."""


@dataclasses.dataclass(frozen=True, slots=True)
class Host:
    """A host of the transport URL, or a proxy. ``str()`` is ``hostname:port``, without secrets."""

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
    names = [(host.hostname or "").lower().rstrip(".") for host in url.hosts]
    of_service_bus = bool(names) and all(name.endswith(SERVICE_BUS_DOMAINS) for name in names)
    if values["addressing_mode"] == "dynamic" and of_service_bus:
        # Its Open frame does not identify Service Bus, and TLS and SASL come before that frame.
        values["addressing_mode"] = "servicebus"
    return _checked(values)


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


def parse_proxy(url: str) -> Host | None:
    """Parse option ``proxy``.

    :returns: None if the option is empty
    :raises InvalidOption: the option cannot be parsed; the text shows no password
    """
    if not url:
        return None
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme != "http" or not parts.hostname or not port or parts.path.strip("/"):
        raise InvalidOption(
            "option 'proxy': a proxy is given as http://HOST:PORT or http://USER:PASSWORD@HOST:PORT"
        )
    username = unquote(parts.username) if parts.username else None
    password = unquote(parts.password) if parts.password else None
    return Host(parts.hostname, port, username, password)


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
        "websocket_path": values["websocket_path"] or WEBSOCKET_PATH,
        "redirect_hosts": tuple(values["redirect_hosts"] or ()),
        "pre_settled": _kinds("pre_settled", values["pre_settled"], PRE_SETTLED),
        "durable": _kinds("durable", values["durable"], DURABLE),
        # A dead reply address must not cost a server more than one further attempt.
        "default_reply_retry": min(abs(values["default_reply_retry"]), 1),
    }
    settings = Settings(
        **{
            part.name: part.type(**{field: values[opt.dest] for field, opt in opts.items()})
            for part, opts in _PARTS.items()
        }
    )
    if 0 < settings.delivery.max_message_size < LEAST_MESSAGE:
        raise InvalidOption(f"option 'max_message_size' must be 0 or at least {LEAST_MESSAGE}")
    _check_files(settings.security)
    parse_proxy(settings.tunnel.proxy)
    if not settings.tunnel.websocket_path.startswith("/"):
        raise InvalidOption("option 'websocket_path' must begin with a slash")
    _check_telemetry(settings.telemetry)
    return settings


def _kinds(option: str, value: Any, possible: tuple[str, ...]) -> frozenset[str]:
    """Return the kinds of messages that an option names.

    The driver in oslo.messaging ignored unknown kinds in ``pre_settled`` too; an error would end
    services that run today. Ignoring a kind there puts no message at risk; in ``durable`` it would.

    :param value: repeated values of a file, or one string with commas of a URL
    :raises InvalidOption: a kind is unknown, and the option is not ``pre_settled``
    """
    entries = [value] if isinstance(value, str) else value
    names = frozenset(name.strip() for entry in entries for name in entry.split(",")) - {""}
    unknown, known = ", ".join(sorted(names.difference(possible))), ", ".join(possible)
    if unknown and option != "pre_settled":
        raise InvalidOption(
            f"option {option!r}: unknown value {unknown}; possible values are {known}"
        )
    if unknown:
        LOG.warning(
            "Option 'pre_settled': unknown value %s is ignored; possible values are %s",
            unknown,
            known,
        )
    return names.intersection(possible)


def _check_files(security: SecuritySettings) -> None:
    if security.ssl_key_file and not security.ssl_cert_file:
        raise InvalidOption("option 'ssl_key_file' is set but 'ssl_cert_file' is not")
    for name in ("ssl_ca_file", "ssl_cert_file", "ssl_key_file"):
        path = getattr(security, name)
        if path and not os.path.isfile(path):
            raise InvalidOption(f"option {name!r}: there is no file {path}")
    path = security.sasl_config_dir
    if path and not os.path.isdir(path):
        raise InvalidOption(f"option 'sasl_config_dir': there is no directory {path}")


def _check_telemetry(telemetry: TelemetrySettings) -> None:
    columns = bool(telemetry.directory) and telemetry.format != "json"
    for option, package, extra, needed in (
        ("telemetry_format", "pyarrow", "telemetry-parquet", columns),
        ("telemetry_port", "prometheus_client", "telemetry", bool(telemetry.port)),
    ):
        if needed and importlib.util.find_spec(package) is None:
            raise InvalidOption(
                f"option {option!r} needs the package {package}: pip install amqp1-driver[{extra}]"
            )
    if telemetry.port and not telemetry.host:
        raise InvalidOption("option 'telemetry_host' is empty")
