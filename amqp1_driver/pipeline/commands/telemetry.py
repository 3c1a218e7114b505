# SPDX-License-Identifier: Apache-2.0

"""``amqp1 pipeline telemetry``: a report of the driver's telemetry, with settings to try.

By spark-submit: ``spark-submit .../pipeline/commands/telemetry.py PATH... --html FILE``.
Main thread.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from amqp1_driver.pipeline.telemetry.tables import Tables

#: priority of the notifications in which the driver sends its records
PRIORITY = "info"
_DESCRIPTION = """
Reads the driver's telemetry from files (JSON lines, Parquet, Arrow; also in folders) or from the
bus. Reports latencies, stalls, hot addresses, errors, timeouts, throughput and lost connections,
and recommends settings of credit and timeouts. Needs the extra spark.
"""
_EXAMPLES = """
examples:
  amqp1 pipeline telemetry /var/log/nova/telemetry --html report.html
  amqp1 pipeline telemetry --url file:/etc/nova/bus-url --topic telemetry --spool /var/spool/t
"""


def add_parser(subparsers: Any) -> None:
    """Add the parser of the job."""
    _arguments(
        subparsers.add_parser(
            "telemetry",
            help="report latencies, stalls and errors, and recommend settings of credit and "
            "timeouts",
            description=_DESCRIPTION,
            epilog=_EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="file or folder, also on another file system that Spark reads",
    )
    parser.add_argument(
        "--format",
        choices=("json", "parquet", "arrow"),
        help="format of files whose names do not show it",
    )
    parser.add_argument("--html", metavar="FILE", help="write the report to this file")
    parser.add_argument(
        "--json", metavar="FILE", help="write all tables to this file; -: standard output"
    )
    parser.add_argument(
        "--config-file",
        action="append",
        default=[],
        metavar="FILE",
        help="configuration file of a service, for the present values of the options; may "
        "be repeated",
    )
    parser.add_argument(
        "--top",
        type=_positive,
        default=50,
        metavar="N",
        help="largest number of rows in a table (default: 50)",
    )
    parser.add_argument(
        "--master", help="master of Spark (default: that of spark-submit, else local[2])"
    )
    bus = parser.add_argument_group("from the bus, instead of files")
    bus.add_argument("--url", help="transport URL; env:NAME or file:PATH hide its password")
    bus.add_argument(
        "--topic", help="topic to which the driver sends records, its option telemetry_topic"
    )
    bus.add_argument("--address", help="AMQP addresses instead of --topic, separated by commas")
    bus.add_argument(
        "--spool",
        metavar="FOLDER",
        help="folder for the spool of the data source, which stays between runs",
    )
    bus.add_argument(
        "--purge", action="store_true", help="after the report, delete its records from the spool"
    )
    bus.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a further option of the data source; may be repeated",
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Run the job, and return the exit status.

    :raises ValueError: an argument or the input is wrong; the text says which and why
    :raises SparkMissing: the extra ``spark`` is not installed
    """
    from amqp1_driver.pipeline.session import spark_session

    asked = checked(args)
    spark = spark_session("amqp1 pipeline telemetry", args.master)
    try:
        report(spark, args, asked)
    finally:
        spark.stop()
    return 0


@dataclasses.dataclass(frozen=True)
class Asked:
    """The source of the records, and the present values of the driver's options.

    ``files``: paths by format, None for the bus; ``bus``: options of the data source, empty for
    files; ``current``: values of the options that the configuration sets.
    """

    files: Mapping[str, Sequence[str]] | None
    bus: Mapping[str, str]
    current: Mapping[str, float]


def checked(args: argparse.Namespace) -> Asked:
    """Check the arguments before Spark starts, which takes a while, and return what they ask for.

    :raises ValueError: the arguments contradict each other, or a file or folder does not exist
    """
    from amqp1_driver.pipeline.telemetry import reading, recommend

    bus = _bus_options(args)
    files = None if bus else reading.sorted_out(args.paths, args.format)
    for target in filter(None, (args.html, args.json if args.json != "-" else None)):
        if not Path(target).absolute().parent.is_dir():
            raise ValueError(f"{target}: there is no such folder")
    return Asked(files, bus, recommend.configured(args.config_file))


def _bus_options(args: argparse.Namespace) -> dict[str, str]:
    given = {
        "--url": args.url,
        "--address or --topic": args.address or args.topic,
        "--spool": args.spool,
    }
    if not any(given.values()):
        if not args.paths:
            raise ValueError("no input: give files or folders, or --url, --topic and --spool")
        if args.option or args.purge:
            raise ValueError("--option and --purge are for the bus only")
        return {}
    if args.paths:
        raise ValueError("either files or the bus, not both")
    missing = [name for name, value in given.items() if not value]
    if missing:
        raise ValueError(f"to read from the bus, {' and '.join(missing)} is needed as well")
    if args.address and args.topic:
        raise ValueError("either --address or --topic, not both")
    options = {"url": args.url, "spoolDir": args.spool}
    options |= (
        {"address": args.address} if args.address else {"topic": args.topic, "priorities": PRIORITY}
    )
    for entry in args.option:
        name, equals, value = entry.partition("=")
        if not equals or not name:
            raise ValueError(f"--option {entry!r}: NAME=VALUE is expected")
        options[name] = value
    return options


def report(spark: SparkSession, args: argparse.Namespace, asked: Asked) -> None:
    """Read the records, compute the tables, and write the report.

    :raises ValueError: the input has no record, or a file is no telemetry
    """
    from amqp1_driver.pipeline.telemetry import reading, tables

    if asked.files is not None:
        found = reading.from_files(spark, asked.files)
        _write(args, tables.compute(found, args.top), asked, list(args.paths))
        return
    # Each use of a batch frame reads the bus again: persist() keeps one read for all uses.
    rows = reading.from_bus(spark, asked.bus).persist()
    try:
        last = _last(rows)
        found = reading.of_messages(rows)
        _write(
            args,
            tables.compute(found, args.top),
            asked,
            [f"messages to {args.address or args.topic}"],
        )
    finally:
        rows.unpersist()
    if args.purge and last is not None:
        from amqp1_driver.pipeline.source.batch import confirm

        confirm(args.spool, last)


def _last(rows: DataFrame) -> int | None:
    row = rows.agg({"seq": "max"}).first()
    return None if row is None else row[0]


def _write(args: argparse.Namespace, found: Tables, asked: Asked, sources: Sequence[str]) -> None:
    """Write the page, the tables as JSON, and a summary to the terminal.

    With ``--json -`` the tables go to standard output and there is no summary.
    """
    from amqp1_driver.pipeline.report import write
    from amqp1_driver.pipeline.telemetry import credit, page, recommend, tables

    seen = tables.observed(found)
    advice = recommend.recommend(seen, asked.current)
    needs = [credit.need(flow) for flow in seen.flows[: args.top]]
    if args.html:
        write(page.page(found, advice, needs, sources), args.html)
    if args.json:
        text = (
            json.dumps(
                tables.document(found, advice, needs, sources), indent=2, default=tables.as_json
            )
            + "\n"
        )
        if args.json == "-":
            sys.stdout.write(text)
            return
        Path(args.json).write_text(text, encoding="utf-8")
    print(page.terminal(found, advice))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job as a program of its own, for spark-submit; return the exit status."""
    from amqp1_driver.pipeline.session import SparkMissing

    parser = argparse.ArgumentParser(prog="telemetry", description=_DESCRIPTION)
    _arguments(parser)
    try:
        return run(parser.parse_args(argv))
    except (ValueError, SparkMissing) as error:
        print(f"telemetry: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
