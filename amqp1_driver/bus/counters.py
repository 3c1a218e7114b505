# SPDX-License-Identifier: Apache-2.0

"""Counters of the bus, for tests and for diagnosis."""

from __future__ import annotations

from dataclasses import dataclass, field


def _outcomes() -> dict[str, int]:
    return {"accepted": 0, "rejected": 0, "released": 0, "modified": 0, "none": 0}


@dataclass
class Counters:
    """Counters that only the bus thread writes; any thread may read them (values are plain ints).

    ``outcomes`` counts the outcomes sent to producers, ``dispositions`` the outcomes received from
    consumers.
    """

    connections: int = 0
    auth_failures: int = 0
    messages_in: int = 0
    messages_out: int = 0
    presettled_in: int = 0
    presettled_out: int = 0
    dropped: int = 0
    expired: int = 0
    dead_lettered: int = 0
    requeued: int = 0
    outcomes: dict[str, int] = field(default_factory=_outcomes)
    dispositions: dict[str, int] = field(default_factory=_outcomes)
