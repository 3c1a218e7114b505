# SPDX-License-Identifier: Apache-2.0

"""What is read, from lines and from columns; nothing is lost silently."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from amqp1_driver.pipeline.telemetry import arrow_files
from amqp1_driver.pipeline.telemetry.reading import format_of, from_files, sorted_out
from amqp1_driver.pipeline.transform import telemetry_records as base
from amqp1_driver.telemetry import events
from amqp1_driver.telemetry.events import Record
from amqp1_driver.telemetry.files import make_format

from .frames import good, line, parsed, rows, send

CUT_OFF = '{"time":"2026-11-21T08:00:00'


def test_columns_are_those_of_the_driver() -> None:
    assert tuple(base.RECORDS.names) == events.FIELDS
    texts = {field.name for field in base.RECORDS if field.dataType.typeName() == "string"}
    assert texts == events.TEXTS
    assert base.KINDS == (
        events.SEND,
        events.REPLY,
        events.STALL,
        events.RESUME,
        events.CONNECTION,
        events.LINK,
    )


def test_lines(spark: Any) -> None:
    written = events.Message(
        events.Origin("c9", 9),
        1_700_000_000.000001,
        "send",
        "bus:5672",
        None,
        "cast",
        "m",
        "timeout",
        "MessagingTimeout",
        "connection",
        0.001,
        None,
        None,
        None,
        30.0,
        12,
    )
    made = events.to_lines([written.record(3)]).decode()
    found = parsed(
        spark,
        send("08:00:00.000001", total_us=1234),
        made,
        CUT_OFF,
        "",
        "nothing",
        "[1]",
        line("08:00:00", "meal"),
        line("08:00:00", "stall", container=None),
        send("at noon"),
        send("08:00:00", total_us="long"),
        send("08:00:00", colour="red"),
    )
    records = base.good(found)
    assert rows(
        records.selectExpr(
            "unix_micros(time)",
            "client",
            "place",
            "operation",
            "total_us",
            "dropped",
            "failed",
            "stage",
        )
    ) == [
        (1795248000000001, "c1/1", "nova", "call", 1234, 0, False, None),
        (1700000000000001, "c9/9", "(none)", "cast", 30000000, 3, True, "connection"),
        (1795248000000000, "c1/1", "nova", "call", None, 0, False, None),
    ]
    assert [row[:2] for row in rows(base.bad(found))] == [
        ("not a record in JSON", 5),
        ("container is missing", 1),
        ("unknown kind meal", 1),
    ]
    assert rows(base.unknown(found)) == [("colour", 1)]


def test_the_older_name_of_dropped_is_read(spark: Any) -> None:
    """Files of versions before this one; a file of columns has one of the two names, or both."""
    old = send("08:00:00", dropped=None, batch=3)
    found = parsed(spark, old, send("08:00:01", dropped=4))
    assert rows(found.orderBy("time"), "dropped", "unknown") == [(3, []), (4, [])]
    columns = "time timestamp, kind string, container string"
    stored = [(None, "send", "c1", 5)]
    frame = base.of_columns(spark.createDataFrame(stored, f"{columns}, batch long"))
    assert rows(frame, "dropped", "unknown") == [(5, [])]
    both = spark.createDataFrame(
        [(None, "send", "c1", 6, None)], f"{columns}, dropped long, batch int"
    )
    assert rows(base.of_columns(both), "dropped", "unknown") == [(6, [])]


def test_the_older_name_of_dropped_is_read_from_arrow_files() -> None:
    times = pa.array([0], pa.timestamp("us", tz="UTC"))
    batch = pa.RecordBatch.from_arrays(
        [times, pa.array(["send"]), pa.array(["c1"]), pa.array([7], pa.int32())],
        names=["time", "kind", "container", "batch"],
    )
    (row,) = arrow_files.records(batch).to_pylist()
    assert (row["dropped"], row["unknown"], row["pid"]) == (7, [], None)


def test_a_value_of_an_arrow_file_that_cannot_be_cast_costs_no_other_value() -> None:
    when = datetime(2026, 11, 21, 8, 0, 0, 0, UTC)
    batch = pa.RecordBatch.from_pydict(
        {
            "time": pa.array(["2026-11-21T08:00:00Z", "at noon", None]),
            "kind": ["send", "send", "send"],
            "total_us": ["5", "much", None],
            "size": [1.0, 2.5, 3.0],
            "credit": [[1], [2], [3]],
        }
    )
    found = arrow_files.records(batch).to_pylist()
    assert [(row["time"], row["total_us"], row["size"], row["credit"]) for row in found] == [
        (when, 5, 1, None),
        (None, None, None, None),
        (None, None, 3, None),
    ]


def test_what_failed(spark: Any) -> None:
    error = "MessageDeliveryFailure"
    records = good(
        spark,
        send("08:00:00"),
        send("08:00:01", outcome="none"),
        send("08:00:02", outcome=None),
        send("08:00:03", outcome="released"),
        send("08:00:04", outcome="modified"),
        send("08:00:05", outcome="rejected"),
        send("08:00:06", outcome="timeout"),
        send("08:00:07", outcome="unknown", error=error),
        send("08:00:08", outcome="none", error=error),
    )
    assert rows(records.orderBy("time"), "failed") == [(False,)] * 3 + [(True,)] * 6


def test_reply_addresses_are_one_place(spark: Any) -> None:
    records = good(
        spark,
        line("08:00:00", "reply", address="temp-1", operation="reply"),
        line("08:00:00", "link", address="temp-1", state="attached"),
    )
    assert rows(records, "place") == [("(reply addresses)",), ("temp-1",)]


def test_summary_and_what_was_dropped(spark: Any) -> None:
    records = good(
        spark,
        send("08:00:00", size=10),
        send("08:00:10", outcome="rejected", dropped=2, size=5),
        line("08:00:30", "stall"),
        send("08:00:20", pid=2, dropped=1),
        send("08:00:20", pid=3),
    )
    assert rows(
        base.summary(records).selectExpr(
            "records",
            "clients",
            "messages",
            "failed",
            "dropped",
            "unix_seconds(first) - 1795248000",
            "unix_seconds(last) - 1795248000",
            "bytes",
        )
    ) == [(5, 3, 4, 1, 3, 0, 30, 15)]
    # 2 of 3 + 2, and 1 of 1 + 1
    assert rows(base.dropped(records)) == [("c1/1", 2, 3, 0.4), ("c1/2", 1, 1, 0.5)]


def test_parquet_with_either_kind_of_time(spark: Any, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    when = datetime(2026, 11, 21, 8, 0, 0, 1, UTC)
    common = {"kind": ["send"], "container": ["c"], "total_us": [5], "colour": ["red"]}
    pq.write_table(
        pa.table({"time": pa.array([when], pa.timestamp("us", "UTC")), **common}),
        tmp_path / "a.parquet",
    )
    pq.write_table(pa.table({"time": [1795248000000001], **common}), tmp_path / "b.parquet")
    (tmp_path / "c.jsonl").write_text(send("08:00:00.000001", total_us=5) + "\n" + CUT_OFF)
    found = from_files(spark, sorted_out([str(tmp_path)]))
    assert (
        sorted(rows(base.good(found).selectExpr("unix_micros(time)", "total_us", "host")))
        == [(1795248000000001, 5, None)] * 3
    )
    assert rows(base.unknown(found)) == [("colour", 2)]
    assert rows(base.bad(found)) == [("not a record in JSON", 1, CUT_OFF)]


def test_columns_of_something_else_are_named(spark: Any, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"kind": ["x"], "price": [1.5]}), path)
    words = "no telemetry of the driver: column time, container is missing among kind, price"
    with pytest.raises(ValueError, match=rf"other\.parquet: {words}"):
        from_files(spark, {"json": [], "parquet": [str(path)], "arrow": []})
    path.write_text("no parquet")
    with pytest.raises(ValueError, match=r"other\.parquet: this is no Parquet file"):
        from_files(spark, {"json": [], "parquet": [str(path)], "arrow": []})


def arrow(path: Path, **columns: Any) -> None:
    import pyarrow as pa

    table = pa.table(columns)
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def test_arrow_files(spark: Any, tmp_path: Path) -> None:
    """Of several batches, with other columns, times as numbers, and values of other kinds."""
    import pyarrow as pa

    when = datetime(2026, 11, 21, 8, 0, 0, 1, UTC)
    arrow(
        tmp_path / "a 1.arrow",
        time=pa.array([when] * 3, pa.timestamp("us", "UTC")),
        kind=["send", "send", "what"],
        container=["c"] * 3,
        total_us=[5, 6, 7],
    )
    arrow(
        tmp_path / "b.arrow",
        time=[1795248000000002],
        kind=["reply"],
        container=["d"],
        total_us=["much"],
        colour=["red"],
    )
    found = from_files(spark, sorted_out([str(tmp_path)]))

    assert sorted(
        rows(base.good(found).selectExpr("unix_micros(time)", "container", "total_us", "host"))
    ) == [
        (1795248000000001, "c", 5, None),
        (1795248000000001, "c", 6, None),
        (1795248000000002, "d", None, None),
    ]
    assert rows(base.unknown(found)) == [("colour", 1)]
    assert rows(base.bad(found), "reason", "count") == [("unknown kind what", 1)]


def test_what_the_driver_writes(spark: Any, tmp_path: Path) -> None:
    """The same records in its three formats are the same rows."""
    record = Record(
        1795248000000001,
        "send",
        "c",
        7,
        address="a",
        operation="call",
        outcome="accepted",
        total_us=1500,
    )
    for name in ("json", "parquet", "arrow"):
        form = make_format(name)
        data = form.add([record])
        (tmp_path / f"a.{form.suffix}").write_bytes(data + form.end())
    found = [
        rows(base.good(from_files(spark, sorted_out([str(path)]))))
        for path in sorted(tmp_path.iterdir())
    ]

    assert len(found) == 3
    assert found[0] == found[1] == found[2]
    assert found[0][0][:6] == (datetime(2026, 11, 21, 8, 0, 0, 1), "send", "c", 7, None, "a")


def test_arrow_files_of_something_else_are_named(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "other.arrow"
    arrow(path, kind=["x"], price=[1.5])
    words = "no telemetry of the driver: column time, container is missing among kind, price"
    files = {"json": [], "parquet": [], "arrow": [str(path)]}
    with pytest.raises(ValueError, match=rf"other\.arrow: {words}"):
        from_files(spark, files)
    whole = path.read_bytes()
    for data in (b"no arrow", b"", whole[:-20]):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"other\.arrow: (this is no Arrow file|Cannot)"):
            from_files(spark, files)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.jsonl", "json"),
        ("a.json.gz", "json"),
        ("A.NDJSON", "json"),
        ("a.parquet", "parquet"),
        ("s3a://bucket/day=1/a.parquet", "parquet"),
        ("/x/*.jsonl.zst", "json"),
        ("a.log", None),
        ("a.arrow", "arrow"),
        ("jsonl", None),
    ],
)
def test_formats_by_name(name: str, kind: str | None) -> None:
    assert format_of(name) == kind


def test_folders_are_searched_for_what_is_finished(tmp_path: Path) -> None:
    for name in (
        "a.jsonl",
        "b/c.parquet",
        "b/c.arrow",
        ".hidden.jsonl",
        "_temporary/d.parquet",
        "notes.txt",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert sorted_out([str(tmp_path)]) == {
        "json": [f"{tmp_path}/a.jsonl"],
        "parquet": [f"{tmp_path}/b/c.parquet"],
        "arrow": [f"{tmp_path}/b/c.arrow"],
    }
    assert sorted_out([f"{tmp_path}/notes.txt"], "json")["json"] == [f"{tmp_path}/notes.txt"]
    assert sorted_out(["hdfs://n/x"], "parquet")["parquet"] == ["hdfs://n/x"]


def test_paths_that_are_no_telemetry(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    for path, words in (
        ("no", "there is no such file or folder"),
        ("", "no telemetry in this folder: no file named"),
        ("notes.txt", "what is in it can't be told from its name"),
    ):
        with pytest.raises(ValueError, match=words) as error:
            sorted_out([str(tmp_path / path)])
        assert str(error.value).startswith(str(tmp_path / path))
