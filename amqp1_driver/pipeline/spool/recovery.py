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

"""What is found when a spool is opened. The lock is held meanwhile."""

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
    """A spool as it was left."""

    uuid: str
    committed: int
    retained: Retained


def look(folder: Path) -> Found:
    """Find out what is in the folder, which becomes a spool when it is none.

    :raises Damaged: it is no spool, or contradicts itself
    :raises OSError: it cannot be read or written
    """
    unfinished = files.remove_temporary(folder)
    if unfinished:
        LOG.info("Spool %s: %d unfinished files of an earlier process are removed; nothing in "
                 "them was acknowledged", folder, unfinished)
    found = files.segments(folder)
    identity = _identity(folder, bool(found))
    committed = _committed(folder / COMMITTED)
    retained = Retained(_checked(segment) for segment in found)
    if retained.high:
        for lo, hi in retained.missing(max(committed + 1, 1), retained.high):
            LOG.error("Spool %s: rows %d to %d are missing", folder, lo, hi)
    return Found(identity, committed, retained)


def _checked(segment: files.Segment) -> files.Segment:
    """The segment, set aside when it is torn: it was forced to disc, so the disc is at fault."""
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
