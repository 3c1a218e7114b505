# SPDX-License-Identifier: Apache-2.0

"""The publisher on the embedded bus: all accepted, or an error that says which was not."""

from collections.abc import Iterator

import pytest

from amqp1_driver import exceptions
from amqp1_driver.options import InvalidOption
from amqp1_driver.pipeline import bus
from amqp1_driver.pipeline.publish.publisher import Publisher
from amqp1_driver.testing.fixture import BusFixture
from amqp1_driver.testing.proxy import FaultProxy
from tests.pipeline.collect.conftest import collecting  # noqa: F401
from tests.pipeline.collect.support import WAIT, ids


@pytest.fixture
def broker() -> Iterator[BusFixture]:
    with BusFixture("broker", queue_capacity=10_000) as made:
        yield made


def stored(collecting, url, count):  # noqa: F811
    collector, spool = collecting(url)
    assert collector.wait_for(count, WAIT)
    collector.stop()
    return ids(spool)


def test_the_url_may_lie_in_the_environment_or_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("BUS_URL", "amqp://u:secret@h:77/")
    (tmp_path / "url").write_text("amqp://u:secret@g:78/\n")
    assert bus.make_client("env:BUS_URL")._hosts == "h:77"
    assert bus.make_client(f"file:{tmp_path}/url")._hosts == "g:78"
    with pytest.raises(ValueError, match="env:NOBODY_SETS_THIS: there is no such variable"):
        bus.make_client("env:NOBODY_SETS_THIS")


def test_all_are_accepted_in_order_with_few_under_way(broker, collecting):  # noqa: F811
    with Publisher(bus.make_client(broker.url()), max_in_flight=10, timeout=WAIT) as publisher:
        for number in range(500):
            publisher.send(bus.node("q"), f"m{number}", b"x")
            assert len(publisher._under_way) <= 10
        publisher.flush()
        assert (publisher.accepted, publisher.resent, publisher.unconfirmed) == (500, 0, 0)
    assert stored(collecting, broker.url(), 500) == [f"m{n}" for n in range(500)]


def test_one_under_way(broker):
    with Publisher(bus.make_client(broker.url()), max_in_flight=1, timeout=WAIT) as publisher:
        for number in range(5):
            publisher.send(bus.node("q"), f"m{number}", b"x")
        publisher.flush()
        assert publisher.accepted == 5


def test_the_end_of_the_context_waits_for_all(broker, collecting):  # noqa: F811
    with Publisher(bus.make_client(broker.url()), timeout=WAIT) as publisher:
        for number in range(100):
            publisher.send(bus.node("q"), f"m{number}", b"x")
    assert (publisher.accepted, publisher.unconfirmed) == (100, 0)
    assert stored(collecting, broker.url(), 100) == [f"m{n}" for n in range(100)]


def test_the_end_of_the_context_reports_what_was_not_accepted():
    with (
        pytest.raises(exceptions.DeadlineExpired, match="message-id=the-id"),
        Publisher(bus.make_client("amqp://127.0.0.1:1"), timeout=0.2) as publisher,
    ):
        publisher.send(bus.node("q"), "the-id", b"x")


def test_an_exception_cancels_what_is_under_way():
    with (
        pytest.raises(ZeroDivisionError),
        Publisher(bus.make_client("amqp://127.0.0.1:1"), timeout=WAIT) as publisher,
    ):
        publisher.send(bus.node("q"), "the-id", b"x")
        _ = 1 / 0
    assert (publisher.accepted, publisher.unconfirmed) == (0, 0)


def test_what_was_in_doubt_is_sent_again_with_the_same_id(broker, collecting):  # noqa: F811
    with FaultProxy("127.0.0.1", broker.port) as proxy:
        proxy.cut_after(20_000, "up")
        client = bus.make_client(f"amqp://127.0.0.1:{proxy.port}")
        with Publisher(client, max_in_flight=100, timeout=WAIT) as publisher:
            for number in range(1000):
                publisher.send(bus.node("q"), f"m{number}", b"x" * 100)
            publisher.flush()
            assert publisher.accepted == 1000
            assert 0 < publisher.resent <= 100
            most = 1000 + publisher.resent
    collector, spool = collecting(broker.url())
    assert collector.wait_for(1000, WAIT)
    collector.stop()
    assert set(ids(spool)) == {f"m{n}" for n in range(1000)}
    assert len(ids(spool)) <= most


def test_nobody_takes_it(broker):
    """A router grants no credit where nobody reads."""
    with BusFixture("router") as router:
        with (
            Publisher(bus.make_client(router.url()), timeout=0.3) as publisher,
            pytest.raises(exceptions.DeadlineExpired) as found,
        ):
            publisher.send(bus.node("nobody"), "the-id", b"x")
            publisher.flush()
        text = str(found.value)
        assert f"host=127.0.0.1:{router.port}" in text
        assert "address=nobody" in text and "message-id=the-id" in text and "credit" in text


def test_a_bus_that_is_away():
    with (
        Publisher(bus.make_client("amqp://127.0.0.1:1"), timeout=0.2) as publisher,
        pytest.raises(exceptions.DeadlineExpired, match="refused") as found,
    ):
        publisher.send(bus.node("q"), "the-id", b"x")
        publisher.flush()
    assert "a connection" in str(found.value) and "message-id=the-id" in str(found.value)


def test_a_property_that_amqp_does_not_have(broker):
    with Publisher(bus.make_client(broker.url()), timeout=WAIT) as publisher:
        publisher.send(bus.node("q"), "first", b"")
        publisher.flush()
        with pytest.raises(TypeError):
            publisher.send(bus.node("q"), "second", b"", None, {"a": object()})


def test_urls_and_options_that_are_wrong():
    with pytest.raises(InvalidOption, match="nonsense"):
        bus.make_client("amqp://u:secret@h", driver=[("nonsense", "1")])
    for url in ("amqp://u:secret@h:x", "u:secret@h"):
        with pytest.raises(ValueError, match="no transport URL") as found:
            bus.make_client(url)
        assert "secret" not in str(found.value)
