# SPDX-License-Identifier: Apache-2.0

"""Memory of the reader's process stays flat.

``AMQP1_LONG=1`` takes five million rows, which is about fourteen minutes on two busy cores.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from pathlib import Path

import pytest

from amqp1_driver.pipeline import bus
from amqp1_driver.pipeline.publish.publisher import Publisher
from tests.buses.rabbit import Management, Node

from .support import WAIT

LONG = os.environ.get("AMQP1_LONG") == "1"
ROWS = 5_000_000 if LONG else 200_000
STEP = 20_000
#: rows that wait in the queue at most
AHEAD = 60_000
#: bytes
GROWTH = 24 * 1024 * 1024

pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow, pytest.mark.timeout(3600 if LONG else 400)]


def test_memory_is_flat(rabbit43: Node, tmp_path: Path) -> None:
    with Management(rabbit43) as management:
        management.declare("steady", x_queue_type="classic")
    where, body = bus.node("/queues/steady"), b"x" * (1024 if LONG else 256)
    progress: deque[tuple[int, int]] = deque()
    reader = subprocess.Popen(
        [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "tests.pipeline.collect.steady",
            rabbit43.url(),
            "/queues/steady",
            str(tmp_path / "spool"),
            str(ROWS),
            str(STEP),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert reader.stdout is not None
    try:
        with Publisher(bus.make_client(rabbit43.url()), timeout=WAIT) as publisher:
            for number in range(ROWS):
                publisher.send(where, f"m{number}", body)
                if number % STEP == STEP - 1:
                    publisher.flush()
                    while number + 1 - (progress[-1][0] if progress else 0) > AHEAD:
                        high, resident, seconds = reader.stdout.readline().split()
                        progress.append((int(high), int(resident)))
        for line in reader.stdout:
            high, resident, seconds = line.split()
            progress.append((int(high), int(resident)))
        assert reader.wait(WAIT) == 0
    finally:
        reader.kill()
        reader.wait()
        reader.stdout.close()
    assert progress[-1][0] == ROWS
    # what is set up at first, and the largest batches, come in the first third
    early = max(resident for high, resident in progress if high <= ROWS // 3)
    late = max(resident for high, resident in progress if high > ROWS // 3)
    print(f"{ROWS} rows in {seconds} s, resident {early >> 20} MiB, then {late >> 20} MiB")
    assert late - early < GROWTH
