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

"""Killed again and again in live flow: nothing is lost, nothing doubled, no cap is exceeded.

AMQP1_LONG=1 runs it at full size; :mod:`.trial` is the same as a program.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.pipeline.crash.trial import KINDS, LONG, SHORT, plan, trial

FULL = os.environ.get("AMQP1_LONG") == "1"


@pytest.mark.rabbitmq
@pytest.mark.timeout(2700 if FULL else 400)
def test_each_notification_is_in_silver_once(tmp_path: Path) -> None:
    result = trial(tmp_path, LONG if FULL else SHORT, random.randrange(1 << 32))

    assert result["wrong"] == []
    assert len(result["kills"]) == (20 if FULL else 4)
    # the bus may deliver again, and the publisher send again what was in doubt
    assert result["bronze"] >= result["rows"] == (500_000 if FULL else 20_000)
    assert result["looks"] > 0
    assert all(result["most_on_disc"])


def test_kills_are_of_all_kinds_and_all_over_the_flow() -> None:
    kills = plan(LONG, KINDS, 7)
    assert sorted(kill.kind for kill in kills) == [
        "between"] * 5 + ["bus"] * 5 + ["jvm"] * 5 + ["reader"] * 5
    assert [kill.at for kill in kills] == sorted(kill.at for kill in kills)
    assert kills[0].at > 0 and 450_000 < kills[-1].at < 500_000
    assert plan(LONG, KINDS, 7) == kills != plan(LONG, KINDS, 8)
