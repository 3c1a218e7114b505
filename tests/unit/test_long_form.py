# SPDX-License-Identifier: Apache-2.0
"""``--long`` and AMQP1_LONG=1 choose the same tests, also those that read one of them only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: the first has cases of its own in the long form, the second is left out of the short one
FILES = ("tests/buses/test_rabbitmq_restarts.py", "tests/bars/test_kerberos.py")


def collected(*options: str, long: str = "") -> set[str]:
    """The tests that pytest would run."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *options, *FILES],
        cwd=ROOT,
        env={**os.environ, "AMQP1_LONG": long},
        capture_output=True,
        text=True,
        check=True,
    )
    return {line for line in done.stdout.splitlines() if "::" in line}


@pytest.mark.timeout(240)
def test_the_option_and_the_variable_are_the_same() -> None:
    by_option = collected("--long")
    assert by_option == collected(long="1")
    assert by_option > collected()
    assert any("test_kerberos" in name for name in by_option)
    assert any("4.0-quorum-3" in name for name in by_option)
