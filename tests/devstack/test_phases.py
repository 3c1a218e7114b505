# SPDX-License-Identifier: Apache-2.0

"""The phases of the devstack plugin, run for real: stack, unstack, clean."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bars.ports import lasting_port
from tests.devstack.world import TOP, Devstack, listens
from tests.functional import buses

#: the first test on a bus may have to install it
_INSTALLING = 400


def _install(tool: str, *names: str) -> None:
    """Into the cache of this machine, where that has not been done before."""
    subprocess.run(
        ["bash", str(TOP / "tools" / f"{tool}.sh"), "install", *names],
        check=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )


@pytest.fixture
def clean() -> Iterator[list[Devstack]]:
    """Stops, after the test, what is still there of those that it puts in."""
    started: list[Devstack] = []
    yield started
    for devstack in started:
        if devstack.buses.exists():
            devstack.run("clean", check=False)


def _call(devstack: Devstack, file: str = "nova.conf") -> list[str]:
    """Driver and result of an RPC call of a service with that file."""
    service = Path(__file__).with_name("service.py")
    done = devstack.python(str(service), str(devstack.folder / "etc" / file))
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split()


@pytest.mark.timeout(_INSTALLING)
def test_rabbitmq_for_everything(tmp_path: Path, clean: list[Devstack]) -> None:
    _install("rabbitmq", "sid")
    port = lasting_port()
    devstack = Devstack(
        tmp_path,
        AMQP1_RPC_PORT=port,
        AMQP1_PSEUDO_VHOST="False",
        AMQP1_OPTIONS="idle_timeout=33 trace=false",
    )
    clean.append(devstack)
    devstack.clone()
    devstack.cached("rabbitmq", "sid")

    printed = devstack.run("stack").stdout

    url = f"amqp://stackamqp:pass%20word%2F1@127.0.0.1:{port}/"
    assert devstack.option("nova.conf", "DEFAULT", "transport_url") == url
    assert devstack.option("nova.conf", "oslo_messaging_notifications", "transport_url") == url
    assert devstack.option("nova.conf", "oslo_messaging_notifications", "driver") == "messagingv2"
    assert devstack.option("nova.conf", "oslo_messaging_amqp", "idle_timeout") == "33"
    assert devstack.option("nova.conf", "oslo_messaging_amqp", "pseudo_vhost") == "false"
    assert devstack.option("nova_cell1.conf", "DEFAULT", "transport_url") == url + "nova_cell1"
    assert devstack.option("keystone.conf", "DEFAULT", "transport_url") is None
    assert devstack.option("keystone.conf", "oslo_messaging_notifications", "transport_url") == url
    assert "summary: Installing the message bus for RPC and notifications: rabbitmq" in printed
    assert "RPC: ok\nnotifications: ok" in printed
    driver = str(devstack.plugin / "amqp1_driver" / "driver" / "__init__.py")
    assert _call(devstack) == [driver, "3"]
    assert _call(devstack, "nova_cell1.conf") == [driver, "3"]
    users = devstack.evaluate(
        f"_amqp1_tool rabbitmq ctl sid {port} -q list_users --no-table-headers"
    )
    assert users == "stackamqp\t[]"
    vhosts = devstack.evaluate(
        f"_amqp1_tool rabbitmq ctl sid {port} -q list_vhosts --no-table-headers"
    )
    assert sorted(vhosts.split()) == ["/", "nova_cell1"]

    node = devstack.buses / "rabbitmq" / "sid" / "run" / str(port)
    assert listens(port)
    devstack.run("unstack")
    assert not listens(port)
    assert (node / "mnesia").is_dir()  # what it stored is kept

    real_node = node.resolve()
    devstack.run("clean")
    assert not devstack.buses.exists()
    assert not real_node.exists()
    assert devstack.python("-c", "import amqp1_driver").returncode == 1


@pytest.mark.timeout(_INSTALLING)
def test_hybrid_rpc_on_artemis_and_notifications_on_broker_j(
    tmp_path: Path, clean: list[Devstack]
) -> None:
    rpc, notify = lasting_port(), lasting_port()
    devstack = Devstack(
        tmp_path,
        AMQP1_RPC_SERVICE="artemis",
        AMQP1_RPC_PORT=rpc,
        AMQP1_NOTIFY_SERVICE="broker-j",
        AMQP1_NOTIFY_PORT=notify,
    )
    clean.append(devstack)
    devstack.clone()
    for name in ("artemis", "brokerj"):
        _install("javabus", name)
        devstack.cached("javabus", name)

    printed = devstack.run("stack").stdout

    user = "stackamqp:pass%20word%2F1"
    assert devstack.option("nova.conf", "DEFAULT", "transport_url") == (
        f"amqp://{user}@127.0.0.1:{rpc}/"
    )
    assert devstack.option("nova.conf", "oslo_messaging_notifications", "transport_url") == (
        f"amqp://{user}@127.0.0.1:{notify}/"
    )
    assert devstack.option("keystone.conf", "oslo_messaging_notifications", "transport_url") == (
        f"amqp://{user}@127.0.0.1:{notify}/"
    )
    assert "summary: One call and one notification over RPC: artemis, notifications: broker-j" in (
        printed
    )
    assert "RPC: ok\nnotifications: ok" in printed

    again = devstack.evaluate("amqp1_start_buses")  # as stack.sh where nothing was stopped
    assert again.count("already running") == 2
    assert _call(devstack)[1] == "3"
    assert _call(devstack, "nova_cell1.conf")[1] == "3"

    devstack.run("unstack")
    assert not listens(rpc)
    assert not listens(notify)
    devstack.run("clean")
    assert not devstack.buses.exists()


@pytest.mark.timeout(120)
def test_external_bus_is_used_and_left_alone(tmp_path: Path, clean: list[Devstack]) -> None:
    with buses.running("broker", tmp_path / "bus.log") as address:
        devstack = Devstack(
            tmp_path,
            AMQP1_SERVICE="external",
            AMQP1_RPC_TRANSPORT_URL=f"amqp://{address}?default_send_timeout=7",
        )
        clean.append(devstack)
        devstack.clone()
        printed = devstack.run("stack").stdout

        url = f"amqp://{address}/?default_send_timeout=7"
        assert devstack.option("nova.conf", "DEFAULT", "transport_url") == url
        assert devstack.option("nova.conf", "oslo_messaging_notifications", "transport_url") == url
        assert devstack.option("nova_cell1.conf", "DEFAULT", "transport_url") == (
            f"amqp://{address}/nova_cell1?default_send_timeout=7"
        )
        assert "RPC: ok\nnotifications: ok" in printed
        assert _call(devstack, "nova_cell1.conf")[1] == "3"
        devstack.run("unstack")
        devstack.run("clean")
        assert listens(int(address.rpartition(":")[2]))
    assert not devstack.buses.exists()


@pytest.mark.timeout(60)
def test_a_bus_that_does_not_answer_ends_the_run_with_the_reason(tmp_path: Path) -> None:
    port = lasting_port()
    devstack = Devstack(
        tmp_path,
        AMQP1_SERVICE="external",
        AMQP1_CHECK_TIMEOUT="2",
        AMQP1_RPC_TRANSPORT_URL=f"amqp://127.0.0.1:{port}",
    )
    devstack.clone()
    done = devstack.run("stack", check=False)
    assert done.returncode == 1
    assert "RPC: failed: MessagingTimeout" in done.stderr
    assert "the message bus does not answer (RPC and notifications: external)" in done.stderr
