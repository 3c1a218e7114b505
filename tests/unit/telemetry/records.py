# SPDX-License-Identifier: Apache-2.0

"""Records for tests, by few words."""

from amqp1_driver.telemetry.events import Record


def record(address="q", dropped=0):
    return Record(0, "stall", "c", 42, "bus:5672", address, credit=10, dropped=dropped)


def message(operation="call", **fields):
    values = {
        "time": 0,
        "kind": "send",
        "container": "c",
        "pid": 42,
        "operation": operation,
        "outcome": "accepted",
        "size": 100,
        "total_us": 1000,
        **fields,
    }
    return Record(**values)


class Clock:
    """Time that is set by hand, seconds."""

    def __init__(self, now=0.0):
        self.now = now

    def __call__(self):
        return self.now
