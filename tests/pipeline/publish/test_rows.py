# SPDX-License-Identifier: Apache-2.0

"""Rows of a data frame as messages."""

import pyarrow as pa
import pytest

from amqp1_driver.addressing.base import Destination, Service
from amqp1_driver.pipeline.publish.options import WriterOptions
from amqp1_driver.pipeline.publish.rows import Outgoing, check, messages

Q = Destination(Service.NODE, None, "q")
R = Destination(Service.NODE, None, "r")


def batch(**columns):
    kinds = {"body": pa.binary(), "properties": pa.map_(pa.string(), pa.string())}
    return pa.record_batch(
        {
            name: pa.array(values, type=kinds.get(name, pa.string()))
            for name, values in columns.items()
        }
    )


def test_a_row_goes_where_it_says_and_has_the_id_that_it_has():
    found = list(
        messages(
            [
                batch(body=[b"1", b"2"], address=["r", None], message_id=["own", None]),
                batch(
                    body=[b"3", None],
                    content_type=["text/plain", None],
                    properties=[[("a", "b"), ("gone", None)], None],
                ),
            ],
            Q,
            lambda number: f"id-{number}",
        )
    )
    assert found == [
        Outgoing(R, "own", b"1", None, None),
        Outgoing(Q, "id-1", b"2", None, None),
        Outgoing(Q, "id-2", b"3", "text/plain", {"a": "b"}),
        Outgoing(Q, "id-3", b"", None, None),
    ]


def test_text_is_sent_as_utf_8():
    text = pa.record_batch({"body": pa.array(["häh"])})
    assert next(messages([text], Q, str)).body == "häh".encode()


def test_a_row_that_goes_nowhere_is_an_error():
    with pytest.raises(ValueError, match="row 1 of this task has no address"):
        list(messages([batch(body=[b"", b""], address=["r", None])], None, str))


BODY = ("body", "binary")


@pytest.mark.parametrize(
    "columns, destination, text",
    [
        ([], Q, "'body'"),
        ([BODY], None, "where to send"),
        ([BODY, ("seq", "bigint")], Q, "'seq' would be lost"),
        ([("body", "int")], Q, "'body' is int, not binary or string"),
        ([BODY, ("properties", "map<string,int>")], Q, "'properties' is map<string,int>"),
    ],
)
def test_a_data_frame_whose_rows_are_no_messages(columns, destination, text):
    with pytest.raises(ValueError, match=text):
        check(columns, destination)


def test_a_data_frame_whose_rows_are_messages():
    check(
        [
            ("body", "string"),
            ("address", "string"),
            ("message_id", "string"),
            ("content_type", "string"),
            ("properties", "map<string,string>"),
        ],
        None,
    )


@pytest.mark.parametrize(
    "given, text",
    [
        ({}, "'url' is missing"),
        ({"url": " "}, "'url' is empty"),
        ({"url": "amqp://h", "addres": "q"}, "'addres' is not known; did you mean 'address'"),
        ({"url": "amqp://h", "driver.": "q"}, "'driver.' names no option of the driver"),
        ({"url": "amqp://h", "address": "q", "topic": "t"}, "only one"),
        ({"url": "amqp://h", "maxInFlight": "0"}, "'maxInFlight' = '0' is less than 1"),
        ({"url": "amqp://h", "maxInFlight": "1.5"}, "'maxInFlight' = '1.5' is no whole number"),
        ({"url": "amqp://h", "timeout": "0"}, "'timeout' = '0' is less than 0.001"),
        ({"url": "amqp://h", "timeout": "soon"}, "'timeout' = 'soon' is no number"),
        ({"url": "amqp://h", "timeout": "inf"}, "'timeout' = 'inf' is no number"),
    ],
)
def test_wrong_options_are_named(given, text):
    with pytest.raises(ValueError, match=text):
        WriterOptions.parse(given)


def test_options():
    found = WriterOptions.parse(
        {
            "URL": "amqp://u:secret@h",
            "topic": "t",
            "priority": "error",
            "maxinflight": "5",
            "timeout": "2.5",
            "idPrefix": "p",
            "driver.ssl": "true",
            "checkpointLocation": "/c",
        }
    )
    assert (found.max_in_flight, found.timeout, found.id_prefix) == (5, 2.5, "p")
    assert found.driver == (("ssl", "true"),)
    assert found.destination() == Destination(Service.NOTIFY, "openstack", "t.error")
    assert WriterOptions.parse({"url": "amqp://h", "address": "q"}).destination() == Q
    assert WriterOptions.parse({"url": "amqp://h"}).destination() is None
    assert "secret" not in repr(found)
