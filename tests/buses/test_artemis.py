# SPDX-License-Identifier: Apache-2.0
"""What ActiveMQ Artemis does, as far as the driver goes by it."""

from __future__ import annotations

from pathlib import Path

from tests.buses.javabus import FULL, JavaBus
from tests.buses.raw import Raw


def test_it_says_who_it_is(artemis: JavaBus) -> None:
    with Raw(artemis.port) as raw:
        assert raw.open.remote_properties["product"] == "apache-activemq-artemis"
        assert raw.open.remote_properties["version"] >= "2.40"
        assert "ANONYMOUS-RELAY" in raw.open.remote_offered_capabilities


def test_links_to_what_is_missing_are_refused_and_nothing_else_suffers(artemis: JavaBus) -> None:
    with Raw(artemis.port) as raw:
        assert raw.refusal(raw.sender, "missing") == "amqp:not-found"
        assert raw.refusal(raw.receiver, "missing") == "amqp:not-found"
        assert raw.send(raw.sender("openstack.rpc.anycast.raw:a", "queue")) == ("accepted", None)


def test_a_sender_makes_the_queue_of_an_anycast_address(artemis: JavaBus) -> None:
    with Raw(artemis.port) as raw:
        raw.send(raw.sender("openstack.rpc.anycast.raw:b", "queue"), "waits")
        assert raw.receiver("openstack.rpc.anycast.raw:b", "queue").receive(10).body == "waits"


def test_every_link_to_a_multicast_address_has_a_copy(artemis: JavaBus) -> None:
    with Raw(artemis.port) as raw:
        first = raw.receiver("openstack.rpc.multicast.raw:c", "topic")
        second = raw.receiver("openstack.rpc.multicast.raw:c", "topic")
        raw.send(raw.sender("openstack.rpc.multicast.raw:c", "topic"), "all")
        assert (first.receive(10).body, second.receive(10).body) == ("all", "all")


def test_what_goes_to_no_queue_is_accepted(artemis: JavaBus) -> None:
    with Raw(artemis.port) as raw:
        sender = raw.sender("openstack.rpc.multicast.raw:d", "topic")
        assert raw.send(sender, "lost") == ("accepted", None)


def test_a_sending_link_to_address_and_queue_makes_the_queue(artemis: JavaBus) -> None:
    address = "openstack.notify.raw:e"
    with Raw(artemis.port) as raw:
        raw.sender(f"{address}::{address}", "topic").close()
        raw.send(raw.sender(address, "topic"), "kept")
        assert raw.receiver(f"{address}::{address}", "topic").receive(10).body == "kept"


def test_reply_addresses_go_with_their_link_and_replies_are_rejected_then(artemis: JavaBus) -> None:
    with Raw(artemis.port) as raw:
        receiver = raw.receiver(None)
        address = receiver.link.remote_source.address
        relay = raw.sender(None)
        assert raw.send(relay, "reply", address=address) == ("accepted", None)
        assert receiver.receive(10).body == "reply"
        receiver.close()
        assert raw.send(relay, "reply", address=address) == ("rejected", "failed")
        # the link to the anonymous terminus goes on
        assert raw.send(relay, address="openstack.rpc.anycast.raw:f")[0] == "accepted"


def test_to_a_full_address_there_is_no_credit(artemis: JavaBus) -> None:
    with Raw(artemis.port) as raw:
        sender = raw.sender("openstack.rpc.anycast.raw:g", "queue")
        other = raw.sender("openstack.rpc.anycast.raw:h", "queue")
        for _ in range(200):
            raw.send(sender, "x" * (FULL // 100))
        assert sender.credit == 0
        assert raw.send(other) == ("accepted", None)
        receiver = raw.receiver("openstack.rpc.anycast.raw:g", "queue")
        for _ in range(200):
            receiver.receive(10)
            receiver.accept()
        assert raw.credit_is(sender, lambda credit: credit > 0)


def test_what_nobody_fetches_expires_and_its_queue_goes_but_notifications_stay(
    artemis: JavaBus, tmp_path: Path
) -> None:
    quick = JavaBus("artemis", tmp_path / "log", expiry=500)
    try:
        quick.start()
        stays = {"openstack.notify.raw:i", "openstack.vhost.v.notify.raw:i"}
        goes = ("openstack.rpc.unicast.raw:i:s", "openstack.vhost.v.rpc.anycast.raw:i")
        with Raw(quick.port) as raw:
            for address in stays:
                raw.sender(f"{address}::{address}", "topic").close()
                raw.send(raw.sender(address, "topic"), "note")
            for address in goes:
                raw.send(raw.sender(address, "queue"), "cast")
        assert quick.left("openstack.", stays.__eq__) == stays
        with Raw(quick.port) as raw:
            for address in stays:
                reader = raw.receiver(f"{address}::{address}", "topic")
                assert reader.receive(10).body == "note"
    finally:
        quick.wipe()
