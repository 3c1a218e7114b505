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

"""Records for tests, by few words."""

from amqp1_driver.telemetry.events import Origin, Record, Stalled

ORIGIN = Origin("c", 42)


def stalled(address="q"):
    """An event."""
    return Stalled(ORIGIN, 0.0, "bus:5672", address, 10)


def record(address="q", batch=0):
    return stalled(address).record(batch)


def message(operation="call", **fields):
    values = {"time": 0, "kind": "send", "container": "c", "pid": 42, "operation": operation,
              "outcome": "accepted", "size": 100, "total_us": 1000, **fields}
    return Record(**values)


class Clock:
    """Time that is set by hand, seconds."""

    def __init__(self, now=0.0):
        self.now = now

    def __call__(self):
        return self.now
