# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Files of a spool: names, and how they are replaced so that a crash leaves old or new."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

SEGMENT = ".arrow"
#: a segment that could not be read; kept aside, its rows are missing
TORN = ".torn"
TEMPORARY = ".tmp"
_NAME = re.compile(r"(\d{20})-(\d{20})(\.arrow|\.torn)")


class Segment(NamedTuple):
    """Rows ``lo`` to ``hi``, both included, in one file."""

    lo: int
    hi: int
    path: Path
    size: int
    torn: bool = False


def segment_name(lo: int, hi: int) -> str:
    """Name of the file with these rows; names sort as the rows do."""
    return f"{lo:020}-{hi:020}{SEGMENT}"


def segments(folder: Path) -> list[Segment]:
    """All segments of the folder in order, also those that are set aside as torn."""
    found = []
    for entry in os.scandir(folder):
        match = _NAME.fullmatch(entry.name)
        if match:
            try:
                size = entry.stat().st_size
            except FileNotFoundError:
                continue  # purged just now
            found.append(Segment(int(match[1]), int(match[2]), Path(entry.path), size,
                                 match[3] == TORN))
    return sorted(found)


def remove_temporary(folder: Path) -> int:
    """Remove what an earlier process did not finish: it was never acknowledged.

    :returns: how many files
    """
    found = [entry.path for entry in os.scandir(folder) if entry.name.endswith(TEMPORARY)]
    for path in found:
        os.unlink(path)
    return len(found)


def sync_folder(folder: Path) -> None:
    """Make renames in the folder outlast a crash of the machine."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Make the folder, and those above it, so that it outlasts a crash of the machine."""
    if not folder.is_dir():
        if folder.parent != folder:
            make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def replace(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a small file so that readers see the old or the new contents, never a part."""
    temporary = path.with_name(f".{path.name}{TEMPORARY}")
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        if durable:
            os.fsync(file.fileno())
    os.replace(temporary, path)
    if durable:
        sync_folder(path.parent)
