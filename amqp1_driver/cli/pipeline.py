# SPDX-License-Identifier: Apache-2.0

"""``amqp1 pipeline``: jobs on Spark over notifications and the driver's telemetry. Main thread."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from typing import Any

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
        help="jobs on Spark over notifications and telemetry (extra: spark)",
        description="Jobs on Spark over notifications and the driver's telemetry. They need "
        '"pip install amqp1-driver[spark]" and Java 17.',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    jobs = parser.add_subparsers(dest="job", required=True)
    for job in available():
        _module(job).add_parser(jobs)


def run(args: argparse.Namespace) -> int:
    """Run a job; return the exit status."""
    from amqp1_driver.pipeline.session import SparkMissing

    try:
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
