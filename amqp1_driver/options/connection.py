# SPDX-License-Identifier: Apache-2.0

"""Options: hosts, connections, frames."""

import dataclasses

from oslo_config import cfg

from amqp1_driver.options.kinds import OLD, count, seconds, text

OPTS: list[cfg.Opt] = [
    text(
        "container_name",
        None,
        "First part of the container id in the Open frame; what makes "
        "it unique for each process is added.",
        **OLD,
    ),
    seconds(
        "idle_timeout",
        60.0,
        "A connection on which nothing was received for this long is "
        "given up, and the peer is told to expect the same of us. 0 turns it off.",
        minimum=0,
        **OLD,
    ),
    seconds(
        "connect_timeout",
        10.0,
        "Name resolution, TCP, TLS, SASL and the exchange of Open "
        "frames with one host must be done in this time.",
    ),
    cfg.StrOpt(
        "host_selection",
        default="shuffle",
        help="Order in which the hosts of the transport URL are tried.",
        choices=[
            ("ordered", "as written, the first host first"),
            ("shuffle", "in random order, different in each process"),
            ("round-robin", "as written, beginning at a random host"),
        ],
    ),
    seconds(
        "connection_retry_interval",
        1.0,
        "Pause after all hosts have been tried in vain. Up "
        "to half of each pause is left out at random, so that not all clients come at once.",
    ),
    seconds(
        "connection_retry_backoff",
        2.0,
        "Factor by which the pause grows after each further vain round through the hosts.",
        minimum=0,
    ),
    seconds("connection_retry_interval_max", 30.0, "The pause never gets longer than this."),
    cfg.ListOpt(
        "redirect_hosts",
        default=[],
        help="Hosts outside of the transport URL to which "
        "the bus may redirect, each as NAME or NAME:PORT; * and ? stand for any characters "
        "and any one. User and password of the transport URL are used there too, but never "
        "in clear: without TLS such a host gets no PLAIN.",
    ),
    count(
        "max_frame_size",
        1048576,
        "Largest frame in bytes that is offered to the peer.",
        minimum=512,
        max=4294967295,
    ),
    cfg.BoolOpt(
        "trace",
        default=False,
        help="Log every AMQP frame (for debugging; shows message contents).",
        **OLD,
    ),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConnectionSettings:
    """Checked values of these options. Durations in seconds, sizes in bytes."""

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
