# SPDX-License-Identifier: Apache-2.0

"""A flood of one kind of line costs a few lines a minute."""

from amqp1_driver.policy.loglimit import LogLimit


def test_ten_lines_a_minute_are_logged_and_the_next_minute_says_how_many_were_not():
    limit = LogLimit()
    assert [limit.note(1000.0) for _ in range(9)] == [""] * 9
    assert limit.note(1001.0) == " (further lines like this are left out for up to 60 s)"
    assert [limit.note(1059.9) for _ in range(7)] == [None] * 7
    assert limit.note(1060.0) == " (7 more such lines were left out before this one)"
    assert limit.note(1060.0) == ""


def test_lines_that_come_one_by_one_are_all_logged():
    limit = LogLimit(2, 10.0)
    assert [limit.note(float(now)) for now in range(0, 60, 10)] == [""] * 6
