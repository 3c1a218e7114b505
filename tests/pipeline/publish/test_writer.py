# SPDX-License-Identifier: Apache-2.0

"""``df.write.format("amqp1")`` and ``writeStream`` in Spark, on the embedded bus."""

from collections.abc import Iterator
from typing import Any

import pytest

from amqp1_driver.testing.fixture import BusProcess
from tests.pipeline.collect.conftest import collecting  # noqa: F401
from tests.pipeline.collect.support import WAIT, rows


@pytest.fixture(scope="module")
def broker() -> Iterator[BusProcess]:
    with BusProcess("broker", "--queue-capacity", "10000") as made:
        yield made


def stored(collecting: Any, url: str, address: str, count: int) -> list[dict[str, Any]]:  # noqa: F811
    collector, spool = collecting(url, address, address=address)
    assert collector.wait_for(count, WAIT)
    collector.stop()
    return rows(spool)


def test_a_batch(spark, broker, collecting):  # noqa: F811
    frame = spark.range(0, 400, 1, 3).selectExpr(
        "cast(id as string) as body",
        "map('k', cast(id as string)) as properties",
        "'text/plain' as content_type",
        "if(id = 7, 'own', null) as message_id",
        "if(id < 100, 'few', null) as address",
    )
    (
        frame.write.format("amqp1")
        .mode("append")
        .option("url", broker.url())
        .option("address", "many")
        .option("idPrefix", "job")
        .save()
    )
    few, many = (
        stored(collecting, broker.url(), "few", 100),
        stored(collecting, broker.url(), "many", 300),
    )
    assert sorted(int(row["body"]) for row in few + many) == list(range(400))
    assert {row["content_type"] for row in few + many} == {"text/plain"}
    assert all(row["properties"] == [("k", row["body"].decode())] for row in few + many)
    names = {row["message_id"] for row in few + many}
    assert len(names) == 400
    assert "own" in names and "job-0-0" in names and "job-2-1" in names


def test_a_stream_sends_a_batch_that_comes_again_with_the_same_ids(
    spark,
    broker,
    collecting,  # noqa: F811
    tmp_path,
):
    spark.range(0, 50, 1, 1).selectExpr("cast(id as string) as body").write.parquet(
        str(tmp_path / "in")
    )

    def run(checkpoint):
        query = (
            spark.readStream.schema("body string")
            .parquet(str(tmp_path / "in"))
            .writeStream.format("amqp1")
            .queryName(checkpoint)
            .option("url", broker.url())
            .option("address", "stream")
            .option("idPrefix", "p")
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)
        assert query.exception() is None

    run("one")
    run("one")  # all is done: nothing is sent
    run("two")  # as if the first had crashed before its batch was noted
    found = stored(collecting, broker.url(), "stream", 100)
    assert sorted(row["message_id"] for row in found) == sorted(
        2 * [f"p-0-0-{n}" for n in range(50)]
    )


def test_what_the_bus_does_not_take_fails_the_job(spark):
    from pyspark.errors import PySparkException

    frame = spark.range(0, 1, 1, 1).selectExpr("cast(id as string) as body")
    with pytest.raises(PySparkException) as found:
        (
            frame.write.format("amqp1")
            .mode("append")
            .option("url", "amqp://127.0.0.1:1")
            .option("address", "q")
            .option("timeout", "0.2")
            .option("idPrefix", "p")
            .save()
        )
    text = str(found.value)
    assert "host=127.0.0.1:1" in text and "message-id=p-0-0" in text and "address=q" in text


@pytest.mark.parametrize(
    "options, mode, text",
    [
        ({}, "append", "where to send"),
        ({"address": "q", "nope": "1"}, "append", "'nope' is not known"),
        ({"address": "q"}, "overwrite", "can't be overwritten"),
    ],
)
def test_mistakes_are_named(spark, options, mode, text):
    from pyspark.errors import PySparkException

    frame = spark.range(1).selectExpr("cast(id as string) as body")
    with pytest.raises(PySparkException, match=text):
        frame.write.format("amqp1").mode(mode).options(url="amqp://127.0.0.1:1", **options).save()


def test_a_stream_that_would_send_its_whole_table_with_each_batch_is_refused(spark, tmp_path):
    from pyspark.errors import StreamingQueryException

    query = (
        spark.readStream.format("rate")
        .load()
        .groupBy("value")
        .count()
        .selectExpr("cast(value as string) as body")
        .writeStream.format("amqp1")
        .outputMode("complete")
        .options(url="amqp://127.0.0.1:1", address="q")
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    try:
        with pytest.raises(StreamingQueryException, match="output mode 'complete' would send"):
            query.awaitTermination(60)
    finally:
        query.stop()
