# SPDX-License-Identifier: Apache-2.0

"""The names of a spool's files, and functions that write them safe from crashes.  Any thread.

After a crash a replaced file has its old or its new contents, never a part.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import BinaryIO, NamedTuple

SEGMENT = ".arrow"
#: suffix of a segment that could not be read; the file stays, but its rows are missing
TORN = ".torn"
TEMPORARY = ".tmp"
_NAME = re.compile(r"(\d{20})-(\d{20})(\.arrow|\.torn)")


class Segment(NamedTuple):
    """A file with the rows ``lo`` to ``hi``, both included.

    :param size: bytes
    :param torn: the file could not be read
    """

    lo: int
    hi: int
    path: Path
    size: int
    torn: bool = False


def segment_name(lo: int, hi: int) -> str:
    """Return the name of the file with these rows; names sort in order of the rows."""
    return f"{lo:020}-{hi:020}{SEGMENT}"


def segments(folder: Path) -> list[Segment]:
    """Return all segments of the folder in order, the torn ones included."""
    found = []
    for entry in os.scandir(folder):
        match = _NAME.fullmatch(entry.name)
        if match:
            try:
                size = entry.stat().st_size
            except FileNotFoundError:
                continue  # another process has just purged the file
            found.append(
                Segment(int(match[1]), int(match[2]), Path(entry.path), size, match[3] == TORN)
            )
    return sorted(found)


def remove_temporary(folder: Path) -> int:
    """Remove the files that an earlier process did not finish.

    No process has acknowledged the messages in them to the bus.

    :returns: number of files removed
    """
    found = [entry.path for entry in os.scandir(folder) if entry.name.endswith(TEMPORARY)]
    for path in found:
        os.unlink(path)
    return len(found)


def sync_folder(folder: Path) -> None:
    """Force renames in the folder to disc, so that they survive a crash of the machine."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path, mode: int = 0o700) -> None:
    """Make the folder and its parents, so that they survive a crash of the machine.

    Only the owner can read the folder, since messages may hold secrets. The umask decides the mode
    of the parents. A folder that exists stays as it is.
    """
    if not folder.is_dir():
        if folder.parent != folder:
            make_folder(folder.parent, 0o777)
        folder.mkdir(mode=mode, exist_ok=True)
        sync_folder(folder.parent)


def create(path: Path) -> BinaryIO:
    """Open a file for writing, empty, that only its owner can read under any umask."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(handle, 0o600)  # the mode in open() has no effect on a file that existed
        return os.fdopen(handle, "wb")
    except BaseException:
        os.close(handle)
        raise


def replace(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a small file so that readers see the old or the new contents, never a part.

    :param durable: also force the file and its name to disc
    """
    temporary = path.with_name(f".{path.name}{TEMPORARY}")
    with create(temporary) as file:
        file.write(data)
        file.flush()
        if durable:
            os.fsync(file.fileno())
    os.replace(temporary, path)
    if durable:
        sync_folder(path.parent)
