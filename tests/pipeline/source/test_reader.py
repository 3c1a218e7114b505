# SPDX-License-Identifier: Apache-2.0

"""The calls that Spark makes of a stream reader, one by one, without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from amqp1_driver.pipeline.source import ranges
from amqp1_driver.pipeline.source.options import SourceOptions
from amqp1_driver.pipeline.source.stream import Amqp1StreamReader
from amqp1_driver.pipeline.spool import Fenced, Missing, Spool, SpoolError
from tests.pipeline.source.fake import FolderCollector, FolderSource, publish
from tests.pipeline.spool.rows import pairs


class Reader:
    """A reader, and a folder as its bus."""

    def __init__(self, folder: Path) -> None:
        self.queue, self.spool = folder / "queue", folder / "spool"
        self.queue.mkdir()
        self.made: list[Amqp1StreamReader] = []

    def start(self, kind: type[FolderSource] = FolderSource, **options: str) -> Amqp1StreamReader:
        """Another one, as after a restart."""
        source = kind(
            {"url": str(self.queue), "address": "a", "spoolDir": str(self.spool), **options}
        )
        self.made.append(source.streamReader(source.schema()))
        return self.made[-1]


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[Reader]:
    made = Reader(tmp_path)
    yield made
    for reader in made.made:
        reader.stop()


def test_it_opens_nothing_before_spark_plans_and_can_be_pickled(bus: Reader) -> None:
    publish(bus.queue, "a")
    reader = bus.start()
    copy = pickle.loads(pickle.dumps(reader))
    assert reader.getDefaultReadLimit() == copy.getDefaultReadLimit() == ReadMaxRows(50_000)
    assert reader.reportLatestOffset() is None
    reader.stop()
    assert not bus.spool.exists()


def test_batches_one_after_the_other(bus: Reader) -> None:
    publish(bus.queue, *"abcde")
    reader = bus.start()
    first = reader.initialOffset()
    spool = first["spool"]
    assert first == {"spool": spool, "seq": 0}
    end = reader.latestOffset(first, ReadMaxRows(3))
    assert end == {"spool": spool, "seq": 3}
    assert reader.reportLatestOffset() == {"spool": spool, "seq": 5}
    (part,) = reader.partitions(first, end)
    assert pairs(reader.read(part)) == [(1, "a"), (2, "b"), (3, "c")]
    assert reader.latestOffset(end, ReadAllAvailable()) == {"spool": spool, "seq": 5}
    reader.commit(end)
    assert reader.partitions(end, end) == []
    assert bus.start().initialOffset() == {"spool": spool, "seq": 3}


def test_rows_already_processed_make_room(bus: Reader) -> None:
    publish(bus.queue, *"abcdefgh")
    reader = bus.start(maxSpoolRows="4", segmentRows="2")
    offset = reader.initialOffset()
    ends = []
    for _ in range(4):
        offset = reader.latestOffset(offset, ReadMaxRows(100))
        ends.append(offset["seq"])
    assert ends == [4, 6, 8, 8]


def test_available_now_ends_with_what_was_there(bus: Reader) -> None:
    publish(bus.queue, *"abc")
    reader = bus.start()
    reader.prepareForTriggerAvailableNow()
    offset = reader.initialOffset()
    publish(bus.queue, *"de")
    reader._collection().wait(5, 0)
    assert reader.reportLatestOffset() == {"spool": offset["spool"], "seq": 5}
    ends = []
    for _ in range(3):
        offset = reader.latestOffset(offset, ReadMaxRows(2))
        ends.append(offset["seq"])
    assert ends == [2, 3, 3]
    reader.stop()
    assert bus.start().initialOffset()["seq"] == 3  # also the last batch was committed


def test_available_now_takes_what_the_spool_had_no_room_for(bus: Reader) -> None:
    publish(bus.queue, *"abcdefgh")
    reader = bus.start(maxSpoolRows="4", segmentRows="2")
    reader.prepareForTriggerAvailableNow()
    offset = reader.initialOffset()
    ends = []
    for _ in range(5):
        offset = reader.latestOffset(offset, ReadMaxRows(3))
        ends.append(offset["seq"])
        if offset["seq"] == 6:
            publish(bus.queue, *"ij")  # with the rest, or a moment too late
    assert ends == [3, 4, 6, 8, 10]


class Lazy(FolderCollector):
    """Looks idle whenever nothing comes, also if that is for want of room a moment ago."""

    def idle(self) -> bool:
        return True


class LazySource(FolderSource):
    """``format("folder")``, too."""

    def collector(self, options: SourceOptions, spool: Spool) -> FolderCollector:
        return Lazy(options, spool)


def test_links_that_had_no_credit_are_not_idle(bus: Reader) -> None:
    publish(bus.queue, *"abcdefghijkl")
    reader = bus.start(LazySource, maxSpoolRows="4", segmentRows="2")
    reader.prepareForTriggerAvailableNow()
    offset = reader.initialOffset()
    ends = []
    for _ in range(12):
        offset = reader.latestOffset(offset, ReadMaxRows(2))
        # as Spark does, once the next batch is planned: there is room for more before the target
        reader.commit({**offset, "seq": max(0, offset["seq"] - 2)})
        reader._collection().wait(99, 0)
        ends.append(offset["seq"])
    assert ends == [2, 4, 6, 8, 10, 12, 12, 12, 12, 12, 12, 12]


def test_available_now_ends_when_its_time_to_wait_is_over(bus: Reader) -> None:
    publish(bus.queue, *"abcdefgh")
    reader = bus.start(maxSpoolRows="4", segmentRows="2", drainMaxMs="0")
    reader.prepareForTriggerAvailableNow()
    offset = reader.initialOffset()
    ends = []
    for _ in range(2):
        offset = reader.latestOffset(offset, ReadMaxRows(9))
        ends.append(offset["seq"])
    assert ends == [4, 4]


def test_a_reader_that_was_replaced_learns_of_it(bus: Reader) -> None:
    publish(bus.queue, "a")
    old = bus.start()
    start = old.initialOffset()
    end = old.latestOffset(start, ReadMaxRows(9))
    bus.start().initialOffset()
    publish(bus.queue, "b")
    with pytest.raises(Fenced):
        old.commit(end)
    with pytest.raises(Fenced):
        old.latestOffset(end, ReadMaxRows(9))


@pytest.mark.parametrize("offset", [{}, {"spool": "x"}, {"spool": "x", "seq": "y"}, {"seq": 1}])
def test_an_offset_that_is_none(bus: Reader, offset: dict[str, str]) -> None:
    with pytest.raises(SpoolError, match="an offset that is none of this data source"):
        bus.start().latestOffset(offset, ReadMaxRows(9))


def test_an_offset_of_another_spool(bus: Reader) -> None:
    with pytest.raises(SpoolError, match=r"belongs to spool x, but spoolDir .* holds spool"):
        bus.start().latestOffset({"spool": "x", "seq": 0}, ReadMaxRows(9))


@pytest.mark.parametrize("fail", [True, False])
def test_a_file_that_goes_between_planning_and_reading(bus: Reader, fail: bool) -> None:
    publish(bus.queue, *"abcd")
    reader = bus.start(segmentRows="2", failOnDataLoss=str(fail))
    start = reader.initialOffset()
    (part,) = reader.partitions(start, reader.latestOffset(start, ReadMaxRows(9)))
    (bus.spool / "00000000000000000001-00000000000000000002.arrow").unlink()
    if fail:
        with pytest.raises(Missing, match=r"rows 1 to 2: .* is not there; to go on"):
            list(reader.read(part))
    else:
        assert pairs(reader.read(part)) == [(3, "c"), (4, "d")]


def test_an_empty_partition_gives_nothing() -> None:
    assert list(ranges.read(ranges.RowRange(), True)) == []


def test_few_rows_are_one_task(bus: Reader) -> None:
    publish(bus.queue, *"abcd")
    reader = bus.start()
    reader.initialOffset()
    spool = Spool.open(bus.spool)
    try:
        assert len(ranges.plan(spool, 1, 4, 8, True)) == 1
    finally:
        spool.close()
