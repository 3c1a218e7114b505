# SPDX-License-Identifier: Apache-2.0
"""Bar: when a connection that worked breaks, whatever the way, the next host takes over.

Hosts that never worked are in `test_troubles`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import oslo_messaging as om
import pytest

from amqp1_driver.testing.fixture import BusFixture
from amqp1_driver.testing.peer import ScriptedPeer
from amqp1_driver.testing.proxy import FaultProxy
from tests.bars.certificates import Authority
from tests.bars.ports import lasting_port
from tests.bars.support import Logged, Outcome, Transports, outcome
from tests.bars.troubles import secured


@pytest.fixture
def second(transports: Transports) -> Iterator[BusFixture]:
    """A bus with a server, to fail over to."""
    with BusFixture() as bus:
        transports.serve(bus.url())
        yield bus
        transports.cleanup()


def call(client: Any, timeout: float) -> Outcome:
    return outcome(lambda: client.prepare(timeout=timeout).call({}, "echo", text="hello"))


FAULTS: dict[str, Callable[[ScriptedPeer], None]] = {
    "connection reset": lambda peer: peer.drop(),
    "forced close": lambda peer: peer.close("amqp:connection:forced", "shutting down"),
    "close without a reason": lambda peer: peer.close(),
    "internal error": lambda peer: peer.close("amqp:internal-error", "oops"),
    "nonsense": lambda peer: peer.raw(b"\xff" * 64),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_connection_that_breaks_is_replaced_by_one_to_the_next_host(
    fault: Callable[[ScriptedPeer], None], second: BusFixture, transports: Transports
) -> None:
    with ScriptedPeer(auto=True) as peer, Logged("Lost connection to") as lost:
        client = transports.client(
            f"amqp://127.0.0.1:{peer.port},127.0.0.1:{second.port}",
            host_selection="ordered",
            default_send_timeout=5,
        )
        client.cast({}, "echo", text="taken by the peer")
        fault(peer)
        lost.wait(5)
        done = call(client, 5)
    assert (done.error, done.value) == (None, "hello")
    # at random within a second, so that not all agents come at once
    assert done.seconds <= 1.5


def test_a_frozen_host_is_left_after_the_idle_timeout(
    second: BusFixture, transports: Transports
) -> None:
    with BusFixture() as first, FaultProxy("127.0.0.1", first.port) as proxy:
        transports.serve(first.url())
        client = transports.client(
            f"amqp://127.0.0.1:{proxy.port},127.0.0.1:{second.port}",
            host_selection="ordered",
            idle_timeout=1,
        )
        assert call(client, 5).value == "hello"
        proxy.freeze()
        frozen = time.monotonic()
        stuck = call(client, 0.5)
        assert isinstance(stuck.error, om.MessagingTimeout)
        assert 0.5 <= stuck.seconds <= 1.0
        assert f"host=127.0.0.1:{proxy.port}" in stuck.text
        # what is on its way when the host is given up is in doubt and fails: so again
        until = [call(client, 5) for _ in range(2)][-1]
        assert (until.error, until.value) == (None, "hello")
        # idle time-out, up to a second before the next attempt
        assert time.monotonic() - frozen <= 3.5


def test_calls_under_way_on_a_host_that_is_given_up_fail_and_are_not_sent_again(
    second: BusFixture, transports: Transports
) -> None:
    with ScriptedPeer(auto=True, product="qpid-cpp", heartbeats=False) as peer:
        peer.override(times=None).expect_transfer().hold()
        client = transports.client(
            f"amqp://127.0.0.1:{peer.port},127.0.0.1:{second.port}",
            host_selection="ordered",
            idle_timeout=1,
        )
        done = call(client, 10)
    assert isinstance(done.error, om.MessageDeliveryFailure)
    assert "in doubt" in done.text
    assert f"host=127.0.0.1:{peer.port}" in done.text
    assert "address=unicast.openstack.bars" in done.text
    assert "message-id=" in done.text
    assert done.seconds <= 3
    assert len(peer.transfers) == 1


def test_each_host_has_to_show_a_certificate_with_its_own_name(
    authority: Authority, transports: Transports
) -> None:
    first = secured(authority.server("localhost"))
    with secured(authority.server("127.0.0.1")) as other, first:
        settings: dict[str, Any] = {"ssl_ca_file": authority.ca_file, "host_selection": "ordered"}
        hosts = f"amqp://localhost:{first.port},127.0.0.1:{other.port}"
        transports.serve(hosts, **settings)
        client = transports.client(hosts, **settings)
        assert call(client, 5).value == "hello"
        first.bus.kill()
        assert call(client, 5).value == "hello"


def test_the_certificate_of_one_host_is_not_good_enough_for_the_next(
    authority: Authority, transports: Transports
) -> None:
    cause = "wrong IP address in the certificate of the peer (expected 127.0.0.1 in subjectAltName"
    first = secured(authority.server("localhost"))
    with secured(authority.server("localhost")) as other, first, Logged(cause) as refused:
        client = transports.client(
            f"amqp://localhost:{first.port},127.0.0.1:{other.port}",
            ssl_ca_file=authority.ca_file,
            host_selection="ordered",
            connection_retry_interval=0.1,
        )
        assert isinstance(call(client, 0.2).error, om.MessagingTimeout)  # connected; no server
        first.bus.kill()
        done = call(client, 1)
        refused.wait(5)
    assert isinstance(done.error, om.MessagingTimeout)


def test_all_hosts_are_tried_again_and_again_until_one_is_back(transports: Transports) -> None:
    ports = lasting_port(), lasting_port()
    client = transports.client(
        f"amqp://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}",
        connection_retry_interval=0.1,
        connection_retry_backoff=0.1,
    )
    assert isinstance(call(client, 0.5).error, om.MessagingTimeout)
    with BusFixture(port=ports[1]) as back:
        transports.serve(back.url())
        assert call(client, 5).value == "hello"
