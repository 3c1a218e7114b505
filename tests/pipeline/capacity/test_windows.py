# SPDX-License-Identifier: Apache-2.0

"""Credit as the driver grants it."""

from __future__ import annotations

from amqp1_driver.pipeline.capacity.windows import Window


def test_topped_up_once_credit_and_unsettled_are_below_half() -> None:
    window = Window(10)
    gone: list[int] = []
    for number in range(12):
        window.enter(gone.append, number)

    assert gone == list(range(10))
    assert (window.credit, window.unsettled, window.stalls) == (0, 10, 2)
    # There is no credit, but 9, 8, 7, 6 and then 5 unsettled are not below half.
    assert [window.settle() for _ in range(5)] == [False] * 5
    assert gone == list(range(10))
    assert (window.credit, window.unsettled) == (0, 5)
    # 4 are: 6 are granted, and the 2 messages that waited take 2 of them.
    assert window.settle() is True
    assert gone == list(range(12))
    assert (window.credit, window.unsettled) == (4, 6)


def test_credit_that_is_left_counts_too() -> None:
    window = Window(10)
    for number in range(5):
        window.enter(lambda _: None, number)

    # 5 of credit and 4 to 0 unsettled are not below half
    assert [window.settle() for _ in range(5)] == [False] * 5
    assert (window.credit, window.unsettled) == (5, 0)
    window.use()
    # 4 of credit and none unsettled are: 6 are granted
    assert window.settle() is True
    assert (window.credit, window.unsettled) == (10, 0)


def test_half_of_an_odd_number_is_no_whole_number() -> None:
    window = Window(5)
    for number in range(5):
        window.enter(lambda _: None, number)

    # 4 and 3 are not below 2.5, 2 are: 3 are granted
    assert [window.settle() for _ in range(3)] == [False, False, True]
    assert (window.credit, window.unsettled) == (3, 2)


def test_a_router_gives_credit_for_each() -> None:
    window = Window(10, half=False)
    window.use()

    assert window.settle() is True
    assert (window.credit, window.unsettled) == (10, 0)


def test_nobody_overtakes_who_waits() -> None:
    window = Window(1)
    gone: list[str] = []
    window.enter(gone.append, "a")
    window.enter(gone.append, "b")
    window.enter(gone.append, "c")
    window.settle()

    assert gone == ["a", "b"]
    window.settle()
    assert gone == ["a", "b", "c"]
