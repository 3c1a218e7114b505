# SPDX-License-Identifier: Apache-2.0

"""The kept inputs of all fuzz targets, and a short run of the fuzzer; the long one is a command."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.fuzz import run
from tests.fuzz.targets import TARGETS, quiet

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

LONG = bool(os.environ.get("AMQP1_LONG"))


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    """Log lines are formatted, not kept."""
    import logging

    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    level = root.level
    quiet()
    yield
    root.setLevel(level)


def test_the_command_knows_all_targets():
    assert set(run.NAMES) == set(TARGETS)


@pytest.mark.parametrize("name", run.NAMES)
def test_inputs_that_were_found_once_are_harmless(name):
    kept = [*run.inputs(run.CRASHERS, name), *run.inputs(run.CORPUS, name)]
    assert kept, f"there is no corpus for {name}"
    for data in kept:
        try:
            TARGETS[name].run(data)
        except Exception as error:
            raise AssertionError(f"input {data.hex()}") from error


@pytest.mark.timeout(7200 if LONG else 240)
def test_the_fuzzer_finds_nothing():
    """Some seconds for all targets together; in the long form five minutes for each."""
    which = ["--seconds", "300"] if LONG else ["all", "--seconds", "5"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.run", *which],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    figures = {line.split()[0]: int(line.split()[1]) for line in done.stdout.splitlines()[1:]}
    assert set(figures) == (set(TARGETS) if LONG else {"all"})
    assert all(figures.values()), done.stdout
