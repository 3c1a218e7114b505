# SPDX-License-Identifier: Apache-2.0

"""The configuration on the page about hybrid deployments, used by a service as it stands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bars.ports import lasting_port
from tests.devstack.world import TOP
from tests.functional import buses

_EXAMPLE = TOP / "doc" / "source" / "examples" / "hybrid.conf"
_CHECK = TOP / "devstack" / "files" / "check_bus.py"


def _check(folder: Path, rpc: str, notifications: str) -> subprocess.CompletedProcess[str]:
    """One call and one notification with the example, whose hosts are these in place of its own."""
    text = _EXAMPLE.read_text()
    for name, address in (("router", rpc), ("rabbit", notifications)):
        hosts = ",".join(f"nova:secret@{name}{n}.example.org:5672" for n in (1, 2))
        assert hosts in text
        text = text.replace(hosts, address)
    conf = folder / "nova.conf"
    conf.write_text(text)
    return subprocess.run(
        [sys.executable, str(_CHECK), str(conf), "3"],
        text=True,
        capture_output=True,
        timeout=50,
        check=False,
    )


@pytest.mark.timeout(60)
def test_rpc_on_a_router_and_notifications_on_a_broker(tmp_path: Path) -> None:
    with (
        buses.running("router", tmp_path / "rpc.log") as rpc,
        buses.running("broker", tmp_path / "notifications.log") as notifications,
    ):
        done = _check(tmp_path, rpc, notifications)
    assert (done.returncode, done.stdout) == (0, "RPC: ok\nnotifications: ok\n"), done.stderr


@pytest.mark.timeout(60)
def test_rpc_does_not_use_the_bus_of_notifications(tmp_path: Path) -> None:
    with buses.running("broker", tmp_path / "notifications.log") as notifications:
        done = _check(tmp_path, f"127.0.0.1:{lasting_port()}", notifications)
    assert (done.returncode, done.stdout) == (1, "")
    assert "RPC: failed" in done.stderr
