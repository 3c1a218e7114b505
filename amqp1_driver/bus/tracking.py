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

"""The tail of the service's error descriptions, by which its operators find the case."""

from __future__ import annotations

import datetime
import uuid

from proton import symbol

from .links import Outcome, rejected


def tracked(description: str) -> str:
    """``description`` with TrackingId, SystemTracker and Timestamp behind it."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return (
        f"{description} TrackingId:{uuid.uuid4()}_G1, SystemTracker:amqp1-bus, Timestamp:{now}"
    )


def refused(condition: str, description: str) -> Outcome:
    """REJECTED with an error that has an info, too: Microsoft's SDK for Python reads all three
    fields of it, whether they are there or not."""
    outcome = rejected(condition, description)
    outcome.condition.info = {symbol("com.microsoft:tracking-id"): f"{uuid.uuid4()}_G1"}
    return outcome
