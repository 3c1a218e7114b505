# SPDX-License-Identifier: Apache-2.0

"""A real qpidd: what is not there is an error, where by the anonymous terminus it were silence."""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import oslo_messaging as om
import pytest

from tests.bars.support import Transports, outcome
from tests.mesh.qpidd import Qpidd, program

KINDS = pytest.mark.parametrize(
    ("target", "node"),
    [
        ({}, "unicast.openstack.bars"),
        ({"server": "one"}, "exclusive.openstack.bars.one"),
        ({"fanout": True}, "broadcast.openstack.bars.all"),
    ],
    ids=["any", "one", "all"],
)


def start(folder: Path, nodes: bool) -> Qpidd:
    binary = program()
    assert binary is not None
    return Qpidd(binary, folder, nodes)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Qpidd]:
    """As documented."""
    with start(tmp_path, nodes=True) as qpidd:
        yield qpidd


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Qpidd]:
    """Without the patterns: no node is ever made."""
    with start(tmp_path, nodes=False) as qpidd:
        yield qpidd


class Endpoint:
    """Tells which messages came."""

    def __init__(self) -> None:
        self.came: queue.Queue[Any] = queue.Queue()
        self.let_go = threading.Event()

    def note(self, ctxt: dict[str, Any], text: str) -> str:
        self.came.put(text)
        return text

    def keep(self, ctxt: dict[str, Any], text: str) -> str:
        self.came.put(text)
        assert self.let_go.wait(60)
        return text


@KINDS
def test_a_node_that_is_not_there_is_named(
    bare: Qpidd, transports: Transports, target: dict[str, Any], node: str
) -> None:
    client = transports.client(bare.url, retry=0).prepare(**target)
    told = outcome(lambda: client.cast({}, "note", text="1"))
    assert isinstance(told.error, om.exceptions.MessageDeliveryFailure)
    assert f"condition=amqp:not-found, description=Node not found: {node}" in told.text
    assert told.seconds < 5


def test_who_must_reach_somebody_is_told_so(bare: Qpidd, transports: Transports) -> None:
    client = om.get_rpc_client(
        transports.rpc(bare.url),
        om.Target(topic="bars"),
        transport_options=om.TransportOptions(at_least_once=True),
    )
    told = outcome(lambda: client.cast({}, "note", text="1"))
    assert isinstance(told.error, om.exceptions.MessageUndeliverable)
    assert told.seconds < 5


@KINDS
def test_the_documented_patterns_make_the_nodes(
    broker: Qpidd, transports: Transports, target: dict[str, Any], node: str
) -> None:
    endpoint = Endpoint()
    transports.serve(broker.url, name="one", endpoint=endpoint)
    transports.client(broker.url).prepare(**target).cast({}, "note", text="here")
    assert endpoint.came.get(timeout=10) == "here"


def test_names_do_not_make_a_topic_of_a_queue(broker: Qpidd, transports: Transports) -> None:
    """A cast waits in its queue for the server; a topic would have dropped it."""
    topic = "my-broadcast.agent"
    transports.client(broker.url).prepare(topic=topic).cast({}, "note", text="waits")
    endpoint = Endpoint()
    transports.serve(broker.url, topic=topic, endpoint=endpoint)
    assert endpoint.came.get(timeout=10) == "waits"


def test_a_fanout_to_nobody_is_done_at_once(broker: Qpidd, transports: Transports) -> None:
    client = transports.client(broker.url).prepare(fanout=True)
    told = outcome(lambda: client.cast({}, "note", text="nobody"))
    assert (told.error, told.seconds < 3) == (None, True)


def test_a_reply_to_a_caller_who_has_gone_stops_nobody(
    broker: Qpidd, transports: Transports
) -> None:
    """The one thing that may be dropped without a word."""
    endpoint = Endpoint()
    transports.serve(broker.url, endpoint=endpoint)
    gone = Transports()
    caller = gone.client(broker.url, timeout=1)
    told = outcome(lambda: caller.call({}, "keep", text="late"))
    assert isinstance(told.error, om.MessagingTimeout)
    gone.cleanup()
    endpoint.let_go.set()
    assert endpoint.came.get(timeout=10) == "late"
    client = transports.client(broker.url, timeout=10)
    assert client.call({}, "note", text="on") == "on"


def test_users_have_passwords(tmp_path: Path, transports: Transports) -> None:
    """Of the realm QPID, which the broker adds."""
    binary, users = program(), tmp_path / "users.sasldb"
    assert binary is not None
    subprocess.run(
        ["saslpasswd2", "-c", "-p", "-f", str(users), "-u", "QPID", "nova"],
        input="s3cret",
        text=True,
        check=True,
        timeout=20,
    )
    with Qpidd(binary, tmp_path, users=users) as broker:
        url = broker.url.replace("//", "//nova:s3cret@")
        transports.serve(url)
        assert transports.client(url, timeout=10).call({}, "echo", text="1") == "1"
        told = outcome(
            lambda: transports.client(broker.url.replace("//", "//nova:wr0ng@"), retry=0).cast(
                {}, "echo", text="1"
            )
        )
        assert "Authentication failed [mech=PLAIN]" in told.text
        transports.cleanup()


def test_a_message_that_must_reach_somebody_waits_in_a_queue(
    broker: Qpidd, transports: Transports
) -> None:
    """As documented: the pattern makes the queue."""
    client = om.get_rpc_client(
        transports.rpc(broker.url),
        om.Target(topic="bars"),
        transport_options=om.TransportOptions(at_least_once=True),
    )
    client.cast({}, "note", text="waits")
    endpoint = Endpoint()
    transports.serve(broker.url, endpoint=endpoint)
    assert endpoint.came.get(timeout=10) == "waits"
