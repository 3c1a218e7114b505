# SPDX-License-Identifier: Apache-2.0
"""Receives all notifications of the cloud, as a telemetry service would, and counts them."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import oslo_messaging
from oslo_config import cfg

#: exchange and topic of each service's notifications
TOPICS = (
    ("keystone", "keystone"),
    ("glance", "glance"),
    ("nova", "nova"),
    ("nova", "nova_versioned"),
    ("neutron", "neutron"),
    ("openstack", "cinder"),
)


class Listener:
    """Counts each notification by its message_id. Any thread.

    :param urls: transport URLs of all virtual hosts that services notify on
    """

    def __init__(self, urls: list[str]) -> None:
        self._lock = threading.Lock()
        self._received: Counter[str] = Counter()
        self._started: list[Any] = []
        targets = [oslo_messaging.Target(exchange=e, topic=t) for e, t in TOPICS]
        self._transports = [
            oslo_messaging.get_notification_transport(_configuration(), url) for url in urls
        ]
        self._servers = [
            oslo_messaging.get_notification_listener(
                transport, targets, [_Endpoint(self)], executor="threading"
            )
            for transport in self._transports
        ]

    def start(self) -> None:
        """Return when all servers listen."""
        for server in self._servers:
            server.start()
            self._started.append(server)

    def add(self, identity: str) -> None:
        """Count one."""
        with self._lock:
            self._received[identity] += 1

    def received(self) -> Counter[str]:
        """Return how often each notification has come, by its message_id."""
        with self._lock:
            return self._received.copy()

    def close(self) -> None:
        """Stop the servers and close their transports."""
        # stop() of a server that was never started would wait for its start
        for server in self._started:
            server.stop()
            server.wait()
        for transport in self._transports:
            transport.cleanup()


class _Endpoint:
    """Takes notifications of every priority."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def info(
        self, ctxt: Any, publisher_id: str, event_type: str, payload: Any, metadata: dict[str, Any]
    ) -> None:
        """Count it."""
        self._listener.add(metadata["message_id"])

    audit = debug = warn = error = critical = sample = info


def _configuration() -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    conf([], project="cloud")
    return conf
