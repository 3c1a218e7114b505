# SPDX-License-Identifier: Apache-2.0

"""One writer at a time, also when the old one does not know that it has been replaced."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from amqp1_driver.pipeline.spool import Damaged, Fenced, Spool, SpoolError, segments
from amqp1_driver.pipeline.spool.fence import Fence
from tests.pipeline.spool.rows import contents, names, rows

LIVES_ON = """
import sys
from amqp1_driver.pipeline.spool import Spool
from tests.pipeline.spool.rows import rows

spool = Spool.open(sys.argv[1])
print("appended", *spool.append(rows("a", "b")), flush=True)
for line in sys.stdin:
    try:
        getattr(spool, line.split()[0])(*eval(line.split(maxsplit=1)[1]))
        print("done", flush=True)
    except Exception as error:
        print(type(error).__name__, flush=True)
"""


def test_a_process_that_lives_on_writes_nothing_more(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LIVES_ON, str(tmp_path)],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as old:
        assert old.stdin and old.stdout

        def tell(text: str) -> str:
            assert old.stdin and old.stdout
            old.stdin.write(text + "\n")
            old.stdin.flush()
            return old.stdout.readline().strip()

        try:
            assert old.stdout.readline().strip() == "appended 1 2"
            assert tell("append (rows('c'),)") == "done"
            new = Spool.open(tmp_path)
            assert [tell("append (rows('d'),)"), tell("commit (2,)"), tell("status ({},)")] == [
                "Fenced",
                "Fenced",
                "Fenced",
            ]
        finally:
            old.stdin.close()
            old.wait(30)
    assert (new.high, new.committed, new.epoch) == (3, 0, 2)
    new.append(rows("e"))
    assert contents(new, 1, 4) == [(1, "a"), (2, "b"), (3, "c"), (4, "e")]
    assert not (tmp_path / "status.json").exists()


def test_fenced_while_a_segment_was_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Spool.open(tmp_path)
    real = segments.write
    opened: list[Spool] = []

    def write(*args: object) -> int:
        size = real(*args)  # type: ignore[arg-type]
        monkeypatch.setattr(segments, "write", real)
        opened.append(Spool.open(tmp_path))
        return size

    monkeypatch.setattr(segments, "write", write)
    with pytest.raises(Fenced, match=r"epoch 2, ours is 1\): this one writes"):
        old.append(rows("a"))

    assert names(opened[0]) == []
    assert list(tmp_path.glob(".*.tmp")) == []
    assert (old.high, opened[0].high) == (0, 0)


def test_the_new_one_waits_for_a_change_under_way(tmp_path: Path) -> None:
    """And gives up waiting in time."""
    handle = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    fence = Fence(tmp_path, timeout=0.02)
    try:
        with (
            pytest.raises(SpoolError, match=r"locked by another process for 0\.02 s"),
            fence.take(),
        ):
            pass
        fcntl.flock(handle, fcntl.LOCK_UN)
        with fence.take():
            assert fence.epoch == 1
    finally:
        os.close(handle)
        fence.close()


@contextmanager
def waiting(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Somebody else has the lock; the event is set when it is about to be waited for."""
    about, real = threading.Event(), fcntl.flock

    def flock(handle: int, kind: int) -> None:
        if kind == fcntl.LOCK_EX:
            about.set()
        real(handle, kind)

    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    real(handle, fcntl.LOCK_EX)
    monkeypatch.setattr(fcntl, "flock", flock)
    yield about
    os.close(handle)


def test_the_one_who_waits_has_the_lock_as_soon_as_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fence = Fence(tmp_path, timeout=30)
    taken, go_on = threading.Event(), threading.Event()

    def take() -> None:
        with fence.take():
            taken.set()
            assert go_on.wait(30)

    taker = threading.Thread(target=take, daemon=True)
    with waiting(tmp_path, monkeypatch) as about:
        taker.start()
        assert about.wait(30)
        assert not taken.is_set()
    assert taken.wait(30)
    # it is a lock: others do not get it before that one is done
    other = Fence(tmp_path, timeout=0.02)
    with pytest.raises(SpoolError, match="was locked by another process"), other.take():
        pass
    go_on.set()
    taker.join(30)
    with other.take():
        assert other.epoch == 2
    with pytest.raises(Fenced), fence.held():
        pass
    fence.close()
    other.close()


def test_a_wait_that_was_given_up_keeps_the_lock_from_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient, patient = Fence(tmp_path, timeout=0.02), Fence(tmp_path, timeout=30)
    with waiting(tmp_path, monkeypatch) as about:
        with pytest.raises(SpoolError, match="was locked by another process"), impatient.take():
            pass
        assert about.is_set()
    with patient.take():
        assert patient.epoch == 1
    for thread in threading.enumerate():
        if thread.name == "amqp1-lock":
            thread.join(30)
    impatient.close()
    patient.close()
    assert [
        file for file in map(_file, os.listdir("/proc/self/fd")) if file.startswith(f"{tmp_path}/")
    ] == []


def _file(descriptor: str) -> str:
    """What a descriptor is open for; "" if it is closed meanwhile."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except FileNotFoundError:
        return ""


def test_a_look_whether_it_is_still_ones_own(tmp_path: Path) -> None:
    old = Spool.open(tmp_path)
    old.check()
    new = Spool.open(tmp_path)
    new.check()
    with pytest.raises(Fenced, match=r"epoch 2, ours is 1"):
        old.check()
    new.close()
    with pytest.raises(SpoolError, match="is closed"):
        new.check()


def test_an_epoch_that_is_no_number(tmp_path: Path) -> None:
    (tmp_path / "epoch").write_text("x")
    with pytest.raises(Damaged, match="epoch holds no number"):
        Spool.open(tmp_path)
