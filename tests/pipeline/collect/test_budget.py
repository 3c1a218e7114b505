# SPDX-License-Identifier: Apache-2.0

"""How many messages may be under way: by the size of those that came last."""

from __future__ import annotations

from amqp1_driver.pipeline.collect.budget import Budget

MIB = 1024 * 1024


def test_it_begins_as_if_each_had_a_mebibyte() -> None:
    assert Budget(64 * MIB).messages == 64


def test_the_first_batch_says_how_large_they_are() -> None:
    budget = Budget(64 * MIB)
    budget.seen(10, 10 * 512)
    # 512 bytes each, and 512 beside
    assert budget.messages == 65536


def test_larger_ones_count_at_once_and_smaller_ones_little_by_little() -> None:
    budget = Budget(64 * MIB)
    budget.seen(1000, 1000 * 512)
    budget.seen(1, MIB - 512)
    assert budget.messages == 64
    budget.seen(1, 512)
    # an eighth of the way from 1 MiB to 1 KiB
    assert budget.messages == 73


def test_an_empty_batch_says_nothing() -> None:
    budget = Budget(64 * MIB)
    budget.seen(0, 0)
    assert budget.messages == 64


def test_one_may_always_come() -> None:
    budget = Budget(1000)
    assert budget.messages == 1
    budget.seen(1, 5000)
    assert budget.messages == 1
    budget.seen(100, 100)
    assert budget.messages == 1
