# SPDX-License-Identifier: Apache-2.0

"""``amqp1 pipeline``: jobs on Spark over notifications and the driver's telemetry. Main thread."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from typing import Any

from amqp1_driver.cli.reach import nobody_at
from amqp1_driver.masking import given

#: Jobs, each a module of ``amqp1_driver.pipeline.commands`` with ``add_parser(subparsers)`` and
#: ``run(args)``.
JOBS = ("notifications", "telemetry", "capacity", "demo")
_PACKAGE = "amqp1_driver.pipeline.commands"


def _module(job: str) -> Any:
    return importlib.import_module(f"{_PACKAGE}.{job}")


def available() -> list[str]:
    """Return the jobs whose modules are installed."""
    return [job for job in JOBS if importlib.util.find_spec(f"{_PACKAGE}.{job}") is not None]


def add_parser(subparsers: Any) -> None:
    """Add ``pipeline`` and its jobs."""
    parser = subparsers.add_parser(
        "pipeline",
        help="run Spark jobs on notifications and telemetry (extra: spark)",
        description="Runs Spark jobs on notifications and on the driver's telemetry. They need "
        '"pip install amqp1-driver[spark]" and Java 17.',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    jobs = parser.add_subparsers(dest="job", required=True)
    for job in available():
        _module(job).add_parser(jobs)


def _warn_of_nobody(args: argparse.Namespace) -> None:
    """Write to standard error that no host of ``--url`` accepts connections, before Spark starts.

    The job goes on: the bus may come later, or only the executors of Spark can reach it.

    :raises ValueError: the URL is in a variable or file that does not exist
    """
    url = given(getattr(args, "url", None) or "")
    options = [*getattr(args, "source_option", []), *getattr(args, "option", [])]
    if "://" not in url or any("proxy=" in option for option in options):
        return
    nobody = nobody_at(url)
    if nobody is not None:
        print(f"amqp1 pipeline {args.job}: {nobody}; the job goes on trying", file=sys.stderr)


def run(args: argparse.Namespace) -> int:
    """Run a job; return the exit status."""
    from amqp1_driver.pipeline.session import SparkMissing

    try:
        _warn_of_nobody(args)
        status: int = _module(args.job).run(args)
    except SparkMissing as error:
        print(f"amqp1 pipeline {args.job}: {error}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"amqp1 pipeline {args.job}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return status
