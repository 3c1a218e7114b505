# SPDX-License-Identifier: Apache-2.0

"""Rows for tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from amqp1_driver.pipeline.spool import Row, Spool, segments

#: 2026-01-02T03:04:05.000006Z
TIME = 1767323045000006


def row(name: str, body: bytes = b"body", **changes: Any) -> Row:
    made = Row("notifications.info", name, body, "application/json", {"event": "a"}, 0, None, TIME)
    return made._replace(**changes)


def rows(*names: str) -> list[Row]:
    return [row(name) for name in names]


def numbered(lo: int, hi: int, body: bytes = b"body") -> list[Row]:
    """Rows with ids ``m<lo>`` to ``m<hi>``."""
    return [row(f"m{number}", body) for number in range(lo, hi + 1)]


def contents(spool: Spool, lo: int, hi: int) -> list[tuple[int, str]]:
    """Number and message id of what can be read."""
    return [
        pair
        for part in spool.parts(lo, hi)
        for batch in segments.read(part.segment.path, part.lo, part.hi)
        for pair in pairs([batch])
    ]


def pairs(batches: Iterable[Any]) -> list[tuple[int, str]]:
    return [
        pair
        for batch in batches
        for pair in zip(
            batch.column("seq").to_pylist(), batch.column("message_id").to_pylist(), strict=True
        )
    ]


def names(spool: Spool) -> list[str]:
    """Names of all segment files."""
    return sorted(
        path.name for path in spool.folder.iterdir() if path.suffix in (".arrow", ".torn")
    )
