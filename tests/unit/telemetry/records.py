# SPDX-License-Identifier: Apache-2.0

"""Records for tests, by few words."""

from amqp1_driver.telemetry.events import Origin, Record, Stalled

ORIGIN = Origin("c", 42)


def stalled(address="q"):
    """An event."""
    return Stalled(ORIGIN, 0.0, "bus:5672", address, 10)


def record(address="q", dropped=0):
    return stalled(address).record(dropped)


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
