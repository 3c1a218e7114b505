# SPDX-License-Identifier: Apache-2.0

import weakref

from hypothesis import given
from hypothesis import strategies as st

from amqp1_driver.eventloop.timers import Timer, TimerQueue


def test_timers_run_in_the_order_of_their_times() -> None:
    timers = TimerQueue()
    ran: list[str] = []
    timers.call_at(3.0, lambda: ran.append("c"))
    timers.call_at(1.0, lambda: ran.append("a"))
    timers.call_at(1.0, lambda: ran.append("b"))
    assert timers.heap[0].when == 1.0
    assert timers.run_due(0.999) == 0
    assert timers.run_due(1.0) == 2
    assert ran == ["a", "b"]
    assert timers.heap[0].when == 3.0
    assert timers.run_due(100.0) == 1
    assert ran == ["a", "b", "c"]
    assert len(timers) == 0


def test_a_cancelled_timer_does_not_run() -> None:
    timers = TimerQueue()
    ran: list[int] = []
    timer = timers.call_at(1.0, lambda: ran.append(1))
    assert timer.active
    timer.cancel()
    timer.cancel()
    assert not timer.active
    assert len(timers) == 0
    assert timers.run_due(2.0) == 0
    assert ran == []


def test_cancelling_a_timer_that_has_fired_is_harmless() -> None:
    timers = TimerQueue()
    timer = timers.call_at(1.0, lambda: None)
    timers.run_due(1.0)
    timer.cancel()
    assert len(timers) == 0
    timers.call_at(1.0, lambda: None)
    assert len(timers) == 1


def test_a_timer_can_cancel_one_that_is_due_with_it() -> None:
    timers = TimerQueue()
    ran: list[int] = []
    timers.call_at(1.0, lambda: second.cancel())
    second = timers.call_at(1.0, lambda: ran.append(2))
    assert timers.run_due(1.0) == 1
    assert ran == []
    assert len(timers) == 0


def test_a_timer_set_by_a_timer_waits_for_the_next_time() -> None:
    timers = TimerQueue()
    timers.call_at(1.0, lambda: timers.call_at(0.0, lambda: None))
    assert timers.run_due(5.0) == 1
    assert timers.run_due(5.0) == 1
    assert timers.run_due(5.0) == 0


def test_cancelled_timers_are_not_kept() -> None:
    timers = TimerQueue()
    keep, heap = timers.call_at(0.5, lambda: None), timers.heap
    for n in range(10_000):
        timers.call_at(1000.0 + n, lambda: None).cancel()
    assert len(timers) == 1
    assert len(timers.heap) < 200
    assert keep.active
    assert timers.heap is heap  # for the batch that looks at it afterwards


def test_a_cancelled_timer_lets_go_of_its_callback() -> None:
    class Holder:
        def call(self) -> None: ...

    timers = TimerQueue()
    holder = Holder()
    reference = weakref.ref(holder)
    timer = timers.call_at(1.0, holder.call)
    del holder
    assert reference() is not None
    timer.cancel()
    assert reference() is None


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("at"), st.integers(0, 50)),
            st.tuples(st.just("cancel"), st.integers(0, 100)),
            st.tuples(st.just("run"), st.integers(0, 60)),
        ),
        max_size=300,
    )
)
def test_timers_agree_with_a_sorted_list(steps: list[tuple[str, int]]) -> None:
    timers = TimerQueue()
    model: dict[int, float] = {}
    made: list[Timer] = []
    ran: list[int] = []
    for step, value in steps:
        if step == "at":
            number = len(made)
            made.append(timers.call_at(value, lambda number=number: ran.append(number)))
            model[number] = value
        elif step == "cancel" and value < len(made):
            made[value].cancel()
            model.pop(value, None)
        elif step == "run":
            ran.clear()
            count = timers.run_due(value)
            due = sorted((when, n) for n, when in model.items() if when <= value)
            assert ran == [n for _, n in due]
            assert count == len(due)
            for n in ran:
                del model[n]
        assert len(timers) == len(model)
        # who sleeps until then never sleeps too long
        assert not model or timers.heap[0].when <= min(model.values())
