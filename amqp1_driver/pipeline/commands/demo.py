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

"""``amqp1 pipeline demo``: from services' notifications to tables and a page with plots.

On an embedded bus: the notifications of two days that can be computed by hand, and as many made
ones as wanted, are sent through the driver; the job ``notifications`` takes them in by the data
source.
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
#: of the made notifications: the day after the two fixed ones are over
BULK_BEGIN = datetime.datetime(2026, 3, 5)
_BULK_PER_DAY = 5_000
_SEED = 20260305


def add_parser(subparsers: Any) -> None:
    """Describe the demo."""
    parser = subparsers.add_parser(
        "demo", help="an embedded bus, generated notifications, the job, tables and a page",
        description="Starts an embedded bus, sends generated notifications of three services "
        "through the driver, takes them in with the data source amqp1, computes the gold tables "
        "of the job notifications, prints them and writes them as a page with plots.")
    parser.add_argument("--bulk", type=int, default=10_000, metavar="N",
                        help="made notifications besides the two fixed days (default: 10000)")
    parser.add_argument("--folder", metavar="FOLDER",
                        help="where lake and page go; it must be empty (default: a new folder "
                             "for temporary files)")
    parser.add_argument("--no-browser", action="store_true", help="only print the page's path")
    parser.add_argument("--master", help="Spark's master (default: local[2])")


def run(args: argparse.Namespace) -> int:
    """Play it; 0, or 1 if a stage failed.

    :raises ValueError: options that cannot be
    """
    if args.bulk < 0:
        raise ValueError(f"--bulk {args.bulk} is less than 0")
    folder = _folder(args.folder)
    if not sys.warnoptions:
        # upstream's modules warn of eventlet at import, which nobody uses here
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
    """Send, take in, compute, print; the page that was written."""
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
        say(f"sent {sent.messages:,} messages in {sent.seconds:.1f} s, "
            f"{sent.messages / sent.seconds:,.0f} a second")
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
    """The fixed days, then so many made notifications, with faults."""
    from amqp1_driver.pipeline.generate import cloud, faults, story

    made = cloud.notifications(_SEED, bulk, BULK_BEGIN, _BULK_PER_DAY, tenants=6, hosts=12)
    return itertools.chain(story.emissions(), faults.emissions(made, faults.REAL, _SEED))


def take_in(lake: Lake, url: str, folder: Path) -> Summary:
    """What the bus has, as far as gold."""
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
    """Open the page where somebody sits; it never fails for want of a browser."""
    if not sys.stdout.isatty():
        return
    try:
        webbrowser.open(page.as_uri())
    except (OSError, webbrowser.Error):
        pass
