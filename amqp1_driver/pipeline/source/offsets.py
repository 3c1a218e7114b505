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

"""Offsets in Spark's checkpoint: ``{"spool": uuid, "seq": n}``, rows up to ``n`` included."""

from __future__ import annotations

from typing import Any

from amqp1_driver.pipeline.spool import Missing, Spool, SpoolError


def make(spool: Spool, seq: int) -> dict[str, Any]:
    """The offset of row ``seq``."""
    return {"spool": spool.uuid, "seq": seq}


def seq(offset: dict[str, Any], spool: Spool) -> int:
    """The row that an offset names.

    :raises SpoolError: it is of another spool, or none of ours
    :raises Missing: the spool has not got as far, so it has lost rows
    """
    try:
        uuid, number = str(offset["spool"]), int(offset["seq"])
    except (KeyError, TypeError, ValueError):
        raise SpoolError(f"the checkpoint has an offset that is none of this data source: "
                         f"{offset!r}") from None
    if uuid != spool.uuid:
        raise SpoolError(
            f"the checkpoint belongs to spool {uuid}, but spoolDir {spool.folder} holds spool "
            f"{spool.uuid}: a checkpoint and its spool belong together; give the spoolDir that "
            "the query had, or begin with a new checkpoint")
    if number > spool.high:
        raise Missing(
            f"the checkpoint is at row {number}, but the spool {spool.folder} ends at row "
            f"{spool.high}: its newest segments were removed, or it was restored from an older "
            "copy; begin with a new checkpoint and a new spoolDir")
    return number
