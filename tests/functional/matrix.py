# SPDX-License-Identifier: Apache-2.0

"""Which suite runs on which bus, with which scheme and which thread model: as data."""

from __future__ import annotations

import itertools
from typing import NamedTuple


class Run(NamedTuple):
    """One run of oslo.messaging's functional suite."""

    suite: str
    bus: str
    scheme: str
    threads: str

    def __str__(self) -> str:
        return f"{self.suite} {self.bus} {self.scheme} {self.threads}"


BUSES = ("router", "broker", "rabbitmq-4.3", "rabbitmq-4.0", "artemis", "broker-j")
SCHEMES = ("amqp", "amqp+oslo")
THREADS = ("native", "eventlet")

#: For every change: each bus, each scheme, each thread model and each release line at least once.
#: "amqp+oslo" leaves out fewer of the tests that are about distribution.
SHORT = (
    Run("18.3", "router", "amqp+oslo", "eventlet"),
    Run("18.3", "broker", "amqp+oslo", "native"),
    Run("18.3", "rabbitmq-4.3", "amqp+oslo", "eventlet"),
    Run("18.3", "rabbitmq-4.0", "amqp+oslo", "native"),
    Run("18.3", "artemis", "amqp+oslo", "native"),
    Run("18.3", "broker-j", "amqp+oslo", "native"),
    Run("17", "router", "amqp", "native"),
    Run("16", "rabbitmq-4.3", "amqp", "native"),
)

#: Before a release: the newest line everywhere, the older ones on a router and a broker.
FULL = (
    *(Run("18.3", *rest) for rest in itertools.product(BUSES, SCHEMES, THREADS)),
    *(
        Run(suite, bus, scheme, threads)
        for suite in ("17", "16")
        for bus in ("router", "rabbitmq-4.3")
        for scheme in SCHEMES
        for threads in THREADS
    ),
)

FORMS = {"short": SHORT, "full": FULL}
