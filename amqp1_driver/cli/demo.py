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

"""``amqp1 demo``: what the driver does, shown on the embedded bus or on one that is there.

Everything goes through oslo.messaging's public interface, as in any service.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import time
import warnings
from typing import Any

from amqp1_driver.cli.measuring import terminable
from amqp1_driver.cli.table import Table

SERVERS = 3


def add_parser(subparsers: Any) -> None:
    """Describe the subcommand."""
    parser = subparsers.add_parser(
        "demo",
        help="show calls, casts, a fanout, errors, notifications and a failover",
        description="Starts two embedded buses and three RPC servers in processes of their own "
        "and a notification listener, shows what oslo.messaging does with them and how long it "
        "takes. Exit status 0 if every step did what it should, 1 if not, 130 after ^C.",
    )
    parser.add_argument("--mode", choices=("router", "broker"), default="router",
                        help="of the embedded buses (default: router)")  # fmt: skip
    parser.add_argument("--url", metavar="URL",
                        help="use the bus at this transport URL; there is no failover then, and "
                        "only one such demonstration at a time")  # fmt: skip
    parser.add_argument("--verbose", "-v", action="store_true",
                        help="write the driver's log to standard error")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Play all steps; 0 if all went well, 1 if not, 130 if interrupted."""
    table = Table()
    try:
        with terminable():
            return play(args.mode, args.url, args.verbose, table)
    except KeyboardInterrupt:
        table.text("interrupted", False)
        return 130


def play(mode: str, url: str | None, verbose: bool, table: Table) -> int:
    """The demonstration; returns the exit status."""
    began = time.monotonic()
    if not sys.warnoptions:
        # upstream's modules warn of eventlet at import, which nobody uses here
        warnings.simplefilter("ignore")
    from amqp1_driver.cli.demo_stage import Stage
    from amqp1_driver.cli.demo_steps import Failed, Play
    from amqp1_driver.cli.demo_worker import set_up_logging

    if verbose:
        set_up_logging(True)
    else:
        logging.getLogger().addHandler(logging.NullHandler())  # the table shows the errors
    failed: list[str] = []
    table.head()
    with Stage(mode, url, SERVERS, verbose) as stage, contextlib.closing(Play(stage)) as steps:
        for name, step in steps.steps():
            try:
                outcome = step()
            except Failed as error:
                failed.append(name)
                table.row(name, False, error.seconds, str(error).splitlines())
                if name == "start":
                    break
                continue
            table.row(name, outcome.ok, outcome.seconds, outcome.details)
    seconds = time.monotonic() - began
    if failed:
        table.text(f"did not do what they should: {', '.join(failed)} ({seconds:.1f} s)", False)
        return 1
    table.text(f"every step did what it should ({seconds:.1f} s)", True)
    return 0
