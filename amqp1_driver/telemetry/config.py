#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""What telemetry is asked for: values only.  Any thread."""

import dataclasses
import importlib.util

#: formats of files, and the package that each needs
FORMATS = {"json": None, "parquet": "pyarrow", "arrow": "pyarrow"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """Telemetry of a process; two transports with the same share files and port.

    :ivar directory: where files go, empty for none
    :ivar format: json, parquet or arrow
    :ivar file_bytes: a file is finished when it has so many
    :ivar file_seconds: or when it is so old
    :ivar files_kept: finished files in the directory, of all processes; 0: all
    :ivar port: first port of the Prometheus endpoint, 0 for none
    :ivar ports: how many are tried, one for each process of a machine
    :ivar host: address that it listens at
    :ivar topic: of the messages with records, empty for none
    :ivar exchange: of that topic, empty for the transport's own
    :ivar queue: events that may wait before some are dropped
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
        """Whether there is anything to do."""
        return bool(self.directory or self.port or self.topic)


def missing(config: Config) -> tuple[str, str, str] | None:
    """The first extra package that is asked for but not installed: option, package, extra."""
    package = FORMATS[config.format]
    if config.directory and package and importlib.util.find_spec(package) is None:
        return "telemetry_format", package, "telemetry-parquet"
    if config.port and importlib.util.find_spec("prometheus_client") is None:
        return "telemetry_port", "prometheus_client", "telemetry"
    return None
