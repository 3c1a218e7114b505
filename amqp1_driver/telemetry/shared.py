# SPDX-License-Identifier: Apache-2.0

"""The hubs of a process; transports with equal configuration share one. For any thread.

The first transport makes the hub, and the last one to release the hub closes it. The child of a
fork has no hub: inherited files and ports stay the parent's. The child makes its own hub when it
uses a transport.
"""

import atexit
import logging
import os
import threading
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from amqp1_driver.telemetry.files import FileSink, make_format
from amqp1_driver.telemetry.hub import Consumer, Hub

if TYPE_CHECKING:
    from amqp1_driver.options import TelemetrySettings
    from amqp1_driver.telemetry.prometheus import Endpoint

LOG = logging.getLogger(__name__)

#: longest time for closing a hub, seconds
CLOSE_TIMEOUT = 5.0

_Key = tuple["TelemetrySettings", Hashable]

_lock = threading.Lock()
_open: dict[_Key, "Telemetry"] = {}


class Telemetry:
    """A hub, the endpoint and the files, with a count of their holders. For any thread.

    :ivar hub: the sink for events
    :ivar endpoint: the Prometheus endpoint; None: there is none
    """

    def __init__(self, key: _Key, more: dict[str, Callable[[], Consumer]]) -> None:
        config = key[0]
        consumers: dict[str, Consumer] = {}
        self.endpoint: Endpoint | None = None
        self._files: FileSink | None = None
        if config.directory:
            consumers["the file sink"] = self._files = FileSink(
                config.directory,
                make_format(config.format),
                max_bytes=config.file_bytes,
                max_seconds=config.file_seconds,
                keep=config.files_kept,
            )
        if config.port:
            # imported late, because it needs a package of an extra
            from amqp1_driver.telemetry import prometheus

            consumers["counting"] = metrics = prometheus.Metrics(lambda: self.hub.dropped)
            self.endpoint = prometheus.Endpoint(metrics)
        for name, make in more.items():
            consumers[name] = make()
        self.hub = Hub(consumers, config.queue)
        self.holders = 0
        self._key = key
        if self.endpoint is not None:
            self.endpoint.listen(config.host, config.port, config.ports)
        self.hub.start()

    def release(self) -> None:
        """Count one holder less; after the last one, close the hub and wait for that."""
        with _lock:
            self.holders -= 1
            last = self.holders == 0 and _open.get(self._key) is self
            if last:
                del _open[self._key]
        if last:
            self.close()

    def close(self) -> None:
        """Finish files, send the remaining records, close the port.

        Wait up to CLOSE_TIMEOUT for the hub's thread.
        """
        if not self.hub.close(CLOSE_TIMEOUT):
            LOG.warning("Telemetry did not end within %s s", CLOSE_TIMEOUT)
        if self.endpoint is not None:
            self.endpoint.close()

    def abandon(self) -> None:
        """Close inherited descriptors in the child of a fork; do nothing else."""
        for part in (self.hub, self.endpoint, self._files):
            if part is not None:
                part.abandon()


def acquire(
    config: "TelemetrySettings",
    key: Hashable = None,
    more: dict[str, Callable[[], Consumer]] | None = None,
) -> Telemetry:
    """Return the hub for a configuration; each caller must release it once.

    :param key: a value that must also be equal for transports to share the hub
    :param more: functions that make further consumers, by their name in the log
    """
    whole: _Key = (config, key)
    with _lock:
        found = _open.get(whole)
        if found is None:
            found = _open[whole] = Telemetry(whole, more or {})
        found.holders += 1
        return found


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    for telemetry in _open.values():
        telemetry.abandon()
    _open.clear()


def _at_exit() -> None:
    """Close all hubs, to complete files even if the application never called ``cleanup``."""
    for telemetry in list(_open.values()):
        telemetry.close()
    _open.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)
