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
    return [pair for part in spool.parts(lo, hi)
            for batch in segments.read(part.segment.path, part.lo, part.hi)
            for pair in pairs([batch])]


def pairs(batches: Iterable[Any]) -> list[tuple[int, str]]:
    return [pair for batch in batches
            for pair in zip(batch.column("seq").to_pylist(),
                            batch.column("message_id").to_pylist(), strict=True)]


def names(spool: Spool) -> list[str]:
    """Names of all segment files."""
    return sorted(path.name for path in spool.folder.iterdir()
                  if path.suffix in (".arrow", ".torn"))
