# SPDX-License-Identifier: Apache-2.0

"""The same scenarios with native threads and under eventlet, each in a process of its own."""

import pathlib
import subprocess
import sys

import pytest

from tests.unit.eventloop.certificates import Certificates

EVENTLET_MODELS = ["before", "after", "no-threads", "no-select"]


@pytest.fixture(scope="session")
def folder(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("scenario")
    path.joinpath("ca.pem").write_bytes(certificates.ca.cert_pem.bytes())
    path.joinpath("server.pem").write_bytes(
        certificates.good.private_key_and_cert_chain_pem.bytes()
    )
    return path


def run(model: str, scenario: str, folder: pathlib.Path) -> None:
    result = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore::DeprecationWarning",
            "-m",
            "tests.unit.eventloop.scenarios",
            model,
            scenario,
            str(folder),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "passed", result.stderr
    assert "Traceback" not in result.stderr or scenario == "death", result.stderr


@pytest.mark.parametrize("model", ["native", *EVENTLET_MODELS])
@pytest.mark.parametrize(
    "scenario",
    [
        "model",
        "many_callers",
        "clear",
        "tls",
        "refused",
        "hanging_lookup",
        "busy_loop_lets_others_run",
        "death",
        "close_on_exec",
        "left_running",
    ],
)
def test_scenario(model: str, scenario: str, folder: pathlib.Path) -> None:
    if model != "native":
        pytest.importorskip("eventlet")
    run(model, scenario, folder)


@pytest.mark.parametrize("model", ["native", "before", "after"])
def test_fork(model: str, folder: pathlib.Path) -> None:
    if model != "native":
        pytest.importorskip("eventlet")
    run(model, "fork", folder)
