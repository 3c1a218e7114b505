# SPDX-License-Identifier: Apache-2.0

"""The configuration of telemetry: immutable values, for any thread."""

import dataclasses
import importlib.util

#: formats of files, and the extra package that each needs
FORMATS = {"json": None, "parquet": "pyarrow", "arrow": "pyarrow"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The telemetry of a process; two transports with equal values share files and port.

    :param directory: directory of the files, empty for none
    :param format: json, parquet or arrow
    :param file_bytes: size of a file, in bytes, at which the sink finishes it
    :param file_seconds: age of a file, in seconds, at which the sink finishes it
    :param files_kept: finished files to keep in the directory, of all processes; 0: all
    :param port: first port of the Prometheus endpoint, 0 for none
    :param ports: number of ports to try, one for each process of a machine
    :param host: address that the endpoint listens at
    :param topic: topic of the notifications that carry records, empty for none
    :param exchange: exchange of that topic, empty for the transport's own
    :param queue: events that may wait for the hub's thread; the hub drops further events
    """

    directory: str = ""
    format: str = "json"
    file_bytes: int = 67108864
    file_seconds: float = 60.0
    files_kept: int = 100
    port: int = 0
    ports: int = 32
    host: str = "127.0.0.1"
    topic: str = ""
    exchange: str = ""
    queue: int = 50000

    @property
    def wanted(self) -> bool:
        """Return whether any of files, endpoint and notifications is configured."""
        return bool(self.directory or self.port or self.topic)


def missing(config: Config) -> tuple[str, str, str] | None:
    """Return the first package that the configuration needs and that is not installed.

    :returns: option, package and extra of the driver; None if nothing is missing.
    """
    package = FORMATS[config.format]
    if config.directory and package and importlib.util.find_spec(package) is None:
        return "telemetry_format", package, "telemetry-parquet"
    if config.port and importlib.util.find_spec("prometheus_client") is None:
        return "telemetry_port", "prometheus_client", "telemetry"
    return None
