# SPDX-License-Identifier: Apache-2.0

"""The definitions of all options, and the settings: the checked values of the options.

Each option is a field of one part of :class:`Settings`. The field has the option's name and the
type of the checked value; its metadata make the option. Any thread.
"""

import dataclasses
import functools
from typing import Any

from oslo_config import cfg

WEBSOCKET_PORT = 443
#: kinds of messages that may be sent settled
PRE_SETTLED = ("rpc-call", "rpc-cast", "rpc-reply", "notify")
#: kinds of messages that may survive a restart of the broker
DURABLE = ("rpc-cast", "notify")

#: arguments of options that the driver in oslo.messaging had in group ``amqp1``
OLD: dict[str, Any] = {"deprecated_group": "amqp1"}

_PRECEDENCE = (
    "The driver uses the target's exchange, else this option, else control_exchange, else "
)
_ALL = " All processes that use the queue need the same value; see the documentation."
_NONE = " 0: no limit."


def option(kind: Any, default: Any, help: str, **kw: Any) -> Any:
    """Return the field for an option; a secret is not shown by ``repr()`` of the settings.

    :param kind: class of the option
    :param kw: further arguments of that class
    """
    make = functools.partial(kind, default=default, help=help, **kw)
    return dataclasses.field(repr=not kw.get("secret"), metadata={"option": make})


def seconds(default: float, help: str, minimum: float = 0.001, **kw: Any) -> Any:
    return option(cfg.FloatOpt, default, help, min=minimum, **kw)


def count(default: int, help: str, minimum: int = 1, **kw: Any) -> Any:
    return option(cfg.IntOpt, default, help, min=minimum, **kw)


text = functools.partial(option, cfg.StrOpt)
flag = functools.partial(option, cfg.BoolOpt)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConnectionSettings:
    """Hosts, connections, frames."""

    container_name: str | None = text(
        None,
        "First part of the container id in the Open frame. The driver adds parts that make the id "
        "unique for each process. Default: the name of the program.",
        **OLD,
    )
    idle_timeout: float = seconds(
        60.0,
        "Time in seconds without any data from the peer after which the driver gives up a "
        "connection. The driver announces the limit to the peer. 0: no limit.",
        minimum=0,
        **OLD,
    )
    connect_timeout: float = seconds(
        10.0,
        "Time limit in seconds for connecting to one host: name resolution, TCP, TLS, SASL and "
        "the exchange of Open frames.",
    )
    host_selection: str = text(
        "shuffle",
        "Order in which the driver tries the hosts of the transport URL.",
        choices=[
            ("ordered", "as written, the first host first"),
            ("shuffle", "in a random order, different in each process"),
            ("round-robin", "as written, beginning at a random host"),
        ],
    )
    connection_retry_interval: float = seconds(
        1.0,
        "Pause in seconds after a round in which all hosts failed. The driver shortens each pause "
        "by up to half at random, so that not all clients connect at once.",
    )
    connection_retry_backoff: float = seconds(
        2.0,
        "Factor by which the pause grows after each further round in which all hosts failed. 1 or "
        "less: the pause does not grow.",
        minimum=0,
    )
    connection_retry_interval_max: float = seconds(
        30.0, "Longest pause between two rounds, in seconds."
    )
    redirect_hosts: tuple[str, ...] = option(
        cfg.ListOpt,
        [],
        "Hosts outside of the transport URL to which the bus may redirect the driver, each as "
        "NAME or NAME:PORT. * stands for any characters, and ? for one character. The driver uses "
        "user and password of the transport URL for such a host too, but never sends the password "
        "in clear: without TLS it does not use PLAIN there.",
    )
    max_frame_size: int = count(
        1048576,
        "Largest frame in bytes that the driver offers to the peer.",
        minimum=512,
        max=4294967295,
    )
    trace: bool = flag(
        False,
        "Write every AMQP frame to standard error, for debugging. This shows the contents of "
        "messages.",
        **OLD,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SecuritySettings:
    """TLS and SASL."""

    ssl: bool = flag(
        False,
        "Connect by TLS. ssl_ca_file and ssl_cert_file imply it. Without ssl_ca_file the driver "
        "uses the system's CA certificates.",
    )
    ssl_ca_file: str = text(
        "",
        "PEM file with the CA certificates that the driver trusts when it checks the server's "
        "certificate.",
        **OLD,
    )
    ssl_cert_file: str = text(
        "", "PEM file with the client certificate, or its chain, that the driver presents.", **OLD
    )
    ssl_key_file: str = text(
        "",
        "PEM file with the private key of ssl_cert_file. Not needed if that file holds the key "
        "too.",
        **OLD,
    )
    ssl_key_password: str | None = text(
        None, "Password of the private key, if the key is encrypted.", secret=True, **OLD
    )
    ssl_verify_vhost: bool = flag(
        False,
        "Expect the name of the virtual host in the server's certificate, instead of the host "
        "name of the transport URL, and send it as SNI. For servers with one certificate per "
        "virtual host.",
    )
    ssl_min_version: str = text(
        "TLSv1.2", "Lowest TLS version that the driver accepts.", choices=["TLSv1.2", "TLSv1.3"]
    )
    sasl_mechanisms: str = text(
        "",
        "SASL mechanisms that the driver may use, separated by blanks. Empty: SCRAM or PLAIN with "
        "a user in the transport URL, EXTERNAL with a client certificate and no user, else "
        "ANONYMOUS.",
        **OLD,
    )
    sasl_allow_insecure_mechs: bool = flag(
        True,
        "Allow mechanisms that show the password (PLAIN, LOGIN) without TLS. The driver then logs "
        "one warning per transport. If false, a bus without TLS has to offer SCRAM. With TLS "
        "these mechanisms are always allowed.",
    )
    sasl_config_dir: str = text("", "Directory with the Cyrus SASL configuration.", **OLD)
    sasl_config_name: str = text(
        "", "Name of the Cyrus SASL configuration file without .conf.", **OLD
    )
    sasl_default_realm: str = text(
        "", "Realm that the driver adds to user names without one (user@realm)."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeliverySettings:
    """Deadlines, settlement, credit, bodies of messages."""

    link_retry_delay: float = seconds(
        10.0,
        "Longest pause in seconds before the driver attaches a link again that the peer refused "
        "or detached. The first pause is 0.1 s, and each further one is twice as long.",
    )
    default_reply_retry: int = count(
        1,
        "How often the driver sends a reply again after a recoverable failure: 0 or 1. Other "
        "values, which older files may contain, mean 1.",
        minimum=-1,
    )
    default_reply_timeout: float = seconds(
        10.0, "Time limit in seconds for delivering an RPC reply."
    )
    default_send_timeout: float = seconds(
        30.0, "Time limit in seconds for delivering an RPC request whose caller gives no timeout."
    )
    default_notify_timeout: float = seconds(
        30.0, "Time limit in seconds for delivering a notification."
    )
    default_sender_link_timeout: float = seconds(
        600.0, "Time in seconds after which the driver detaches an unused sending link."
    )
    pre_settled: frozenset[str] = option(
        cfg.MultiStrOpt,
        [],
        "Kinds of messages that the driver sends without waiting for the peer to accept them. "
        "Such a message may be lost unnoticed: a router drops it in overload. May be repeated. "
        "Values: " + ", ".join(PRE_SETTLED) + ".",
    )
    durable: frozenset[str] = option(
        cfg.MultiStrOpt,
        list(DURABLE),
        "Kinds of messages that a broker shall keep when it restarts. The broker accepts such a "
        "message only when it has stored it. No effect on routers. May be repeated; an empty "
        "value means none. Values: " + ", ".join(DURABLE) + ".",
    )
    resend_released: bool = flag(
        False,
        "Send a message again if the bus handed it back unprocessed (RELEASED, or MODIFIED "
        "without delivery-failed), within the message's retry and timeout. If false, such a "
        "message fails. No effect on RabbitMQ, which also releases messages that may have been "
        "processed.",
    )
    reply_link_credit: int = count(
        200,
        "Credit for replies: how many the peer may send before the driver has handed them to "
        "their callers.",
    )
    rpc_server_credit: int = count(
        100,
        "Credit of each subscription of an RPC server: how many requests the peer may send that "
        "the server has not settled.",
    )
    notify_server_credit: int = count(
        100,
        "Credit of each subscription of a notification listener: how many notifications the peer "
        "may send that the listener has not settled.",
    )
    session_window: int = count(
        0,
        "Number of frames that the peer may send ahead on each session, whatever the credit of "
        "its links. A message that is larger than the window comes in pieces. 0: only the credit "
        "limits the peer.",
        minimum=0,
        max=2147483647,
    )
    max_message_size: int = count(
        67108864,
        "Largest message in bytes, both on the wire and after decompression. The driver announces "
        "it to the peer. A larger message from the peer ends its link, and sending a larger "
        "message fails at once. All services of a bus need the same value. 0: no limit other than "
        "that of the bus.",
        minimum=0,
    )
    reply_backlog: int = count(
        1000,
        "Number of replies that may wait in the driver. If more wait, the threads that reply wait "
        "too.",
    )
    mailbox_size: int = count(
        10000,
        "Number of operations that may wait for the I/O thread. If more wait, their callers wait "
        "too.",
    )
    blocked_warning_interval: float = seconds(
        10.0,
        "Interval in seconds between warnings about an address for which the bus gives no credit. "
        "The driver logs shorter waits, from one second on, at INFO, at most once for each link "
        "in this interval.",
    )
    duplicate_window: int = count(
        1024,
        "Number of message ids that each subscription remembers, to drop messages that the bus "
        "delivers twice. 0: no check.",
        minimum=0,
    )
    compression: str = text(
        "",
        "Compression of the bodies of large messages. All receivers must support it.",
        choices=[("", "none"), ("gzip", "gzip")],
    )
    compression_threshold: int = count(
        16384, "Smallest body in bytes that the driver compresses.", minimum=0
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class AddressingSettings:
    """Addresses."""

    addressing_mode: str = text(
        "dynamic",
        "Syntax of the addresses on the message bus.",
        choices=[
            (
                "dynamic",
                "the driver recognizes the bus by its Open frame, and Azure Service Bus by "
                "its host name",
            ),
            ("legacy", "names with prefixes, for brokers such as qpidd"),
            ("routable", "paths, for routers such as qpid-dispatch and skupper"),
            ("rabbitmq", "queues and exchanges of RabbitMQ 4"),
            (
                "servicebus",
                "Azure Service Bus; set this if its host name is not in one of Azure's domains",
            ),
        ],
    )
    pseudo_vhost: bool = flag(
        True,
        "Make the virtual host of the transport URL a part of each address. Turn this off for a "
        "bus that has virtual hosts itself: the driver then asks for the virtual host in the Open "
        "frame.",
    )
    server_request_prefix: str = text(
        "exclusive", "Legacy addresses: prefix for messages to one server.", **OLD
    )
    broadcast_prefix: str = text(
        "broadcast", "Legacy addresses: prefix for messages to all servers.", **OLD
    )
    group_request_prefix: str = text(
        "unicast", "Legacy addresses: prefix for messages to any one server of a group.", **OLD
    )
    rpc_address_prefix: str = text("openstack.org/om/rpc", "Routable addresses: prefix for RPC.")
    notify_address_prefix: str = text(
        "openstack.org/om/notify", "Routable addresses: prefix for notifications."
    )
    multicast_address: str = text(
        "multicast", "Routable addresses: word that stands for all servers."
    )
    unicast_address: str = text("unicast", "Routable addresses: word that stands for one server.")
    anycast_address: str = text(
        "anycast", "Routable addresses: word that stands for any one server of a group."
    )
    default_notification_exchange: str | None = text(
        None, "Exchange in the addresses of notifications. " + _PRECEDENCE + "'notify'."
    )
    default_rpc_exchange: str | None = text(
        None, "Exchange in the addresses of RPC. " + _PRECEDENCE + "'rpc'."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RabbitmqSettings:
    """Entities that the driver declares on RabbitMQ, and how it reads queues."""

    queue_expiry: float = seconds(
        1800.0,
        "Time in seconds after which RabbitMQ deletes an unused queue for RPC or of a "
        "notification pool, with the messages in it.",
        minimum=1,
    )
    notification_queue_expiry: float = seconds(
        0.0,
        "Time in seconds after which RabbitMQ deletes an unused queue for notifications without a "
        "pool, with the messages in it. 0: RabbitMQ keeps the queue for future listeners." + _ALL,
        minimum=0,
    )
    delete_unused_queues: bool = flag(
        True,
        "Qpid Broker-J: let the last RPC server of a topic that stops delete the topic's queue if "
        "it is empty, because unused queues do not expire there. No effect on RabbitMQ: unused "
        "queues expire there (option queue_expiry), and deleting a queue could lose a message "
        "that arrives at the same moment.",
    )
    rpc_queue_type: str = text(
        "classic",
        "RabbitMQ: type of the queues for RPC to a topic and to a server. Queues for fanouts and "
        "replies are always classic." + _ALL,
        choices=[("classic", "fast, on one node of a cluster"), ("quorum", "replicated")],
    )
    notification_queue_type: str = text(
        "classic",
        "RabbitMQ: type of the queues for notifications." + _ALL,
        choices=[
            ("classic", "fast, on one node of a cluster"),
            ("quorum", "replicated"),
            (
                "stream",
                "a replicated log: every listener gets every message that arrives while it listens",
            ),
        ],
    )
    durable_queues: bool = flag(
        True,
        "RabbitMQ: classic queues survive a restart of the broker, except those for fanouts and "
        "replies." + _ALL,
    )
    rpc_message_ttl: float = seconds(
        0.0,
        "RabbitMQ: time in seconds after which it drops a request that no server has fetched. "
        "Calls end with their own timeout anyway." + _NONE + _ALL,
        minimum=0,
    )
    notification_message_ttl: float = seconds(
        0.0,
        "RabbitMQ: time in seconds after which it drops a notification that no listener has "
        "fetched. From a stream it drops all notifications that are older than this "
        "time." + _NONE + _ALL,
        minimum=0,
    )
    rpc_queue_max_length: int = count(
        0, "RabbitMQ: largest number of messages in a queue for RPC." + _NONE + _ALL, minimum=0
    )
    notification_queue_max_length: int = count(
        0,
        "RabbitMQ: largest number of messages in a queue for notifications. No effect on "
        "streams." + _NONE + _ALL,
        minimum=0,
    )
    notification_queue_max_bytes: int = count(
        0,
        "RabbitMQ: largest total size of the message bodies in a queue for notifications, in "
        "bytes. For a stream: its size on disk." + _NONE + _ALL,
        minimum=0,
    )
    queue_overflow: str = text(
        "reject-publish",
        "RabbitMQ: treatment of messages for a full queue." + _ALL,
        choices=[
            ("reject-publish", "the sender gets an error"),
            ("drop-head", "RabbitMQ drops the oldest message in the queue, unnoticed"),
        ],
    )
    queue_delivery_limit: int = count(
        0,
        "RabbitMQ: number of failed deliveries after which it drops a message from a quorum "
        "queue. A delivery fails if its reader is lost. 0: the limit of RabbitMQ itself, which is "
        "20." + _ALL,
        minimum=0,
    )
    queue_replicas: int = count(
        0,
        "RabbitMQ: number of nodes of a cluster on which it creates a quorum queue or stream. 0: "
        "the default of the broker." + _ALL,
        minimum=0,
    )
    notification_single_active_consumer: bool = flag(
        False,
        "RabbitMQ: only one of all listeners on a queue for notifications gets messages, in their "
        "order. When it stops, another one follows. No effect on streams." + _ALL,
    )
    consumer_priority: int = option(
        cfg.IntOpt,
        0,
        "RabbitMQ: priority of the readers in this process, for the queue of a topic or of "
        "notifications. Readers with the highest number get messages first, as long as they have "
        "credit.",
    )
    binding_exchange: str = text(
        "amq.direct",
        "RabbitMQ: exchange for fanouts and notifications. It must exist and be of type "
        "direct." + _ALL,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TunnelSettings:
    """WebSocket and proxy between the driver and the bus."""

    transport: str = text(
        "auto",
        "Protocol that carries AMQP.",
        choices=[
            ("auto", "WebSocket to hosts whose port is 443, otherwise TCP"),
            ("tcp", "TCP, with TLS if the options for TLS ask for it"),
            ("websocket", "WebSocket, always over TLS; the default port is 443"),
        ],
    )
    websocket_path: str = text(
        "",
        "Path in the request for a WebSocket. Empty: that of Azure Service Bus, "
        "/$servicebus/websocket.",
    )
    proxy: str = text(
        "",
        "HTTP proxy to connect through, with the method CONNECT: http://HOST:PORT or "
        "http://USER:PASSWORD@HOST:PORT. The proxy resolves the name of the bus. The driver "
        "ignores the environment variables HTTPS_PROXY and ALL_PROXY.",
        secret=True,
    )

    def websocket(self, port: int) -> bool:
        """Return whether to connect to a host's port by WebSocket."""
        return self.transport == "websocket" or (
            self.transport == "auto" and port == WEBSOCKET_PORT
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServiceBusSettings:
    """Azure Service Bus, and claims-based security."""

    token_provider: str = text(
        "",
        "Function that makes the tokens for Azure Service Bus, as package.module:function. It "
        "replaces user and password of the transport URL. The driver calls it with the URI of the "
        "resource, on a separate thread. It returns (token, type, expiry): the type is 'jwt' or "
        "'servicebus.windows.net:sastoken', the expiry is in seconds since 1970.",
    )
    token_life: float = seconds(
        3600.0,
        "Life in seconds of a token that the driver makes from user and password (name and key of "
        "a shared access policy). The driver renews it after two thirds to three quarters of this "
        "time.",
        minimum=1,
    )
    token_scope: str = text(
        "entity",
        "Resources that one token covers.",
        choices=[
            ("entity", "one queue, topic or subscription; each has its own token"),
            ("namespace", "all entities of the host together"),
        ],
    )
    servicebus_credit: int = count(
        20,
        "Azure Service Bus: largest number of messages that a subscription requests ahead, even "
        "if rpc_server_credit or notify_server_credit is larger. The service locks a message for "
        "its reader when the message leaves the queue.",
    )
    servicebus_workers: int = count(
        1,
        "Azure Service Bus: number of processes of this machine that listen with the same server "
        "name. Each process reads fanouts from its own subscription: SERVER, SERVER--2 and so on. "
        "These subscriptions must exist.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TelemetrySettings:
    """Telemetry, the records of the driver's work, and where they go."""

    directory: str = text(
        "",
        "Directory for files with a record of each message, credit stall and change of a "
        "connection or link. The driver creates it if it does not exist. Empty: no files.",
    )
    format: str = text(
        "json",
        "Format of the files in telemetry_directory.",
        choices=[
            ("json", "JSON lines"),
            ("parquet", "Parquet; needs the extra telemetry-parquet"),
            ("arrow", "Arrow's file format; needs the extra telemetry-parquet"),
        ],
    )
    file_bytes: int = count(
        67108864,
        "Size in bytes at which the driver finishes a file. Only then does the file get the name "
        "under which others may read it.",
        minimum=1,
    )
    file_seconds: float = seconds(
        60.0,
        "Age in seconds at which the driver finishes a file that has not reached "
        "telemetry_file_bytes.",
    )
    files_kept: int = count(
        100,
        "Number of finished files to keep in the directory, of all processes together. The driver "
        "deletes the oldest ones. 0: no limit.",
        minimum=0,
    )
    port: int = option(
        cfg.PortOpt,
        0,
        "First port for the Prometheus endpoint. Each process takes the first free port from this "
        "one on. 0: no endpoint. Needs the extra telemetry.",
    )
    ports: int = count(
        32,
        "Number of ports that a process tries. At most this number of processes of a machine have "
        "an endpoint.",
        max=65535,
    )
    host: str = text("127.0.0.1", "Address on which the Prometheus endpoint listens.")
    topic: str = text(
        "",
        "Topic of the notifications in which the driver sends records. It sends them to the bus "
        "of the transport, over a separate connection. Empty: no notifications.",
    )
    exchange: str = text("", "Exchange of telemetry_topic. Empty: the exchange of the transport.")
    queue: int = count(
        50000,
        "Number of events that may wait to be recorded. The driver drops and counts further "
        "events.",
    )

    @property
    def wanted(self) -> bool:
        """Return whether any of files, endpoint and notifications is configured."""
        return bool(self.directory or self.port or self.topic)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The checked values of all options. Durations in seconds, sizes in bytes.

    The fields have the names of the options; those of ``telemetry`` lack ``telemetry_`` in front.
    """

    connection: ConnectionSettings
    security: SecuritySettings
    delivery: DeliverySettings
    addressing: AddressingSettings
    rabbitmq: RabbitmqSettings
    tunnel: TunnelSettings
    servicebus: ServiceBusSettings
    telemetry: TelemetrySettings

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
