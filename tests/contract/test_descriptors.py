# SPDX-License-Identifier: Apache-2.0

"""Contract: a process that is out of descriptors recovers once there are some."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

from tests.contract.apps import QUICK, Endpoint

SCRIPT = pathlib.Path(__file__).parent / "scripts" / "descriptors.py"


@pytest.mark.parametrize("mechanisms", ["", "PLAIN"])
def test_sasl_works_once_there_are_descriptors(make_bus, make_app, mechanisms):
    """Cyrus SASL looks for its plug-ins once in a process."""
    bus = make_bus(users={"user": "secret"})
    url = f"amqp://user:secret@127.0.0.1:{bus.port}"
    make_app(url).server(Endpoint())
    done = subprocess.run(
        [sys.executable, str(SCRIPT), url, json.dumps({**QUICK, "sasl_mechanisms": mechanisms})],
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["failed"], "answer", "again"]
    assert "no descriptors for SASL's plug-ins: Too many open files" in done.stderr
    assert "Traceback" not in done.stderr
