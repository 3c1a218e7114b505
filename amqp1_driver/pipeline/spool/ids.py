# SPDX-License-Identifier: Apache-2.0

"""An index of the message ids of the retained rows.  Any thread, one at a time.

The index stores 16 bytes per row: the hash of the id and the sequence number. A hash that matches
is only a candidate. The caller compares the ids in the segment, so that it never takes one message
for another.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_Numbers = npt.NDArray[np.int64]
#: the index may keep this many purged rows, and half of its length more, before it removes them
SLACK = 65536


class Ids:
    """An index of hashes in sorted runs. Not thread-safe.

    The index merges the last two runs while the older one is less than twice as long, so there are
    few runs.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[_Numbers, _Numbers]] = []
        self._low = 0
        self._purged = 0

    def __len__(self) -> int:
        return sum(len(hashes) for hashes, _ in self._runs)

    def add(self, ids: Sequence[str | None], first: int) -> None:
        """Add the ids of the rows from ``first`` on.

        :param ids: None for a row without id
        """
        pairs = [(hash(each), seq) for seq, each in enumerate(ids, first) if each is not None]
        if not pairs:
            return
        table = np.array(pairs, dtype=np.int64)
        self._runs.append(_sorted(table[:, 0], table[:, 1]))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            self._merge(2)

    def purge(self, low: int) -> None:
        """Forget the rows before ``low``.

        :meth:`candidates` ignores these rows at once. The index removes them when there are many.
        """
        self._purged += max(0, low - self._low)
        self._low = max(self._low, low)
        if self._purged > SLACK + len(self) // 2:
            self._merge(len(self._runs))
            self._purged = 0

    def candidates(self, ids: Sequence[str | None]) -> list[int]:
        """Return for each id the row that probably has it, or 0 when no row has it.

        :param ids: None never has a row
        """
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
    # A stable sort: of equal hashes the later row comes last, and candidates() finds that one.
    order = np.argsort(hashes, kind="stable")
    return hashes[order], seqs[order]
