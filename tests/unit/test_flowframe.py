# SPDX-License-Identifier: Apache-2.0
"""Flow and Attach frames in bytes (AMQP 1.0, 2.3.1, 2.7.3, 2.7.4)."""

import pytest

from amqp1_driver import flowframe
from amqp1_driver.flowframe import (
    EchoRequests,
    add_link_state,
    drain_to_echo,
    drain_to_state,
    echoes,
    handles,
)

#: 29 bytes on channel 3: flow, list8 of 9 fields, with link-credit 0, available null, drain true
DRAIN = bytes.fromhex("0000001d 02000003 005313 c01009 43 52ff 43 70ffffffff 43 5207 43 40 41")
#: the same with a list32, of which proton may make use too
LONG_DRAIN = bytes.fromhex(
    "00000023 02000003 005313 d0000000130000000943 52ff 43 70ffffffff 43 5207 43 40 41"
)
ECHO = bytes.fromhex("0000001e 02000003 005313 c0110a 43 52ff 43 70ffffffff 43 5207 43 40 42 41")
LONG_ECHO = bytes.fromhex(
    "00000024 02000003 005313 d0000000140000000a43 52ff 43 70ffffffff 43 5207 43 40 42 41"
)
STATE = bytes.fromhex("0000001c 02000003 005313 c00f08 43 52ff 43 70ffffffff 43 5207 43 40")
#: about the session alone; the second asks for an echo with a boolean in two bytes
SESSION = bytes.fromhex("00000018 02000000 005313 c00b04 5205 5207 43 70ffffffff")
SESSION_ECHO = bytes.fromhex(
    "0000001f 02000000 005313 c0120a 5205 5207 43 70ffffffff40 40 40 40 40 5601"
)
#: a disposition
OTHER = bytes.fromhex("0000000f 02000001 005315 c00201 41")
#: name "send.1.q", handle 2, role sender; then name "send.2.q", handle 300, role receiver
ATTACH = bytes.fromhex("0000001b 02000000 005312 c00e03 a108") + b"send.1.q" + b"\x52\x02\x42"
RECEIVE = (
    bytes.fromhex("00000027 02000000 005312 d00000001700000003 b100000008")
    + b"send.2.q"
    + bytes.fromhex("700000012c 41")
)


@pytest.mark.parametrize("flow", [DRAIN, LONG_DRAIN])
def test_a_flow_that_drains_becomes_one_that_asks_for_an_echo(flow):
    assert drain_to_echo(OTHER + flow + OTHER) == OTHER + ECHO + OTHER


@pytest.mark.parametrize("flow", [DRAIN, LONG_DRAIN])
def test_a_flow_that_drains_becomes_one_that_says_how_the_link_stands(flow):
    assert drain_to_state(OTHER + flow + SESSION) == OTHER + STATE + SESSION


def test_where_there_are_two_it_is_the_last():
    assert drain_to_echo(DRAIN + DRAIN) == DRAIN + ECHO


@pytest.mark.parametrize("change", [drain_to_echo, drain_to_state])
@pytest.mark.parametrize(
    "frames", [b"", OTHER, SESSION, ECHO[:-1] + b"\x42", DRAIN.replace(b"\xc0", b"\xf0")]
)
def test_where_none_drains_that_is_an_error(change, frames):
    with pytest.raises(ValueError):
        change(frames)


def test_a_flow_about_the_session_says_how_a_link_stands_too():
    state = bytes.fromhex(
        "00000027 02000000 005313 c01a07 5205 5207 43 70ffffffff7000000002 7000000033 70ffffffff"
    )
    assert add_link_state(OTHER + SESSION, 2, 51, 0xFFFFFFFF) == OTHER + state
    waiting = bytes.fromhex(
        "0000002c 02000000 005313 c01f08 5205 5207 43 70ffffffff"
        "7000000002 7000000000 7000000005 7000000009"
    )
    assert add_link_state(SESSION, 2, 1 << 32, 5, 9) == waiting


@pytest.mark.parametrize("frames", [b"", OTHER, DRAIN, STATE])
def test_a_flow_about_a_link_is_left_alone(frames):
    with pytest.raises(ValueError):
        add_link_state(frames, 2, 51, 10)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (ECHO, [True]),
        (LONG_ECHO, [True]),
        (SESSION_ECHO, [False]),
        (OTHER + ECHO + DRAIN, [True]),
        (ECHO + SESSION_ECHO, [True, False]),
        (DRAIN, []),
        (SESSION, []),
        (OTHER, []),
        (b"", []),
        (ECHO[:-1] + b"\x42", []),
        (ECHO[1:], []),
        (ECHO.replace(b"\x02\x00", b"\x02\x01", 1), []),
        (b"\x00\x00\x00\x1f" + ECHO[4:], []),
        (b"\x00S\x13", []),
        (b"\x00S\x13\xc0", []),
        (ECHO[:-1], []),
    ],
)
def test_who_asks_for_an_echo(data, found):
    assert list(echoes(data)) == found


def test_a_frame_in_pieces_is_found_once_whatever_the_pieces():
    data = OTHER + ECHO + OTHER
    for cut in range(len(data) + 1):
        first, second = list(echoes(data[:cut])), list(echoes(data, cut))
        assert first + second == [True]
        assert bool(first) is (cut >= len(OTHER + ECHO))


def test_the_handle_of_a_link_is_in_its_attach():
    data = OTHER + ATTACH + RECEIVE
    assert handles(data, sender=True) == {b"send.1.q": 2}
    assert handles(data, sender=False) == {b"send.2.q": 300}
    assert handles(data[:-1], sender=False) == {}


def test_of_attaches_with_one_name_none_counts():
    other = ATTACH.replace(b"\x52\x02", b"\x52\x03")
    assert handles(ATTACH + other + RECEIVE, sender=True) == {b"send.1.q": None}


@pytest.mark.parametrize("strange", ["a9", "3f", "d1ffffffff", "b1", "e0"])
def test_values_that_cannot_be_read_end_the_search(strange):
    body = bytes.fromhex("005313 c0") + bytes([1 + len(strange) // 2, 10]) + bytes.fromhex(strange)
    frame = (8 + len(body)).to_bytes(4, "big") + bytes.fromhex("02000000") + body
    assert list(echoes(frame + ECHO)) == [True]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 30, 31, 64, 1000])
def test_in_a_stream_each_question_is_found_once(size):
    data = OTHER * 9 + ECHO + LONG_DRAIN + SESSION_ECHO + OTHER * 20 + LONG_ECHO
    stream = EchoRequests()
    found = [stream.read(data[at : at + size]) for at in range(0, len(data), size)]
    assert [question for each in found for question in each] == [True, False, True]


def test_a_message_full_of_such_bytes_costs_no_more_than_a_few(monkeypatch):
    looked = []
    monkeypatch.setattr(
        flowframe, "_fields", lambda data, at, most: (looked.append(at), ([], at))[1]
    )
    assert list(echoes(ECHO[8:11] * 100_000)) == []
    assert looked == list(range(0, 600, 3))
