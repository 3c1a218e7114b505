# SPDX-License-Identifier: Apache-2.0

import uuid

from hypothesis import given
from hypothesis import strategies as st

from amqp1_driver.policy.duplicates import DuplicateFilter


def test_an_id_is_a_duplicate_the_second_time():
    seen = DuplicateFilter(10).seen
    assert seen("a") is False
    assert seen("b") is False
    assert seen("a") is True


def test_ids_of_all_types_are_told_apart():
    seen = DuplicateFilter(10).seen
    unique = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
    assert not any(seen(i) for i in (1, "1", b"1", unique))
    assert all(seen(i) for i in (1, "1", b"1", unique))


def test_messages_without_an_id_are_never_duplicates():
    filter_ = DuplicateFilter(10)
    assert filter_.seen(None) is False
    assert filter_.seen(None) is False
    assert len(filter_) == 0


def test_a_message_that_was_given_back_may_come_again():
    filter_ = DuplicateFilter(10)
    filter_.seen("a")
    filter_.forget("a")
    filter_.forget("never seen")
    assert filter_.seen("a") is False


def test_the_oldest_id_goes_first():
    filter_ = DuplicateFilter(2)
    assert [filter_.seen(i) for i in "abab"] == [False, False, True, True]
    filter_.seen("a")
    assert filter_.seen("c") is False
    assert filter_.seen("a") is True
    assert filter_.seen("b") is False


def test_a_filter_of_size_zero_filters_nothing():
    filter_ = DuplicateFilter(0)
    assert [filter_.seen(i) for i in "aaa"] == [False, False, False]
    assert len(filter_) == 0


@given(st.integers(0, 5), st.lists(st.integers(0, 9)))
def test_an_id_is_remembered_while_no_more_than_size_others_come(size, ids):
    filter_ = DuplicateFilter(size)
    recent: list[int] = []
    for message_id in ids:
        assert filter_.seen(message_id) is (message_id in recent)
        recent = [i for i in recent if i != message_id] + [message_id]
        recent = recent[-size:] if size else []
        assert len(filter_) == len(recent)
