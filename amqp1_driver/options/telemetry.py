# SPDX-License-Identifier: Apache-2.0

"""Options: telemetry, the records of the driver's work, and where they go."""

from oslo_config import cfg

from amqp1_driver.options.kinds import count, seconds, text
from amqp1_driver.telemetry.config import Config, missing

OPTS: list[cfg.Opt] = [
    text(
        "telemetry_directory",
        "",
        "Directory for files with a record of each message, credit stall and change of "
        "a connection or link. The driver creates it if it does not exist. Empty: no "
        "files.",
    ),
    cfg.StrOpt(
        "telemetry_format",
        default="json",
        help="Format of the files in telemetry_directory.",
        choices=[
            ("json", "JSON lines"),
            ("parquet", "Parquet; needs the extra telemetry-parquet"),
            ("arrow", "Arrow's file format; needs the extra telemetry-parquet"),
        ],
    ),
    count(
        "telemetry_file_bytes",
        67108864,
        "Size in bytes at which the driver finishes a file. Only then does the file "
        "get the name under which others may read it.",
        minimum=1,
    ),
    seconds(
        "telemetry_file_seconds",
        60.0,
        "Age in seconds at which the driver finishes a file that has not reached "
        "telemetry_file_bytes.",
    ),
    count(
        "telemetry_files_kept",
        100,
        "Number of finished files to keep in the directory, of all processes together. "
        "The driver deletes the oldest ones. 0: no limit.",
        minimum=0,
    ),
    cfg.PortOpt(
        "telemetry_port",
        default=0,
        help="First port for the Prometheus endpoint. Each process takes the first free "
        "port from this one on. 0: no endpoint. Needs the extra telemetry.",
    ),
    count(
        "telemetry_ports",
        32,
        "Number of ports that a process tries. At most this number of processes of a "
        "machine have an endpoint.",
        max=65535,
    ),
    text("telemetry_host", "127.0.0.1", "Address on which the Prometheus endpoint listens."),
    text(
        "telemetry_topic",
        "",
        "Topic of the notifications in which the driver sends records. It sends them "
        "to the bus of the transport, over a separate connection. Empty: no "
        "notifications.",
    ),
    text(
        "telemetry_exchange",
        "",
        "Exchange of telemetry_topic. Empty: the exchange of the transport.",
    ),
    count(
        "telemetry_queue",
        50000,
        "Number of events that may wait to be recorded. The driver drops and counts "
        "further events.",
    ),
]


def trouble(config: Config) -> str | None:
    """Return why the driver can't use these values, with the option's name; None if it can."""
    lacking = missing(config)
    if lacking is not None:
        option, package, extra = lacking
        return f"option {option!r} needs the package {package}: pip install amqp1-driver[{extra}]"
    if config.port and not config.host:
        return "option 'telemetry_host' is empty"
    return None
