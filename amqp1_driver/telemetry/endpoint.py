# SPDX-License-Identifier: Apache-2.0

"""The Prometheus endpoint of a process (extra ``telemetry``), on a thread of its own.

The endpoint shows only the counters of the driver, from a registry of its own. It does not disturb
an application that has its own endpoint.
"""

import errno
import logging
import threading
from collections.abc import Callable, Iterator
from socketserver import TCPServer
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from amqp1_driver.telemetry.metrics import BOUNDS_US, Histogram, Metrics

LOG = logging.getLogger(__name__)

#: seconds after which the endpoint closes the connection of a silent scraper
TIMEOUT = 5.0

_LATENCIES = {
    "handover": (
        "amqp1_message_handover_seconds",
        "From the driver being called until its I/O thread had the message.",
    ),
    "wait": (
        "amqp1_message_wait_seconds",
        "From the I/O thread having a message until it went out: connection, link, credit.",
    ),
    "acknowledge": (
        "amqp1_message_acknowledge_seconds",
        "From a message going out to its outcome.",
    ),
    "reply": ("amqp1_message_reply_seconds", "From a call going out to its reply."),
    "total": ("amqp1_message_seconds", "Messages as their senders saw them."),
}


class Collector:
    """The counters of the driver, in the form of ``prometheus_client``. Any thread.

    :param dropped: returns how many events the hub has dropped so far
    """

    def __init__(self, metrics: Metrics, dropped: Callable[[], int]) -> None:
        self._metrics = metrics
        self._dropped = dropped

    def collect(self) -> Iterator[Metric]:
        found = self._metrics.snapshot()
        yield _counter(
            "amqp1_messages", "Messages sent, by outcome.", ("operation", "outcome"), found.messages
        )
        yield _counter(
            "amqp1_message_errors",
            "Messages that failed, by condition or exception.",
            ("operation", "error"),
            found.errors,
        )
        yield _counter(
            "amqp1_message_timeouts",
            "Messages that timed out, by where they stood.",
            ("operation", "stage"),
            found.timeouts,
        )
        yield _counter(
            "amqp1_message_bytes", "Bytes of message bodies.", ("operation",), found.size
        )
        for part, (name, text) in _LATENCIES.items():
            yield _histogram(
                name,
                text,
                ("operation",),
                {key[1:]: value for key, value in found.latencies.items() if key[0] == part},
            )
        yield _counter("amqp1_credit_stalls", "Times that credit ran out.", ("side",), found.stalls)
        yield _histogram(
            "amqp1_credit_stall_seconds", "How long there was no credit.", ("side",), found.stalled
        )
        connections = GaugeMetricFamily(
            "amqp1_connections", "Connections by state.", labels=("state",)
        )
        for key, value in found.connections.items():
            connections.add_metric(key, value)
        yield connections
        yield _counter(
            "amqp1_connection_changes",
            "Changes of the state of a connection.",
            ("state",),
            found.changes,
        )
        yield _counter(
            "amqp1_link_changes", "Changes of the state of a link.", ("state",), found.link_changes
        )
        yield CounterMetricFamily(
            "amqp1_telemetry_dropped",
            "Events dropped because too many waited.",
            value=self._dropped(),
        )


def _counter(
    name: str, text: str, labels: tuple[str, ...], values: dict[tuple[str, ...], int]
) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _histogram(
    name: str, text: str, labels: tuple[str, ...], values: dict[tuple[str, ...], Histogram]
) -> Metric:
    family = HistogramMetricFamily(name, text, labels=labels)
    for key, histogram in values.items():
        so_far = 0
        buckets: list[tuple[str, int]] = []
        for bound, count in zip(BOUNDS_US, histogram.counts, strict=False):
            so_far += count
            buckets.append((repr(bound / 1e6), so_far))
        buckets.append(("+Inf", so_far + histogram.counts[-1]))
        family.add_metric(key, buckets, sum_value=histogram.total_us / 1e6)
    return family


class _Handler(WSGIRequestHandler):
    timeout = TIMEOUT

    def log_message(self, format: str, *args: Any) -> None:
        LOG.debug("Prometheus endpoint: " + format, *args)


class _Server(WSGIServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        LOG.debug("Prometheus endpoint: a request of %s failed", client_address, exc_info=True)

    def server_bind(self) -> None:
        # Not the method of WSGIServer, which asks DNS for our own name.
        TCPServer.server_bind(self)
        host, self.server_port = self.server_address[:2]
        self.server_name = str(host)
        self.setup_environ()


class Endpoint:
    """An HTTP server at one port, on a thread of its own.

    :param dropped: returns how many events the hub has dropped so far
    """

    def __init__(self, metrics: Metrics, dropped: Callable[[], int]) -> None:
        registry = CollectorRegistry()
        registry.register(Collector(metrics, dropped))
        self._app = make_wsgi_app(registry)
        self._server: _Server | None = None
        #: port that the endpoint listens at; 0: none
        self.port = 0

    def listen(self, host: str, port: int, ports: int) -> bool:
        """Listen at the first free port of ``ports`` ports, starting with ``port``.

        :returns: whether the endpoint listens; if not, the log says why
        """
        for number in range(port, min(port + ports, 65536)):
            try:
                self._server = _Server((host, number), _Handler)
                break
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    LOG.error("No Prometheus endpoint at %s:%d: %s", host, number, error)
                    return False
        if self._server is None:
            LOG.error(
                "No Prometheus endpoint: ports %d to %d at %s are in use",
                port,
                port + ports - 1,
                host,
            )
            return False
        self._server.set_app(self._app)
        self.port = self._server.server_port
        threading.Thread(
            target=self._server.serve_forever, name="amqp1-prometheus", daemon=True
        ).start()
        LOG.info("Prometheus endpoint at %s:%d", host, self.port)
        return True

    def close(self) -> None:
        """Close the port and end the thread."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def abandon(self) -> None:
        """Close the inherited socket in the child of a fork; the port stays the parent's."""
        server, self._server = self._server, None
        if server is not None:
            server.socket.close()
