# SPDX-License-Identifier: Apache-2.0

"""Whatever a message holds, it costs itself only: reading goes on.

Messages are put together by hand from all types of AMQP 1.0 part 1, the wrong ones too.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from proton import Message
from proton.utils import BlockingConnection

from amqp1_driver.pipeline.collect.decode import Decoder
from amqp1_driver.pipeline.collect.rows import row_of
from amqp1_driver.pipeline.spool import UNDECODABLE, Full, Row, SpoolLimits, caps
from amqp1_driver.pipeline.spool.rows import sizes, to_batch
from amqp1_driver.testing import performatives as p
from amqp1_driver.testing.peer import ScriptedPeer

from .support import WAIT, ids, rows

h = bytes.fromhex

#: bytes behind the constructors of fixed width (1.6)
_FIXED = {
    0: "40 41 42 43 44 45",
    1: "50 51 52 53 54 55 56",
    2: "60 61",
    4: "70 71 72 73 74",
    8: "80 81 82 83 84",
    16: "94 98",
}
#: numbers at the edges of what columns take
_EDGES = st.sampled_from(
    [
        0,
        1,
        -1,
        2**31 - 1,
        2**31,
        -(2**31),
        -(2**31) - 1,
        2**63 - 1,
        -(2**63),
        253402300799999,
        253402300800000,
    ]
)
_fixed = st.one_of(
    [
        st.tuples(
            st.sampled_from([bytes([code]) for code in h(codes)]),
            st.binary(min_size=width, max_size=width),
        ).map(b"".join)
        for width, codes in _FIXED.items()
    ]
)
_numbers = st.tuples(st.sampled_from([b"\x81", b"\x83"]), _EDGES.map(struct.Struct(">q").pack)).map(
    b"".join
)
_surrogates = st.integers(0xD800, 0xDFFF).map(lambda code: b"\x73" + struct.pack(">I", code))


def variable(code: int, data: bytes) -> bytes:
    """A binary, string or symbol with its size."""
    if len(data) < 256:
        return bytes([code, len(data)]) + data
    return bytes([code + 0x10]) + struct.pack(">I", len(data)) + data


_texts = st.text().map(lambda text: text.encode("utf-8", "surrogatepass"))
_variable = st.builds(
    variable, st.sampled_from([0xA0, 0xA1, 0xA3]), st.one_of(st.binary(max_size=40), _texts)
)


def compound(code: int, items: list[bytes]) -> bytes:
    """A list (0xd0) or a map (0xd1)."""
    data = b"".join(items)
    return bytes([code]) + struct.pack(">II", len(data) + 4, len(items)) + data


def array(code: int, width: int, count: int) -> bytes:
    data = bytes([code]) + b"\x01" * width * count
    return b"\xf0" + struct.pack(">II", len(data) + 4, count) + data


_arrays = st.builds(
    lambda kind, count: array(*kind, count),
    st.sampled_from([(0x41, 0), (0x50, 1), (0x71, 4), (0x83, 8), (0x98, 16)]),
    st.integers(0, 5),
)
_values = st.recursive(
    st.one_of(_fixed, _numbers, _surrogates, _variable, _arrays),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: compound(0xD0, items)),
        st.lists(inner, max_size=4).map(lambda items: compound(0xD1, items)),
        st.tuples(inner, inner).map(lambda pair: b"\x00" + pair[0] + pair[1]),
    ),
    max_leaves=8,
)
_gzip = variable(0xA3, b"gzip")


def section(code: int, value: bytes) -> bytes:
    return b"\x00\x53" + bytes([code]) + value


_lists = st.lists(_values, max_size=14).map(lambda items: compound(0xD0, items))
_maps = st.lists(st.tuples(_values, _values).map(b"".join), max_size=4).map(
    lambda pairs: (
        b"\xd1" + struct.pack(">II", sum(map(len, pairs)) + 4, 2 * len(pairs)) + b"".join(pairs)
    )
)
_stamped = st.builds(
    lambda stamp: compound(0xD1, [variable(0xA3, b"x-opt-enqueued-time"), stamp]), _values
)
_packed = st.builds(
    lambda data: (
        section(0x73, compound(0xD0, [b"\x40"] * 7 + [_gzip])) + section(0x75, variable(0xA0, data))
    ),
    st.one_of(st.binary(max_size=30), st.binary(max_size=30).map(gzip.compress)),
)
_bodies = st.one_of(st.builds(section, st.sampled_from([0x75, 0x76, 0x77]), _values), _packed)


def optional(code: int, *kinds: Any) -> Any:
    return st.one_of(st.just(b""), st.builds(section, st.just(code), st.one_of(*kinds)))


_messages = st.tuples(
    optional(0x70, _lists, _values),
    optional(0x71, _maps),
    optional(0x72, _stamped, _maps, _values),
    optional(0x73, _lists, _values),
    optional(0x74, _maps, _values),
    _bodies,
    optional(0x78, _maps),
).map(b"".join)


class Delivery:
    address, host = "q", "bus:5672"

    def __init__(self, data: bytes) -> None:
        self.data = data


def header(count: bytes) -> bytes:
    fields = [b"\x40"] * 4 + [count]
    return section(0x70, compound(0xD0, fields)) + section(0x77, variable(0xA1, b""))


BELOW = header(b"\x81" + struct.pack(">q", -(2**31) - 1))
DEEP = section(0x72, b"\xc0\xff\x01" * 100_000)
DESCRIBED = section(0x72, b"\x00" * 100_000 + b"\x40")


def changed(message: bytes, at: int, bits: int) -> bytes:
    """The message with some bits of one byte flipped."""
    at %= len(message)
    return message[:at] + bytes([message[at] ^ bits]) + message[at + 1 :]


_changed = st.builds(changed, _messages.filter(bool), st.integers(0), st.integers(1, 255))


@given(st.one_of(_messages, _changed, st.binary(max_size=60)))
@example(BELOW)
@example(DEEP)
@example(DESCRIBED)
def test_each_message_is_a_row_that_arrow_takes(data: bytes) -> None:
    row: Any = row_of(Delivery(data), 1.0, Decoder().decode)
    (found,) = to_batch([row], 1).to_pylist()
    assert found["body"] == row.body
    assert 0 <= found["delivery_count"] <= 2**31 - 1
    assert sizes([row])[0] > 0
    if row.properties and UNDECODABLE in row.properties:
        assert found["body"] == data


def test_a_count_that_is_negative_is_malformed() -> None:
    row = row_of(Delivery(BELOW), 1.0, Decoder().decode)  # type: ignore[arg-type]
    assert row.body == BELOW and list(row.properties or ()) == [UNDECODABLE]


def test_what_a_defect_of_the_decoder_raises_costs_that_message_only() -> None:
    def broken(data: bytes) -> Any:
        raise RecursionError("maximum recursion depth exceeded")

    row = row_of(Delivery(b"data"), 1.0, broken)  # type: ignore[arg-type]
    assert row.body == b"data"
    assert row.properties == {UNDECODABLE: "RecursionError: maximum recursion depth exceeded"}


@pytest.mark.parametrize(
    "changes",
    [
        {"delivery_count": -(2**31) - 1},
        {"delivery_count": "3"},
        {"message_id": "\ud800"},
        {"content_type": 7},
        {"properties": {"a": "\ud800"}},
        {"properties": {"a": 1}},
        {"enqueued_us": 2**63},
        {"address": "\ud800"},
    ],
)
def test_a_row_that_arrow_refuses_keeps_its_body_and_its_neighbours(changes: Any) -> None:
    good = Row("q", "m", b"good", None, {"a": "b"}, 1, 5, 7)
    bad = Row("q", "n", b"bad", None, None, 0, None, 8)._replace(**changes)
    found = to_batch([good, bad, good], 4).to_pylist()
    assert [(row["seq"], row["message_id"], row["body"]) for row in (found[0], found[2])] == [
        (4, "m", b"good"),
        (6, "m", b"good"),
    ]
    assert found[1]["seq"] == 5 and found[1]["body"] == b"bad"
    assert found[1]["properties"][0][0] == UNDECODABLE


def bomb(size: int) -> bytes:
    """A message whose body grows a thousand times."""
    packer = zlib.compressobj(9, wbits=31)
    data = packer.compress(bytes(size)) + packer.flush()
    return section(0x73, compound(0xD0, [b"\x40"] * 7 + [_gzip])) + section(
        0x75, variable(0xA0, data)
    )


def test_a_body_that_grows_beyond_the_limit_is_kept_as_it_came() -> None:
    data = bomb(1_000_001)
    row = row_of(Delivery(data), 1.0, Decoder(1_000_000).decode)  # type: ignore[arg-type]
    assert row.body == data
    assert row.properties == {UNDECODABLE: "gzip body has more than 1000000 bytes"}
    fits = row_of(
        Delivery(bomb(1_000_000)),
        1.0,  # type: ignore[arg-type]
        Decoder(1_000_000).decode,
    )
    assert len(fits.body) == 1_000_000 and fits.properties is None


def test_the_largest_row_is_the_largest_that_fits() -> None:
    limits = SpoolLimits(max_rows=10, max_bytes=100_000, segment_rows=5)
    row = Row("q", None, b"", None, None, 0, None, 1)
    row = row._replace(body=bytes(limits.largest - sizes([row])[0]))
    assert caps.cut([row], limits)[0].rows == 1
    with pytest.raises(Full):
        caps.cut([row._replace(body=row.body + b"x")], limits)


class Peer:
    """A client that sends what it is told, also what is no message."""

    def __init__(self, url: str) -> None:
        self._connection = BlockingConnection(url, timeout=WAIT)
        self._sender = self._connection.create_sender("q")

    def send(self, data: bytes) -> None:
        link = self._sender.link
        delivery = link.delivery(b"%d" % id(data))
        link.stream(data)
        link.advance()
        self._connection.wait(lambda: delivery.remote_state, timeout=WAIT)

    def good(self, name: str) -> None:
        self._sender.send(Message(id=name, body="x"))

    def close(self) -> None:
        self._connection.close()


def test_reading_goes_on_behind_each_of_them(router: Any, collecting: Any) -> None:
    """On a router, which hands on each byte as it is."""
    hostile = [BELOW, DEEP, DESCRIBED, header(b"\x83" + struct.pack(">q", -(2**63))), b"\xff"]
    collector, spool = collecting(router.url())
    peer = Peer(router.url())
    for number, data in enumerate(hostile):
        peer.send(data)
        peer.good(f"m{number}")
    assert collector.wait_for(2 * len(hostile), WAIT)
    assert [each for each in ids(spool) if each] == [f"m{n}" for n in range(len(hostile))]
    assert collector.error is None
    peer.close()


class Weighing:
    """A spool that knows how many bytes it was given at a time."""

    def __init__(self, spool: Any) -> None:
        self._spool = spool
        self.most = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spool, name)

    def append(self, given: Any) -> Any:
        self.most = max(self.most, sum(len(row.body) for row in given))
        return self._spool.append(given)


def test_bodies_that_grow_are_never_in_memory_together(broker: Any, collecting: Any) -> None:
    peer = Peer(broker.url())
    data = bomb(4_000_000)
    for _ in range(10):
        peer.send(data)
    peer.good("m")
    options = {"maxBufferBytes": 5_000_000}
    spool = Weighing(collecting.spool(collecting.options(broker.url(), **options)))
    collector, _ = collecting(broker.url(), spool=spool, lingerMs=500, **options)
    assert collector.wait_for(11, WAIT)
    assert spool.high == 11
    # less than the limit before the last of them, which is below the limit too
    assert 4_000_000 <= spool.most <= 8_000_000
    peer.close()


def test_a_message_that_the_spool_never_takes_is_rejected(
    broker: Any, collecting: Any, caplog: Any
) -> None:
    peer = Peer(broker.url())
    large = section(0x77, variable(0xB0 - 0x10, bytes(600_000)))
    peer.good("before")
    peer.send(large)
    peer.good("after")
    collector, spool = collecting(broker.url(), maxSpoolBytes=1_000_000)
    assert collector.wait_for(2, WAIT)
    assert ids(spool) == ["before", "after"]
    broker.bus.wait_until(lambda bus: bus.counters.dead_lettered == 1, WAIT)
    assert collector.facts()["rejected"] == 1
    assert [r.getMessage() for r in caplog.records if "rejected" in r.getMessage()] == [
        f"A message of {len(large)} bytes on q at 127.0.0.1:{broker.port} is rejected: it takes "
        "600065 bytes in the spool, the largest that it takes is 483616 (option maxSpoolBytes)"
    ]
    assert [len(row["body"]) for row in rows(spool)] == [1, 1]
    peer.close()


def test_its_links_announce_the_largest_message_and_end_at_a_larger_one(collecting: Any) -> None:
    """2.7.3: with a bus that sends the message nevertheless; reading goes on over another link."""
    with ScriptedPeer(auto=True, product="qpid-cpp") as bus:
        collector, spool = collecting(
            bus.url, driver__max_message_size=100_000, driver__link_retry_delay=0.1
        )
        bus.send_transfer("q", Message(body=bytes(200_000), id="large").encode())
        ended = bus.script.wait_for(
            lambda: [entry.performative.error for entry in bus.frames(p.Detach)], WAIT, "Detach"
        )
        assert [error.condition for error in ended] == ["amqp:link:message-size-exceeded"]
        bus.send_transfer("q", Message(body=b"small", id="after").encode())
        assert collector.wait_for(1, WAIT)
        assert ids(spool) == ["after"]
        attached = [one.performative for one in bus.frames(p.Attach)]
        links = [one for one in attached if one.role and one.source.address == "q"]
        assert [one.max_message_size for one in links] == [100_000, 100_000]
        collector.stop()
