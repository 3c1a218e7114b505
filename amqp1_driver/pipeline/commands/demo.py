# SPDX-License-Identifier: Apache-2.0

"""``amqp1 pipeline demo``: from services' notifications to tables and a page with plots.

The demo starts an embedded bus and sends notifications to it through the driver: those of two fixed
days, whose results can be computed by hand, and as many generated ones as the user wants. The job
``notifications`` then reads them through this package's data source for Spark. Main thread.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import os
import sys
import tempfile
import time
import warnings
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from amqp1_driver.pipeline.generate.story import Emission
    from amqp1_driver.pipeline.lake.job import Summary
    from amqp1_driver.pipeline.lake.layout import Lake

TOPIC = "notifications"
#: time of the first generated notification, after the two fixed days are over
BULK_BEGIN = datetime.datetime(2026, 3, 5)
_BULK_PER_DAY = 5_000
_SEED = 20260305


def add_parser(subparsers: Any) -> None:
    """Add the parser of the demo."""
    parser = subparsers.add_parser(
        "demo",
        help="show the job notifications with an embedded bus and generated notifications",
        description="Starts an embedded bus and sends generated notifications of three services to "
        "it through the driver. Reads them with the data source amqp1 and computes the "
        "gold tables of the job notifications. Prints the tables, and writes them as a "
        "page with plots.",
    )
    parser.add_argument(
        "--bulk",
        type=int,
        default=10_000,
        metavar="N",
        help="number of generated notifications in addition to those of two fixed days "
        "(default: 10000)",
    )
    parser.add_argument(
        "--folder",
        metavar="FOLDER",
        help="folder for lake and page; it must be empty (default: a new temporary folder)",
    )
    parser.add_argument(
        "--no-browser",
        action="store_true",
        help="do not open the page in a browser, only print its path",
    )
    parser.add_argument("--master", help="master of Spark (default: local[2])")


def run(args: argparse.Namespace) -> int:
    """Run the demo, and return the exit status 0; a stage that fails raises its error.

    :raises ValueError: an option has a value that is not possible
    """
    if args.bulk < 0:
        raise ValueError(f"--bulk {args.bulk} is less than 0")
    folder = _folder(args.folder)
    if not sys.warnoptions:
        # modules of OpenStack warn at import of eventlet, which the demo does not use
        warnings.simplefilter("ignore")
        os.environ.setdefault("PYTHONWARNINGS", "ignore")  # of Spark's Python processes
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:6.1f} s] {text}", flush=True)

    say("starting Spark")
    from amqp1_driver.pipeline.session import spark_session

    spark = spark_session("amqp1 pipeline demo", args.master)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        page = play(spark, folder, args.bulk, say)
    finally:
        spark.stop()
    say(f"page: {page}")
    if not args.no_browser:
        _show(page)
    return 0


def play(spark: SparkSession, folder: Path, bulk: int, say: Any = print) -> Path:
    """Send notifications, run the job, print the tables and write the page; return its path."""
    from amqp1_driver.pipeline.commands.notifications import text
    from amqp1_driver.pipeline.generate.send import send
    from amqp1_driver.pipeline.lake.figures import figures
    from amqp1_driver.pipeline.lake.layout import Lake
    from amqp1_driver.pipeline.lake.page import page, tables
    from amqp1_driver.pipeline.report import as_text, write
    from amqp1_driver.testing.fixture import BusProcess

    lake = Lake(spark, str(folder / "lake"))
    with BusProcess("broker") as bus:
        say(f"the bus listens at {bus.address}")
        sent = send(bus.url(), emissions(bulk), TOPIC)
        say(
            f"sent {sent.messages:,} messages in {sent.seconds:.1f} s, "
            f"{sent.messages / sent.seconds:,.0f} a second"
        )
        summary = take_in(lake, bus.url(), folder)
    say("took them in")
    print("\n" + text(summary, lake.root) + "\n")
    found = figures(lake)
    for table in tables(found):
        print(as_text(table) + "\n")
    path = folder / "notifications.html"
    write(page(found, datetime.datetime.now(datetime.UTC)), path)
    return path


def emissions(bulk: int) -> Iterator[Emission]:
    """Return the notifications of the fixed days, then ``bulk`` generated ones with faults."""
    from amqp1_driver.pipeline.generate import cloud, faults, story

    made = cloud.notifications(_SEED, bulk, BULK_BEGIN, _BULK_PER_DAY, tenants=6, hosts=12)
    return itertools.chain(story.emissions(), faults.emissions(made, faults.REAL, _SEED))


def take_in(lake: Lake, url: str, folder: Path) -> Summary:
    """Run the job ``notifications`` on all notifications at the bus; it fills all tables."""
    from amqp1_driver.pipeline.lake import job
    from amqp1_driver.pipeline.lake.plan import Plan

    source = {"url": url, "topic": TOPIC, "spoolDir": str(folder / "spool")}
    return job.run(lake, Plan(source=source))


def _folder(given: str | None) -> Path:
    if given is None:
        return Path(tempfile.mkdtemp(prefix="amqp1-pipeline-"))
    folder = Path(given).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ValueError(f"--folder {folder} is not empty")
    return folder


def _show(page: Path) -> None:
    """Open the page in a browser if a user sits at a terminal; a missing browser is no error."""
    if not sys.stdout.isatty():
        return
    try:
        webbrowser.open(page.as_uri())
    except (OSError, webbrowser.Error):
        pass
