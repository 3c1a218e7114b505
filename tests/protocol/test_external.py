# SPDX-License-Identifier: Apache-2.0

"""SASL EXTERNAL (5.3), which is made in front of proton."""

import pytest

from amqp1_driver import exceptions
from amqp1_driver.engine.connection import Engine
from amqp1_driver.engine.sasl_external import ExternalSasl
from amqp1_driver.testing import performatives as p
from amqp1_driver.testing.frames import SASL, Frame, FrameReader, Header

from .world import World

HEADER = Header(3).encode()


def external(path=None, *, mechanisms=("EXTERNAL", "PLAIN"), anonymous=False, **kw):
    def engine(host, handler):
        inner = Engine("container", {"hostname": host.hostname}, handler, path)
        return ExternalSasl(inner, handler, anonymous)

    return World(path, engine=engine, peer={"mechanisms": mechanisms}, **kw)


def frame(performative):
    return Frame(0, performative, b"", SASL).encode()


def sasl(body):
    """A SASL frame around any bytes."""
    return (len(body) + 8).to_bytes(4, "big") + b"\x02\x01\x00\x00" + body


class Inner:
    """Stands in for the engine behind."""

    def __init__(self):
        self.received = b""

    def receive(self, data):
        self.received += bytes(data)

    def output(self):
        return memoryview(b"inner")

    def output_written(self, count):
        self.written = count

    def process(self, now):
        return 7.5


class Outer:
    def __init__(self):
        self.failures = []

    def engine_closed(self, name, description):
        self.failures.append((name, description))


def pair():
    inner, outer = Inner(), Outer()
    return ExternalSasl(inner, outer), inner, outer


def test_the_whole_connection_with_a_peer(path):
    world = external(path).start()
    assert world.state == "ready"
    (init,) = [entry.performative for entry in world.peer.frames(p.SaslInit)]
    assert (init.mechanism, init.initial_response, init.hostname) == ("EXTERNAL", b"", None)
    world.answer(world.call())
    world.listen()
    world.arrive("unicast.ex.topic")
    world.close()
    assert world.state == "closed"


@pytest.mark.parametrize("mechanisms", [("PLAIN", "ANONYMOUS"), ("PLAIN",)])
def test_a_peer_that_does_not_offer_it(mechanisms):
    world = external(mechanisms=mechanisms, hosts=2).start()
    error = world.connection.last_error
    assert isinstance(error, exceptions.AuthenticationFailed)
    assert f"the peer offers {', '.join(mechanisms)} but not EXTERNAL" in str(error)
    assert "host=host0:5672" in str(error)


def test_where_tls_alone_identifies_clients_anonymous_will_do(path):
    world = external(path, mechanisms=("PLAIN", "ANONYMOUS"), anonymous=True).start()
    assert world.state == "ready"
    (init,) = [entry.performative for entry in world.peer.frames(p.SaslInit)]
    assert (init.mechanism, init.initial_response, init.hostname) == ("ANONYMOUS", b"", None)


def test_but_external_is_preferred(path):
    world = external(path, mechanisms=("ANONYMOUS", "EXTERNAL"), anonymous=True).start()
    assert [entry.performative.mechanism for entry in world.peer.frames(p.SaslInit)] == ["EXTERNAL"]


@pytest.mark.parametrize("abrupt", [False, True])
def test_a_peer_that_refuses_us(abrupt):
    world = external(abrupt=abrupt)
    world.peer.override().expect_sasl_init().respond(outcome=1)
    world.start()
    assert isinstance(world.connection.last_error, exceptions.AuthenticationFailed)
    assert "EXTERNAL refused (code 1)" in str(world.connection.last_error)


def test_a_peer_without_sasl():
    world = external()
    world.peer.override().expect_header(3).raw(Header(0).encode())
    world.start()
    assert "the peer does not offer SASL: b'AMQP\\x00\\x01\\x00\\x00'" in str(
        world.connection.last_error
    )


def test_bytes_may_come_one_by_one_and_those_behind_go_on():
    sasl, inner, outer = pair()
    stream = (
        HEADER
        + frame(p.SaslMechanisms(sasl_server_mechanisms=["EXTERNAL"]))
        + frame(p.SaslOutcome(outcome=0))
        + b"AMQP\x00\x01\x00\x00"
    )
    for index in range(len(stream)):
        sasl.receive(stream[index : index + 1])
    assert (inner.received, outer.failures) == (b"AMQP\x00\x01\x00\x00", [])


def test_what_comes_in_one_piece_is_split():
    sasl, inner, _ = pair()
    sasl.receive(
        HEADER
        + frame(p.SaslMechanisms(sasl_server_mechanisms=["EXTERNAL"]))
        + frame(p.SaslOutcome(outcome=0))
        + b"AMQP\x00\x01\x00\x00"
    )
    assert inner.received == b"AMQP\x00\x01\x00\x00"


def test_nothing_may_follow_at_once():
    sasl, inner, outer = pair()
    sasl.receive(
        HEADER
        + frame(p.SaslMechanisms(sasl_server_mechanisms=["EXTERNAL"]))
        + frame(p.SaslOutcome(outcome=0))
    )
    assert (inner.received, outer.failures) == (b"", [])
    sasl.receive(b"later")
    assert inner.received == b"later"


def test_our_frames_go_out_before_those_of_the_engine():
    sasl, inner, _ = pair()
    assert bytes(sasl.output()) == HEADER
    sasl.output_written(3)
    assert bytes(sasl.output()) == HEADER[3:]
    sasl.output_written(5)
    assert sasl.output() is None
    assert sasl.process(0.0) == 0.0
    sasl.receive(HEADER + frame(p.SaslMechanisms(sasl_server_mechanisms=["EXTERNAL"])))
    reader = FrameReader()
    reader.feed(bytes(sasl.output()))
    assert reader.next().performative == p.SaslInit(mechanism="EXTERNAL", initial_response=b"")
    sasl.output_written(len(sasl.output()))
    assert not sasl.sasl_over
    sasl.receive(frame(p.SaslOutcome(outcome=0)))
    assert sasl.sasl_over
    assert bytes(sasl.output()) == b"inner"
    sasl.output_written(5)
    assert (inner.written, sasl.process(0.0)) == (5, 7.5)


def test_all_else_is_asked_of_the_engine():
    sasl, inner, _ = pair()
    assert sasl.received == inner.received


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"HTTP/1.1 400", "the peer does not offer SASL: b'HTTP/1.1'"),
        (HEADER + b"\x00\x00\x00\x10\x02\x00\x00\x00" + bytes(8), "malformed SASL frame"),
        (HEADER + b"\x00\x00\x00\x07\x02\x01\x00\x00", "malformed SASL frame"),
        (HEADER + b"\x00\x10\x00\x00\x02\x01\x00\x00", "malformed SASL frame"),
        (HEADER + b"\x00\x00\x00\x10\x01\x01\x00\x00" + bytes(8), "malformed SASL frame"),
        (HEADER + b"\x00\x00\x00\x09\x02\x01\x00\x00\xff", "malformed SASL frame: "),
        (HEADER + b"\x00\x00\x00\x09\x02\x01\x00\x00\x41", "malformed SASL frame: "),
        (HEADER + frame(p.SaslChallenge(challenge=b"x")), "unexpected SASL frame 66"),
        (
            HEADER + frame(p.SaslMechanisms(sasl_server_mechanisms=["PLAIN"])),
            "the peer offers PLAIN but not EXTERNAL",
        ),
        (HEADER + b"\x00\x00\x00\x0c\x02\x01\x00\x00\x00\x53\x40\x45", "the peer offers  but not"),
        (HEADER + b"\x00\x00\x00\x0c\x02\x01\x00\x00\x00\x53\x44\x45", "EXTERNAL refused (code ?)"),
        (HEADER + frame(p.SaslOutcome(outcome=4)), "EXTERNAL refused (code 4)"),
        (HEADER + sasl(b"\x00\x53\x40\x54\x05"), "malformed SASL frame: not a described list"),
        (HEADER + sasl(b"\x00\x53\x44\x54\x05"), "malformed SASL frame: not a described list"),
        (HEADER + sasl(b"\x00\x53\x44\xc1\x01\x00"), "malformed SASL frame: not a described list"),
        (HEADER + sasl(b"\x00\x53\x40\xc1\x01\x00"), "malformed SASL frame: not a described list"),
        (
            HEADER + sasl(b"\x00\x53\x40\xa1\x08EXTERNAL"),
            "malformed SASL frame: not a described list",
        ),
        (HEADER + sasl(b"\x00\x53\x44\x40"), "malformed SASL frame: not a described list"),
        (HEADER + sasl(b"\x40"), "malformed SASL frame: not a described list"),
        (HEADER + sasl(b"\x45"), "malformed SASL frame: not a described list"),
        (HEADER + sasl(b"\x00\x53\x44\xc0\x02\x01\x42"), "EXTERNAL refused (code False)"),
        (HEADER + sasl(b"\x00\x53\x44\xc0\x02\x01\x45"), "EXTERNAL refused (code [])"),
        (HEADER + sasl(b"\x00\x45\x45"), "unexpected SASL frame []"),
        (
            HEADER + sasl(b"\x00\x53\x40\xc0\x07\x01\xa3\x04\x0a\x1b[m"),
            "the peer offers \\n\\x1b[m but not EXTERNAL",
        ),
    ],
)
def test_each_way_to_fail_is_told_once(data, reason):
    sasl, inner, outer = pair()
    sasl.receive(data)
    assert len(outer.failures) == 1
    name, description = outer.failures[0]
    assert name == "amqp:unauthorized-access"
    assert description.startswith(f"SASL: {reason}")
    sasl.receive(b"more")
    assert (len(outer.failures), inner.received) == (1, b"")
