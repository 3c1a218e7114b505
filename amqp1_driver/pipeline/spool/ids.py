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

"""Message ids of the rows that are retained, in 16 bytes each: hash and sequence number.

A hash that is found is only a candidate: whoever asks looks into the segment, so that no message
is taken for another one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_Numbers = npt.NDArray[np.int64]
#: purged rows that may wait before they are taken out
SLACK = 65536


class Ids:
    """Sorted runs that are merged when their lengths come close, so that there are few of them.

    Not thread-safe.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[_Numbers, _Numbers]] = []
        self._low = 0
        self._purged = 0

    def __len__(self) -> int:
        return sum(len(hashes) for hashes, _ in self._runs)

    def add(self, ids: Sequence[str | None], first: int) -> None:
        """Remember the ids of rows ``first`` and following; None has no id."""
        pairs = [(hash(each), seq) for seq, each in enumerate(ids, first) if each is not None]
        if not pairs:
            return
        table = np.array(pairs, dtype=np.int64)
        self._runs.append(_sorted(table[:, 0], table[:, 1]))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            self._merge(2)

    def purge(self, low: int) -> None:
        """Forget rows before ``low``; they are taken out when that is worth the work."""
        self._purged += max(0, low - self._low)
        self._low = max(self._low, low)
        if self._purged > SLACK + len(self) // 2:
            self._merge(len(self._runs))
            self._purged = 0

    def candidates(self, ids: Sequence[str | None]) -> list[int]:
        """For each id the row that probably has it, 0 when certainly none has."""
        wanted = np.array([0 if each is None else hash(each) for each in ids], dtype=np.int64)
        found = np.zeros(len(ids), dtype=np.int64)
        for hashes, seqs in self._runs:
            at = np.searchsorted(hashes, wanted, side="right") - 1
            hit = (at >= 0) & (hashes[at] == wanted) & (seqs[at] >= self._low)
            found = np.where(hit, seqs[at], found)
        result: list[int] = found.tolist()
        return [0 if each is None else seq for each, seq in zip(ids, result, strict=True)]

    def _merge(self, count: int) -> None:
        if not count:
            return
        hashes = np.concatenate([run[0] for run in self._runs[-count:]])
        seqs = np.concatenate([run[1] for run in self._runs[-count:]])
        kept = seqs >= self._low
        self._runs[-count:] = [_sorted(hashes[kept], seqs[kept])] if kept.any() else []


def _sorted(hashes: _Numbers, seqs: _Numbers) -> tuple[_Numbers, _Numbers]:
    # stable: of equal hashes the later row comes last, and is the one that is found
    order = np.argsort(hashes, kind="stable")
    return hashes[order], seqs[order]
