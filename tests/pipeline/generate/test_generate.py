# SPDX-License-Identifier: Apache-2.0

"""Made notifications: deterministic, countable, in order, with the faults that were asked for."""

from __future__ import annotations

import datetime
import itertools
import json
import tracemalloc
from collections import Counter

import pytest

from amqp1_driver.codec import load_request
from amqp1_driver.pipeline.generate import cloud, faults, story
from amqp1_driver.pipeline.generate.notification import Notification

BEGIN = datetime.datetime(2026, 3, 5)


def made(count: int, seed: int = 1) -> list[Notification]:
    return list(cloud.notifications(seed, count, BEGIN, per_day=2000))


def test_ids_are_countable_and_times_rise() -> None:
    notifications = made(3000)
    assert [n.message_id for n in notifications] == [f"n-{number}" for number in range(3000)]
    times = [n.time for n in notifications]
    assert times == sorted(times)
    assert times[0] > BEGIN and times[-1] < BEGIN + datetime.timedelta(days=4)


def test_the_seed_decides() -> None:
    first = [notification.body() for notification in made(500)]
    assert first == [notification.body() for notification in made(500)]
    assert first != [notification.body() for notification in made(500, seed=2)]


def test_three_services_and_their_life_cycles() -> None:
    events = Counter(notification.event_type for notification in made(3000))
    for event in (
        "compute.instance.create.start",
        "compute.instance.create.end",
        "compute.instance.create.error",
        "compute.instance.delete.end",
        "compute.instance.finish_resize.end",
        "compute.instance.exists",
        "volume.create.end",
        "volume.attach.end",
        "volume.delete.end",
        "volume.exists",
        "port.create.start",
        "port.create.end",
        "port.delete.end",
    ):
        assert events[event] > 0, event
    # now and then an end is lost
    assert events["port.create.end"] < events["port.create.start"]


def test_memory_is_flat() -> None:
    """The second ten thousand take no more than the first."""
    notifications = cloud.notifications(1, 20_000, BEGIN, per_day=2000)
    tracemalloc.start()
    try:
        peaks = []
        for _ in range(2):
            tracemalloc.reset_peak()
            for _ in itertools.islice(notifications, 10_000):
                pass
            peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]
    assert peaks[1] < 10_000_000


def test_a_high_rate_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 a day need 641 instances at a time: 1538 begin in a day, and each lives 10 hours."""
    monkeypatch.setattr(cloud, "MOST_ALIVE", 100)
    days = Counter(
        (notification.time - BEGIN).days
        for notification in cloud.notifications(1, 65_000, BEGIN, per_day=20_000)
    )
    assert 18_000 < days[1] < 22_000
    assert 18_000 < days[2] < 22_000


def test_envelopes() -> None:
    notification = Notification(
        BEGIN, "volume.create.end", "volume.h", {"size": 1}, "req-1", "t", "u", "INFO", "n-7"
    )
    message = {
        "message_id": "n-7",
        "publisher_id": "volume.h",
        "event_type": "volume.create.end",
        "priority": "INFO",
        "payload": {"size": 1},
        "timestamp": "2026-03-05 00:00:00",
    }
    context = {"request_id": "req-1", "project_id": "t", "user_id": "u"}
    # as the driver's own listener reads it
    request = load_request(notification.body("amqp"))
    assert (request.message, request.ctxt) == (message, context)
    rabbit = json.loads(notification.body("rabbit"))
    assert rabbit["oslo.version"] == "2.0"
    assert json.loads(rabbit["oslo.message"]) == {
        **message,
        "_unique_id": "n-7",
        "_context_request_id": "req-1",
        "_context_project_id": "t",
        "_context_user_id": "u",
    }
    assert json.loads(notification.body("bare")) == message
    with pytest.raises(ValueError, match="form 'kafka' is none of amqp, rabbit, bare"):
        notification.body("kafka")


def test_faults_late_doubled_and_broken() -> None:
    shares = faults.Faults(late=0.1, doubled=0.1, broken=0.1, late_by=50)
    emissions = list(faults.emissions(made(2000), shares, seed=3))
    ids = Counter(
        emission.message_id.partition("-again")[0]
        for emission in emissions
        if not emission.message_id.startswith("broken")
    )
    assert set(ids) == {f"n-{number}" for number in range(2000)}
    assert 150 < sum(count == 2 for count in ids.values()) < 250
    broken = [emission for emission in emissions if emission.message_id.startswith("broken")]
    assert 150 < len(broken) < 250
    assert {emission.body for emission in broken} == set(story.BROKEN)
    order = [
        int(emission.message_id[2:])
        for emission in emissions
        if emission.message_id.startswith("n-") and "again" not in emission.message_id
    ]
    late = sum(before > after for before, after in itertools.pairwise(order))
    assert 100 < late < 250


def test_without_faults_everything_comes_once_and_in_order() -> None:
    emissions = list(faults.emissions(made(200), faults.Faults(), seed=3))
    assert [emission.message_id for emission in emissions] == [f"n-{n}" for n in range(200)]
    assert {emission.priority for emission in emissions} <= {"info", "error"}


def test_the_story_tells_each_cue_once() -> None:
    told = story.notifications()
    assert len(told) == 54
    assert len({notification.message_id for notification in told}) == 54
    emissions = list(story.emissions())
    assert len(emissions) == 54 + 3 + 5
    assert emissions == list(story.emissions())
    assert emissions[-1].message_id == "s-31"
    assert {emission.priority for emission in emissions} == {"info", "error"}
