# SPDX-License-Identifier: Apache-2.0

"""Tracking data in error descriptions; operators of Azure Service Bus look errors up by it."""

from __future__ import annotations

import datetime
import uuid

from proton import symbol

from .links import Outcome, rejected


def tracked(description: str) -> str:
    """Return ``description`` followed by TrackingId, SystemTracker and Timestamp."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{description} TrackingId:{uuid.uuid4()}_G1, SystemTracker:amqp1-bus, Timestamp:{now}"


def refused(condition: str, description: str) -> Outcome:
    """Return REJECTED with an error whose field ``info`` is set, too.

    Microsoft's SDK for Python reads all three fields of an error without checking that they exist.
    """
    outcome = rejected(condition, description)
    outcome.condition.info = {symbol("com.microsoft:tracking-id"): f"{uuid.uuid4()}_G1"}
    return outcome
