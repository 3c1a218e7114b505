# SPDX-License-Identifier: Apache-2.0

"""Options: hosts, connections, frames."""

import dataclasses

from oslo_config import cfg

from amqp1_driver.options.kinds import OLD, count, seconds, text

OPTS: list[cfg.Opt] = [
    text(
        "container_name",
        None,
        "First part of the container id in the Open frame. The driver adds parts that "
        "make the id unique for each process. Default: the name of the program.",
        **OLD,
    ),
    seconds(
        "idle_timeout",
        60.0,
        "Time in seconds without any data from the peer after which the driver gives "
        "up a connection. The driver announces the limit to the peer. 0: no limit.",
        minimum=0,
        **OLD,
    ),
    seconds(
        "connect_timeout",
        10.0,
        "Time limit in seconds for connecting to one host: name resolution, TCP, TLS, "
        "SASL and the exchange of Open frames.",
    ),
    cfg.StrOpt(
        "host_selection",
        default="shuffle",
        help="Order in which the driver tries the hosts of the transport URL.",
        choices=[
            ("ordered", "as written, the first host first"),
            ("shuffle", "in a random order, different in each process"),
            ("round-robin", "as written, beginning at a random host"),
        ],
    ),
    seconds(
        "connection_retry_interval",
        1.0,
        "Pause in seconds after a round in which all hosts failed. The driver shortens "
        "each pause by up to half at random, so that not all clients connect at once.",
    ),
    seconds(
        "connection_retry_backoff",
        2.0,
        "Factor by which the pause grows after each further round in which all hosts "
        "failed. 1 or less: the pause does not grow.",
        minimum=0,
    ),
    seconds("connection_retry_interval_max", 30.0, "Longest pause between two rounds, in seconds."),
    cfg.ListOpt(
        "redirect_hosts",
        default=[],
        help="Hosts outside of the transport URL to which the bus may redirect the driver, "
        "each as NAME or NAME:PORT. * stands for any characters, and ? for one "
        "character. The driver uses user and password of the transport URL for such a "
        "host too, but never sends the password in clear: without TLS it does not use "
        "PLAIN there.",
    ),
    count(
        "max_frame_size",
        1048576,
        "Largest frame in bytes that the driver offers to the peer.",
        minimum=512,
        max=4294967295,
    ),
    cfg.BoolOpt(
        "trace",
        default=False,
        help="Write every AMQP frame to standard error, for debugging. This shows the "
        "contents of messages.",
        **OLD,
    ),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConnectionSettings:
    """The checked values of the options in this module. Durations in seconds, sizes in bytes."""

    container_name: str | None
    idle_timeout: float
    connect_timeout: float
    host_selection: str
    connection_retry_interval: float
    connection_retry_backoff: float
    connection_retry_interval_max: float
    redirect_hosts: tuple[str, ...]
    max_frame_size: int
    trace: bool
