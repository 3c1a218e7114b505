# SPDX-License-Identifier: Apache-2.0

"""Contract: connections.  Hosts and failover, TLS, SASL, virtual hosts, idle time-out, recovery."""

from __future__ import annotations

import logging
import os
import random
import re
import socket
import ssl

import oslo_messaging
import pytest
import trustme

from amqp1_driver.client import client as client_module
from amqp1_driver.eventloop import runtime
from amqp1_driver.testing import performatives as p
from amqp1_driver.testing.proxy import FaultProxy
from tests.contract.apps import (
    PATIENCE,
    SLACK,
    Endpoint,
    Events,
    Stopwatch,
    answer,
    is_request,
    request,
)
from tests.contract.test_receiving import receiving
from tests.contract.test_sending import closed_port


class Dice(random.Random):
    """Always the same number; leaves a shuffled list as it is."""

    value = 0.3

    def random(self) -> float:
        return self.value

    def shuffle(self, x: object) -> None:
        pass


def seed(monkeypatch: pytest.MonkeyPatch, *generators: random.Random) -> None:
    """Give the next clients these random numbers."""
    left = iter(generators)
    monkeypatch.setattr(client_module.random, "Random", lambda *_: next(left))


def hosts(*ports: int) -> str:
    return "amqp://" + ",".join(f"127.0.0.1:{port}" for port in ports)


# -- hosts ------------------------------------------------------------------------------


def test_several_transports_do_not_all_take_the_first_host(make_bus, make_app, monkeypatch):
    one, two = make_bus(), make_bus()
    seed(monkeypatch, *(random.Random(number) for number in range(8)))
    app = make_app(hosts(one.port, two.port), host_selection="shuffle")
    app.server(Endpoint(), topic="x")
    for number in range(7):
        app.listener(Events(), topic=f"topic{number}")
    counts = (one.counters.connections, two.counters.connections)
    assert sum(counts) == 8 and min(counts) >= 2


def test_ordered_means_the_first_host_first(make_bus, make_app):
    one, two = make_bus(), make_bus()
    app = make_app(hosts(one.port, two.port), host_selection="ordered")
    for number in range(3):
        app.listener(Events(), topic=f"topic{number}")
    assert (one.counters.connections, two.counters.connections) == (3, 0)


def test_the_default_of_host_selection_is_shuffle():
    from amqp1_driver import options

    assert options.default_settings().connection.host_selection == "shuffle"


def unreachable(make_peer):
    return closed_port()


def closes_with_forced(make_peer):
    peer = make_peer()
    peer.override(times=None).expect_open().respond().close("amqp:connection:forced", "maintenance")
    return peer.port


def refuses_sasl(make_peer):
    peer = make_peer()
    peer.override(times=None).expect_sasl_init().respond(outcome=1)
    return peer.port


def resets(make_peer):
    peer = make_peer()
    peer.override(times=None).expect_header().drop()
    return peer.port


def speaks_no_amqp(make_peer):
    peer = make_peer()
    peer.override(times=None).expect_header().raw(b"HTTP/1.0 400 Bad Request\r\n\r\n")
    return peer.port


def stays_silent(make_peer):
    peer = make_peer()
    peer.override(times=None).expect_header().silence()
    return peer.port


def refuses_the_reply_link(make_peer):
    peer = make_peer()
    peer.override(times=None).expect_attach(dynamic=True).close("amqp:not-allowed", "no")
    return peer.port


@pytest.mark.parametrize(
    "fault",
    [
        unreachable,
        closes_with_forced,
        refuses_sasl,
        resets,
        speaks_no_amqp,
        stays_silent,
        refuses_the_reply_link,
    ],
)
def test_the_next_host_is_tried_after_every_kind_of_failure(make_peer, make_bus, make_app, fault):
    bus = make_bus()
    app = make_app(hosts(fault(make_peer), bus.port), connect_timeout=0.3)
    watch = Stopwatch()
    app.server(Endpoint())
    assert app.client().call({}, "echo", value="elsewhere") == "elsewhere"
    assert watch.seconds < 5


@pytest.mark.parametrize("how", ["drop", "close", "kill"])
def test_a_lost_host_is_replaced_by_the_next_with_all_subscriptions(make_bus, make_app, how):
    one, two = make_bus("broker"), make_bus("broker")
    app = make_app(hosts(one.port, two.port))
    endpoint, other, events = Endpoint(), Endpoint(), Events()
    transport = app.transport()
    app.server(endpoint, server="one", transport=transport)
    app.server(other, server="two", transport=transport)
    notifications = app.notification_transport()
    app.listener(events, transport=notifications)
    client = app.client(transport=transport)
    assert client.call({}, "echo", value="before") == "before"
    {"drop": one.drop_connections, "close": one.close_connections, "kill": one.kill}[how]()
    two.wait_until(
        lambda seen: sum(link.receiving for c in seen.peek_connections() for link in c.links) >= 10
    )
    assert client.call({}, "echo", value="after") == "after"
    client.prepare(fanout=True).cast({}, "echo", value="both")
    for seen in (endpoint, other):
        while seen.take() != "both":
            pass
    app.notify("too", transport=notifications)
    assert events.take() == "too"


def test_a_send_during_the_pause_before_a_reconnect_goes_out_afterwards(
    bus, make_app, stack, logged
):
    proxy = stack.enter_context(FaultProxy("127.0.0.1", bus.port))
    app = make_app(
        f"amqp://127.0.0.1:{proxy.port}",
        connection_retry_interval=0.4,
        connection_retry_interval_max=0.4,
    )
    endpoint = Endpoint()
    app.server(endpoint)
    client = app.client()
    assert client.call({}, "echo", value=0) == 0
    proxy.refuse()
    proxy.cut()
    logged.wait("Can't connect to", logging.INFO, count=2)
    sent = [app.later(client.call, {}, "echo", value=number) for number in range(1, 4)]
    proxy.accept_again()
    assert [one.result(PATIENCE) for one in sent] == [1, 2, 3]


@pytest.mark.parametrize(
    ("use", "purpose"),
    [
        (lambda app: app.client().cast({}, "echo"), "rpc"),
        (lambda app: app.notify("hello"), "notifications"),
    ],
)
def test_the_bus_hears_who_connects_and_what_for(make_peer, make_app, monkeypatch, use, purpose):
    monkeypatch.setattr("sys.argv", ["/usr/bin/nova-compute", "--password", "secret"])
    monkeypatch.setattr("socket.gethostname", lambda: "compute-7")
    peer = make_peer()
    use(make_app(peer.url))
    (entry,) = peer.frames(p.Open)
    opened, pid = entry.performative, os.getpid()
    assert re.fullmatch(f"nova-compute-compute-7-{pid}-[0-9a-f]{{16}}", opened.container_id)
    told = {str(name): value for name, value in opened.properties.items()}
    assert told | {"version": "", "platform": ""} == {
        "product": "amqp1-driver",
        "version": "",
        "platform": "",
        "process": "nova-compute",
        "node": "compute-7",
        "pid": pid,
        "purpose": purpose,
        "connection_name": f"nova-compute on compute-7 (pid {pid}): {purpose}",
    }


def test_the_pause_before_a_reconnect_is_random_within_a_second(
    make_peer, make_app, monkeypatch, logged
):
    peer = make_peer()
    seed(monkeypatch, Dice())
    app = make_app(peer.url)
    client = app.client()
    client.cast({}, "echo")
    watch = Stopwatch()
    peer.drop()
    assert "in 0.3 s" in logged.wait("Lost connection to", logging.WARNING)[0]
    client.cast({}, "echo")
    assert watch.seconds >= 0.3


def test_the_pause_between_vain_rounds_grows_with_jitter_to_its_maximum(
    make_app, monkeypatch, logged
):
    seed(monkeypatch, Dice())
    app = make_app(
        hosts(closed_port()), connection_retry_interval=0.02, connection_retry_interval_max=0.1
    )
    with pytest.raises(oslo_messaging.MessagingTimeout):
        app.client(timeout=0.5).call({}, "echo")
    said = logged.said("Can't connect to", logging.INFO)
    assert len(said) >= 4
    # 0.02, 0.04, 0.08, then 0.1 s, of which 65 % with these dice
    assert [text.rsplit(" in ", 1)[1] for text in said[:5]] == [
        "0.0 s",
        "0.0 s",
        "0.1 s",
        "0.1 s",
        "0.1 s",
    ][: len(said)]


def test_every_address_of_a_host_is_tried(bus, make_app, monkeypatch):
    real = runtime.native("socket")

    def two_families(host, port, family=0, type=0, *rest):
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", closed_port(), 0, 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
        ]

    monkeypatch.setattr(real, "getaddrinfo", two_families)
    app = make_app(f"amqp://two-families.example:{bus.port}")
    app.server(Endpoint())
    assert app.client().call({}, "echo", value=4) == 4


# -- idle time-out and silence ----------------------------------------------------------


def test_the_idle_time_out_is_on_by_default_in_both_directions(make_peer, make_app):
    peer = make_peer(idle_time_out=400)
    app = make_app(peer.url)
    app.client().cast({}, "echo")
    (opened,) = peer.frames(p.Open)
    # 60 s; what is told the peer may be half of what is allowed (2.4.5)
    assert opened.performative.idle_time_out in (30_000, 60_000)
    peer.wait_frames(None, 2)  # empty frames, so that the peer does not give up on us


def test_a_connection_on_which_nothing_comes_any_more_is_replaced(make_peer, make_app):
    peer = make_peer()
    app = make_app(peer.url, idle_timeout=0.4)
    client = app.client()
    client.cast({}, "echo")
    watch = Stopwatch()
    peer.silence()
    peer.wait_connections(2)
    assert watch.seconds < 3
    client.cast({}, "echo")


# -- virtual hosts ----------------------------------------------------------------------


def test_virtual_hosts_are_kept_apart_by_address(bus, make_app):
    one, two = make_app(f"{bus.address}/one"), make_app(f"{bus.address}/two")
    first, second = Endpoint(), Endpoint()
    one.server(first)
    two.server(second)
    assert one.client().call({}, "echo", value=1) == 1
    assert two.client().call({}, "echo", value=2) == 2
    two.client(fanout=True).cast({}, "echo", value=3)
    assert [second.take(), second.take()] == [2, 3]
    assert first.take() == 1 and first.seen.empty()


def test_the_virtual_host_is_part_of_every_address(broker, make_app):
    app = make_app(f"{broker.address}/tenant")
    app.server(Endpoint())
    app.listener(Events())
    assert receiving(broker) == [
        "broadcast.tenant.openstack.topic.all",
        "exclusive.tenant.openstack.topic.server",
        "unicast.tenant.openstack.events.error",
        "unicast.tenant.openstack.events.info",
        "unicast.tenant.openstack.topic",
    ]
    assert {c.hostname for c in broker.connections} == {"127.0.0.1"}


def test_without_pseudo_vhost_the_virtual_host_is_that_of_the_open_frame(broker, make_app):
    app = make_app(f"{broker.address}/tenant", pseudo_vhost=False)
    app.server(Endpoint())
    assert receiving(broker) == [
        "broadcast.openstack.topic.all",
        "exclusive.openstack.topic.server",
        "unicast.openstack.topic",
    ]
    assert {c.hostname for c in broker.connections} == {"tenant"}


# -- SASL -------------------------------------------------------------------------------


def test_user_and_password_of_the_url_are_used(make_bus, make_app):
    bus = make_bus(users={"guest": "secret"})
    app = make_app(f"amqp://guest:secret@127.0.0.1:{bus.port}")
    app.server(Endpoint())
    assert app.client().call({}, "echo", value=1) == 1
    assert {(c.user, c.mechanism) for c in bus.connections} == {("guest", "PLAIN")}


@pytest.mark.parametrize("retry", [0, None])
def test_a_wrong_password_does_not_hang_callers_and_says_so(make_bus, make_app, retry):
    bus = make_bus(users={"guest": "secret"})
    app = make_app(f"amqp://guest:wrong@127.0.0.1:{bus.port}")
    watch = Stopwatch()
    with pytest.raises(
        (oslo_messaging.MessageDeliveryFailure, oslo_messaging.MessagingTimeout),
        match=f"(?s)authenti.*127.0.0.1:{bus.port}|127.0.0.1:{bus.port}.*authenti",
    ):
        app.client(timeout=1, retry=retry).call({}, "echo")
    assert watch.seconds < 1 + SLACK
    if retry == 0:
        assert watch.seconds < 1


@pytest.mark.parametrize("user, sent", [("me", b"me@site"), ("me%40home", b"me@home")])
def test_the_default_realm_is_added_to_users_without_one_only(make_peer, make_app, user, sent):
    peer = make_peer()
    app = make_app(
        f"amqp://{user}:pw@127.0.0.1:{peer.port}",
        sasl_default_realm="site",
        sasl_mechanisms="PLAIN",
    )
    app.client().cast({}, "echo")
    (init,) = peer.frames(p.SaslInit)
    assert init.performative.initial_response.split(b"\0") == [b"", sent, b"pw"]


@pytest.mark.parametrize("allowed, used", [("PLAIN", "PLAIN"), ("ANONYMOUS", "ANONYMOUS")])
def test_only_mechanisms_of_the_option_are_used(make_peer, make_app, allowed, used):
    peer = make_peer()
    app = make_app(f"amqp://me:pw@127.0.0.1:{peer.port}", sasl_mechanisms=allowed)
    app.client().cast({}, "echo")
    (init,) = peer.frames(p.SaslInit)
    assert init.performative.mechanism == used


def test_without_a_common_mechanism_the_error_says_so(make_peer, make_app):
    peer = make_peer(mechanisms=("PLAIN",))
    app = make_app(peer.url, sasl_mechanisms="ANONYMOUS")
    with pytest.raises(oslo_messaging.MessageDeliveryFailure) as caught:
        app.client(retry=0).cast({}, "echo")
    assert f"127.0.0.1:{peer.port}" in str(caught.value)
    assert "authenti" in str(caught.value) or "SASL" in str(caught.value)


# -- TLS --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


class Files:
    """Certificates of an authority as PEM files."""

    def __init__(self, authority: trustme.CA, folder) -> None:
        self._authority = authority
        self._folder = folder
        self.ca = str(folder / "ca.pem")
        authority.cert_pem.write_to_path(self.ca)

    def certificate(self, *names: str) -> dict[str, str]:
        cert = self._authority.issue_cert(*names)
        key, chain = (str(self._folder / f"{names[0]}.{kind}") for kind in ("key", "pem"))
        cert.private_key_pem.write_to_path(key)
        cert.cert_chain_pems[0].write_to_path(chain)
        return {"tls_cert": chain, "tls_key": key}


@pytest.fixture
def files(authority, tmp_path) -> Files:
    return Files(authority, tmp_path)


def test_tls_with_an_authority_of_ones_own(make_bus, make_app, files):
    bus = make_bus(**files.certificate("localhost"))
    app = make_app(f"amqp://localhost:{bus.port}", ssl_ca_file=files.ca)
    app.server(Endpoint())
    assert app.client().call({}, "echo", value=1) == 1


def test_tls_with_the_authorities_of_the_system(make_bus, make_app, files, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", files.ca)
    bus = make_bus(**files.certificate("localhost"))
    app = make_app(f"amqp://localhost:{bus.port}", ssl=True)
    app.server(Endpoint())
    assert app.client().call({}, "echo", value=1) == 1


def test_a_certificate_of_an_unknown_authority_is_refused_with_host_and_cause(
    make_bus, make_app, files
):
    bus = make_bus(**files.certificate("localhost"))
    app = make_app(f"amqp://localhost:{bus.port}", ssl=True)
    with pytest.raises(oslo_messaging.MessageDeliveryFailure) as caught:
        app.client(retry=0).cast({}, "echo")
    assert f"localhost:{bus.port}" in str(caught.value)
    assert "certificate" in str(caught.value)


def test_a_certificate_for_another_host_is_refused_with_host_and_cause(make_bus, make_app, files):
    bus = make_bus(**files.certificate("elsewhere.example"))
    app = make_app(f"amqp://localhost:{bus.port}", ssl_ca_file=files.ca)
    with pytest.raises(oslo_messaging.MessageDeliveryFailure) as caught:
        app.client(retry=0).cast({}, "echo")
    assert f"localhost:{bus.port}" in str(caught.value)
    assert "localhost" in str(caught.value).split("certificate", 1)[1]


def test_after_failover_the_name_of_the_new_host_is_expected(make_bus, make_app, files):
    right = make_bus(**files.certificate("127.0.0.1"))
    app = make_app(f"amqp://localhost:{closed_port()},127.0.0.1:{right.port}", ssl_ca_file=files.ca)
    app.server(Endpoint())
    assert app.client().call({}, "echo", value=1) == 1


def test_after_failover_the_name_of_the_old_host_does_not_do(make_bus, make_app, files):
    wrong = make_bus(**files.certificate("localhost"))
    app = make_app(f"amqp://localhost:{closed_port()},127.0.0.1:{wrong.port}", ssl_ca_file=files.ca)
    with pytest.raises(oslo_messaging.MessageDeliveryFailure, match="certificate"):
        app.client(retry=0).cast({}, "echo")


def test_the_next_host_is_tried_after_a_failure_of_tls(make_bus, make_app, files):
    wrong = make_bus(**files.certificate("elsewhere.example"))
    clear = make_bus()
    right = make_bus(**files.certificate("127.0.0.1"))
    app = make_app(
        f"amqp://localhost:{wrong.port},127.0.0.1:{clear.port},127.0.0.1:{right.port}",
        ssl_ca_file=files.ca,
        connect_timeout=1,
    )
    app.server(Endpoint())
    assert app.client().call({}, "echo", value=1) == 1


def test_in_vhost_mode_the_name_of_the_virtual_host_is_expected(make_bus, make_app, files):
    bus = make_bus(**files.certificate("tenant.example"))
    app = make_app(
        f"amqp://127.0.0.1:{bus.port}/tenant.example", ssl_ca_file=files.ca, ssl_verify_vhost=True
    )
    app.server(Endpoint())
    assert app.client().call({}, "echo", value=1) == 1


def test_the_minimum_version_of_tls_is_kept(make_bus, make_app, files, monkeypatch):
    old = ssl.SSLContext.__new__

    def only_1_2(cls, protocol=None, *rest):
        context = old(cls, protocol)
        if protocol == ssl.PROTOCOL_TLS_SERVER:
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        return context

    monkeypatch.setattr(ssl.SSLContext, "__new__", only_1_2)
    bus = make_bus(**files.certificate("localhost"))
    app = make_app(f"amqp://localhost:{bus.port}", ssl_ca_file=files.ca)
    app.server(Endpoint())
    assert app.client().call({}, "echo", value=1) == 1
    app.set(ssl_min_version="TLSv1.3")
    with pytest.raises(oslo_messaging.MessageDeliveryFailure, match=r"(?i)version|alert"):
        app.client(retry=0).cast({}, "echo")


def test_a_client_certificate_is_an_identity(make_bus, make_app, files):
    bus = make_bus(**files.certificate("localhost"), tls_ca=files.ca)
    own = files.certificate("me@example.org")
    app = make_app(
        f"amqp://localhost:{bus.port}",
        ssl_ca_file=files.ca,
        ssl_cert_file=own["tls_cert"],
        ssl_key_file=own["tls_key"],
    )
    app.server(Endpoint())
    assert app.client().call({}, "echo", value=1) == 1
    assert {c.mechanism for c in bus.connections} == {"EXTERNAL"}


# -- links that go while the connection lives -------------------------------------------


def test_a_server_link_that_the_bus_detaches_is_attached_again(make_peer, make_app):
    peer = make_peer()
    endpoint = Endpoint()
    make_app(peer.url).server(endpoint)
    link = peer.wait_link("unicast.openstack.topic")
    peer.remote_detach(link, "amqp:resource-deleted", "gone")
    peer.wait_frames(p.Attach, 5)  # the reply link, three of the server, one again
    peer.send_transfer("unicast.openstack.topic", request(value="on the new link"))
    assert endpoint.take() == "on the new link"
    assert len(peer.script.cores) == 1


def test_a_sending_link_that_the_bus_detaches_is_attached_again(make_peer, make_app):
    peer = make_peer()
    client = make_app(peer.url).client()
    client.cast({}, "echo")
    peer.remote_detach("unicast.openstack.topic", "amqp:link:detach-forced")
    peer.wait_frames(p.Detach)
    client.cast({}, "echo")
    assert len(peer.transfers) == 2
    assert len(peer.script.cores) == 1


def test_a_session_that_the_bus_ends_is_begun_again(make_peer, make_app):
    peer = make_peer()
    app = make_app(peer.url)
    client = app.client()
    client.cast({}, "echo")
    link = peer.wait_link("unicast.openstack.topic")
    peer.end_session(link.session.their_channel, "amqp:internal-error", "sorry")
    peer.wait_frames(p.End)
    client.cast({}, "echo")
    assert len(peer.transfers) == 2


def test_calls_waiting_for_a_reply_fail_when_the_reply_link_goes(make_peer, make_app):
    peer = make_peer()
    app = make_app(peer.url)
    client = app.client()
    call = app.later(client.call, {}, "echo")
    peer.wait_transfers(1)
    watch = Stopwatch()
    peer.remote_detach("peer/dynamic/1", "amqp:resource-deleted", "the queue is gone")
    with pytest.raises(oslo_messaging.MessageDeliveryFailure, match="reply address"):
        call.result(PATIENCE)
    assert watch.seconds < 2


def test_a_reply_address_that_has_gone_is_replaced_while_the_connection_lives(make_peer, make_app):
    peer = make_peer()
    peer.override(times=None).expect_transfer(address=is_request).call(
        lambda event: answer(event, "answered")
    ).accept()
    client = make_app(peer.url).client()
    assert client.call({}, "echo") == "answered"
    peer.remote_detach("peer/dynamic/1", "amqp:resource-deleted")
    peer.wait_link("peer/dynamic/2")
    assert client.call({}, "echo") == "answered"
    assert [t.message.properties.reply_to for t in peer.transfers] == [
        "peer/dynamic/1",
        "peer/dynamic/2",
    ]
    assert len(peer.script.cores) == 1


def test_a_call_that_is_given_up_after_its_reply_link_went_harms_nothing(make_peer, make_app):
    peer = make_peer()
    peer.override(times=None).expect_transfer(address=is_request).hold()
    app = make_app(peer.url)
    client = app.client(timeout=0.3)
    call = app.later(client.call, {}, "echo")
    (held,) = peer.wait_transfers(1)
    peer.remote_detach("peer/dynamic/1", "amqp:resource-deleted")
    with pytest.raises((oslo_messaging.MessagingTimeout, oslo_messaging.MessageDeliveryFailure)):
        call.result(PATIENCE)
    peer.settle(held)  # too late
    peer.override(times=None).expect_transfer(address=is_request).accept()
    client.prepare(timeout=PATIENCE).cast({}, "echo")
    assert len(peer.script.cores) == 1


def test_detach_end_and_close_in_one_go_leave_nothing_half_done(make_peer, make_app):
    peer = make_peer()
    app = make_app(peer.url)
    endpoint = Endpoint()
    app.server(endpoint)
    link = peer.wait_link("unicast.openstack.topic")
    with peer.script.changed:
        peer.remote_detach(link, "amqp:resource-deleted")
        peer.end_session(link.session.their_channel, "amqp:session:errant-link")
        peer.close("amqp:connection:forced", "bye")
    peer.wait_connections(2)
    peer.wait_link("unicast.openstack.topic")
    peer.send_transfer("unicast.openstack.topic", request(value="again"))
    assert endpoint.take() == "again"


def test_idle_sending_links_are_detached(make_peer, make_app):
    peer = make_peer(offered_capabilities=())
    app = make_app(peer.url, default_sender_link_timeout=0.3)
    app.server(Endpoint())
    for number in range(5):
        peer.send_transfer(
            "unicast.openstack.topic",
            request(message_id=f"id-{number}", reply_to=f"callers/{number}"),
        )
    peer.wait_transfers(5)
    peer.wait_frames(p.Detach, 5)
    attached = {link.address for link in peer.links if link.client_sends and not link.detached}
    assert not attached & {f"callers/{number}" for number in range(5)}


def test_a_sending_link_in_use_is_not_detached_and_a_purged_one_comes_back(make_peer, make_app):
    peer = make_peer()
    client = make_app(peer.url, default_sender_link_timeout=0.3).client()
    client.cast({}, "echo")
    peer.wait_frames(p.Detach, 1)
    client.cast({}, "echo")
    assert len(peer.transfers) == 2


def test_one_link_serves_the_replies_to_all_callers_where_the_bus_relays(make_peer, make_app):
    peer = make_peer()
    make_app(peer.url).server(Endpoint())
    for number in range(5):
        peer.send_transfer(
            "unicast.openstack.topic",
            request(message_id=f"id-{number}", reply_to=f"callers/{number}"),
        )
    assert sorted(t.address for t in peer.wait_transfers(5)) == [
        f"callers/{number}" for number in range(5)
    ]
    assert len([link for link in peer.links if link.client_sends]) == 1


def test_sending_links_are_such_that_outcomes_can_be_told(make_peer, make_app):
    peer = make_peer()
    app = make_app(peer.url)
    app.client().cast({}, "echo")
    app.notify()
    for frame in peer.frames(p.Attach):
        attach = frame.performative
        assert attach.snd_settle_mode in (None, 2)  # mixed (2.8.2), never settled
        assert attach.rcv_settle_mode in (None, 0)  # first (2.8.3)
    assert [t.settled for t in peer.transfers] == [True, True]  # by the peer's ACCEPTED
    assert all(not f.performative.settled for f in peer.frames(p.Transfer))


def test_the_bus_is_closed_cleanly(make_peer, make_app):
    peer = make_peer()
    app = make_app(peer.url)
    app.client().cast({}, "echo")
    app.close()
    peer.wait_frames(p.Close, 1)
    peer.wait_disconnected()
    assert [f.performative.error for f in peer.frames(p.Close)] == [None]
