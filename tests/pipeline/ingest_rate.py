# SPDX-License-Identifier: Apache-2.0

"""How fast the collector takes notifications from RabbitMQ, beside plain listeners.

    python -m tests.pipeline.ingest_rate --port PORT [--rabbit-python PYTHON]

The queue is filled before each run. Runs of the collector (until all rows are durable and
acknowledged), of a notification listener of oslo.messaging on this driver and, if there is an
environment with it, of one on oslo.messaging's own driver for RabbitMQ alternate; each has a
process of its own. Rates are messages per second, from the first message to the last.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from amqp1_driver import codec
from amqp1_driver.pipeline import bus
from amqp1_driver.pipeline.collect import Collector
from amqp1_driver.pipeline.publish.publisher import Publisher
from amqp1_driver.pipeline.source.options import SourceOptions
from amqp1_driver.pipeline.spool import Spool

WAIT = 300.0
_LISTENER = Path(__file__).with_name("ingest_listener.py")


def notification(size: int) -> dict[str, object]:
    """One whose encoded form has about ``size`` bytes."""
    empty = {
        "message_id": str(uuid.uuid4()),
        "publisher_id": "compute.host",
        "priority": "INFO",
        "event_type": "compute.instance.update",
        "timestamp": "2026-01-01 00:00:00.000000",
        "payload": "",
    }
    empty["payload"] = "x" * max(0, size - len(json.dumps(empty)) - 60)
    return empty


def fill(url: str, rabbit: bool, topic: str, count: int, size: int) -> None:
    """Put so many notifications in the queue of a topic."""
    message = notification(size)
    where = bus.node(f"/queues/{topic}.info")
    if rabbit:
        body = json.dumps({"oslo.version": "2.0", "oslo.message": json.dumps(message)}).encode()
    else:
        where = bus.notifications(topic, "info", "openstack")
        body = codec.dump_request(message, {})
    run = uuid.uuid4().hex
    with Publisher(bus.make_client(url, "openstack"), 4000, WAIT) as publisher:
        for number in range(count):
            publisher.send(where, f"{run}-{number}", body, "application/json")
        publisher.flush()


def collect(url: str, topic: str, count: int, options: dict[str, str]) -> None:
    """Child process: the collector."""
    # pyarrow brings it along with its first array, which is 0.4 s that a listener has not
    import pandas  # noqa: F401

    with tempfile.TemporaryDirectory() as folder:
        parsed = SourceOptions.parse(
            {
                "url": url,
                "topic": topic,
                "priorities": "info",
                "spoolDir": folder,
                "maxSpoolRows": str(2 * count + 100_000),
                "maxSpoolBytes": str(1 << 40),
                **options,
            }
        )
        spool = Spool.open(folder, parsed.limits())
        collector = Collector(parsed, spool)
        collector.start()
        if not collector.wait_for(count, WAIT):
            raise SystemExit(f"only {spool.high} rows within {WAIT:g} s: {collector.facts()}")
        end = time.time()
        first = next(iter(_received(spool)))
        used = resource.getrusage(resource.RUSAGE_SELF)
        collector.stop()
        print(
            f"rate {(count - 1) / (end - first):.1f} cpu {used.ru_utime + used.ru_stime:.2f} "
            f"stalls {collector.facts()['stalls']}"
        )


def _received(spool: Spool) -> Iterator[float]:
    from amqp1_driver.pipeline.spool import segments

    for part in spool.parts(1, 1):
        for batch in segments.read(part.segment.path, part.lo, part.hi):
            yield batch.column("received_time")[0].value / 1e6


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT * 2, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def main() -> int:
    """Measure, and print a line for each run and the medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, required=True, help="of a RabbitMQ on 127.0.0.1")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--size", type=int, default=1024, help="of each body, bytes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="of the data source"
    )
    parser.add_argument("--rabbit-python", help="interpreter with oslo.messaging and kombu")
    parser.add_argument("--only", action="append", choices=("collector", "amqp1", "rabbit"))
    parser.add_argument("--collect", nargs=2, metavar=("URL", "TOPIC"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.collect:
        collect(*given.collect, given.rows, dict(each.split("=", 1) for each in given.option))
        return 0
    url = f"amqp://guest:guest@127.0.0.1:{given.port}"
    topic = f"ingest{uuid.uuid4().hex[:6]}"
    kinds = given.only or ["collector", "amqp1", *(["rabbit"] if given.rabbit_python else [])]
    rates: dict[str, list[float]] = {kind: [] for kind in kinds}
    for number in range(given.rounds):
        for kind in kinds:
            python, at = sys.executable, url
            if kind == "rabbit":
                python, at = given.rabbit_python, url.replace("amqp:", "rabbit:") + "//"
                _run(python, str(_LISTENER), at, topic, "0")
            fill(url, kind == "rabbit", topic, given.rows, given.size)
            if kind == "collector":
                options = [part for each in given.option for part in ("--option", each)]
                out = _run(
                    python,
                    "-m",
                    "tests.pipeline.ingest_rate",
                    "--port",
                    "0",
                    "--rows",
                    str(given.rows),
                    *options,
                    "--collect",
                    at,
                    topic,
                )
            else:
                out = _run(python, str(_LISTENER), at, topic, str(given.rows))
            rates[kind].append(float(out.split()[1]))
            print(f"round {number + 1} {kind}: {out}", flush=True)
    for kind, found in rates.items():
        print(
            f"median {kind}: {statistics.median(found):.0f} messages/s "
            f"({min(found):.0f} to {max(found):.0f})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
