# SPDX-License-Identifier: Apache-2.0

"""``python -m amqp1_driver.pipeline.generate``: publish N notifications, for load and crash tests.

Prints one line for each thousand messages that were sent, and a last one as JSON.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Sequence

from amqp1_driver.pipeline.generate import cloud, faults, send


def main(argv: Sequence[str] | None = None) -> int:
    """Publish the notifications that the arguments ask for.

    :returns: the exit status, 0
    """
    parser = argparse.ArgumentParser(prog="amqp1_driver.pipeline.generate", description=__doc__)
    parser.add_argument(
        "--url", required=True, help="transport URL of the bus; also env:NAME or file:PATH"
    )
    parser.add_argument("--topic", default="notifications")
    parser.add_argument(
        "--count",
        type=int,
        default=10_000,
        help="number of notifications, with the ids n-0 to n-(COUNT-1)",
    )
    parser.add_argument("--rate", type=float, help="messages per second (default: no limit)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--per-day",
        type=int,
        default=20_000,
        help="number of notifications for each day of the simulated time",
    )
    parser.add_argument(
        "--begin",
        type=datetime.datetime.fromisoformat,
        default=datetime.datetime(2026, 3, 5),
        help="begin of the simulated time, UTC",
    )
    parser.add_argument(
        "--faults",
        action="store_true",
        help="also send late, duplicated and malformed messages, in two envelopes",
    )
    args = parser.parse_args(argv)
    made = cloud.notifications(args.seed, args.count, args.begin, args.per_day)
    emissions = faults.emissions(made, faults.REAL if args.faults else faults.Faults(), args.seed)

    def tell(number: int) -> None:
        if number % 1000 == 0:
            print(f"sent {number}", flush=True)

    sent = send.send(args.url, emissions, args.topic, args.rate, tell=tell)
    print(
        json.dumps(
            {
                "messages": sent.messages,
                "seconds": round(sent.seconds, 3),
                "per_second": round(sent.messages / sent.seconds, 1),
            }
        ),
        flush=True,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
