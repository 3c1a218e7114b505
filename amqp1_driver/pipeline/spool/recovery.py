# SPDX-License-Identifier: Apache-2.0

"""The recovery of a spool when a process opens it.  Any thread, under the lock of :mod:`.fence`."""

from __future__ import annotations

import json
import logging
import uuid
from pathlib import Path
from typing import NamedTuple

from amqp1_driver.pipeline.spool import files, segments
from amqp1_driver.pipeline.spool.errors import Damaged
from amqp1_driver.pipeline.spool.retention import Retained

LOG = logging.getLogger(__name__)

IDENTITY = "spool.json"
COMMITTED = "committed"
FORMAT = 1


class Found(NamedTuple):
    """The state in which the last writer left a spool.

    :param committed: the last committed row, 0 when there is none
    """

    uuid: str
    committed: int
    retained: Retained


def look(folder: Path) -> Found:
    """Read the state of the spool in the folder, and repair what can be repaired.

    This function removes unfinished files, renames torn segments and logs missing rows. A folder
    with neither ``spool.json`` nor segments becomes a new spool.

    :raises Damaged: the folder is not a spool, or its files contradict each other
    :raises OSError: the folder cannot be read or written
    """
    unfinished = files.remove_temporary(folder)
    if unfinished:
        LOG.info(
            "Spool %s: %d unfinished files of an earlier process are removed; nothing in "
            "them was acknowledged",
            folder,
            unfinished,
        )
    found = files.segments(folder)
    identity = _identity(folder, bool(found))
    committed = _committed(folder / COMMITTED)
    retained = Retained(_checked(segment) for segment in found)
    if retained.high:
        for lo, hi in retained.missing(max(committed + 1, 1), retained.high):
            LOG.error("Spool %s: rows %d to %d are missing", folder, lo, hi)
    return Found(identity, committed, retained)


def _checked(segment: files.Segment) -> files.Segment:
    """Return the segment; if it is torn, rename its file first.

    The writer forced each segment to disc before it gave the file its name, so a torn segment is
    a fault of the disc.
    """
    if segment.torn or segments.whole(segment):
        return segment
    path = segment.path.with_suffix(files.TORN)
    segment.path.rename(path)
    LOG.error("Spool: %s is torn and was renamed to %s", segment.path, path.name)
    return segment._replace(path=path, torn=True)


def _identity(folder: Path, used: bool) -> str:
    path = folder / IDENTITY
    try:
        content = json.loads(path.read_bytes())
        version, name = content["format"], str(content["uuid"])
    except FileNotFoundError:
        if used:
            raise Damaged(f"{folder} has segments but no {IDENTITY}") from None
        name = str(uuid.uuid4())
        files.replace(path, json.dumps({"format": FORMAT, "uuid": name}).encode())
        return name
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{path} cannot be read: {error!r}") from error
    if version != FORMAT:
        raise Damaged(f"{path}: format {version!r} is not known here, only {FORMAT}")
    return name


def _committed(path: Path) -> int:
    try:
        return int(path.read_bytes())
    except FileNotFoundError:
        return 0
    except ValueError:
        raise Damaged(f"{path} holds no number") from None
