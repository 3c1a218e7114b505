# SPDX-License-Identifier: Apache-2.0

"""Deliveries as rows: what can't be read is kept, what came before is left out."""

import logging

import pytest

from amqp1_driver.pipeline.collect.decode import Decoder
from amqp1_driver.pipeline.collect.rows import fresh, row_of
from amqp1_driver.pipeline.spool import Row
from amqp1_driver.testing.messages import Header, Message, Properties


class Delivery:
    address = "q"
    host = "bus:5672"

    def __init__(self, data):
        self.data = data


def test_a_row_has_what_the_message_has_and_where_and_when_it_came():
    data = Message(
        b"body",
        kind="data",
        header=Header(delivery_count=2),
        properties=Properties(message_id="m", content_type="text/plain"),
        application_properties={"a": "b"},
    ).encode()
    assert row_of(Delivery(data), 1_700_000_000.123456, Decoder().decode) == Row(
        "q", "m", b"body", "text/plain", {"a": "b"}, 2, None, 1_700_000_000_123_456
    )


def test_what_can_not_be_read_is_kept_as_it_came(caplog):
    row = row_of(Delivery(b"\x00\x53\x75\xa0"), 1.0, Decoder().decode)
    assert (row.address, row.message_id, row.body) == ("q", None, b"\x00\x53\x75\xa0")
    assert list(row.properties) == ["amqp1:undecodable"]
    assert "malformed AMQP data" in row.properties["amqp1:undecodable"]
    assert [
        (r.levelno, "Undecodable message on q at bus:5672" in r.getMessage())
        for r in caplog.records
    ] == [(logging.ERROR, True)]


class Spool:
    """Has the rows with these ids."""

    def __init__(self, *ids):
        self.ids = set(ids)
        self.asked = 0

    def fresh(self, rows):
        self.asked += 1
        found = []
        for row in rows:
            if row.message_id not in self.ids:
                self.ids.add(row.message_id)
                found.append(row)
        return found


def rows(*given):
    """Message id and delivery-count of each."""
    return [
        Row("q", message_id, b"", None, None, count, None, at)
        for at, (message_id, count) in enumerate(given)
    ]


@pytest.mark.parametrize(
    "given, left",
    [
        ([("a", 0), ("b", 0)], [0, 1]),
        ([("known", 0)], [0]),  # the first time that the bus delivers it: another of that id
        ([("known", 1), ("a", 1)], [1]),
        ([(None, 1), (None, 1)], [0, 1]),  # nobody can tell
        ([("a", 0), ("b", 0), ("a", 1)], [0, 1]),  # a link was lost before the first was appended
        ([("a", 1), ("a", 2)], [0]),
        ([], []),
    ],
)
def test_what_comes_again_is_left_out(given, left):
    made = rows(*given)
    assert [row.received_us for row in fresh(made, Spool("known"))] == left


def test_the_spool_is_asked_only_when_something_comes_again():
    spool = Spool("a")
    fresh(rows(("a", 0), ("b", 0)), spool)
    assert spool.asked == 0
