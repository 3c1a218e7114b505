# SPDX-License-Identifier: Apache-2.0

"""Counters and histograms for Prometheus, and the endpoint of a process (extra ``telemetry``).

The endpoint shows only the metrics of the driver, from a registry of its own. It does not disturb
an application that has its own endpoint.
"""

import errno
import logging
import os
import socket
import socketserver
import threading
from collections import Counter as Count
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, Counter, Histogram, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from amqp1_driver.telemetry import events
from amqp1_driver.telemetry.events import Record

LOG = logging.getLogger(__name__)

#: upper bounds of the buckets, seconds: powers of two from 2^4 to 2^27 us, 16 us to 134 s
BOUNDS = tuple((1 << n) / 1e6 for n in range(4, 28))
_Seconds = partial(Histogram, buckets=BOUNDS)
#: the metrics: kind, name, text and labels
_METRICS: tuple[tuple[Callable[..., Any], str, str, tuple[str, ...]], ...] = (
    (Counter, "amqp1_messages", "Messages sent, by outcome.", ("operation", "outcome")),
    (
        Counter,
        "amqp1_message_errors",
        "Messages that failed, by condition or exception.",
        ("operation", "error"),
    ),
    (
        Counter,
        "amqp1_message_timeouts",
        "Messages that timed out, by where they stood.",
        ("operation", "stage"),
    ),
    (Counter, "amqp1_message_bytes", "Bytes of message bodies.", ("operation",)),
    (
        _Seconds,
        "amqp1_message_handover_seconds",
        "From the driver being called until its I/O thread had the message.",
        ("operation",),
    ),
    (
        _Seconds,
        "amqp1_message_wait_seconds",
        "From the I/O thread having a message until it went out: connection, link, credit.",
        ("operation",),
    ),
    (
        _Seconds,
        "amqp1_message_acknowledge_seconds",
        "From a message going out to its outcome.",
        ("operation",),
    ),
    (
        _Seconds,
        "amqp1_message_reply_seconds",
        "From a call going out to its reply.",
        ("operation",),
    ),
    (_Seconds, "amqp1_message_seconds", "Messages as their senders saw them.", ("operation",)),
    (Counter, "amqp1_credit_stalls", "Times that credit ran out.", ("side",)),
    (_Seconds, "amqp1_credit_stall_seconds", "How long there was no credit.", ("side",)),
    (Counter, "amqp1_connection_changes", "Changes of the state of a connection.", ("state",)),
    (Counter, "amqp1_link_changes", "Changes of the state of a link.", ("state",)),
)
#: most pairs of operation and error that get a counter of their own; a peer can choose error
#: conditions, so the driver counts further pairs as "other"
VALUES_LIMIT = 100
#: seconds after which the endpoint closes the connection of a silent scraper
TIMEOUT = 5.0


class Metrics:
    """A consumer of records on the hub's thread, and a Prometheus collector for any thread.

    :param dropped: returns how many events the hub has dropped so far
    """

    def __init__(self, dropped: Callable[[], int]) -> None:
        self._dropped = dropped
        self._metrics = {
            name: kind(name, text, labels, registry=None) for kind, name, text, labels in _METRICS
        }
        #: returns a metric by its name and the values of its labels
        self._find = cache(lambda name, *labels: self._metrics[name].labels(*labels))
        self._known_errors: set[tuple[str, str]] = set()
        #: state of each connection, by container-id
        self._states: dict[str, str] = {}

    def take(self, records: Sequence[Record]) -> None:
        for record in records:
            if record.operation is not None:
                self._message(record, record.operation)
                continue
            state = record.state or ""
            side = "sender" if record.stage == events.CREDIT else "subscription"
            if record.kind == events.STALL:
                self._find("amqp1_credit_stalls", side).inc()
            elif record.kind == events.RESUME:
                self._find("amqp1_credit_stall_seconds", side).observe((record.total_us or 0) / 1e6)
            elif record.kind == events.LINK:
                self._find("amqp1_link_changes", state).inc()
            else:
                self._find("amqp1_connection_changes", state).inc()
                if state == "closed":
                    self._states.pop(record.container, None)
                else:
                    self._states[record.container] = state

    def _message(self, record: Record, operation: str) -> None:
        find = self._find
        find("amqp1_messages", operation, record.outcome or "").inc()
        find("amqp1_message_bytes", operation).inc(record.size or 0)
        if record.error is not None:
            pair = (operation, record.error)
            if pair not in self._known_errors and len(self._known_errors) >= VALUES_LIMIT:
                pair = (operation, "other")
            self._known_errors.add(pair)
            find("amqp1_message_errors", *pair).inc()
        if record.outcome == events.TIMEOUT:
            find("amqp1_message_timeouts", operation, record.stage or "").inc()
        for name, us in (
            ("amqp1_message_handover_seconds", record.handover_us),
            ("amqp1_message_wait_seconds", record.wait_us),
            ("amqp1_message_acknowledge_seconds", record.ack_us),
            ("amqp1_message_reply_seconds", record.reply_us),
            ("amqp1_message_seconds", record.total_us),
        ):
            if us is not None:
                find(name, operation).observe(us / 1e6)

    def tick(self) -> None:
        """Do nothing: no work is due by time."""

    def close(self, timeout: float) -> None:
        """Do nothing: there is nothing to finish."""

    def collect(self) -> Iterator[Metric]:
        """Return all metrics with their present values, as ``prometheus_client`` asks for them."""
        for metric in self._metrics.values():
            for family in metric.collect():
                # The library adds a sample with the creation time of each metric, unless the whole
                # process turns that off.
                family.samples = [
                    sample for sample in family.samples if not sample.name.endswith("_created")
                ]
                yield family
        connections = GaugeMetricFamily(
            "amqp1_connections", "Connections by state.", labels=("state",)
        )
        # list() copies in one step, while the hub's thread may change the dict
        for state, number in Count(list(self._states.values())).items():
            connections.add_metric((state,), number)
        yield connections
        yield CounterMetricFamily(
            "amqp1_telemetry_dropped",
            "Events dropped because too many waited.",
            value=self._dropped(),
        )


class _Handler(WSGIRequestHandler):
    """The connection of a scraper, which ends when the scraper is silent for TIMEOUT seconds."""

    timeout = TIMEOUT

    def handle(self) -> None:
        try:
            super().handle()
        except OSError as error:
            LOG.debug("Prometheus endpoint: a request of %s failed: %s", self.client_address, error)

    def log_message(self, format: str, *args: Any) -> None:
        LOG.debug("Prometheus endpoint: " + format, *args)


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    """A server with a thread for each request; it does not look up the host name of its address.

    Such a lookup may take long, and would delay the start of a service.

    :raises OSError: the server cannot listen at the address
    """

    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family, _, _, _, address = found[0]
        super().__init__(address, _Handler)  # type: ignore[arg-type]

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]
        self.setup_environ()


class Endpoint:
    """An HTTP server at one port, on threads of its own, for ``prometheus_client``'s pages."""

    def __init__(self, metrics: Metrics) -> None:
        registry = CollectorRegistry()
        registry.register(metrics)
        self._application = make_wsgi_app(registry)
        self._server: _Server | None = None
        #: port that the endpoint listens at; 0: none
        self.port = 0

    def listen(self, host: str, port: int, ports: int) -> bool:
        """Listen at the first free port of ``ports`` ports, starting with ``port``.

        :returns: whether the endpoint listens; if not, the log says why
        """
        for number in range(port, min(port + ports, 65536)):
            try:
                server = _Server(host, number)
                break
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    LOG.error("No Prometheus endpoint at %s:%d: %s", host, number, error)
                    return False
        else:
            LOG.error(
                "No Prometheus endpoint: ports %d to %d at %s are in use",
                port,
                port + ports - 1,
                host,
            )
            return False
        server.set_app(self._application)
        threading.Thread(target=server.serve_forever, name="amqp1-prometheus", daemon=True).start()
        self._server, self.port = server, server.server_port
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
            # A green thread survives the fork and polls this descriptor. The number stays in use,
            # for an eventfd that nobody writes to, so that the thread never polls another file.
            silent = os.eventfd(0)
            os.dup2(silent, server.socket.detach(), inheritable=False)
            os.close(silent)
