# SPDX-License-Identifier: Apache-2.0

"""The bus and a foreign client: rhea from npm, which shares no code with Qpid Proton.

The tests need ``node`` and ``npm`` and install rhea once into a folder of their own: the one that
the variable AMQP1_TEST_NODE names, so that it can be kept, else a temporary one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from amqp1_driver.bus import Bus

SCRIPT = Path(__file__).with_name("rhea_client.js")
PACKAGE = "rhea@^3.0.0"
TIMEOUT = 30


def _need(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.fail(
            f"{program!r} is not on the PATH: the bus is tested against the AMQP 1.0 client rhea, "
            "which needs Node.js; install the packages 'nodejs' and 'npm'",
            pytrace=False,
        )
    return path


@pytest.fixture(scope="session")
def node_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rhea in its node_modules."""
    npm = _need("npm")
    kept = os.environ.get("AMQP1_TEST_NODE")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("node")
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "node_modules" / "rhea" / "package.json").exists():
        command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", PACKAGE]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        if done.returncode != 0:
            pytest.fail(f"npm could not install {PACKAGE}:\n{done.stderr}", pytrace=False)
    return folder


def play(node_folder: Path, bus: Bus, scenario: str) -> Any:
    """Run a scenario of rhea_client.js; returns what it printed."""
    environment = {**os.environ, "NODE_PATH": str(node_folder / "node_modules")}
    done = subprocess.run(
        [_need("node"), str(SCRIPT), scenario, "127.0.0.1", str(bus.port)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "mode, product, frame",
    [("router", "amqp1-bus-router", 16384), ("broker", "amqp1-bus-broker", 131072)],
)
def test_rhea_reads_the_open_frame(node_folder: Path, mode: str, product: str, frame: int) -> None:
    with Bus(mode) as bus:
        seen = play(node_folder, bus, "open")
    assert seen["product"] == product
    assert seen["capabilities"] in ("ANONYMOUS-RELAY", ["ANONYMOUS-RELAY"])
    assert (seen["idle"], seen["frame"]) == (8000, frame)


@pytest.mark.parametrize("mode", ["router", "broker"])
def test_rhea_calls_and_is_answered_at_a_dynamic_address(node_folder: Path, mode: str) -> None:
    with Bus(mode) as bus:
        seen = play(node_folder, bus, "call")
    assert (seen["body"], seen["correlation"]) == ("pong ping", "id-1")
    assert seen["dynamic"].startswith("amqp:/_topo/0/" if mode == "router" else "amqp1-bus.temp.")


def test_rhea_hears_the_outcomes_of_the_consumer_through_the_router(node_folder: Path) -> None:
    with Bus("router") as bus:
        seen = play(node_folder, bus, "outcomes")
    assert seen["heard"] == [
        ["accepted"],
        ["rejected", "test:bad", "no good"],
        ["released"],
        ["modified"],
    ]


def test_a_rhea_sender_has_credit_on_the_router_only_once_there_is_a_receiver(
    node_folder: Path,
) -> None:
    with Bus("router") as bus:
        assert play(node_folder, bus, "credit") == {"seen": [0, 250]}


@pytest.mark.parametrize("mode", ["router", "broker"])
def test_every_rhea_subscriber_gets_a_multicast(node_folder: Path, mode: str) -> None:
    with Bus(mode) as bus:
        seen = play(node_folder, bus, "multicast")
    assert seen["name"] == "accepted"
    if mode == "router":
        # The outcome came after all had accepted; a broker accepts at once.
        assert seen["got"] == ["all0", "all1", "all2"]


def test_rhea_gets_a_stored_message_again_with_its_delivery_count(node_folder: Path) -> None:
    with Bus("broker") as bus:
        seen = play(node_folder, bus, "redelivery")["seen"]
    assert [(m["delivery_count"], m["first_acquirer"]) for m in seen] == [
        (0, True),
        (0, False),
        (1, False),
    ]
    for message in seen:
        assert message["body"] == {"list": [1, "two", None]}
        assert (message["durable"], message["properties"]) == (True, {"a": 1})


def test_a_rhea_sender_stops_at_the_capacity_and_goes_on_when_the_queue_is_drained(
    node_folder: Path,
) -> None:
    with Bus("broker", queue_capacity=4, queue_resume=2) as bus:
        seen = play(node_folder, bus, "watermarks")
    assert seen["before"] == {"sent": 4, "credit": 0}
    assert seen["got"] == [0, 1, 2, 3, 4, 5, 6, 7]


def test_rhea_is_refused_with_a_wrong_password_and_let_in_with_the_right_one(
    node_folder: Path,
) -> None:
    with Bus(users={"joe": "secret"}) as bus:
        seen = play(node_folder, bus, "password")
        assert seen["right"] is True
        assert seen["wrong"] != "open"
        assert bus.counters.auth_failures == 1


@pytest.mark.parametrize("mode", ["router", "broker"])
def test_rhea_sends_and_receives_three_megabytes(node_folder: Path, mode: str) -> None:
    with Bus(mode) as bus:
        assert play(node_folder, bus, "large") == {"same": True}
