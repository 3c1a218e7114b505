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

"""Counters of the bus, for tests and for the curious."""

from __future__ import annotations

from dataclasses import dataclass, field


def _outcomes() -> dict[str, int]:
    return {"accepted": 0, "rejected": 0, "released": 0, "modified": 0, "none": 0}


@dataclass
class Counters:
    """Written by the bus thread only; any thread may read (values are plain ints).

    ``outcomes`` counts what producers were told, ``dispositions`` what consumers said.
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
