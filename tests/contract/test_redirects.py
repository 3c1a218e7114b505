#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""A bus that sends its clients to another, over real sockets."""

from __future__ import annotations

from amqp1_driver.testing import performatives as p
from amqp1_driver.testing.wire import Symbol


def elsewhere(condition: str, peer) -> p.Error:
    return p.Error(condition=condition, info={
        Symbol("hostname"): "the-other", Symbol("network-host"): peer.host,
        Symbol("port"): peer.port})


def test_a_transport_goes_where_a_bus_sends_it(make_peer, make_app, logged):
    old, new = make_peer(), make_peer()
    old.override(None).expect_open().call(lambda event: (
        event.core.send(p.Open(container_id="old")),
        event.core.send(p.Close(error=elsewhere("amqp:connection:redirect", new)))))
    app = make_app(old.url, default_notify_timeout=10)
    app.notify("hello")
    assert [transfer.address for transfer in new.transfers] == ["unicast.openstack.events.info"]
    assert new.frames(p.Open)[0].performative.hostname == "the-other"
    assert old.transfers == []
    assert logged.said(f"sends us to the-other:{new.port}", level=20)


def test_a_bus_that_is_not_there_is_not_waited_for(make_peer, make_app):
    """The one that has sent us there is asked again, and serves us now."""
    old, gone = make_peer(), make_peer()
    old.override(1).expect_open().call(lambda event: (
        event.core.send(p.Open(container_id="old")),
        event.core.send(p.Close(error=elsewhere("amqp:connection:redirect", gone)))))
    gone.stop()
    make_app(old.url, default_notify_timeout=10).notify("hello")
    assert len(old.transfers) == 1


def test_a_link_that_is_elsewhere_takes_the_transport_along(make_peer, make_app):
    old, new = make_peer(), make_peer()
    address = "unicast.openstack.events.info"

    def refuse(event) -> None:
        link, attach = event.link, event.link.attach
        event.core.send(p.Attach(name=attach.name, handle=link.handle, role=not attach.role,
                                 source=attach.source, target=None), link.session.our_channel)
        link.detached = True
        event.core.send(p.Detach(handle=link.handle, closed=True,
                                 error=elsewhere("amqp:link:redirect", new)),
                        link.session.our_channel)

    old.override(None).expect_attach(address=address).call(refuse)
    make_app(old.url, default_notify_timeout=10).notify("hello", retry=0)
    assert [transfer.address for transfer in new.transfers] == [address]
    assert old.transfers == []
