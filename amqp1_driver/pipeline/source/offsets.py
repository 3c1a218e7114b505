# SPDX-License-Identifier: Apache-2.0

"""Offsets in Spark's checkpoint: ``{"spool": uuid, "seq": n}``, rows up to ``n`` included.

The functions run in the process in which Spark plans, on any thread.
"""

from __future__ import annotations

from typing import Any

from amqp1_driver.pipeline.spool import Missing, Spool, SpoolError


def make(spool: Spool, seq: int) -> dict[str, Any]:
    """Return the offset of row ``seq``."""
    return {"spool": spool.uuid, "seq": seq}


def seq(offset: dict[str, Any], spool: Spool) -> int:
    """Return the row that an offset names.

    :raises SpoolError: the offset is of another spool, or of another data source
    :raises Missing: the spool ends before that row, so it has lost rows
    """
    try:
        uuid, number = str(offset["spool"]), int(offset["seq"])
    except (KeyError, TypeError, ValueError):
        raise SpoolError(
            f"the checkpoint has an offset that is none of this data source: {offset!r}"
        ) from None
    if uuid != spool.uuid:
        raise SpoolError(
            f"the checkpoint belongs to spool {uuid}, but spoolDir {spool.folder} holds spool "
            f"{spool.uuid}: a checkpoint and its spool belong together; give the spoolDir that "
            "the query had, or begin with a new checkpoint"
        )
    if number > spool.high:
        raise Missing(
            f"the checkpoint is at row {number}, but the spool {spool.folder} ends at row "
            f"{spool.high}: its newest segments were removed, or it was restored from an older "
            "copy; begin with a new checkpoint and a new spoolDir"
        )
    return number
