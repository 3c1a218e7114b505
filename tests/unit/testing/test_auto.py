# SPDX-License-Identifier: Apache-2.0
"""The peer that answers by itself, with single deviations; proton and pyngus as clients."""

import dataclasses

import proton
import pytest

from amqp1_driver.testing import performatives as p
from amqp1_driver.testing.frames import Frame
from amqp1_driver.testing.messages import Message
from amqp1_driver.testing.peer import Peer, PeerFailure

from .clients import ProtonClient, PyngusClient


def auto(**settings):
    peer = Peer(auto=True, **settings)
    return peer, ProtonClient(peer.connect()).exchange()


def test_pyngus_connects_sends_receives_and_closes():
    peer = Peer(auto=True)
    client = PyngusClient(peer.connect()).exchange()
    assert client.events == ["active"]
    sender = client.connection.create_sender("from", "q", client, "s")
    sender.open()
    client.exchange()
    assert client.events[1:] == ["sender active", ("credit", 100)]
    outcomes = []
    sender.send(
        proton.Message(body="hi", correlation_id="c"),
        delivery_callback=lambda link, handle, state, info: outcomes.append(state),
    )
    client.exchange()
    assert outcomes == [sender.ACCEPTED]
    (transfer,) = peer.transfers
    assert (transfer.body, transfer.address, transfer.settled) == ("hi", "q", True)
    assert transfer.message.properties.correlation_id == "c"
    receiver = client.connection.create_receiver("to", None, client, "r")
    receiver.add_capacity(1)
    receiver.open()
    client.exchange()
    assert client.events[-1] == ("receiver active", "peer/dynamic/1")
    peer.send_transfer("peer/dynamic/1", Message("back"))
    client.exchange()
    assert client.events[-1] == ("message", "back")
    peer.wait_settled(1, 0)
    assert peer.sent[0].state == p.Accepted()
    client.connection.close()
    client.exchange()
    assert client.events[-1] == "closed"
    assert client.core.ending == "close"


def test_pyngus_learns_of_a_remote_detach():
    peer = Peer(auto=True)
    client = PyngusClient(peer.connect()).exchange()
    sender = client.connection.create_sender("from", "q", client, "s")
    sender.open()
    client.exchange()
    peer.remote_detach("s", "amqp:resource-deleted", "gone")
    client.exchange()
    assert client.events[-1] == ("sender remote closed", "amqp:resource-deleted", "gone")
    assert peer.links == []
    assert len(peer.frames(p.Detach)) == 1


def test_credit_is_topped_up_at_half():
    peer, client = auto(credit=4)
    link = client.sender("q")
    assert link.credit == 4
    client.send(link, "1", "a")
    assert link.credit == 3
    client.send(link, "2", "b")
    assert link.credit == 4
    assert [t.body for t in peer.transfers] == ["1", "2"]


def test_the_session_window_is_kept_open():
    peer, client = auto(incoming_window=4)
    link = client.sender("q")
    for number in range(20):
        client.send(link, str(number), f"t{number}")
    assert len(peer.transfers) == 20


def test_one_transfer_is_overridden():
    peer, client = auto()
    peer.override(times=1).expect_transfer(body=lambda body: body != "a").release()
    link = client.sender("q")
    states = [client.send(link, body, body).remote_state for body in ("a", "b", "c")]
    assert states == [
        proton.Delivery.ACCEPTED,
        proton.Delivery.RELEASED,
        proton.Delivery.ACCEPTED,
    ]


def test_a_rule_may_hold_for_ever_and_newer_ones_go_first():
    peer, client = auto()
    peer.override(times=None).expect_transfer(address="q").reject("amqp:not-allowed")
    peer.override(times=1).expect_transfer(address="q").modify(failed=True)
    link = client.sender("q")
    states = [client.send(link, "x", tag).remote_state for tag in ("a", "b", "c")]
    assert states == [
        proton.Delivery.MODIFIED,
        proton.Delivery.REJECTED,
        proton.Delivery.REJECTED,
    ]


def test_a_rule_for_an_address():
    peer, client = auto()
    peer.override().expect_attach(address="bad").refuse("amqp:not-found")
    assert client.sender("good", "1").credit == 100
    assert client.sender("bad", "2").remote_condition.name == "amqp:not-found"
    assert client.sender("bad", "3").credit == 100


def test_a_callback_decides_itself():
    peer, client = auto()
    seen = []
    peer.override(None).expect_transfer().call(lambda event: seen.append(event.transfer.body))
    delivery = client.send(client.sender("q"), "x")
    assert seen == ["x"]
    assert delivery.remote_state == 0


def test_a_step_takes_precedence_and_the_rest_is_answered():
    peer, client = auto()
    peer.expect_transfer(body="2").reject("amqp:not-allowed")
    link = client.sender("q")
    with pytest.raises(PeerFailure, match=r"still to come: Transfer\(body='2'\)"):
        peer.wait_done(0)
    states = [client.send(link, body, body).remote_state for body in ("1", "2", "3")]
    peer.wait_done(0)
    assert states == [
        proton.Delivery.ACCEPTED,
        proton.Delivery.REJECTED,
        proton.Delivery.ACCEPTED,
    ]


def test_no_credit_is_a_rule_too():
    peer, client = auto()
    peer.override().expect_attach(role="sender").respond(credit=0)
    link = client.sender("q")
    assert (link.credit, bool(link.state & proton.Endpoint.REMOTE_ACTIVE)) == (0, True)
    peer.grant(1, "q")
    client.exchange()
    assert link.credit == 1


def test_dynamic_addresses_differ_and_can_be_chosen():
    peer, client = auto()
    peer.override().expect_attach(name="third", dynamic=True).respond(address="mine")
    addresses = [client.receiver(None, name).remote_source.address for name in ("1", "2", "third")]
    assert addresses == ["peer/dynamic/1", "peer/dynamic/2", "mine"]


def test_an_anonymous_sender_names_the_address_in_the_message():
    peer, client = auto()
    link = client.sender(None)
    delivery = link.delivery("tag")
    link.send(proton.Message(address="there", body="x").encode())
    link.advance()
    client.exchange()
    assert delivery.remote_state == proton.Delivery.ACCEPTED
    assert [(t.address, t.body) for t in peer.transfers] == [("there", "x")]


def test_presettled_and_large_transfers_are_recorded_whole():
    peer, client = auto(max_frame_size=512)
    link = client.sender("q")
    client.send(link, "x" * 3000, settled=True)
    (transfer,) = peer.transfers
    assert (transfer.settled, transfer.body, transfer.state) == (True, "x" * 3000, None)


def test_drain_uses_up_the_credit():
    _, client = auto()
    link = client.receiver("q", credit=5)
    link.drain(0)
    client.exchange()
    assert link.credit == 0


def test_a_client_that_settles_second_is_answered():
    peer, client = auto()
    link = client.receiver("q", credit=1)
    peer.send_transfer("q", Message("x"))
    client.exchange()
    delivery = link.current
    delivery.update(proton.Delivery.ACCEPTED)
    client.exchange()
    assert delivery.settled
    assert isinstance(peer.log[-1].performative, p.Disposition)


def test_detach_end_and_close_are_answered():
    peer, client = auto()
    link = client.sender("q")
    for endpoint in (link, client.session, client.connection):
        endpoint.close()
        client.exchange()
        assert endpoint.state & proton.Endpoint.REMOTE_CLOSED
    assert peer.links == []
    assert client.core.ending == "close"


def test_plain_is_checked_against_the_users():
    peer = Peer(auto=True, users={"u": "p"})
    good = ProtonClient(peer.connect(), mechanisms="PLAIN", user="u", password="p").exchange()
    assert good.transport.sasl().outcome == proton.SASL.OK
    for user, password in (("u", "x"), ("x", "p")):
        bad = ProtonClient(peer.connect(), mechanisms="PLAIN", user=user, password=password)
        assert bad.exchange().transport.sasl().outcome == proton.SASL.AUTH
    anonymous = ProtonClient(peer.connect()).exchange()
    assert anonymous.transport.sasl().outcome == proton.SASL.AUTH


def test_an_unknown_protocol_header_is_answered_with_ours():
    peer = Peer(auto=True)
    core = peer.connect()
    assert core.receive(b"AMQP\x02\x01\x00\x00") == b"AMQP\x03\x01\x00\x00"
    assert core.ending == "close"


def test_our_channels_and_handles_are_not_the_client_s():
    peer, client = auto()
    client.sender("q")
    begin, attach = (
        next(e for e in peer.log if not e.incoming and isinstance(e.performative, kind))
        for kind in (p.Begin, p.Attach)
    )
    assert (begin.channel, begin.performative.remote_channel) == (3, 0)
    assert attach.performative.handle == 7


def with_few_numbers(channel_max, handle_max, *frames):
    """A peer after an open and these frames, given as (channel, performative), have come."""
    peer = Peer(auto=True)
    core = peer.connect()
    opening = p.Open(container_id="c", channel_max=channel_max)
    core.receive(b"AMQP\x00\x01\x00\x00" + Frame(0, opening).encode())
    for channel, performative in frames:
        if isinstance(performative, p.Begin):
            performative = dataclasses.replace(performative, handle_max=handle_max)
        core.receive(Frame(channel, performative).encode())
    return peer


def begin(channel):
    return channel, p.Begin(next_outgoing_id=1, incoming_window=9, outgoing_window=9)


def attach(handle):
    return 0, p.Attach(name=f"r{handle}", handle=handle, role=True, source=p.Source(address="q"))


def sent(peer, kind):
    return [e for e in peer.log if not e.incoming and isinstance(e.performative, kind)]


def test_our_channels_are_unique_where_the_client_allows_few():
    peer = with_few_numbers(4, 255, *[begin(channel) for channel in range(5)])
    assert [entry.channel for entry in sent(peer, p.Begin)] == [3, 4, 0, 1, 2]
    assert [entry.performative.remote_channel for entry in sent(peer, p.Begin)] == [0, 1, 2, 3, 4]


def test_our_handles_are_unique_where_the_client_allows_few():
    peer = with_few_numbers(255, 8, begin(0), *[attach(handle) for handle in range(9)])
    handles = [entry.performative.handle for entry in sent(peer, p.Attach)]
    assert handles == [7, 8, 0, 1, 2, 3, 4, 5, 6]


def test_a_number_is_used_again_after_the_end_of_its_link_or_session():
    frames = [begin(0), attach(0), (0, p.Detach(handle=0, closed=True)), attach(1), (0, p.End())]
    peer = with_few_numbers(3, 7, *frames, begin(0))
    assert [entry.performative.handle for entry in sent(peer, p.Attach)] == [7, 7]
    assert [entry.channel for entry in sent(peer, p.Begin)] == [3, 3]


@pytest.mark.parametrize(
    ("frames", "why"),
    [
        ([begin(0), begin(1)], "all of our channel numbers up to 0, the client's maximum"),
        ([begin(0), attach(0), attach(1)], "all of our handle numbers up to 0"),
    ],
)
def test_more_sessions_or_links_than_the_client_itself_allows_are_a_breach(frames, why):
    with pytest.raises(PeerFailure, match=why):
        with_few_numbers(0, 0, *frames).wait_done(0)


def test_what_comes_on_a_link_that_we_detached_is_ignored():
    peer, client = auto()
    link = client.sender("q")
    peer.remote_detach("q")
    client.core.take_output()  # it gets lost: the client goes on as if nothing had happened
    client.send(link, "x")
    assert peer.transfers == []
    assert peer.script.failure is None
