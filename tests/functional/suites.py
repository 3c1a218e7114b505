# SPDX-License-Identifier: Apache-2.0

"""What oslo.messaging's functional suite is in each release line that is supported.

The suite comes from the wheel of that line and is run as it stands. Facts here
were read in the wheels of 16.0, 16.1, 17.0 and 18.3.1, whose test methods are the same.
"""

from __future__ import annotations

import dataclasses

PACKAGE = "oslo_messaging.tests.functional"

#: Tests in the suite of every line, scenarios counted apart.
TOTAL = 33

_CALL = f"{PACKAGE}.test_functional.CallTestCase"
_CAST = f"{PACKAGE}.test_functional.CastTestCase"
_NOTIFY = f"{PACKAGE}.test_functional.NotifyTestCase"
_FAILOVER = f"{PACKAGE}.test_rabbitmq.RabbitMQFailoverTests"

_NOT_RABBIT = {
    f"{_FAILOVER}.test_failover_scenario": "TRANSPORT_DRIVER is not set to a rabbit driver",
    f"{_FAILOVER}.test_failover_scenario_enable_cancel_on_failover": (
        "TRANSPORT_DRIVER is not set to a rabbit driver"
    ),
}
_NO_MONITORING = "backend does not support call monitoring"

#: scheme -> {test id: reason}: what upstream itself skips. Any other skip is a failure, and so is
#: one of these that ran: then upstream changed and this table has to follow.
UPSTREAM_SKIPS: dict[str, dict[str, str]] = {
    "amqp": {
        **_NOT_RABBIT,
        f"{_CALL}.test_mandatory_call": _NO_MONITORING,
        f"{_CAST}.test_server_in_group": "QPID-6307",
        f"{_NOTIFY}.test_multiple_servers": "QPID-6307",
    },
    "amqp+oslo": {
        **_NOT_RABBIT,
        f"{_CALL}.test_mandatory_call": _NO_MONITORING,
        f"{_CALL}.test_monitor_long_call": _NO_MONITORING,
    },
    # Not our driver: to try the runner itself against upstream's.
    "rabbit": dict(_NOT_RABBIT),
}

#: bus -> {test id: how it fails when the bus shares messages otherwise than the test expects}.
#: The test casts one "sync" for each of three servers and expects one at each. Broker-J does not
#: hand messages round: the connections of its consumers pull, on threads of their own, and the
#: first to come takes (AbstractQueue.deliverSingleMessage), so on a busy machine one may get two.
#: Nothing in the driver can change that. Such a test runs last and alone, and again while it fails
#: in just this way, up to TRIES times; every other failure counts at once.
SHARED_BY_CHANCE: dict[str, dict[str, str]] = {
    "broker-j": {f"{_CAST}.test_server_in_group": "_queue.Empty"},
}
TRIES = 6

#: Tests that take longest (mostly waiting), to be handed out first.
SLOW = (
    ".test_timeout_with_concurrently_queues",
    ".LoggingNotificationHandlerTestCase.",
    ".test_simple_batch",
    ".test_monitor_long_call",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Suite:
    """One release line of oslo.messaging and what its suite needs to run."""

    line: str
    oslo_messaging: str
    extra: tuple[str, ...] = ()

    @property
    def requirements(self) -> tuple[str, ...]:
        """Requirement specifiers, the driver's own not among them."""
        return (f"oslo.messaging{self.oslo_messaging}", *_COMMON, *self.extra)


_COMMON = (
    "testtools",
    "fixtures",
    "testscenarios",
    "oslotest",
    "pifpaf",
    "requests",
    "eventlet",
    "confluent-kafka",
    "oslo.metrics",
)

SUITES: dict[str, Suite] = {
    suite.line: suite
    for suite in (
        Suite("16", ">=16.0.0,<17"),
        Suite("17", ">=17.0.0,<18"),
        Suite("18.3", ">=18.3.0,<18.4"),
    )
}
