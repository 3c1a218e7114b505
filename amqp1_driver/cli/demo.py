# SPDX-License-Identifier: Apache-2.0

"""``amqp1 demo``: a demonstration of the driver, on embedded buses or on an existing bus.

All steps use oslo.messaging's public interface, as any service does. Main thread.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
import time
import warnings
from typing import Any, TextIO

from amqp1_driver.cli.measuring import terminable
from amqp1_driver.cli.reach import nobody_at
from amqp1_driver.masking import given

ALL_WELL = "every step did what it should"
_GREEN, _RED, _DIM, _BOLD, _OFF = "\x1b[32m", "\x1b[31m", "\x1b[2m", "\x1b[1m", "\x1b[0m"
_MARGIN = 38


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "demo",
        help="demonstrate calls, casts, a fanout, errors, notifications and a failover",
        description="Starts two embedded buses, three RPC servers in separate processes and a "
        "notification listener. Shows how oslo.messaging works with them, and the time "
        "of each step. Exit status: 0 if every step did what it should, 1 if not, 130 "
        "after ^C.",
    )
    parser.add_argument(
        "--mode",
        choices=("router", "broker"),
        default="router",
        help="mode of the embedded buses (default: router)",
    )
    parser.add_argument(
        "--url",
        metavar="URL",
        help="use the bus at this transport URL instead, without the failover; also "
        "env:NAME or file:PATH. Do not run two demos on one bus at a time",
    )
    parser.add_argument(
        "--verbose", "-v", action="store_true", help="write the driver's log to standard error"
    )


def run(args: argparse.Namespace) -> int:
    """Play all steps; return 0 on success, 1 on failure, 2 for a wrong URL, 130 if interrupted."""
    table = Table()
    try:
        url = given(args.url) if args.url else None
    except ValueError as error:
        print(f"amqp1 demo: --url {error}", file=sys.stderr)
        return 2
    try:
        with terminable():
            return play(args.mode, url, args.verbose, table)
    except KeyboardInterrupt:
        table.text("interrupted", False)
        return 130


def play(mode: str, url: str | None, verbose: bool, table: Table) -> int:
    """Play the demonstration; return 0 if every step did what it should, otherwise 1."""
    began = time.monotonic()
    if not sys.warnoptions:
        # oslo's modules warn about eventlet at import; this command does not use eventlet
        warnings.simplefilter("ignore")
    from amqp1_driver.cli.demo_servers import set_up_logging
    from amqp1_driver.cli.demo_steps import Failed, Play

    if verbose:
        set_up_logging()
    else:
        logging.getLogger().addHandler(logging.NullHandler())  # the table shows the errors
    nobody = nobody_at(url) if url is not None else None
    if nobody is not None:
        table.text(nobody, False)
        return 1
    failed: list[str] = []
    table.head()
    with contextlib.closing(Play(mode, url, verbose)) as steps:
        for name, step in steps.steps():
            since = time.monotonic()
            try:
                shown = step()
            except Exception as error:
                text = (
                    str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}"
                )
                table.row(name, False, time.monotonic() - since, text.splitlines())
                failed.append(name)
                if name == "start":
                    break
            else:
                table.row(name, shown.ok, shown.seconds, shown.details)
    verdict = f"did not do what they should: {', '.join(failed)}" if failed else ALL_WELL
    table.text(f"{verdict} ({time.monotonic() - began:.1f} s)", not failed)
    return 1 if failed else 0


class Table:
    """Steps with their verdict, latency in milliseconds and what happened.

    Colours appear on terminals only, and not if NO_COLOR is set. Main thread.

    :param out: where to write; standard output unless given
    """

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = sys.stdout if out is None else out
        self._colours = self._out.isatty() and not os.environ.get("NO_COLOR")

    def head(self) -> None:
        """Write the names of the columns."""
        self._write(self._painted(f"{'':6} {'step':20} {'ms':>8}  what happened", _BOLD))

    def row(self, name: str, ok: bool | None, seconds: float | None, details: list[str]) -> None:
        """Write one step; ``ok`` None: left out. Further details go below the first."""
        word = {True: "ok", False: "FAILED", None: "-"}[ok]
        colour = {True: _GREEN, False: _RED, None: _DIM}[ok]
        latency = "-" if seconds is None else f"{seconds * 1000:.1f}"
        first, *more = details or [""]
        self._write(f"{self._painted(f'{word:6}', colour)} {name:20} {latency:>8}  {first}")
        for line in more:
            self._write(" " * _MARGIN + self._painted(line, _DIM))

    def text(self, line: str, ok: bool | None = None) -> None:
        """Write a line of its own, green or red if it is a verdict."""
        self._write(line if ok is None else self._painted(line, _GREEN if ok else _RED))

    def _painted(self, text: str, colour: str) -> str:
        return f"{colour}{text}{_OFF}" if self._colours else text

    def _write(self, line: str) -> None:
        print(line.rstrip(), file=self._out, flush=True)
