# SPDX-License-Identifier: Apache-2.0

"""What is counted, and what Prometheus' own parser reads of it."""

import errno
import socket
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from amqp1_driver.telemetry.events import Record
from amqp1_driver.telemetry.prometheus import BOUNDS, Endpoint, Metrics

from .records import message, record


@pytest.mark.parametrize(
    "us, bucket",
    [
        (0, 0),
        (1, 0),
        (16, 0),
        (17, 1),
        (32, 1),
        (33, 2),
        (1000, 6),
        (1024, 6),
        (1025, 7),
        (134217728, 23),
        (134217729, 24),
        (10**12, 24),
    ],
)
def test_a_bound_belongs_to_its_bucket(us, bucket):
    metrics = Metrics(lambda: 0)
    metrics.take([message(total_us=us)])
    samples = values(metrics, "amqp1_message_seconds")
    assert [value for name, value in samples if name.endswith("_bucket")].index(1) == bucket
    assert dict(samples)["amqp1_message_seconds_sum"] == us / 1e6


def values(metrics, family):
    """Name and value of each sample of one family."""
    (found,) = (metric for metric in metrics.collect() if metric.name == family)
    return [(sample.name, sample.value) for sample in found.samples]


def test_bounds_are_powers_of_two_from_16_us_to_134_s():
    assert BOUNDS[:4] == (0.000016, 0.000032, 0.000064, 0.000128)
    assert BOUNDS[-1] == 134.217728
    assert len(BOUNDS) == 24


def changed(kind, state, container="c"):
    return Record(0, kind, container, 42, state=state)


def filled():
    metrics = Metrics(lambda: 7)
    metrics.take(
        [
            message(handover_us=20, wait_us=10, ack_us=300, reply_us=900),
            message(total_us=2000, size=50),
            message("cast", outcome="released", error="amqp:not-found", total_us=5),
            message("call", outcome="timeout", error="DeadlineExpired", stage="credit"),
            record(),
            record()._replace(kind="resume", total_us=3000000),
            record()._replace(stage="credit", credit=None),
            changed("connection", "connecting"),
            changed("connection", "ready"),
            changed("connection", "ready", "other"),
            changed("connection", "closed", "other"),
            changed("link", "attaching"),
            changed("link", "attached"),
            changed("link", "attached"),
        ]
    )
    return metrics


@pytest.fixture
def endpoint():
    made = Endpoint(filled())
    assert made.listen("127.0.0.1", 0, 1)
    yield made
    made.close()


def scraped(endpoint):
    """All samples: name, labels without le, le, value."""
    with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}/metrics", timeout=10) as page:
        text = page.read().decode()
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_prometheus_reads(endpoint):
    samples = scraped(endpoint)
    buckets = {key: value for key, value in samples.items() if key[0].endswith("_bucket")}
    assert {key: value for key, value in samples.items() if key not in buckets} == {
        ("amqp1_messages_total", ("operation", "call"), ("outcome", "accepted")): 2,
        ("amqp1_messages_total", ("operation", "call"), ("outcome", "timeout")): 1,
        ("amqp1_messages_total", ("operation", "cast"), ("outcome", "released")): 1,
        ("amqp1_message_errors_total", ("error", "amqp:not-found"), ("operation", "cast")): 1,
        ("amqp1_message_errors_total", ("error", "DeadlineExpired"), ("operation", "call")): 1,
        ("amqp1_message_timeouts_total", ("operation", "call"), ("stage", "credit")): 1,
        ("amqp1_message_bytes_total", ("operation", "call")): 250,
        ("amqp1_message_bytes_total", ("operation", "cast")): 100,
        ("amqp1_message_handover_seconds_count", ("operation", "call")): 1,
        ("amqp1_message_handover_seconds_sum", ("operation", "call")): 0.00002,
        ("amqp1_message_wait_seconds_count", ("operation", "call")): 1,
        ("amqp1_message_wait_seconds_sum", ("operation", "call")): 0.00001,
        ("amqp1_message_acknowledge_seconds_count", ("operation", "call")): 1,
        ("amqp1_message_acknowledge_seconds_sum", ("operation", "call")): 0.0003,
        ("amqp1_message_reply_seconds_count", ("operation", "call")): 1,
        ("amqp1_message_reply_seconds_sum", ("operation", "call")): 0.0009,
        ("amqp1_message_seconds_count", ("operation", "call")): 3,
        ("amqp1_message_seconds_sum", ("operation", "call")): 0.004,
        ("amqp1_message_seconds_count", ("operation", "cast")): 1,
        ("amqp1_message_seconds_sum", ("operation", "cast")): 0.000005,
        ("amqp1_credit_stalls_total", ("side", "subscription")): 1,
        ("amqp1_credit_stalls_total", ("side", "sender")): 1,
        ("amqp1_credit_stall_seconds_count", ("side", "subscription")): 1,
        ("amqp1_credit_stall_seconds_sum", ("side", "subscription")): 3,
        ("amqp1_connections", ("state", "ready")): 1,
        ("amqp1_connection_changes_total", ("state", "connecting")): 1,
        ("amqp1_connection_changes_total", ("state", "ready")): 2,
        ("amqp1_connection_changes_total", ("state", "closed")): 1,
        ("amqp1_link_changes_total", ("state", "attaching")): 1,
        ("amqp1_link_changes_total", ("state", "attached")): 2,
        ("amqp1_telemetry_dropped_total",): 7,
    }
    calls = {
        dict(key[1:])["le"]: value
        for key, value in buckets.items()
        if key[0] == "amqp1_message_seconds_bucket" and ("operation", "call") in key
    }
    assert (
        calls["1.6e-05"],
        calls["0.000512"],
        calls["0.001024"],
        calls["0.002048"],
        calls["134.217728"],
        calls["+Inf"],
    ) == (0, 0, 2, 3, 3, 3)
    assert len(calls) == 25


def test_values_that_a_peer_chooses_are_bounded():
    metrics = Metrics(lambda: 0)
    metrics.take([message(error=f"x:{number}") for number in range(105)])
    metrics.take([message(error="x:0")])
    (family,) = (found for found in metrics.collect() if found.name == "amqp1_message_errors")
    errors = {sample.labels["error"]: sample.value for sample in family.samples}
    assert len(errors) == 101
    assert (errors["other"], errors["x:0"]) == (5, 2)


def test_the_next_port_when_one_is_in_use(endpoint):
    other = Endpoint(Metrics(lambda: 0))
    try:
        assert other.listen("127.0.0.1", endpoint.port, 100)
        assert other.port > endpoint.port
    finally:
        other.close()


def test_no_free_port_is_said_and_nothing_breaks(endpoint, caplog):
    other = Endpoint(Metrics(lambda: 0))
    assert not other.listen("127.0.0.1", endpoint.port, 1)
    assert f"ports {endpoint.port} to {endpoint.port} at 127.0.0.1 are in use" in caplog.text
    other.close()


def test_an_address_that_is_not_ours_is_said(caplog):
    assert not Endpoint(Metrics(lambda: 0)).listen("192.0.2.1", 9464, 1)
    assert f"No Prometheus endpoint at 192.0.2.1:9464: [Errno {errno.EADDRNOTAVAIL}]" in caplog.text


@pytest.mark.skipif(not socket.has_ipv6, reason="needs IPv6")
def test_an_address_of_ipv6():
    made = Endpoint(Metrics(lambda: 0))
    try:
        if not made.listen("::1", 0, 1):
            pytest.skip("no IPv6 on the loopback interface")
        socket.create_connection(("::1", made.port), 10).close()
    finally:
        made.close()


def test_no_name_of_the_address_is_looked_up(monkeypatch):
    """A look-up without a name server takes long, and a service would wait for it."""

    def look_up(*args):
        raise AssertionError(args)

    for function in ("getfqdn", "gethostbyaddr", "getnameinfo"):
        monkeypatch.setattr(socket, function, look_up)
    endpoint = Endpoint(Metrics(lambda: 0))
    assert endpoint.listen("127.0.0.1", 0, 1)
    endpoint.close()


def test_the_port_is_free_when_it_is_closed():
    first, second = Endpoint(Metrics(lambda: 0)), Endpoint(Metrics(lambda: 0))
    assert first.listen("127.0.0.1", 0, 1)
    scraped(first)
    first.close()
    assert second.listen("127.0.0.1", first.port, 1)
    second.close()


def test_a_client_that_says_nothing_does_no_harm(endpoint):
    with socket.create_connection(("127.0.0.1", endpoint.port), 10):
        assert scraped(endpoint)["amqp1_telemetry_dropped_total",] == 7
        assert endpoint._server.RequestHandlerClass.timeout == 5.0
