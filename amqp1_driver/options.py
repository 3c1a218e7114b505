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

"""Configuration: the options of group ``oslo_messaging_amqp`` and what the driver reads of them.

Importable without proton and without oslo.messaging, for oslo-config-generator. The only user
of oslo.config. Option names are those operators' files carry from the driver that was part of
oslo.messaging until 15.x. All durations are seconds.
"""

import copy
import dataclasses
import os
from typing import Any

from oslo_config import cfg

GROUP = "oslo_messaging_amqp"
PRE_SETTLED = ("rpc-call", "rpc-cast", "rpc-reply", "notify")
#: kinds of messages that may outlive a restart of the broker
DURABLE = ("rpc-cast", "notify")
AMQP_PORT = 5672
AMQPS_PORT = 5671

_OLD_GROUP = "amqp1"
_PRECEDENCE = "The target's exchange comes first, then this option, then control_exchange, then "


def _seconds(name: str, default: float, help: str, minimum: float = 0.001, **kw: Any) -> cfg.Opt:
    return cfg.FloatOpt(name, default=default, min=minimum, help=help, **kw)


def _count(name: str, default: int, help: str, minimum: int = 1, **kw: Any) -> cfg.Opt:
    return cfg.IntOpt(name, default=default, min=minimum, help=help, **kw)


def _text(name: str, default: str | None, help: str, **kw: Any) -> cfg.Opt:
    return cfg.StrOpt(name, default=default, help=help, **kw)


_OLD: dict[str, Any] = {"deprecated_group": _OLD_GROUP}

# fmt: off
_CONNECTION_OPTS = [
    _text("container_name", None, "First part of the container id in the Open frame; what makes "
          "it unique for each process is added.", **_OLD),
    _seconds("idle_timeout", 60.0, "A connection on which nothing was received for this long is "
             "given up, and the peer is told to expect the same of us. 0 turns it off.",
             minimum=0, **_OLD),
    _seconds("connect_timeout", 10.0, "Name resolution, TCP, TLS, SASL and the exchange of Open "
             "frames with one host must be done in this time."),
    cfg.StrOpt("host_selection", default="shuffle", help="Order in which the hosts of the "
               "transport URL are tried.", choices=[
                   ("ordered", "as written, the first host first"),
                   ("shuffle", "in random order, different in each process"),
                   ("round-robin", "as written, beginning at a random host")]),
    _seconds("connection_retry_interval", 1.0, "Pause after all hosts have been tried in vain. Up "
             "to half of each pause is left out at random, so that not all clients come at once."),
    _seconds("connection_retry_backoff", 2.0, "Factor by which the pause grows after each "
             "further vain round through the hosts.", minimum=0),
    _seconds("connection_retry_interval_max", 30.0, "The pause never gets longer than this."),
    _count("max_frame_size", 1048576, "Largest frame in bytes that is offered to the peer.",
           minimum=512, max=4294967295),
    cfg.BoolOpt("trace", default=False, help="Log every AMQP frame (for debugging; shows message "
                "contents).", **_OLD),
]

_SECURITY_OPTS = [
    cfg.BoolOpt("ssl", default=False, help="Connect by TLS. Implied by ssl_ca_file and "
                "ssl_cert_file. The system's CA certificates are used without ssl_ca_file."),
    _text("ssl_ca_file", "", "PEM file with the CA certificates that may have signed the "
          "server's certificate.", **_OLD),
    _text("ssl_cert_file", "", "PEM file with the client certificate (chain) to present.", **_OLD),
    _text("ssl_key_file", "", "PEM file with the private key of ssl_cert_file; not needed when "
          "that file holds the key too.", **_OLD),
    _text("ssl_key_password", None, "Password of an encrypted private key.", secret=True, **_OLD),
    cfg.BoolOpt("ssl_verify_vhost", default=False, help="Expect the name of the virtual host in "
                "the server's certificate (and send it as SNI) instead of the host name of the "
                "transport URL. For servers with one certificate per virtual host."),
    cfg.StrOpt("ssl_min_version", default="TLSv1.2", choices=["TLSv1.2", "TLSv1.3"],
               help="Lowest TLS version to accept."),
    _text("sasl_mechanisms", "", "SASL mechanisms that may be used, separated by blanks. By "
          "default SCRAM or PLAIN with a user in the transport URL, EXTERNAL with a client "
          "certificate and no user, else ANONYMOUS.", **_OLD),
    _text("sasl_config_dir", "", "Directory with the Cyrus SASL configuration.", **_OLD),
    _text("sasl_config_name", "", "Name of the Cyrus SASL configuration file without .conf.",
          **_OLD),
    _text("sasl_default_realm", "", "Realm added to user names that have none (user@realm)."),
]

_DELIVERY_OPTS = [
    _seconds("link_retry_delay", 10.0, "Longest pause before a link that the peer refused or "
             "detached is attached again; the first one is 0.1 s, each further one twice as long."),
    _count("default_reply_retry", 1, "How often a reply is sent again after a recoverable "
           "failure: 0 or 1. Other values, which older files may have, mean 1.", minimum=-1),
    _seconds("default_reply_timeout", 10.0, "Time to deliver an RPC reply in."),
    _seconds("default_send_timeout", 30.0, "Time to deliver an RPC request in when the caller "
             "gives no timeout."),
    _seconds("default_notify_timeout", 30.0, "Time to deliver a notification in."),
    _seconds("default_sender_link_timeout", 600.0, "A sending link that was not used for this "
             "long is detached."),
    cfg.MultiStrOpt("pre_settled", default=[], help="Kinds of messages that are sent without "
                    "waiting for the peer to take them. A message may then be lost unnoticed: a "
                    "router drops it in overload. May be repeated. Values: "
                    + ", ".join(PRE_SETTLED) + "."),
    cfg.MultiStrOpt("durable", default=list(DURABLE), help="Kinds of messages that a broker shall "
                    "keep when it restarts; it then takes them over only once they are stored. "
                    "Without effect on routers. May be repeated; an empty value means none. "
                    "Values: " + ", ".join(DURABLE) + "."),
    cfg.BoolOpt("resend_released", default=False, help="Send again, within retry and timeout, "
                "messages that the bus handed back unprocessed (RELEASED, or MODIFIED without "
                "delivery-failed), instead of failing them."),
    _count("reply_link_credit", 200, "Replies the peer may send ahead."),
    _count("rpc_server_credit", 100, "Requests the peer may send ahead to each subscription of "
           "an RPC server; more are sent as those are settled."),
    _count("notify_server_credit", 100, "Notifications the peer may send ahead to each "
           "subscription."),
    _count("reply_backlog", 1000, "Replies that may wait unsent before those who reply have to "
           "wait too."),
    _count("mailbox_size", 10000, "Operations that may wait for the I/O thread before callers "
           "have to wait too."),
    _seconds("blocked_warning_interval", 10.0, "How often to warn of an address for which the "
             "bus gives no credit."),
    _count("duplicate_window", 1024, "How many message ids each subscription remembers to drop "
           "messages that are delivered twice; 0 turns it off.", minimum=0),
    cfg.StrOpt("compression", default="", choices=[("", "none"), ("gzip", "gzip")],
               help="Compress the bodies of large messages. All receivers must know how."),
    _count("compression_threshold", 16384, "Bodies of fewer bytes are not compressed.", minimum=0),
]

_ADDRESSING_OPTS = [
    cfg.StrOpt("addressing_mode", default="dynamic", help="Syntax of addresses.", choices=[
        ("dynamic", "as fits the message bus, known from what it says when it connects"),
        ("legacy", "names with prefixes, for brokers such as qpidd"),
        ("routable", "paths, for routers such as qpid-dispatch and skupper"),
        ("rabbitmq", "queues and exchanges of RabbitMQ 4")]),
    cfg.BoolOpt("pseudo_vhost", default=True, help="Make the virtual host of the transport URL a "
                "part of each address. Turn it off for a bus that has virtual hosts itself: they "
                "are asked for in the Open frame then."),
    _text("server_request_prefix", "exclusive", "Legacy addresses: prefix of one server.", **_OLD),
    _text("broadcast_prefix", "broadcast", "Legacy addresses: prefix of all servers.", **_OLD),
    _text("group_request_prefix", "unicast", "Legacy addresses: prefix of any one server of a "
          "group.", **_OLD),
    _text("rpc_address_prefix", "openstack.org/om/rpc", "Routable addresses: prefix for RPC."),
    _text("notify_address_prefix", "openstack.org/om/notify", "Routable addresses: prefix for "
          "notifications."),
    _text("multicast_address", "multicast", "Routable addresses: word for all servers."),
    _text("unicast_address", "unicast", "Routable addresses: word for one server."),
    _text("anycast_address", "anycast", "Routable addresses: word for any one of a group."),
    _text("default_notification_exchange", None, "Exchange in addresses of notifications. "
          + _PRECEDENCE + "'notify'."),
    _text("default_rpc_exchange", None, "Exchange in addresses of RPC. " + _PRECEDENCE + "'rpc'."),
    _seconds("queue_expiry", 1800.0, "RabbitMQ deletes a queue for RPC, or of a notification "
             "pool, that nobody has used for this long.", minimum=1),
]
# fmt: on

OPTS: list[cfg.Opt] = [*_CONNECTION_OPTS, *_SECURITY_OPTS, *_DELIVERY_OPTS, *_ADDRESSING_OPTS]
_BY_NAME: dict[str, cfg.Opt] = {opt.dest: opt for opt in OPTS}


class InvalidOption(cfg.Error, ValueError):  # type: ignore[misc]
    """An option is unknown or has a value that cannot be used; the text names the option."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Checked values of all options, for any thread. Durations in seconds, sizes in bytes."""

    container_name: str | None
    idle_timeout: float
    connect_timeout: float
    host_selection: str
    connection_retry_interval: float
    connection_retry_backoff: float
    connection_retry_interval_max: float
    max_frame_size: int
    trace: bool
    ssl: bool
    ssl_ca_file: str
    ssl_cert_file: str
    ssl_key_file: str
    ssl_key_password: str | None = dataclasses.field(repr=False)
    ssl_verify_vhost: bool
    ssl_min_version: str
    sasl_mechanisms: str
    sasl_config_dir: str
    sasl_config_name: str
    sasl_default_realm: str
    link_retry_delay: float
    default_reply_retry: int
    default_reply_timeout: float
    default_send_timeout: float
    default_notify_timeout: float
    default_sender_link_timeout: float
    pre_settled: frozenset[str]
    durable: frozenset[str]
    resend_released: bool
    reply_link_credit: int
    rpc_server_credit: int
    notify_server_credit: int
    reply_backlog: int
    mailbox_size: int
    blocked_warning_interval: float
    duplicate_window: int
    compression: str
    compression_threshold: int
    addressing_mode: str
    pseudo_vhost: bool
    server_request_prefix: str
    broadcast_prefix: str
    group_request_prefix: str
    rpc_address_prefix: str
    notify_address_prefix: str
    multicast_address: str
    unicast_address: str
    anycast_address: str
    default_notification_exchange: str | None
    default_rpc_exchange: str | None
    queue_expiry: float

    @property
    def tls(self) -> bool:
        """Whether to connect by TLS: asked for, or implied by a CA or client certificate."""
        return bool(self.ssl or self.ssl_ca_file or self.ssl_cert_file)


@dataclasses.dataclass(frozen=True, slots=True)
class Host:
    """One host of the transport URL. ``str()`` is ``hostname:port``, without credentials."""

    hostname: str
    port: int
    username: str | None = None
    password: str | None = dataclasses.field(default=None, repr=False)

    def __str__(self) -> str:
        name = f"[{self.hostname}]" if ":" in self.hostname else self.hostname
        return f"{name}:{self.port}"


def register_opts(conf: Any) -> None:
    """Register the options with a ConfigOpts; doing so again does nothing."""
    conf.register_opts(OPTS, group=GROUP)


def register_upstream_groups(conf: Any) -> None:
    """Register the groups that oslo.messaging reads from a transport's configuration.

    It registers them with the global configuration only, so that an application with a
    ConfigOpts of its own would get NoSuchOptError on its first call.
    """
    from amqp1_driver import compat

    for group, opts in compat.upstream_groups():
        for opt in opts:
            try:
                conf.register_opt(opt, group=group)
            except cfg.DuplicateOptError:
                continue  # the application's own definition of it is as good


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Entry point ``oslo.config.opts``."""
    return [(GROUP, copy.deepcopy(OPTS))]


def default_settings(**changes: Any) -> Settings:
    """Settings as they are without configuration, with ``changes`` (tests and tools)."""
    values = {name: opt.default for name, opt in _BY_NAME.items()}
    return _checked({**values, **changes})


def load(conf: Any, url: Any) -> Settings:
    """Read the options; those in the query of the transport URL override the configuration.

    :param conf: a ConfigOpts, not necessarily the global one.
    :param url: an oslo_messaging.TransportURL.
    :raises InvalidOption: unknown option in the URL, or a value that cannot be used.
    """
    from amqp1_driver import compat

    register_opts(conf)
    _check_query(url)
    group = compat.ConfigOptsProxy(conf, url, GROUP)[GROUP]
    return _checked({name: group[name] for name in _BY_NAME})


def hosts(url: Any, settings: Settings) -> tuple[Host, ...]:
    """Hosts of the transport URL in the order written; localhost when it names none.

    The default realm is added to user names without one.
    """
    port = AMQPS_PORT if settings.tls else AMQP_PORT
    found = tuple(
        Host(
            hostname=entry.hostname or "localhost",
            port=port if entry.port is None else int(entry.port),
            username=_with_realm(entry.username, settings.sasl_default_realm),
            password=entry.password,
        )
        for entry in url.hosts
    )
    return found or (Host("localhost", port),)


def virtual_host(url: Any) -> str | None:
    """Virtual host of the transport URL, None when it has none."""
    return url.virtual_host or None


def default_exchange_for(conf: Any) -> str | None:
    """Value of oslo.messaging's ``control_exchange``, None when it is not registered or empty."""
    try:
        return conf.control_exchange or None
    except cfg.NoSuchOptError:
        return None


def redacted(url: Any) -> str:
    """The transport URL for logs and errors: no credentials, no values of the query."""
    places = ",".join(
        f"{entry.hostname or 'localhost'}" + (f":{entry.port}" if entry.port else "")
        for entry in url.hosts
    )
    query = "?" + "&".join(url.query) if url.query else ""
    return f"{url.transport}://{places}/{url.virtual_host or ''}{query}"


def _with_realm(username: str | None, realm: str) -> str | None:
    if username and realm and "@" not in username:
        return f"{username}@{realm}"
    return username or None


def _check_query(url: Any) -> None:
    """Name the option at fault, which the errors of oslo.messaging do not always do."""
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
    """Normalise and check what the types of the options cannot.

    :raises InvalidOption: naming the option.
    """
    for name, value in values.items():
        if value is None and isinstance(_BY_NAME[name].default, str):
            values[name] = ""
        elif isinstance(_BY_NAME[name], cfg.FloatOpt):
            values[name] = float(value)
    settings = Settings(
        **{
            **values,
            "container_name": values["container_name"] or None,
            "pre_settled": _kinds("pre_settled", values["pre_settled"], PRE_SETTLED),
            "durable": _kinds("durable", values["durable"], DURABLE),
            # A dead reply address must not cost a server more than one further attempt.
            "default_reply_retry": min(abs(values["default_reply_retry"]), 1),
        }
    )
    _check_files(settings)
    return settings


def _kinds(option: str, value: Any, possible: tuple[str, ...]) -> frozenset[str]:
    """Repeated values in a file, one string with commas in a URL."""
    entries = [value] if isinstance(value, str) else value
    names = {name.strip() for entry in entries for name in entry.split(",")} - {""}
    unknown = sorted(names - set(possible))
    if unknown:
        raise InvalidOption(
            f"option {option!r}: unknown value {', '.join(unknown)}; "
            f"possible values are {', '.join(possible)}"
        )
    return frozenset(names)


def _check_files(settings: Settings) -> None:
    if settings.ssl_key_file and not settings.ssl_cert_file:
        raise InvalidOption("option 'ssl_key_file' is set but 'ssl_cert_file' is not")
    for name in ("ssl_ca_file", "ssl_cert_file", "ssl_key_file"):
        path = getattr(settings, name)
        if path and not os.path.isfile(path):
            raise InvalidOption(f"option {name!r}: there is no file {path}")
    path = settings.sasl_config_dir
    if path and not os.path.isdir(path):
        raise InvalidOption(f"option 'sasl_config_dir': there is no directory {path}")
