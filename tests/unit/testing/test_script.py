# SPDX-License-Identifier: Apache-2.0
"""Scripts frame by frame, in memory, with proton's engine as the client."""

import proton
import pytest

from amqp1_driver.testing import performatives as p
from amqp1_driver.testing.messages import Message
from amqp1_driver.testing.peer import Peer, PeerFailure

from .clients import ProtonClient

SENDER_LINK = {"role": "sender", "target": "q"}


def scripted(**open_overrides):
    peer = Peer()
    peer.expect_connection(**open_overrides)
    return peer


def connected(peer, **kwargs):
    return ProtonClient(peer.connect(), **kwargs).exchange()


def test_open_and_begin_are_answered_as_the_script_says():
    peer = scripted(
        product="qpid-cpp",
        version="1.40",
        properties={"x": 1},
        offered_capabilities=["A", "B"],
        container_id="bus",
        max_frame_size=1000,
        idle_time_out=30000,
    )
    client = connected(peer)
    peer.wait_done(0)
    remote = client.connection
    assert remote.remote_container == "bus"
    assert remote.remote_properties == {"product": "qpid-cpp", "version": "1.40", "x": 1}
    assert list(remote.remote_offered_capabilities) == ["A", "B"]
    assert client.transport.remote_max_frame_size == 1000
    assert client.transport.remote_idle_timeout == 30.0
    assert client.session.state & proton.Endpoint.REMOTE_ACTIVE


def test_sasl_plain_wants_these_credentials():
    peer = Peer()
    peer.expect_sasl_plain("user", "secret")
    peer.expect_open(hostname="host").respond()
    peer.expect_begin().respond()
    client = connected(peer, mechanisms="PLAIN", user="user", password="secret")
    assert client.connection.remote_container == "scripted-peer"
    assert client.transport.sasl().outcome == proton.SASL.OK


def test_sasl_plain_with_others_fails_the_script():
    peer = Peer()
    peer.expect_sasl_plain("user", "secret")
    connected(peer, mechanisms="PLAIN", user="user", password="wrong")
    with pytest.raises(PeerFailure, match=r"SaslInit.initial_response is .*wrong"):
        peer.wait_done(0)


@pytest.mark.parametrize(
    ("code", "outcome"),
    [(1, proton.SASL.AUTH), (2, proton.SASL.SYS), (3, proton.SASL.PERM), (4, proton.SASL.TEMP)],
)
def test_sasl_can_be_rejected_with_any_code(code, outcome):
    peer = Peer()
    peer.reject_sasl(code)
    client = connected(peer)
    assert client.transport.sasl().outcome == outcome
    assert client.core.ending == "close"
    peer.wait_done(0)


def test_a_client_without_sasl():
    peer = Peer()
    peer.expect_header(0).respond()
    peer.expect_open().respond()
    peer.expect_begin().respond()
    client = connected(peer, mechanisms=None)
    assert client.connection.state & proton.Endpoint.REMOTE_ACTIVE


def test_an_attach_is_answered_and_gets_exactly_the_credit_granted():
    peer = scripted()
    peer.expect_attach(**SENDER_LINK).respond().grant(2)
    client = connected(peer)
    link = client.sender("q")
    assert link.remote_target.address == "q"
    assert link.credit == 2
    peer.grant(5)
    client.exchange()
    assert link.credit == 5


def test_a_refused_attach_has_a_null_terminus_and_a_detach_with_the_error():
    peer = scripted()
    peer.expect_attach(**SENDER_LINK).refuse("amqp:not-found", "no such node")
    peer.expect_detach(link="s", closed=True)
    client = connected(peer)
    link = client.sender("q")
    assert link.remote_target.address is None
    assert link.state & proton.Endpoint.REMOTE_CLOSED
    assert link.remote_condition == proton.Condition("amqp:not-found", "no such node")
    link.close()
    client.exchange()
    peer.wait_done(0)


@pytest.mark.parametrize(
    ("verb", "state"),
    [
        (lambda step: step.accept(), proton.Delivery.ACCEPTED),
        (lambda step: step.release(), proton.Delivery.RELEASED),
        (lambda step: step.modify(failed=True, undeliverable=True), proton.Delivery.MODIFIED),
        (lambda step: step.reject("amqp:not-allowed", "no"), proton.Delivery.REJECTED),
    ],
)
def test_outcomes(verb, state):
    peer = scripted()
    peer.expect_attach().respond().grant(1)
    verb(peer.expect_transfer(body="hello", address="q", settled=None))
    client = connected(peer)
    delivery = client.send(client.sender("q"), "hello")
    peer.wait_done(0)
    assert delivery.remote_state == state
    assert delivery.settled
    if state == proton.Delivery.MODIFIED:
        assert delivery.remote.failed
        assert delivery.remote.undeliverable
    if state == proton.Delivery.REJECTED:
        assert delivery.remote.condition == proton.Condition("amqp:not-allowed", "no")


def test_a_held_transfer_is_settled_later():
    peer = scripted()
    peer.expect_attach().respond().grant(1)
    peer.expect_transfer().hold()
    client = connected(peer)
    delivery = client.send(client.sender("q"), "hello")
    assert delivery.remote_state == 0
    assert peer.transfers[0].state is None
    peer.settle(0, p.Received(section_number=0, section_offset=0), settled=False)
    client.exchange()
    assert delivery.remote_state == proton.Delivery.RECEIVED
    peer.settle(0, p.Released())
    client.exchange()
    assert delivery.remote_state == proton.Delivery.RELEASED


def test_a_verb_called_after_the_frame_came_acts_at_once():
    peer = scripted()
    peer.expect_attach().respond().grant(1)
    step = peer.expect_transfer()
    client = connected(peer)
    delivery = client.send(client.sender("q"), "hello")
    assert delivery.remote_state == 0
    step.accept()
    client.exchange()
    assert delivery.remote_state == proton.Delivery.ACCEPTED


def test_a_transfer_to_the_client_waits_for_link_and_credit():
    peer = scripted()
    peer.expect_attach(role="receiver", source="q").respond()
    peer.send_transfer("q", Message("hi"), delivery_tag=b"x")
    peer.expect_disposition(role="receiver", first=1, settled=True, state=p.Accepted())
    client = connected(peer)
    link = client.receiver("q")
    with pytest.raises(PeerFailure, match="still to come: send_transfer"):
        peer.wait_done(0)
    link.flow(1)
    client.exchange()
    delivery = link.current
    assert delivery.tag == "x"
    message = proton.Message()
    message.decode(link.recv(delivery.pending))
    assert message.body == "hi"
    delivery.update(proton.Delivery.ACCEPTED)
    delivery.settle()
    client.exchange()
    peer.wait_done(0)
    assert (peer.sent[0].state, peer.sent[0].settled) == (p.Accepted(), True)


def test_without_regard_to_credit_a_transfer_is_sent_all_the_same():
    peer = scripted()
    peer.expect_attach().respond()
    peer.send_transfer("q", b"\x00\x53\x77\x40", ignore_credit=True)
    connected(peer).receiver("q")
    assert isinstance(peer.log[-1].performative, p.Transfer)


def test_a_large_transfer_comes_in_several_frames():
    peer = scripted()
    peer.expect_attach().respond()
    peer.send_transfer("q", Message("x" * 1000), frame_size=300)
    client = connected(peer)
    link = client.receiver("q", credit=1)
    assert link.current.pending == 1008
    assert not link.current.partial
    assert [len(e.payload) for e in peer.log if isinstance(e.performative, p.Transfer)] == [
        300,
        300,
        300,
        108,
    ]


def test_the_peer_detaches_ends_and_closes():
    peer = scripted()
    peer.expect_attach().respond()
    peer.remote_detach("q", "amqp:resource-deleted", "gone")
    client = connected(peer)
    link = client.sender("q")
    assert link.remote_condition == proton.Condition("amqp:resource-deleted", "gone")
    peer.end_session(None, "amqp:decode-error", "bad")
    client.exchange()
    assert client.session.remote_condition == proton.Condition("amqp:decode-error", "bad")
    peer.close("amqp:connection:forced", "bye")
    client.exchange()
    assert client.connection.remote_condition == proton.Condition("amqp:connection:forced", "bye")
    peer.expect_close()
    client.connection.close()
    client.exchange()
    peer.wait_done(0)
    assert client.core.ending == "close"


def test_verbs_that_hit_session_and_connection():
    peer = scripted()
    peer.expect_attach().respond().detach("amqp:link:stolen", closed=False)
    client = connected(peer)
    link = client.sender("q")
    assert link.remote_condition.name == "amqp:link:stolen"
    assert not link.state & proton.Endpoint.REMOTE_CLOSED or link.remote_condition
    peer.expect_attach().end_session("amqp:session:handle-in-use")
    client.sender("q2", "s2")
    assert client.session.remote_condition.name == "amqp:session:handle-in-use"
    peer.expect_end().respond().close("amqp:internal-error")
    client.session.close()
    client.exchange()
    assert client.connection.remote_condition.name == "amqp:internal-error"


def test_a_session_that_is_blocked_by_its_window():
    peer = scripted()
    peer.expect_attach().respond().grant(10)
    client = connected(peer)
    link = client.sender("q")
    peer.flow("q", incoming_window=0)
    client.exchange()
    client.send(link, "one")
    assert peer.transfers == []
    peer.flow("q", incoming_window=10)
    peer.expect_transfer(body="one").accept()
    client.exchange()
    peer.wait_done(0)


def test_drop_after_so_many_bytes():
    peer = scripted()
    peer.drop_after_bytes(30)
    peer.expect_attach().respond()
    client = connected(peer)
    assert client.core.ending is None
    client.sender("q")
    assert client.core.ending == "reset"
    assert client.core.reader.pending() == 30
    peer = scripted()
    peer.drop_after_bytes(11, received=False)
    peer.expect_attach().respond()
    client = connected(peer)
    before = len(client.received)
    client.sender("q")
    assert len(client.received) - before == 11
    assert client.core.ending == "reset"


def test_drop_and_silence():
    peer = scripted()
    peer.expect_attach().silence()
    client = connected(peer)
    link = client.sender("q")
    assert not link.state & proton.Endpoint.REMOTE_ACTIVE
    client.connection.close()
    client.exchange()
    assert peer.frames(p.Close) == []
    peer.drop()
    assert client.core.ending == "reset"


def test_a_drop_comes_after_the_answer_before_it():
    peer = scripted()
    peer.expect_attach().respond().drop()
    client = connected(peer)
    link = client.sender("q")
    assert link.state & proton.Endpoint.REMOTE_ACTIVE
    assert client.core.ending == "reset"


def test_raw_bytes_reach_the_client_as_they_are():
    peer = scripted()
    peer.raw(b"\x00\x00\x00\x01bad!")
    client = connected(peer)
    client.exchange()
    assert client.condition[0] == "amqp:connection:framing-error"


def test_a_frame_as_it_is():
    peer = scripted()
    peer.send(p.Detach(handle=99, closed=True), channel=3)
    client = connected(peer)
    assert client.condition == ("amqp:invalid-field", "no such handle: 99")


def test_the_script_goes_on_over_connections():
    peer = scripted()
    peer.drop()
    peer.expect_connection()
    first = connected(peer)
    assert first.core.ending == "reset"
    connected(peer)
    peer.wait_done(0)
    peer.wait_connections(2, 0)


def test_heartbeats_and_disconnection_can_be_expected():
    peer = scripted()
    peer.expect_heartbeat()
    peer.expect_disconnect()
    client = connected(peer)
    client.core.receive(b"\0\0\0\x08\x02\0\0\0")
    assert len(peer.frames(None)) == 1
    client.core.connection_lost()
    peer.wait_done(0)
    peer.wait_disconnected(0)


def test_an_unexpected_frame_fails_and_drops_with_a_clear_message():
    peer = scripted()
    client = connected(peer)
    client.sender("q")
    with pytest.raises(PeerFailure, match=r"unexpected Attach\(name='s'.*expected nothing more"):
        peer.wait_done(0)
    assert client.core.ending == "reset"


def test_an_unfit_field_is_named():
    peer = scripted()
    peer.expect_attach(role="sender", target="other")
    connected(peer).sender("q")
    with pytest.raises(PeerFailure, match=r"Attach\.target is 'q', expected 'other'"):
        peer.wait_done(0)


def test_an_unknown_field_is_an_error_of_the_test():
    with pytest.raises(TypeError, match="Attach has no field targte"):
        Peer().expect_attach(targte="q")


def test_a_predicate_may_stand_for_a_value():
    peer = scripted()
    peer.expect_attach(name=lambda name: name.startswith("s"), source=None).respond()
    connected(peer).sender("q", "s-1")
    peer.wait_done(0)


def test_what_a_callback_raises_fails_the_script():
    peer = scripted()
    peer.expect_attach().call(lambda event: 1 // 0)
    connected(peer).sender("q")
    with pytest.raises(PeerFailure, match="by zero"):
        peer.wait_done(0)


@pytest.mark.parametrize(
    ("literal", "why"),
    [
        ("0000000f 02 00 0000  00 53 14 c0 02 01 43", "Transfer on handle 0, which is not"),
        ("0000000c 02 00 0007  00 53 17 45", "frame on channel 7, which has no session"),
        ("00000011 02 00 0000  00 53 16 c0 04 02 5263 41", "Detach on handle 99, which is not"),
        ("00000010 02 00 0000  00 53 11 c0 03 01 5001", "must be ushort"),
    ],
)
def test_breaches_of_the_specification_fail_the_script(literal, why):
    peer = scripted()
    client = connected(peer)
    client.core.receive(bytes.fromhex(literal))
    with pytest.raises(PeerFailure, match=why):
        peer.wait_done(0)


def test_a_transfer_without_credit_is_a_breach():
    peer = scripted()
    peer.expect_attach().respond()
    client = connected(peer)
    client.sender("q")
    client.core.receive(
        bytes.fromhex("00000017 02 00 0000  00 53 14 c0 06 03 43 43 a00100 00537740")
    )
    with pytest.raises(PeerFailure, match="transfer without credit"):
        peer.wait_done(0)
