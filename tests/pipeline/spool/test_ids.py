# SPDX-License-Identifier: Apache-2.0

"""Message ids are remembered in few bytes, and never mistaken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amqp1_driver.pipeline.spool import ids
from amqp1_driver.pipeline.spool.ids import Ids

STEPS = st.lists(
    st.one_of(
        st.lists(st.one_of(st.none(), st.integers(0, 60).map(str)), min_size=1, max_size=9),
        st.integers(1, 80),
    ),
    max_size=12,
)


@given(STEPS)
def test_the_latest_retained_row_with_an_id_is_found(steps: list[list[str | None] | int]) -> None:
    known = Ids()
    latest: dict[str, int] = {}
    following, low = 1, 1
    for step in steps:
        if isinstance(step, int):
            low = max(low, step)
            known.purge(low)
            continue
        known.add(step, following)
        for seq, name in enumerate(step, following):
            if name is not None:
                latest[name] = seq
        following += len(step)

    names: list[str | None] = [*map(str, range(62)), None]
    found = known.candidates(names)

    assert found == [
        latest.get(name, 0) if name and latest.get(name, 0) >= low else 0 for name in names
    ]


def test_purged_ids_are_taken_out_in_time() -> None:
    known = Ids()
    for first in range(1, 300_001, 10_000):
        known.add([f"m{seq}" for seq in range(first, first + 10_000)], first)
        known.purge(max(0, first - 10_000))
        assert len(known) <= 20_000 + 2 * ids.SLACK
    assert known.candidates(["m300000", "m290001", "m1"]) == [300_000, 290_001, 0]


def test_there_are_few_runs_to_look_into() -> None:
    known = Ids()
    for seq in range(1, 2000):
        known.add([f"m{seq}"], seq)
    assert len(known._runs) <= 11
