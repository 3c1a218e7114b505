# SPDX-License-Identifier: Apache-2.0

"""Contract: the first use of a transport, while the process forks."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from tests.contract.apps import Endpoint

SCRIPT = pathlib.Path(__file__).parent / "scripts" / "first_use.py"


def run(what: str, url: str, **settings: Any) -> Any:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), what, url, json.dumps(settings)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=90,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"proxy": "http://127.0.0.1:1"},
        {"transport": "websocket"},
        {"telemetry_directory": "."},
        {"telemetry_topic": "telemetry"},
        {"telemetry_port": 19473},
    ],
    ids=lambda settings: next(iter(settings), "default"),
)
def test_the_first_call_imports_nothing(router, make_app, tmp_path, settings):
    """An import that is under way when another thread forks is under way for ever in the child."""
    if "telemetry_directory" in settings:
        settings = {"telemetry_directory": str(tmp_path)}
    make_app(f"amqp://127.0.0.1:{router.port}").server(Endpoint())
    assert run("imports", f"amqp://127.0.0.1:{router.port}", **settings) == []


def test_a_fork_during_the_first_call_leaves_the_child_able_to_call(router, make_app):
    make_app(f"amqp://127.0.0.1:{router.port}").server(Endpoint())
    assert run("fork", f"amqp://127.0.0.1:{router.port}") == 0
