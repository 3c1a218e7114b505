# SPDX-License-Identifier: Apache-2.0

"""Files: whole ones only under a name, bounded, and no error of the disc does harm."""

import errno
import json
import os
import re

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

from amqp1_driver.telemetry import files
from amqp1_driver.telemetry.files import FileSink, make_format

from .records import Clock, message, record

#: of record("q") as a line of JSON
LINE = (
    '{"time":"1970-01-01T00:00:00.000000Z","kind":"stall","container":"c","pid":42,'
    '"host":"bus:5672","address":"q","credit":10,"dropped":0}\n'
)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "telemetry"


@pytest.fixture
def clock():
    return Clock(1795305600.0)


@pytest.fixture
def make(folder, clock):
    made = []

    def sink(format="json", max_bytes=1000000, max_seconds=60.0, keep=100, **more):
        made.append(
            FileSink(
                str(folder),
                make_format(format),
                max_bytes=max_bytes,
                max_seconds=max_seconds,
                keep=keep,
                now=clock,
                **more,
            )
        )
        return made[-1]

    yield sink
    for one in made:
        one.abandon()


def names(folder):
    """Finished files, and how many are not."""
    found = sorted(os.listdir(folder))
    return [name for name in found if name[0] != "."], sum(name[0] == "." for name in found)


def lines(folder):
    return [
        json.loads(line)
        for name in names(folder)[0]
        for line in (folder / name).read_text().splitlines()
    ]


def test_a_file_has_its_name_only_when_it_is_whole(make, folder):
    sink = make()
    sink.take([record()])
    assert names(folder) == ([], 1)
    sink.close(1.0)
    (name,), left = names(folder)
    assert left == 0
    assert re.fullmatch(r"amqp1-20261122T000000Z-.+-\d+-[0-9a-f]{8}-1\.jsonl", name)
    assert (folder / name).read_text() == LINE


def test_a_new_file_after_so_many_bytes(make, folder):
    sink = make(max_bytes=2 * len(LINE))
    for _ in range(5):
        sink.take([record()])
    assert names(folder)[1] == 1
    sink.close(1.0)
    assert [(folder / name).read_text() for name in names(folder)[0]] == [2 * LINE, 2 * LINE, LINE]


def test_a_new_file_after_so_many_seconds(make, folder, clock):
    sink = make(max_seconds=60.0)
    sink.take([record("a")])
    clock.now += 59.9
    sink.tick()
    assert names(folder) == ([], 1)
    clock.now += 0.1
    sink.tick()
    assert len(names(folder)[0]) == 1
    clock.now += 1000.0
    sink.tick()  # there is none
    sink.close(1.0)
    assert [line["address"] for line in lines(folder)] == ["a"]


def test_the_oldest_files_go_whoever_wrote_them_and_no_others(make, folder, clock):
    folder.mkdir()
    (folder / "amqp1-20250101T000000Z-other-1-abc-1.jsonl").write_text("old\n")
    (folder / "amqp1-20250101T000000Z-other-1-abc-1.parquet").write_text("old\n")
    (folder / "notes.txt").write_text("mine")
    sink = make(max_bytes=1, keep=3)
    for _ in range(4):
        clock.now += 1
        sink.take([record()])
    found = names(folder)[0]
    assert [name[:22] for name in found] == [
        "amqp1-20261122T000002Z",
        "amqp1-20261122T000003Z",
        "amqp1-20261122T000004Z",
        "notes.txt",
    ]


def test_all_files_are_kept(make, folder):
    sink = make(max_bytes=1, keep=0)
    for _ in range(5):
        sink.take([record()])
    assert len(names(folder)[0]) == 5


class Disc:
    """``os.write`` that has room for so many bytes."""

    def __init__(self, room):
        self.room = room

    def __call__(self, file, data):
        if self.room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = os.write(file, data[: self.room])
        self.room -= done
        return done


def test_a_full_disc_costs_records_which_are_counted_and_no_half_line_stays(make, folder):
    disc = Disc(len(LINE) + 10)
    sink = make(write=disc)
    sink.take([record("a")])
    for name in "bc":
        with pytest.raises(OSError, match="No space left"):
            sink.take([record(name), record(name)])
    disc.room = 10000
    sink.take([record("d"), record("e")])
    sink.take([record("f")])
    sink.close(1.0)
    assert [(line["address"], line["dropped"]) for line in lines(folder)] == [
        ("a", 0),
        ("d", 4),
        ("e", 0),
        ("f", 0),
    ]


def test_what_was_dropped_before_is_not_forgotten_on_a_full_disc(make, folder):
    disc = Disc(0)
    sink = make(write=disc)
    with pytest.raises(OSError, match="No space left"):
        sink.take([record("a", dropped=5), record("b")])
    disc.room = 10000
    sink.take([record("c", dropped=1)])
    sink.close(1.0)
    assert [(line["address"], line["dropped"]) for line in lines(folder)] == [("c", 8)]


def test_a_file_that_never_got_a_line_does_not_stay(make, folder):
    sink = make(write=Disc(0))
    with pytest.raises(OSError, match="No space left"):
        sink.take([record()])
    sink.close(1.0)
    assert os.listdir(folder) == []


def test_no_permission_and_then_there_is(make, folder):
    folder.parent.joinpath("file").write_text("")
    sink = make()
    sink._directory = str(folder.parent / "file" / "below")
    with pytest.raises(OSError, match="Not a directory"):
        sink.take([record("a")])
    sink._directory = str(folder)
    sink.take([record("b")])
    sink.close(1.0)
    assert [(line["address"], line["dropped"]) for line in lines(folder)] == [("b", 1)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a file system")
def test_a_disc_that_is_really_full(tmp_path, clock):
    place = tmp_path / "small"
    place.mkdir()
    if os.system(f"mount -t tmpfs -o size=64k tmpfs {place} 2>/dev/null"):
        pytest.skip("no mounts here")
    try:
        sink = FileSink(
            str(place / "t"),
            make_format("json"),
            max_bytes=1 << 30,
            max_seconds=60.0,
            keep=0,
            now=clock,
        )
        with pytest.raises(OSError, match="No space left"):
            for number in range(1000):
                sink.take([record(str(number))])
        sink.close(1.0)
        found = lines(place / "t")
        assert [line["address"] for line in found] == [str(n) for n in range(len(found))]
        assert 100 < len(found) < 600
    finally:
        os.system(f"umount {place}")


# -- columns ---------------------------------------------------------------------------------------

SCHEMA = [
    ("time", "timestamp[us, tz=UTC]"),
    ("kind", "string"),
    ("container", "string"),
    ("pid", "int64"),
    ("host", "string"),
    ("address", "string"),
    ("operation", "string"),
    ("message_id", "string"),
    ("outcome", "string"),
    ("error", "string"),
    ("stage", "string"),
    ("handover_us", "int64"),
    ("wait_us", "int64"),
    ("ack_us", "int64"),
    ("reply_us", "int64"),
    ("total_us", "int64"),
    ("size", "int64"),
    ("credit", "int64"),
    ("state", "string"),
    ("dropped", "int64"),
]


def read(path):
    if path.suffix == ".parquet":
        return pyarrow.parquet.read_table(path)
    with pa.memory_map(str(path)) as source:
        return pyarrow.ipc.open_file(source).read_all()


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_columns(make, folder, clock, format):
    sink = make(format)
    sink.take([message(time=1795305600000001, message_id="m", address=None)])
    sink.take([record("b", dropped=3)])
    assert not folder.exists()  # it is in memory until it is whole
    clock.now += 60.0
    sink.tick()
    sink.take([record("c")])
    sink.close(1.0)
    first, second = (read(folder / name) for name in names(folder)[0])
    assert [(field.name, str(field.type)) for field in first.schema] == SCHEMA
    assert [row["time"].isoformat() for row in first.to_pylist()] == [
        "2026-11-22T00:00:00.000001+00:00",
        "1970-01-01T00:00:00+00:00",
    ]
    assert [
        (row["kind"], row["address"], row["message_id"], row["total_us"], row["dropped"])
        for row in [*first.to_pylist(), *second.to_pylist()]
    ] == [
        ("send", None, "m", 1000, 0),
        ("stall", "b", None, None, 3),
        ("stall", "c", None, None, 0),
    ]


def test_columns_of_more_than_one_group_are_bounded_by_bytes(make, folder):
    sink = make("parquet", max_bytes=1)
    sink.take([message(message_id=str(number)) for number in range(9999)])
    assert not folder.exists()
    sink.take([message(message_id="9999")])
    (name,), _ = names(folder)
    assert read(folder / name).num_rows == 10000


def test_columns_that_cannot_be_written_count_as_lost(make, folder):
    disc = Disc(10)
    sink = make("parquet", write=disc)
    sink.take([record("a"), record("b")])
    with pytest.raises(OSError, match="No space left"):
        sink.close(1.0)
    disc.room = 100000
    sink.take([record("c")])
    sink.close(1.0)
    (name,), left = names(folder)
    assert left == 0
    assert [(row["address"], row["dropped"]) for row in read(folder / name).to_pylist()] == [
        ("c", 2)
    ]


# -- what others left ---------------------------------------------------------------------------


def test_lines_of_a_process_that_was_killed_are_finished_without_the_one_that_was_cut(make, folder):
    folder.mkdir()
    left = folder / ".amqp1-20261121T000000Z-host-1-abc-1.jsonl"
    left.write_text(LINE + LINE[:20])
    other = folder / ".amqp1-20261121T000000Z-host-1-abc-2.jsonl"
    other.write_text("half")
    for file in (left, other):
        os.utime(file, (0, 0))
    # another process is just about to hold this one
    (folder / ".amqp1-20261121T000000Z-host-1-abc-3.jsonl").write_text("")
    (folder / ".other.jsonl").write_text("half")
    sink = make()
    sink.take([record()])
    assert (folder / left.name[1:]).read_text() == LINE
    assert names(folder) == (
        ["amqp1-20261121T000000Z-host-1-abc-1.jsonl", "amqp1-20261121T000000Z-host-1-abc-2.jsonl"],
        3,
    )


def test_columns_of_a_process_that_was_killed_are_removed(make, folder):
    """Without its end such a file can't be read."""
    folder.mkdir()
    for suffix in ("parquet", "arrow"):
        left = folder / f".amqp1-20261121T000000Z-host-1-abc-1.{suffix}"
        left.write_bytes(b"PAR1")
        os.utime(left, (0, 0))
    young = folder / ".amqp1-20261121T000000Z-host-1-abc-2.parquet"
    young.write_bytes(b"PAR1")
    assert files.finish_left(str(folder)) == []
    assert os.listdir(folder) == [young.name]


def test_lines_of_a_process_that_lives_are_its_own(make, folder):
    first = make()
    first.take([record("a")])
    for name in os.listdir(folder):
        os.utime(folder / name, (0, 0))
    assert files.finish_left(str(folder)) == []
    first.take([record("b")])
    first.close(1.0)
    assert [line["address"] for line in lines(folder)] == ["a", "b"]


def test_in_the_child_of_a_fork_the_file_is_let_go(make, folder):
    sink = make()
    sink.take([record("a")])
    pid = os.fork()
    if not pid:
        sink.abandon()
        os._exit(0)
    assert os.waitpid(pid, 0) == (pid, 0)
    sink.take([record("b")])
    sink.close(1.0)
    assert [line["address"] for line in lines(folder)] == ["a", "b"]
