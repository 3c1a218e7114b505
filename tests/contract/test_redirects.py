# SPDX-License-Identifier: Apache-2.0

"""A bus that sends its clients to another, over real sockets."""

from __future__ import annotations

from amqp1_driver.testing import performatives as p
from amqp1_driver.testing.wire import Symbol

PERMITTED = {"default_notify_timeout": 10, "redirect_hosts": ["the-other", "127.0.0.1"]}


def elsewhere(condition: str, peer) -> p.Error:
    return p.Error(
        condition=condition,
        info={
            Symbol("hostname"): "the-other",
            Symbol("network-host"): peer.host,
            Symbol("port"): peer.port,
        },
    )


def test_a_transport_goes_where_a_bus_sends_it(make_peer, make_app, logged):
    old, new = make_peer(), make_peer()
    old.override(None).expect_open().call(
        lambda event: (
            event.core.send(p.Open(container_id="old")),
            event.core.send(p.Close(error=elsewhere("amqp:connection:redirect", new))),
        )
    )
    app = make_app(old.url, **PERMITTED)
    app.notify("hello")
    assert [transfer.address for transfer in new.transfers] == ["unicast.openstack.events.info"]
    assert new.frames(p.Open)[0].performative.hostname == "the-other"
    assert old.transfers == []
    assert logged.said(f"sends us to the-other:{new.port}", level=20)


def test_by_default_it_goes_to_hosts_of_its_url_only(make_peer, make_app, logged):
    """And a host that redirect_hosts permits gets no password in clear."""
    old, new = make_peer(users={"nova": "secret"}), make_peer(users={"nova": "secret"})
    old.override(1).expect_open().call(
        lambda event: (
            event.core.send(p.Open(container_id="old")),
            event.core.send(p.Close(error=elsewhere("amqp:connection:redirect", new))),
        )
    )
    url = old.url.replace("://", "://nova:secret@")
    make_app(url, default_notify_timeout=10).notify("hello")
    assert logged.said(
        "is not in the transport URL, and redirect_hosts does not permit it", level=30
    )
    assert logged.said("SASL PLAIN without TLS: the password goes to", level=30)
    assert (len(old.transfers), new.frames(p.SaslInit)) == (1, [])


def test_a_host_outside_of_the_url_gets_no_password_in_clear(make_peer, make_app, logged):
    old, new = make_peer(users={"nova": "secret"}), make_peer(users={"nova": "secret"})
    old.override(1).expect_open().call(
        lambda event: (
            event.core.send(p.Open(container_id="old")),
            event.core.send(p.Close(error=elsewhere("amqp:connection:redirect", new))),
        )
    )
    url = old.url.replace("://", "://nova:secret@")
    make_app(url, default_notify_timeout=10, redirect_hosts=["*"]).notify("hello")
    assert (len(old.transfers), new.frames(p.SaslInit)) == (1, [])
    assert logged.said(
        "allowed here: SCRAM-SHA-512 SCRAM-SHA-256 SCRAM-SHA-1; PLAIN only with TLS "
        "(redirect_hosts)",
        level=30,
    )


def test_a_bus_that_is_not_there_is_not_waited_for(make_peer, make_app):
    """The one that has sent us there is asked again, and serves us now."""
    old, gone = make_peer(), make_peer()
    old.override(1).expect_open().call(
        lambda event: (
            event.core.send(p.Open(container_id="old")),
            event.core.send(p.Close(error=elsewhere("amqp:connection:redirect", gone))),
        )
    )
    gone.stop()
    make_app(old.url, **PERMITTED).notify("hello")
    assert len(old.transfers) == 1


def test_a_link_that_is_elsewhere_takes_the_transport_along(make_peer, make_app):
    old, new = make_peer(), make_peer()
    address = "unicast.openstack.events.info"

    def refuse(event) -> None:
        link, attach = event.link, event.link.attach
        event.core.send(
            p.Attach(
                name=attach.name,
                handle=link.handle,
                role=not attach.role,
                source=attach.source,
                target=None,
            ),
            link.session.our_channel,
        )
        link.detached = True
        event.core.send(
            p.Detach(handle=link.handle, closed=True, error=elsewhere("amqp:link:redirect", new)),
            link.session.our_channel,
        )

    old.override(None).expect_attach(address=address).call(refuse)
    make_app(old.url, **PERMITTED).notify("hello", retry=0)
    assert [transfer.address for transfer in new.transfers] == [address]
    assert old.transfers == []
