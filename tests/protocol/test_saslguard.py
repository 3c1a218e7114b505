# SPDX-License-Identifier: Apache-2.0

"""What a peer has to prove in SASL, and what it does not get to see (5.3; RFC 5802)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import pathlib
import subprocess
import sys

import pytest

from amqp1_driver import exceptions
from amqp1_driver.engine.connection import Engine
from amqp1_driver.engine.sasl_guard import challenge, outcome
from amqp1_driver.engine.security import engine_properties
from amqp1_driver.options import Host, default_settings
from amqp1_driver.testing import performatives as p
from amqp1_driver.testing.frames import SASL, Frame, FrameReader, Header

from .world import World

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = Header(3).encode()
SCRAM = "SCRAM-SHA-256"
UNPROVEN = (
    "SASL: the bus says ok to SCRAM-SHA-256 but has not proven that it knows the password: "
    "it may not be the bus that it claims to be"
)


def frame(performative):
    return Frame(0, performative, b"", SASL).encode()


class Bus:
    """The peer of one engine, frame by frame; knows SCRAM-SHA-256 by the text of RFC 5802."""

    def __init__(self, path=None, user="nova", password="secret", **options):
        self.told = []
        settings = default_settings(**options)
        self.properties = engine_properties(settings, Host("bus", 5672, user, password), None)
        self.engine = Engine("container", self.properties, self, path)
        self.engine.open()
        self.reader = FrameReader()
        self.sent = []
        self.read()

    def engine_in_clear(self, mechanism):
        self.told.append(("in clear", mechanism, len(self.sent)))

    def engine_closed(self, name, description):
        self.told.append((name, description))

    def engine_failed(self, reason):
        self.told.append((None, reason))

    def engine_opened(self, peer):
        self.told.append("opened")

    def read(self):
        """What the engine sends now."""
        self.engine.process(1.0)
        while (data := self.engine.output()) is not None and len(data):
            self.reader.feed(bytes(data))
            self.engine.output_written(len(data))
        found = []
        while (item := self.reader.next()) is not None:
            found.append(getattr(item, "performative", item))
        self.sent += found
        return found

    def say(self, *performatives, header=b""):
        data = header + b"".join(map(frame, performatives))
        self.engine.receive(data)
        return self.read()

    def offer(self, *names):
        return self.say(p.SaslMechanisms(sasl_server_mechanisms=list(names)), header=HEADER)[-1]

    def begin_scram(self, name=SCRAM):
        """Up to the response that proves that the client knows the password."""
        init = self.offer(name)
        assert init.mechanism == name
        first = init.initial_response.decode().split(",", 2)[2]
        nonce = dict(part.split("=", 1) for part in first.split(","))["r"] + "peer"
        salt, rounds = b"salt", 4096
        server = f"r={nonce},s={base64.b64encode(salt).decode()},i={rounds}"
        (response,) = self.say(p.SaslChallenge(challenge=server.encode()))
        final = response.response.decode().rpartition(",p=")[0]
        key = hmac.digest(
            hashlib.pbkdf2_hmac("sha256", b"secret", salt, rounds), b"Server Key", "sha256"
        )
        signed = hmac.digest(key, f"{first},{server},{final}".encode(), "sha256")
        return b"v=" + base64.b64encode(signed)

    @property
    def reason(self):
        ((name, description),) = self.told
        assert name == "amqp:unauthorized-access"
        return description


OK = p.SaslOutcome(outcome=0)


# -- the password of the peer ------------------------------------------------------------------


def test_a_peer_that_proves_that_it_knows_the_password(path):
    bus = Bus(path)
    signature = bus.begin_scram()
    (response,) = bus.say(p.SaslChallenge(challenge=signature))
    assert response == p.SaslResponse(response=b"")
    assert not bus.engine.sasl_over
    assert bus.say(OK)[0] == Header(0)
    assert bus.engine.sasl_over
    bus.say(p.Open(container_id="peer"), header=Header(0).encode())
    assert bus.told == []


def test_the_proof_may_come_with_the_outcome(path):
    bus = Bus(path)
    signature = bus.begin_scram()
    sent = bus.say(p.SaslOutcome(outcome=0, additional_data=signature))
    assert sent[0] == Header(0)  # no response to what was no challenge
    assert (bus.told, bus.engine.sasl_over) == ([], True)


def test_ok_right_after_the_first_frame_is_not_believed(path):
    bus = Bus(path)
    bus.offer(SCRAM)
    assert bus.say(OK) == []
    assert bus.reason == UNPROVEN
    assert not bus.engine.sasl_over


def test_ok_without_the_proof_is_not_believed(path):
    bus = Bus(path)
    bus.begin_scram()
    assert bus.say(OK) == []
    assert bus.reason == UNPROVEN


def test_a_wrong_proof_is_not_believed(path):
    bus = Bus(path)
    bus.begin_scram()
    bus.say(p.SaslChallenge(challenge=b"v=" + base64.b64encode(bytes(32))))
    assert "Authentication failed" in bus.reason


def test_nor_with_ok_in_the_same_read(path):
    bus = Bus(path)
    bus.begin_scram()
    sent = bus.say(p.SaslChallenge(challenge=b"v=" + base64.b64encode(bytes(32))), OK)
    assert sent == []
    assert "Authentication failed" in bus.reason
    assert not bus.engine.sasl_over


def test_a_wrong_proof_with_the_outcome_is_not_believed(path):
    bus = Bus(path)
    bus.begin_scram()
    bus.say(p.SaslOutcome(outcome=0, additional_data=b"v=" + base64.b64encode(bytes(32))))
    assert "Authentication failed" in bus.reason


@pytest.mark.parametrize("code", [1, 2, 3, 4])
def test_a_refusal_needs_no_proof(path, code):
    bus = Bus(path)
    bus.begin_scram()
    bus.say(p.SaslOutcome(outcome=code))
    assert "Authentication failed" in bus.reason


def test_the_whole_connection_with_a_peer_that_lies(path):
    def engine(host, handler):
        return Engine("container", Bus(path).properties, handler, path)

    world = World(path, engine=engine, peer={"mechanisms": (SCRAM,)})
    world.peer.override().expect_sasl_init().respond(outcome=0)
    world.start()
    error = world.connection.last_error
    assert isinstance(error, exceptions.AuthenticationFailed)
    assert UNPROVEN in str(error)
    assert "host=host0:5672" in str(error)


# -- our password ------------------------------------------------------------------------------


def test_plain_without_tls_is_told_before_it_is_sent(path):
    bus = Bus(path)
    init = bus.offer("PLAIN")
    assert init.initial_response == b"\0nova\0secret"
    assert bus.told == [("in clear", "PLAIN", 1)]
    bus.say(OK)
    assert bus.engine.sasl_over


@pytest.mark.parametrize("options", [{"ssl": True}, {"sasl_mechanisms": "ANONYMOUS"}])
def test_with_tls_or_without_a_password_nothing_is_told(path, options):
    bus = Bus(path, **options)
    bus.offer("PLAIN", "ANONYMOUS")
    assert bus.told == []


def test_scram_is_taken_before_plain(path):
    bus = Bus(path)
    assert bus.offer("PLAIN", SCRAM).mechanism == SCRAM
    assert bus.told == []


def test_where_it_is_not_allowed_plain_is_not_sent(path):
    bus = Bus(path, sasl_allow_insecure_mechs=False)
    bus.say(p.SaslMechanisms(sasl_server_mechanisms=["PLAIN"]), header=HEADER)
    assert [item for item in bus.sent if isinstance(item, p.SaslInit)] == []
    assert bus.reason.endswith("[mech=none]")


def test_a_transport_warns_once(path, caplog):
    def engine(host, handler):
        return Engine("container", Bus(path).properties, handler, path)

    world = World(path, engine=engine, peer={"mechanisms": ("PLAIN",)}).start()
    world.drop().advance(5)
    assert world.state == "ready"
    told = [r.getMessage() for r in caplog.records if "in clear" in r.getMessage()]
    assert told == [
        "SASL PLAIN without TLS: the password goes to host0:5672 in clear, and anybody "
        "on the way can read it; use TLS, or refuse it by "
        "sasl_allow_insecure_mechs = false"
    ]


TRACED = """
from amqp1_driver.testing import performatives as p
from tests.protocol.test_saslguard import OK, Bus, Header
bus = Bus()
assert bus.offer("PLAIN").initial_response == b"\\0nova\\0secret"
bus.say(OK)
bus.say(p.Open(container_id="peer"), header=Header(0).encode())
"""


@pytest.mark.parametrize(
    ("variable", "mark"),
    [
        ("PN_TRACE_FRM=1", "@open(16)"),
        ("PN_TRACE_RAW=yes", "RAW:"),
        ("PN_LOG=frame", "@open(16)"),
        ("PN_LOG=ALL", "@open(16)"),
    ],
)
def test_what_makes_proton_trace_shows_no_password(variable, mark):
    """Proton reads these variables once in a process."""
    name, _, value = variable.partition("=")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TRACED],
        cwd=ROOT,
        text=True,
        env={**os.environ, name: value},
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert mark in done.stderr
    assert "secret" not in done.stderr


# -- frames ------------------------------------------------------------------------------------


def test_bytes_may_come_one_by_one(path):
    bus = Bus(path, user=None)
    stream = (
        HEADER
        + frame(p.SaslMechanisms(sasl_server_mechanisms=["ANONYMOUS"]))
        + frame(OK)
        + Header(0).encode()
    )
    for index in range(len(stream)):
        bus.engine.receive(stream[index : index + 1])
        bus.read()
    assert (bus.told, bus.engine.sasl_over) == ([], True)


def test_all_in_one_piece_with_an_empty_frame(path):
    bus = Bus(path, user=None)
    bus.engine.receive(
        HEADER
        + frame(p.SaslMechanisms(sasl_server_mechanisms=["ANONYMOUS"]))
        + b"\x00\x00\x00\x08\x02\x01\x00\x00"
        + frame(OK)
        + Header(0).encode()
        + Frame(0, p.Open(container_id="peer"), b"").encode()
    )
    bus.read()
    assert bus.told == ["opened"]


@pytest.mark.parametrize("first", [b"AMQP\x00\x01\x00\x00", b"HTTP/1.1 400", b"\x15"])
def test_what_is_no_sasl_is_left_to_proton(path, first):
    bus = Bus(path)
    bus.engine.receive(first)
    bus.engine._connection.pyngus.close_input()
    bus.read()
    assert len(bus.told) == 1


MECHANISMS = frame(p.SaslMechanisms(sasl_server_mechanisms=["ANONYMOUS"]))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x00\x00\x00\x07\x02\x01\x00\x00", "malformed SASL frame"),
        (b"\x00\x10\x00\x00\x02\x01\x00\x00", "malformed SASL frame"),
        (b"\x00\x00\x00\x10\x02\x00\x00\x00" + bytes(8), "malformed SASL frame"),
        (b"\x00\x00\x00\x10\x01\x01\x00\x00" + bytes(8), "malformed SASL frame"),
        (b"\x00\x00\x00\x09\x02\x01\x00\x00\xff", "malformed SASL frame: "),
        (b"\x00\x00\x00\x09\x02\x01\x00\x00\x41", "malformed SASL frame: "),
        (b"\x00\x00\x00\x0c\x02\x01\x00\x00\x00\x53\x40\x41", "malformed SASL frame: "),
        (frame(OK), "unexpected SASL frame 68"),
        (frame(p.SaslChallenge(challenge=b"x")), "unexpected SASL frame 66"),
        (MECHANISMS + MECHANISMS, "unexpected SASL frame 64"),
        (MECHANISMS + frame(p.SaslResponse(response=b"")), "unexpected SASL frame 67"),
        # an outcome without a code, which proton reads as ok
        (
            MECHANISMS + b"\x00\x00\x00\x0c\x02\x01\x00\x00\x00\x53\x44\x45",
            "malformed SASL outcome",
        ),
        (
            MECHANISMS + b"\x00\x00\x00\x0f\x02\x01\x00\x00\x00\x53\x44\xc0\x02\x01\x40",
            "malformed SASL outcome",
        ),
        (
            MECHANISMS + b"\x00\x00\x00\x0f\x02\x01\x00\x00\x00\x53\x44\xc0\x02\x01\x42",
            "malformed SASL outcome",
        ),
    ],
)
def test_what_is_malformed_ends_the_connection(path, data, reason):
    bus = Bus(path, user=None)
    bus.engine.receive(HEADER + data)
    bus.engine.receive(frame(OK))
    bus.read()
    assert bus.reason.startswith(f"SASL: {reason}")
    assert not bus.engine.sasl_over


def test_a_code_of_another_type_is_no_ok(path):
    """A failure as uint (0x52): proton alone reads it as 0."""
    bus = Bus(path)
    bus.offer("PLAIN")
    bus.told.clear()
    bus.engine.receive(b"\x00\x00\x00\x10\x02\x01\x00\x00\x00\x53\x44\xc0\x03\x01\x52\x01")
    bus.read()
    assert "Authentication failed" in bus.reason


def test_frames_are_made_by_the_book():
    reader = FrameReader()
    reader.feed(HEADER + challenge(b"v=1") + outcome(3))
    reader.next()
    assert reader.next().performative == p.SaslChallenge(challenge=b"v=1")
    assert reader.next().performative == p.SaslOutcome(outcome=3)
