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
