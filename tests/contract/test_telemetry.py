# SPDX-License-Identifier: Apache-2.0

"""Telemetry of an application, through oslo.messaging's public API and the options."""

import json
import os
import socket
import stat
import subprocess
import sys
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client.parser import text_string_to_metric_families
from proton import Message
from proton.utils import BlockingConnection

from amqp1_driver.client.client import Client
from amqp1_driver.telemetry import shared
from tests.contract import apps
from tests.contract.apps import PATIENCE, Endpoint
from tests.contract.telemetry import check, lines, some_of_each
from tests.contract.test_loading import run_script
from tests.contract.test_sending import closed_port


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "telemetry"


def free_ports():
    """The first of some ports that are very likely free."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def scraped(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as page:
        text = page.read().decode()
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def flush():
    for telemetry in list(shared._open.values()):
        assert telemetry.hub.flush(PATIENCE)


def test_without_the_options_nothing_observes(app):
    app.server(Endpoint())
    transport = app.transport()
    app.client(transport=transport).call({}, "echo")
    client = transport._driver._client
    assert type(client) is Client
    assert client._port.observer is None
    assert shared._open == {}
    assert not [t for t in threading.enumerate() if "telemetry" in t.name]


def test_records_of_an_application(bus, make_app, folder):
    some_of_each(make_app(bus.address, telemetry_directory=str(folder)))
    # a router passes on what the caller says of a reply that it does not want any more
    check(lines(folder), "modified" if bus.mode == "router" else "accepted")
    assert shared._open == {}


def test_two_transports_share_files_and_the_last_one_finishes_them(bus, make_app, folder):
    app = make_app(bus.address, telemetry_directory=str(folder))
    app.server(Endpoint())
    first, second = app.transport(), app.transport()
    for transport in (first, second):
        app.client(transport=transport).call({}, "echo")
    first.cleanup()
    assert lines(folder) == []
    app.close()
    assert len([r for r in lines(folder) if r["kind"] == "send"]) == 2
    assert len(os.listdir(folder)) == 1


def test_prometheus_reads_it_while_it_runs(bus, make_app):
    port = free_ports()
    app = make_app(bus.address, telemetry_port=port)
    app.server(Endpoint())
    client = app.client()
    for number in range(3):
        client.call({}, "echo", value=number)
    flush()
    samples = scraped(port)
    assert samples["amqp1_messages_total", ("operation", "call"), ("outcome", "accepted")] == 3
    assert samples["amqp1_message_reply_seconds_count", ("operation", "call")] == 3
    assert samples["amqp1_connections", ("state", "ready")] == 2
    app.close()
    with pytest.raises(OSError, match="refused"):
        scraped(port)


def test_a_port_in_use_is_logged_and_breaks_nothing(bus, make_app, logged):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        app = make_app(bus.address, telemetry_port=port, telemetry_ports=1)
        app.server(Endpoint())
        assert app.client().call({}, "echo", value=1) == 1
    assert logged.said(f"No Prometheus endpoint: ports {port} to {port} at 127.0.0.1 are in use")


def test_a_directory_that_cannot_be_made_is_logged_once_and_breaks_nothing(
    bus, make_app, logged, tmp_path
):
    (tmp_path / "file").write_text("")
    app = make_app(bus.address, telemetry_directory=str(tmp_path / "file" / "below"))
    app.server(Endpoint())
    client = app.client()
    for number in range(3):
        assert client.call({}, "echo", value=number) == number
        flush()
    app.close()
    assert len(logged.said("Telemetry: the file sink failed, and is tried further")) == 1


def test_records_are_not_for_everybody(router, make_app, folder):
    app = make_app(router.address, telemetry_directory=str(folder))
    app.server(Endpoint())
    app.close()
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) & stat.S_IRWXO == 0


def test_a_message_that_waits_for_a_connection_and_times_out(make_app, folder):
    app = make_app(f"amqp://127.0.0.1:{closed_port()}", telemetry_directory=str(folder))
    with pytest.raises(Exception, match="timed out"):
        app.client(timeout=0.3).call({}, "echo")
    app.close()
    (send,) = [r for r in lines(folder) if r["kind"] == "send"]
    assert (send["operation"], send["outcome"], send["stage"], send["address"]) == (
        "call",
        "timeout",
        "connection",
        "topic",
    )
    assert "backoff" in {r["state"] for r in lines(folder) if r["kind"] == "connection"}


# -- over the bus ---------------------------------------------------------------------------------

TOPIC = "openstack.org/om/notify/anycast/openstack/metrics.info"


def test_records_over_the_bus_and_none_of_their_sending(router, make_app, folder):
    reader = BlockingConnection(router.address, timeout=PATIENCE)
    receiver = reader.create_receiver(TOPIC, credit=100)
    app = make_app(router.address, telemetry_topic="metrics", telemetry_directory=str(folder))
    app.server(Endpoint())
    found = []

    def read():
        # a router's sender has its outcome when the reader has settled
        while (body := receiver.receive(timeout=PATIENCE).body) != "end":
            receiver.accept()
            found.extend(json.loads(line) for line in body.splitlines())
        receiver.accept()
        reader.close()  # before that nothing of it is sent

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        app.client().call({}, "echo")
        app.close()
        last = BlockingConnection(router.address, timeout=PATIENCE)
        last.create_sender(TOPIC).send(Message("end"))
        reading.result(PATIENCE)
    last.close()
    kept = lines(folder)
    assert found == kept
    assert [r["operation"] for r in found if r["kind"] in ("send", "reply")] in (
        ["call", "reply"],
        ["reply", "call"],
    )
    assert not [r for r in found if "metrics" in r.get("address", "")]


def test_a_bus_that_takes_no_records_breaks_nothing(broker, make_app, logged):
    app = make_app(broker.address, telemetry_topic="metrics", telemetry_exchange="elsewhere")
    transport = app.transport()
    app.server(Endpoint(), transport=transport)
    assert app.client(transport=transport).call({}, "echo", value=1) == 1
    broker.stop()
    transport.cleanup()
    assert shared._open == {}
    assert not [t for t in threading.enumerate() if t.name == "amqp1-telemetry"]


# -- processes --------------------------------------------------------------------------------


def test_a_child_has_files_and_records_of_its_own(bus, make_app, folder):
    app = make_app(bus.address)
    app.server(Endpoint())
    port = free_ports()
    seen = json.loads(
        run_script(
            "fork.py", f"{bus.address}/?telemetry_directory={folder}&telemetry_port={port}", "after"
        )
    )
    assert seen["child"]["answers"] and seen["parent"]["answers"]
    assert seen["child"]["threads"] == []
    files = sorted(folder.iterdir())
    records = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    assert sorted(len([r for r in found if r["kind"] == "send"]) for found in records) == [5, 10]
    pids = [{r["pid"] for r in found} for found in records]
    assert [len(found) for found in pids] == [1, 1]
    assert pids[0] != pids[1]
    assert all(
        next(iter(pid)) == int(file.name.split("-")[-3])
        for pid, file in zip(pids, files, strict=True)
    )


def test_a_program_that_ends_without_cleanup_leaves_whole_files(bus, make_app, folder):
    make_app(bus.address).server(Endpoint())
    code = (
        "import sys, oslo_messaging\n"
        "from oslo_config import cfg\n"
        "conf = cfg.ConfigOpts(); conf([])\n"
        "transport = oslo_messaging.get_rpc_transport(conf, url=sys.argv[1])\n"
        "client = oslo_messaging.get_rpc_client(\n"
        "    transport, oslo_messaging.Target(topic='topic'), timeout=10)\n"
        "client.call({}, 'echo')\n"
    )
    url = f"{bus.address}/?telemetry_directory={folder}"
    done = subprocess.run(
        [sys.executable, "-c", code, url], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert [r["operation"] for r in lines(folder) if r["kind"] == "send"] == ["call"]


def test_in_a_process_patched_by_eventlet(bus, folder):
    with apps.peer() as silent:
        silent.override(times=None).expect_header().silence()
        seen = json.loads(
            run_script(
                "green.py",
                f"{bus.address}/?telemetry_directory={folder}",
                f"127.0.0.1:{silent.port}",
            )
        )
    assert seen["call"] == "a call"
    sends = [r["operation"] for r in lines(folder) if r["kind"] == "send"]
    # one, 200 at once, and one that blocks
    assert (sends.count("call"), sends.count("cast"), sends.count("notification")) == (202, 1, 1)


def test_the_child_of_a_green_process_has_an_endpoint_of_its_own():
    code = (
        "import eventlet; eventlet.monkey_patch()\n"
        "import os, sys, urllib.request\n"
        "from amqp1_driver.options import default_settings\n"
        "from amqp1_driver.telemetry import shared\n"
        "def scraped(telemetry):\n"
        "    place = f'http://127.0.0.1:{telemetry.endpoint.port}/metrics'\n"
        "    return urllib.request.urlopen(place, timeout=10).status\n"
        "config = default_settings(telemetry_port=int(sys.argv[1])).telemetry\n"
        "parent = shared.acquire(config)\n"
        "assert scraped(parent) == 200\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    child = shared.acquire(config)\n"
        "    status = scraped(child)\n"
        "    child.release()\n"
        "    os._exit(0 if status == 200 else 1)\n"
        "assert os.waitpid(pid, 0)[1] == 0\n"
        "assert scraped(parent) == 200\n"
        "parent.release()\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(free_ports())],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# -- options --------------------------------------------------------------------------------


def test_wrong_values_are_named_at_the_start(make_app):
    for text, error in [
        ("telemetry_format=xml", "telemetry_format.*xml"),
        ("telemetry_port=99999", "telemetry_port"),
        ("telemetry_files_kept=-1", "telemetry_files_kept"),
    ]:
        with pytest.raises(Exception, match=error):
            make_app("").transport(f"amqp://nowhere.invalid/?{text}")
