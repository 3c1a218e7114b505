# SPDX-License-Identifier: Apache-2.0
"""What each bus promises together with the driver: data for the checker.

A cast or notification is *acknowledged* when the sender's method has returned.
"""

from __future__ import annotations

from dataclasses import dataclass

STORED = frozenset({"cast", "notify"})


@dataclass(frozen=True)
class Promise:
    """Which messages may be lost, and which may come twice without a mark.

    :param kept: kinds of messages that are never lost once they are acknowledged, but with a
        queue that is deleted
    :param kept_by_node: kinds that are lost only when the bus node is killed before a server
        has them
    :param marks_kept: whether the node knows after its end what it had delivered, so that it
        marks what it delivers again
    :param marks_lost_links: whether it marks what it delivers again because the connection was
        lost over which it had delivered it first
    """

    kept: frozenset[str]
    kept_by_node: frozenset[str] = frozenset()
    marks_kept: bool = True
    marks_lost_links: bool = True


PROMISES = {
    # acknowledges when the receiver has; it stores nothing that it could deliver again
    "router": Promise(kept=STORED),
    # stores in memory
    "broker": Promise(kept=frozenset(), kept_by_node=STORED),
    # durable queues; delivery counts of a classic queue are not stored
    "rabbitmq-4.3": Promise(kept=STORED, marks_kept=False),
    "rabbitmq-4.0": Promise(kept=STORED, marks_kept=False),
    # it counts a delivery as failed when the receiver says so, not when its connection is lost
    "artemis": Promise(kept=STORED, marks_kept=False, marks_lost_links=False),
}
