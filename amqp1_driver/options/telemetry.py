# SPDX-License-Identifier: Apache-2.0

"""Options: telemetry, the records of the driver's work, and where they go."""

from oslo_config import cfg

from amqp1_driver.options.kinds import count, seconds, text
from amqp1_driver.telemetry.config import Config, missing

OPTS: list[cfg.Opt] = [
    text(
        "telemetry_directory",
        "",
        "Directory for files with a record of each message, credit "
        "stall and change of a connection or link. Is made if it is not there. Empty: no files.",
    ),
    cfg.StrOpt(
        "telemetry_format",
        default="json",
        help="Format of these files.",
        choices=[
            ("json", "JSON lines"),
            ("parquet", "Parquet; needs the extra telemetry-parquet"),
            ("arrow", "Arrow's file format; needs the extra telemetry-parquet"),
        ],
    ),
    count(
        "telemetry_file_bytes",
        67108864,
        "A file is finished, and gets the name under which "
        "others may read it, when it has so many bytes.",
        minimum=1,
    ),
    seconds("telemetry_file_seconds", 60.0, "Or when it was begun so long ago."),
    count(
        "telemetry_files_kept",
        100,
        "How many finished files are kept in the directory, of all "
        "processes together; the oldest go first. 0: all.",
        minimum=0,
    ),
    cfg.PortOpt(
        "telemetry_port",
        default=0,
        help="First port of the endpoint for Prometheus. "
        "Each process takes the first one from here on that is free. 0: no endpoint. "
        "Needs the extra telemetry.",
    ),
    count(
        "telemetry_ports",
        32,
        "How many ports are tried: as many as processes of this machine may have an endpoint.",
        max=65535,
    ),
    text("telemetry_host", "127.0.0.1", "Address of the endpoint."),
    text(
        "telemetry_topic",
        "",
        "Topic of notifications that carry records, sent over a "
        "connection of their own to the bus of the transport. Empty: none are sent.",
    ),
    text("telemetry_exchange", "", "Exchange of that topic; empty: the transport's own."),
    count(
        "telemetry_queue",
        50000,
        "Events that may wait to be recorded; what comes while there "
        "are so many is dropped and counted.",
    ),
]


def trouble(config: Config) -> str | None:
    """Return why these values can't be used, with the option's name; None if they can."""
    lacking = missing(config)
    if lacking is not None:
        option, package, extra = lacking
        return f"option {option!r} needs the package {package}: pip install amqp1-driver[{extra}]"
    if config.port and not config.host:
        return "option 'telemetry_host' is empty"
    return None
