# SPDX-License-Identifier: Apache-2.0

"""``amqp1 pipeline notifications``: notifications into a lake of bronze, silver and gold tables.

Also by spark-submit: ``spark-submit .../commands/notifications.py --lake ... --url ...``
"""

from __future__ import annotations

import argparse
import datetime
import re
import signal
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amqp1_driver.pipeline.lake.job import Summary
    from amqp1_driver.pipeline.lake.plan import Plan

_EPILOG = """\
LAKE has bronze/ (rows as they arrived, by date of receipt), silver/ (each notification once),
malformed/ (unreadable messages, with the reason) and gold/ (operations, durations, errors,
lifetimes, usage, audit). A later run with the same LAKE continues where the last one ended.

  amqp1 pipeline notifications --lake /srv/lake --url amqp://bus:5672 --topic notifications
  amqp1 pipeline notifications --lake /srv/lake --bronze /srv/archive/bronze
"""
_INTERVAL = re.compile(r"^\d+ (second|minute|hour|day)s?$")


def add_parser(subparsers: Any) -> None:
    """Add the parser of the job."""
    arguments(
        subparsers.add_parser(
            "notifications",
            help="read notifications into bronze, silver and gold tables",
            description="Reads notifications and computes durations of operations, operations that "
            "never end, error rates, the usage of each tenant, and whether the audit "
            "agrees with the observed events.",
            epilog=_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's options."""
    parser.add_argument(
        "--lake",
        required=True,
        metavar="FOLDER",
        help="folder of the tables: a path, or a URL that Spark knows",
    )
    where = parser.add_argument_group("source of the notifications")
    where.add_argument(
        "--url",
        metavar="URL",
        help="transport URL of the bus; env:NAME or file:PATH hide its password",
    )
    where.add_argument(
        "--topic",
        default="notifications",
        metavar="TOPICS",
        help="topics, separated by commas (default: notifications)",
    )
    where.add_argument(
        "--pool",
        metavar="POOL",
        help="read copies of the notifications, as a listener in this pool does",
    )
    where.add_argument(
        "--spool",
        metavar="FOLDER",
        help="folder of the spool, on storage that all executors see (default: LAKE/_spool)",
    )
    where.add_argument(
        "--source-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a further option of the data source; may be repeated",
    )
    where.add_argument(
        "--bronze",
        metavar="FOLDER",
        help="read the Parquet files of an existing bronze table, instead of a bus",
    )
    when = parser.add_argument_group("schedule")
    when.add_argument(
        "--continuous",
        action="store_true",
        help="run until SIGTERM or ^C, instead of ending after the notifications that are there",
    )
    when.add_argument(
        "--every",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="with --continuous: time between batches (default: 5)",
    )
    when.add_argument(
        "--gold-every",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="with --continuous: time between computations of gold (default: 60)",
    )
    how = parser.add_argument_group("processing")
    how.add_argument(
        "--dedup-within",
        metavar="INTERVAL",
        help='longest time between a notification and its copies ("2 hours"): the job then '
        "finds copies in Spark's state, under a watermark (default: no limit; the job "
        "finds copies in silver, in all rows of the day)",
    )
    how.add_argument(
        "--until",
        type=_until,
        metavar="TIME",
        help="end of the counted time, UTC, for resources that still run (default: the "
        "latest notification)",
    )
    how.add_argument(
        "--max-files-per-batch",
        type=int,
        default=16,
        metavar="N",
        help="largest number of bronze files in one batch of silver (default: 16)",
    )
    how.add_argument(
        "--html", metavar="FILE", help="write the gold tables to this file, as a page with plots"
    )
    how.add_argument(
        "--master", help="master of Spark (default: that of spark-submit, else local[2])"
    )


def run(args: argparse.Namespace) -> int:
    """Run the job. Main thread.

    :returns: the exit status: 0, or 1 if a stage failed
    :raises ValueError: options that do not go together
    """
    options = plan(args)
    from amqp1_driver.pipeline.session import spark_session

    spark = spark_session("amqp1 notifications", args.master)
    from pyspark.errors import StreamingQueryException

    from amqp1_driver.pipeline.lake import job
    from amqp1_driver.pipeline.lake.layout import Lake

    lake = Lake(spark, args.lake)
    try:
        summary = job.run(lake, options, _until_signal() if args.continuous else None)
        if args.html:
            from amqp1_driver.pipeline.lake.figures import figures
            from amqp1_driver.pipeline.lake.page import page
            from amqp1_driver.pipeline.report import write

            write(page(figures(lake), datetime.datetime.now(datetime.UTC)), args.html)
    except StreamingQueryException as error:
        print(
            f"amqp1 pipeline notifications: a stage failed, and goes on from there when "
            f"started again: {error}",
            file=sys.stderr,
        )
        return 1
    finally:
        spark.stop()
    print(text(summary, args.lake))
    return 0


def plan(args: argparse.Namespace) -> Plan:
    """Return the plan that the options ask for.

    :raises ValueError: the options do not go together
    """
    from amqp1_driver.pipeline.lake.plan import Plan

    if bool(args.url) == bool(args.bronze):
        raise ValueError("one of --url and --bronze is needed, and not both")
    if args.dedup_within and not _INTERVAL.match(args.dedup_within):
        raise ValueError(f"--dedup-within {args.dedup_within!r} is no interval such as '2 hours'")
    source = None
    if args.url:
        if "://" in args.lake and not args.spool:
            raise ValueError("--spool is needed: the spool lies in a folder, not at a URL")
        source = {
            "url": args.url,
            "topic": args.topic,
            "spoolDir": args.spool or f"{args.lake.rstrip('/')}/_spool",
            **dict(_pair(option) for option in args.source_option),
        }
        if args.pool:
            source["pool"] = args.pool
    return Plan(
        source=source,
        bronze=args.bronze,
        every=args.every if args.continuous else None,
        gold_every=args.gold_every,
        dedup_within=args.dedup_within,
        until=args.until,
        files_per_batch=args.max_files_per_batch,
    )


def text(summary: Summary, lake: str) -> str:
    """Return the summary of a run as lines of text."""
    taken = summary.taken
    touched = summary.touched
    days = f"{len(touched)}: {touched[0]} to {touched[-1]}" if touched else "none"
    rows = [
        ("taken in from the bus", f"{summary.received:,}"),
        ("read from bronze", f"{taken.rows:,}" + (", without copies" * taken.without_copies)),
        ("new in silver", f"{taken.notifications:,}"),
        ("copies left out", "not counted" if taken.copies is None else f"{taken.copies:,}"),
        ("malformed, kept aside", f"{taken.malformed:,}"),
        ("days with new rows", days),
        ("counted until", f"{summary.until:%Y-%m-%d %H:%M:%S} UTC" if summary.until else "-"),
        ("seconds", ", ".join(f"{name} {value:.1f}" for name, value in summary.seconds.items())),
        ("tables in", lake),
    ]
    return "\n".join(f"{name:<24}{value}" for name, value in rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job as a program of its own, for spark-submit; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="notifications",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arguments(parser)
    try:
        return run(parser.parse_args(argv))
    except ValueError as error:
        print(f"notifications: {error}", file=sys.stderr)
        return 2


def _pair(option: str) -> tuple[str, str]:
    name, separator, value = option.partition("=")
    if not name or not separator:
        raise ValueError(f"--source-option {option!r} is not NAME=VALUE")
    return name, value


def _until(value: str) -> datetime.datetime:
    time = datetime.datetime.fromisoformat(value)
    return time.astimezone(datetime.UTC).replace(tzinfo=None) if time.tzinfo else time


def _until_signal() -> threading.Event:
    """Return an event that SIGTERM and ^C set."""
    end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end.set())
    return end


if __name__ == "__main__":
    sys.exit(main())
