# SPDX-License-Identifier: Apache-2.0
import pytest

from amqp1_driver.testing.clock import FakeClock


def test_it_moves_only_when_told_to():
    clock = FakeClock(100.0)
    assert clock() == 100.0
    assert clock() == 100.0
    assert clock.advance(0.25) == 100.25
    assert clock() == 100.25


def test_it_never_goes_back():
    clock = FakeClock()
    with pytest.raises(ValueError, match="cannot go back by 1 s"):
        clock.advance(-1)
    assert clock() == 0.0
    assert repr(clock) == "FakeClock(0.000000)"
