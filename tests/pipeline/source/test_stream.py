# SPDX-License-Identifier: Apache-2.0

"""Streaming queries in Spark on a spool that a fake collector fills."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.source.fake import FolderSource, publish
from tests.pipeline.source.query import DEADLINE, Query
from tests.pipeline.spool.rows import numbered


@pytest.fixture
def query(spark: Any, tmp_path: Path) -> Query:
    spark.dataSource.register(FolderSource)
    return Query(spark, tmp_path)


def test_each_message_is_one_row_also_over_restarts(query: Query) -> None:
    publish(query.queue, "a", "b", "c")
    assert query.run() == [3]
    publish(query.queue, "b", "d")  # b is delivered again
    assert query.run() == [1]

    assert query.result() == [
        (1, "a", "body of a"),
        (2, "b", "body of b"),
        (3, "c", "body of c"),
        (4, "d", "body of d"),
    ]
    assert list(query.queue.iterdir()) == []


def test_a_batch_has_as_many_rows_as_the_trigger_may_take(query: Query) -> None:
    publish(query.queue, *"abcdefg")

    assert query.run(maxRowsPerTrigger=3) == [3, 3, 1]
    assert [name for _, name, _ in query.result()] == list("abcdefg")


def test_a_spool_that_is_full_empties_itself(query: Query) -> None:
    """One run takes all that was there, in as many batches as it needs."""
    publish(query.queue, *"abcdefghij")

    assert query.run(maxSpoolRows=4, segmentRows=2) == [4, 2, 2, 2]
    assert [name for _, name, _ in query.result()] == list("abcdefghij")
    assert query.run(maxSpoolRows=4, segmentRows=2) == []


def test_a_full_spool_does_not_stall_a_query_that_goes_on(query: Query) -> None:
    publish(query.queue, *"abcdefghij")
    running = query.start({"processingTime": "0 seconds"}, maxSpoolRows=4, segmentRows=2)
    try:
        running.processAllAvailable()
    finally:
        running.stop()

    assert [name for _, name, _ in query.result()] == list("abcdefghij")


def test_the_unfinished_batch_is_repeated_as_it_was(query: Query) -> None:
    """Planned, but never noted as done: the same rows come once more, and no others."""
    publish(query.queue, "a", "b")
    query.run()
    publish(query.queue, "c", "d")
    spool = query.open_spool()
    spool.append(numbered(3, 4))
    spool.close()
    offsets = query.checkpoint / "offsets"
    version, metadata, _ = (offsets / "0").read_text("utf-8").splitlines()
    (offsets / "1").write_text(
        f'{version}\n{metadata}\n{{"spool": "{spool.uuid}", "seq": 3}}', "utf-8"
    )

    assert query.run() == [1, 3]

    assert [name for _, name, _ in query.result()] == ["a", "b", "m3", "m4", "c", "d"]


def test_the_rows_are_spread_over_tasks(query: Query) -> None:
    spool = query.open_spool()
    spool.append(numbered(1, 5000))
    spool.close()

    query.run(partitions=3)

    assert sum(1 for path in query.sink.glob("*.parquet")) == 3
    assert [seq for seq, _, _ in query.result()] == list(range(1, 5001))


def test_a_finished_run_leaves_the_newest_segment_only(query: Query) -> None:
    spool = query.open_spool(max_rows=100, segment_rows=2)
    spool.append(numbered(1, 6))
    spool.close()

    query.run(maxRowsPerTrigger=4)

    assert query.segments() == ["00000000000000000005-00000000000000000006.arrow"]


# -- errors ------------------------------------------------------------------------


def fails(start: Callable[[], Any], text: str) -> None:
    with pytest.raises(Exception, match=text):
        query = start()
        query.awaitTermination(DEADLINE)


def lose_middle(query: Query) -> None:
    spool = query.open_spool(max_rows=100, segment_rows=2)
    spool.append(numbered(1, 6))
    spool.close()
    (query.spool / "00000000000000000003-00000000000000000004.arrow").unlink()


def test_missing_rows_fail_the_query(query: Query) -> None:
    lose_middle(query)

    fails(query.start, r"rows 3 to 4 are missing in the spool .*set failOnDataLoss to false")


def test_the_query_goes_on_without_missing_rows_if_told_so(query: Query) -> None:
    lose_middle(query)

    query.run(failOnDataLoss="false")

    assert [seq for seq, _, _ in query.result()] == [1, 2, 5, 6]


def test_the_checkpoint_of_another_spool(query: Query) -> None:
    publish(query.queue, "a")
    query.run()
    for path in query.spool.iterdir():
        path.unlink()
    publish(query.queue, "b")

    fails(query.start, "the checkpoint belongs to spool .* begin with a new checkpoint")


def test_a_spool_that_is_behind_the_checkpoint(query: Query) -> None:
    publish(query.queue, "a", "b")
    query.run()
    for name in ("committed", *query.segments()):
        (query.spool / name).unlink()

    fails(query.start, "the checkpoint is at row 2, but the spool .* ends at row 0")


def test_what_the_collector_dies_of_is_in_the_query_s_error(query: Query) -> None:
    publish(query.queue, "a")
    (query.queue / "broken").write_text("the bus is gone")

    fails(query.start, "messages can no more be taken from the bus: OSError: the bus is gone")


def test_a_wrong_option_is_named(query: Query) -> None:
    fails(lambda: query.start(credit="0"), "option 'credit' = '0' is less than 1")
