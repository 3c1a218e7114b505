# SPDX-License-Identifier: Apache-2.0
"""A plan of faults depends on its seed and nothing else."""

from __future__ import annotations

import itertools

from tests.chaos import faults
from tests.chaos.schedule import FAULTS, plan

TARGETS = {
    "way": ["client-1", "server-1"],
    "client": ["client-1"],
    "forking": ["client-1"],
    "server": ["server-1"],
    "listener": ["listener-1"],
    "bus": ["bus"],
}


def test_the_same_seed_gives_the_same_plan() -> None:
    assert plan(1, 50, (0.3, 1.2), list(FAULTS), TARGETS) == plan(
        1, 50, (0.3, 1.2), list(FAULTS), TARGETS
    )
    assert plan(1, 50, (0.3, 1.2), list(FAULTS), TARGETS) != plan(
        2, 50, (0.3, 1.2), list(FAULTS), TARGETS
    )


def test_each_kind_comes_once_where_there_is_room() -> None:
    planned = plan(1, 25, (0.3, 1.2), list(FAULTS), TARGETS)
    # none of these has a target here
    assert {one.kind for one in planned} == set(FAULTS) - {"clock-jump", "disk-full"}
    assert len(planned) == 25


def test_pauses_and_durations_lie_within_their_bounds() -> None:
    planned = plan(3, 200, (0.3, 1.2), list(FAULTS), TARGETS)
    pauses = [b.at - a.at for a, b in itertools.pairwise(planned)]
    assert min(pauses) > 0.299 and max(pauses) < 1.201
    for one in planned:
        target, _, shortest, longest = FAULTS[one.kind]
        assert shortest <= one.hold <= longest
        assert one.target in TARGETS[target]


def test_faults_that_only_rabbitmq_knows() -> None:
    assert set(FAULTS) - set(faults.kinds_on("router")) == {
        "close-connections",
        "memory-alarm",
        "disk-alarm",
        "delete-queues",
    }
    assert set(FAULTS) - set(faults.kinds_on("artemis")) == {
        "password",
        "close-connections",
        "memory-alarm",
        "disk-alarm",
        "delete-queues",
    }
    assert faults.kinds_on("rabbitmq-4.3") == list(FAULTS)
