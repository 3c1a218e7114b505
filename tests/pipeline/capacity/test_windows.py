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

"""Credit as the driver grants it."""

from __future__ import annotations

from amqp1_driver.pipeline.capacity.windows import Window


def test_topped_up_below_half_when_settled() -> None:
    window = Window(10)
    gone: list[int] = []
    for number in range(12):
        window.enter(gone.append, number)

    assert gone == list(range(10))
    assert (window.credit, window.unsettled, window.stalls) == (0, 10, 2)
    # The first that is settled tops up: credit is 0, below 5. What waited takes it.
    assert window.settle() is True
    assert gone == list(range(11))
    assert window.settle() is True
    assert gone == list(range(12))
    assert (window.credit, window.unsettled) == (0, 10)


def test_above_half_nothing_is_granted() -> None:
    window = Window(10)
    for number in range(5):
        window.enter(lambda _: None, number)

    # 5 left are not below half
    assert window.settle() is False
    assert (window.credit, window.unsettled) == (5, 4)
    window.use()
    # 4 left are, and 4 of 5 are unsettled: 6 are granted
    assert window.settle() is True
    assert (window.credit, window.unsettled) == (6, 4)


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
