# SPDX-License-Identifier: Apache-2.0

"""The collector on the embedded bus: what is acknowledged, when, and how much is asked for."""

import threading

import oslo_messaging as om
import pytest
from oslo_config import cfg

from amqp1_driver.exceptions import LoopDied
from amqp1_driver.options import InvalidOption
from amqp1_driver.pipeline.collect import Collector, watch
from amqp1_driver.pipeline.spool import Fenced, Row, SpoolError
from amqp1_driver.testing.proxy import FaultProxy

from .support import WAIT, ids, publish, rows


class Gated:
    """A spool that tells of each append, and waits before and after it."""

    def __init__(self, spool):
        self._spool = spool
        self.error = None
        self.before, self.go_on = threading.Event(), threading.Event()
        self.done, self.settle = threading.Event(), threading.Event()
        self.go_on.set()
        self.settle.set()

    def __getattr__(self, name):
        return getattr(self._spool, name)

    def append(self, rows):
        self.before.set()
        assert self.go_on.wait(WAIT)
        if self.error is not None:
            raise self.error
        found = self._spool.append(rows)
        self.done.set()
        assert self.settle.wait(WAIT)
        return found


def gated(collecting, url, **options):
    spool = Gated(collecting.spool(collecting.options(url, **options)))
    return spool


def test_rows_are_in_the_spool_and_the_queue_is_empty(broker, collecting):
    publish(broker.url(), "q", range(1000))
    collector, spool = collecting(broker.url())
    assert collector.wait_for(1000, WAIT)
    assert ids(spool) == [f"m{n}" for n in range(1000)]
    assert rows(spool)[7]["body"] == b"7.........."
    assert rows(spool)[7]["address"] == "q"
    assert collector.stop()
    again, other = collecting(broker.url(), "other")
    publish(broker.url(), "q", [1000])
    assert again.wait_for(1, WAIT)
    assert ids(other) == ["m1000"]


def test_several_addresses_and_links(broker, collecting):
    for number, name in enumerate("abc"):
        publish(broker.url(), name, range(number * 100, number * 100 + 100))
    collector, spool = collecting(broker.url(), address="a,b,c", links=3)
    assert collector.wait_for(300, WAIT)
    assert sorted(ids(spool)) == sorted(f"m{n}" for n in range(300))
    assert {row["address"] for row in rows(spool)} == {"a", "b", "c"}
    assert len(collector._subscription.receivers) == 9


def test_a_router_tells_the_sender_only_once_the_row_is_durable(router, collecting):
    url = router.url()
    spool = gated(collecting, url)
    collecting(url, spool=spool)
    spool.go_on.clear()
    accepted = threading.Event()

    def send():
        publish(url, "q", [1])
        accepted.set()

    sender = threading.Thread(target=send)
    sender.start()
    assert spool.before.wait(WAIT)
    assert not accepted.is_set()
    spool.go_on.set()
    sender.join(WAIT)
    assert accepted.is_set() and ids(spool._spool) == ["m1"]


def test_notifications_of_oslo_messaging(broker, collecting):
    conf = cfg.ConfigOpts()
    conf([])
    transport = om.get_notification_transport(conf, broker.url())
    try:
        notifier = om.Notifier(transport, "p", driver="messaging", topics=["n"])
        collector, spool = collecting(broker.url(), topic="n", priorities="info,error")
        notifier.info({"user": "u"}, "it.happened", {"n": 1})
        notifier.error({}, "it.failed", {"n": 2})
        assert collector.wait_for(2, WAIT)
        bodies = b"".join(row["body"] for row in rows(spool))
        assert b"it.happened" in bodies and b"it.failed" in bodies
    finally:
        transport.cleanup()


def test_the_cap_holds_and_after_a_commit_it_goes_on(broker, collecting):
    publish(broker.url(), "q", range(200))
    collector, spool = collecting(broker.url(), maxSpoolRows=20, segmentRows=5, credit=50)
    seen = []
    for high in range(20, 201, 15):
        assert collector.wait_for(high, WAIT)
        assert spool.high == high
        assert spool.room() == 0
        seen += ids(spool)
        # the newest segment stays, so there is room for 15
        spool.commit(high)
    assert collector.wait_for(200, WAIT)
    seen += ids(spool)
    assert list(dict.fromkeys(seen)) == [f"m{n}" for n in range(200)]


def test_nothing_is_asked_for_that_there_is_no_room_for(broker, collecting):
    publish(broker.url(), "q", range(100))
    collector, _ = collecting(broker.url(), maxSpoolRows=20, segmentRows=10, credit=1000)
    assert collector.wait_for(20, WAIT)
    assert collector.facts()["received"] == 20


def test_bytes_are_capped_too(broker, collecting):
    publish(broker.url(), "q", range(60), size=20_000)
    collector, spool = collecting(
        broker.url(), maxSpoolRows=1000, segmentRows=10, maxSpoolBytes=500_000
    )
    seen = []
    while len(seen) < 60:
        high = spool.high
        assert collector.wait_for(len(seen) + 1, WAIT)
        high = spool.high
        assert sum(part.segment.size for part in spool.parts(1, high)) <= 500_000
        seen = list(dict.fromkeys(seen + ids(spool)))
        spool.commit(high)
    assert seen == [f"m{n}" for n in range(60)]
    assert collector.error is None


def test_idle_when_nothing_came_for_a_while_or_nothing_more_fits(collecting, monkeypatch):
    options = collecting.options(
        "amqp://127.0.0.1", drainIdleMs=1000, maxSpoolRows=10, segmentRows=5
    )
    spool = collecting.spool(options)
    collector = Collector(options, spool)
    clock = [collector._quiet_since]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    assert not collector.idle()  # not attached: it is not known what there is
    monkeypatch.setattr(Collector, "_attached", lambda self: True)
    clock[0] += 0.999
    assert not collector.idle()
    clock[0] += 0.001
    assert collector.idle()
    collector._inbox.in_hand = 1
    assert not collector.idle()
    collector._inbox.in_hand, collector._quiet_since = 0, clock[0]
    assert not collector.idle()
    spool.append([Row(None, None, b"", None, None, 0, None, 0)] * 10)
    assert collector.idle()  # full


def test_a_spool_that_was_taken_over_settles_nothing(broker, collecting):
    url = broker.url()
    publish(url, "q", range(50))
    spool = gated(collecting, url)
    spool.go_on.clear()
    collector, _ = collecting(url, spool=spool)
    assert spool.before.wait(WAIT)
    successor = collecting.spool(collecting.options(url))
    spool.go_on.set()
    collector._thread.join(WAIT)
    assert isinstance(collector.error, Fenced)
    assert not collector.wait_for(1, 0.0)
    second, _ = collecting(url, spool=successor)
    assert second.wait_for(50, WAIT)
    assert sorted(ids(successor)) == sorted(f"m{n}" for n in range(50))


class Waited:
    """A spool that tells when it is waited for room in it."""

    def __init__(self, spool):
        self._spool = spool
        self.asked = threading.Event()

    def __getattr__(self, name):
        return getattr(self._spool, name)

    def fits(self, rows):
        found = self._spool.fits(rows)
        if not found:
            self.asked.set()
        return found


def without_room(collecting, url):
    """A collector that waits for room, and its spool."""
    publish(url, "q", range(60), size=20_000)
    options = {"maxSpoolRows": 1000, "segmentRows": 10, "maxSpoolBytes": 500_000}
    spool = Waited(collecting.spool(collecting.options(url, **options)))
    collector, _ = collecting(url, spool=spool, **options)
    assert spool.asked.wait(WAIT)
    return collector, spool


def test_who_waits_for_room_finds_out_that_the_spool_was_taken_over(
    broker, collecting, monkeypatch
):
    monkeypatch.setattr(watch, "EVERY", 0.01)
    collector, spool = without_room(collecting, broker.url())
    kept = spool.high
    successor = collecting.spool(collecting.options(broker.url(), maxSpoolRows=1000))
    collector._thread.join(WAIT)
    assert isinstance(collector.error, Fenced)
    # what it had not appended went back to the bus
    second, _ = collecting(broker.url(), spool=successor)
    assert second.wait_for(60, WAIT)
    assert ids(successor)[:kept] == [f"m{n}" for n in range(kept)]
    assert sorted(ids(successor)) == sorted(f"m{n}" for n in range(60))


def test_who_waits_for_room_is_woken_when_the_io_thread_dies(broker, collecting):
    """At once, and not at the next look."""
    collector, _ = without_room(collecting, broker.url())

    def fail(_):
        raise SystemError("a defect")

    collector._client._loop.post(fail)
    collector._thread.join(WAIT)
    assert isinstance(collector.error, LoopDied)


def test_who_waits_for_messages_finds_out_that_the_spool_was_taken_over(
    broker, collecting, monkeypatch
):
    monkeypatch.setattr(watch, "EVERY", 0.01)
    collector, _ = collecting(broker.url())
    collecting.spool(collecting.options(broker.url()))
    collector._thread.join(WAIT)
    assert isinstance(collector.error, Fenced)


def test_messages_that_grow_are_stopped_by_their_bytes_and_all_come(broker, collecting):
    """Credit for two thousand small ones, and then there are large ones."""
    publish(broker.url(), "q", range(500))
    spool = gated(collecting, broker.url(), credit=2000)
    collector, _ = collecting(broker.url(), spool=spool, credit=2000, maxBufferBytes=1_000_000)
    assert collector.wait_for(500, WAIT)
    spool.before.clear()
    spool.go_on.clear()
    publish(broker.url(), "q", range(500, 600), size=100_000)
    assert spool.before.wait(WAIT)
    spool.go_on.set()
    assert collector.wait_for(600, WAIT)
    facts = collector.facts()
    assert facts["braked"] >= 1
    assert sorted(ids(spool._spool)) == sorted(f"m{n}" for n in range(600))
    assert facts["received"] == 600 and facts["duplicates"] == 0
    # and from then on there is credit for few
    assert collector._subscription.room <= 10


def test_large_messages_are_never_asked_for_beyond_what_memory_may_hold(broker, collecting):
    publish(broker.url(), "q", range(40), size=100_000)
    spool = gated(collecting, broker.url())
    spool.go_on.clear()
    collector, _ = collecting(broker.url(), spool=spool, maxBufferBytes=3_000_000)
    assert spool.before.wait(WAIT)
    # a mebibyte each is what it begins with
    assert collector.facts()["received"] <= 2
    spool.go_on.set()
    assert collector.wait_for(40, WAIT)
    assert collector._subscription.room <= 29
    assert collector.facts()["braked"] == 0


def test_a_disc_that_is_full_stops_it_and_everything_comes_again(broker, collecting):
    url = broker.url()
    publish(url, "q", range(50))
    spool = gated(collecting, url)
    spool.error = SpoolError("no space left on device")
    collector, _ = collecting(url, spool=spool)
    collector._thread.join(WAIT)
    assert str(collector.error) == "no space left on device"
    assert spool.high == 0
    second, retried = collecting(url, "second")
    assert second.wait_for(50, WAIT)
    assert sorted(ids(retried)) == sorted(f"m{n}" for n in range(50))


def test_a_connection_that_breaks_between_disc_and_acknowledgement_makes_no_doubles(
    broker, collecting
):
    publish(broker.url(), "q", range(300))
    with FaultProxy("127.0.0.1", broker.port) as proxy:
        url = f"amqp://127.0.0.1:{proxy.port}"
        spool = gated(collecting, url, segmentRows=100)
        spool.settle.clear()
        collector, _ = collecting(url, spool=spool, segmentRows=100)
        assert spool.done.wait(WAIT)
        proxy.cut()
        proxy.wait_accepted(2, WAIT)
        spool.settle.set()
        publish(broker.url(), "q", [300])  # comes after all that comes again
        assert collector.wait_for(301, WAIT)
        assert collector.stop()
        facts = collector.facts()
    assert sorted(ids(spool._spool)) == sorted(f"m{n}" for n in range(301))
    assert facts["appended"] == 301 and 1 <= facts["duplicates"] <= 300


def test_a_crash_before_the_acknowledgement_makes_no_doubles(broker, collecting):
    """A reader that dies is one whose connection breaks; the next opens the same spool."""
    publish(broker.url(), "q", range(100))
    with FaultProxy("127.0.0.1", broker.port) as proxy:
        url = f"amqp://127.0.0.1:{proxy.port}"
        spool = gated(collecting, url)
        spool.settle.clear()
        collecting(url, spool=spool)
        assert spool.done.wait(WAIT)
        proxy.refuse()
        proxy.cut()
        successor = collecting.spool(collecting.options(broker.url()))
        second, _ = collecting(broker.url(), spool=successor)
        assert second.wait_for(100, WAIT)
        spool.settle.set()
        publish(broker.url(), "q", [100])
        assert second.wait_for(101, WAIT)
    assert sorted(ids(successor)) == sorted(f"m{n}" for n in range(101))


def test_the_stop_takes_along_what_has_come(broker, collecting):
    publish(broker.url(), "q", range(500))
    collector, spool = collecting(
        broker.url(), lingerMs=60_000, segmentRows=100_000, credit=10_000, maxSpoolRows=1_000_000
    )
    collector._inbox._event.wait(WAIT)
    assert collector.stop()
    stored = len(ids(spool))
    again, rest = collecting(broker.url(), "rest")
    publish(broker.url(), "q", [500])
    assert again.wait_for(501 - stored, WAIT)
    assert sorted(ids(spool) + ids(rest)) == sorted(f"m{n}" for n in range(501))


def test_two_queries_in_one_process(broker, collecting):
    first, one = collecting(broker.url(), "one", address="a")
    second, two = collecting(broker.url(), "two", address="b")
    publish(broker.url(), "a", [1, 2])
    publish(broker.url(), "b", [3])
    assert first.wait_for(2, WAIT) and second.wait_for(1, WAIT)
    assert (ids(one), ids(two)) == (["m1", "m2"], ["m3"])


def test_a_bus_that_comes_later(collecting, broker):
    port = broker.port
    broker.cleanUp()
    collector, _ = collecting(f"amqp://127.0.0.1:{port}")
    assert not collector.wait_for(1, 0.0)
    assert not collector.idle() and collector.error is None
    broker.settings["port"] = port
    broker.setUp()
    publish(broker.url(), "q", [1])
    assert collector.wait_for(1, WAIT)
    assert collector.facts()["attached"]


def test_pools_where_the_bus_has_none_are_an_error(router, collecting):
    collector, _ = collecting(router.url(), topic="n", pool="p", priorities="info")
    collector._thread.join(WAIT)
    assert "pools are not supported" in str(collector.error)


def test_options_of_the_driver_count_and_wrong_ones_are_named(router, collecting):
    with pytest.raises(InvalidOption, match="idle_timeout"):
        collecting(router.url(), driver__idle_timeout="soon")
    with pytest.raises(InvalidOption, match="no_such_option"):
        collecting(router.url(), driver__no_such_option="1")
    collector, _ = collecting(router.url(), driver__container_name="spark")
    assert collector._client.settings.connection.container_name == "spark"


def test_what_can_not_be_read_is_kept_and_counted(broker, collecting):
    import proton
    from proton.utils import BlockingConnection

    connection = BlockingConnection(broker.url(), timeout=WAIT)
    sender = connection.create_sender("q")
    sender.send(proton.Message(body={"a": 1}, id="map"))
    raw = sender.link
    delivery = raw.delivery("bad")
    raw.stream(bytes.fromhex("005373 a1 00 005375 a0 01 61"))
    raw.advance()
    connection.wait(lambda: delivery.settled or delivery.remote_state, timeout=WAIT)
    connection.close()
    collector, spool = collecting(broker.url())
    assert collector.wait_for(2, WAIT)
    good, bad = rows(spool)
    assert (good["message_id"], good["properties"]) == ("map", [("amqp1:body", "value")])
    assert bad["body"].startswith(bytes.fromhex("005373 a1 00")) or b"\xa0\x01a" in bad["body"]
    assert bad["properties"][0][0] == "amqp1:undecodable"
    assert collector.facts()["undecodable"] == 1
