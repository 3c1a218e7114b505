# SPDX-License-Identifier: Apache-2.0

"""The memory of the process that fills a spool does not grow with the rows that go through it.

AMQP1_LONG=1: 5,000,000 rows of 1 KiB, else 300,000 small ones.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LONG = os.environ.get("AMQP1_LONG") == "1"
ROWS, CAP, BODY = ("5000000", "500000", "1024") if LONG else ("300000", "50000", "64")


@pytest.mark.timeout(900 if LONG else 120)
def test_memory_is_flat_and_the_cap_is_kept(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.pipeline.rates",
            "memory",
            "--rows",
            ROWS,
            "--cap",
            CAP,
            "--body",
            BODY,
            "--folder",
            str(tmp_path),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=900 if LONG else 100,
    )
    result = json.loads(done.stdout.splitlines()[-1])

    memory = result["memory_mb_after_each_tenth"]
    assert len(memory) == 10
    assert max(memory[4:]) - min(memory[4:]) <= 8, memory
    assert result["rows"] == int(ROWS)
    assert result["most_rows_on_disc"] <= int(CAP)
