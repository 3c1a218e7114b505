# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ: the configuration that the documentation shows, tried."""

from __future__ import annotations

import queue
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.bars.certificates import Authority
from tests.bars.ports import lasting_port
from tests.bars.support import Transports
from tests.buses.rabbit import WAIT, Apps, Node

pytestmark = pytest.mark.rabbitmq

PAGE = Path(__file__).resolve().parents[2] / "doc" / "source" / "deploy-rabbitmq.rst"


class Endpoint:
    """Takes down what it is told."""

    def __init__(self) -> None:
        self.told: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def echo(self, ctxt: dict[str, Any], text: str) -> str:
        return text

    def tell(self, ctxt: dict[str, Any], text: Any) -> None:
        self.told.put(text)

    def info(
        self,
        ctxt: dict[str, Any],
        publisher: str,
        event: str,
        payload: Any,
        metadata: dict[str, Any],
    ) -> None:
        self.told.put(payload)


class Url:
    def __init__(self, text: str) -> None:
        self._text = text

    def url(self) -> str:
        return self._text


def commands() -> list[list[str]]:
    """What the page has operators type, without the name of the program."""
    found = re.findall(r"^   # rabbitmqctl (.+)$", PAGE.read_text(), re.MULTILINE)
    return [shlex.split(line) for line in found]


def everything(apps: Apps, endpoint: Endpoint) -> None:
    """All kinds of messages, both ways of reading, and a clean end."""
    servers = [
        apps.server("doc", endpoint),
        apps.listener("doc", endpoint),
        apps.listener("doc", endpoint, pool="p"),
    ]
    client = apps.client("doc")
    assert client.call({}, "echo", text="any") == "any"
    assert client.prepare(server="s").call({}, "echo", text="one") == "one"
    client.prepare(fanout=True).cast({}, "tell", text="all")
    apps.notifier("doc").info({}, "event", "note")
    assert sorted(endpoint.told.get(timeout=WAIT) for _ in range(3)) == ["all", "note", "note"]
    for server in servers:
        server.stop()
        server.wait()
    apps.transports._servers.clear()


def test_the_permissions_are_enough_and_needed(rabbit: Node, transports: Transports) -> None:
    typed = commands()
    assert [line[0] for line in typed] == ["add_vhost", "add_user", "set_permissions"]
    for line in typed:
        rabbit.ctl(*line)
    try:
        url = rabbit.url().replace("guest:guest", "nova:secret") + "/openstack"
        apps = Apps(
            Url(url),
            transports,
            pseudo_vhost=False,  # type: ignore[arg-type]
            addressing_mode="rabbitmq",
        )
        everything(apps, Endpoint())
        transports.cleanup()
        left = {row[0] for row in rabbit.listed("list_queues", "name", vhost="openstack")}
        assert {name for name in left if not name.startswith("openstack:rpc:")} == {
            "openstack:notify:tests:doc.info",
            "openstack:notify:tests:doc.info:p",
        }
        assert not {name for name in left if ":multicast:" in name}
    finally:
        rabbit.ctl("delete_vhost", "openstack")
        rabbit.ctl("delete_user", "nova")


def test_tls_as_shown(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    transports: Transports,
) -> None:
    authority = Authority(tmp_path_factory.mktemp("tls"))
    certificate = authority.server("localhost")
    shown = re.search(r"ini\n\n((?:   (?:listeners|ssl_options).*\n)+)", PAGE.read_text())
    assert shown is not None
    port = lasting_port()
    lines = [line.strip() for line in shown.group(1).splitlines()]
    assert lines[:2] == ["listeners.tcp = none", "listeners.ssl.default = 5671"]
    here = {
        "cacertfile": authority.ca_file,
        "certfile": certificate.cert,
        "keyfile": certificate.key,
    }
    for number, line in enumerate(lines):
        name = line.partition(" = ")[0].removeprefix("ssl_options.")
        if name in here:
            lines[number] = f"ssl_options.{name} = {here[name]}"
    # the node's tool has its own port for tcp
    config = tmp_path / "tls.conf"
    config.write_text("\n".join([f"listeners.ssl.1 = 127.0.0.1:{port}", *lines[2:], ""]))
    monkeypatch.setenv("RMQ_CONF", str(config))
    node = Node("sid", tmp_path / "log")
    node.install()
    node.start()
    try:
        apps = Apps(
            Url(f"amqp://guest:guest@localhost:{port}"),  # type: ignore[arg-type]
            transports,
            ssl=True,
            ssl_ca_file=authority.ca_file,
        )
        everything(apps, Endpoint())
        transports.cleanup()
    finally:
        node.wipe()
