# SPDX-License-Identifier: Apache-2.0

"""The JSON in messages. Bodies of the removed driver are written down here as literals."""

import datetime
import gzip
import json
import sys
import uuid
from collections import OrderedDict, defaultdict

import oslo_messaging
import pytest

from amqp1_driver.codec import payload
from amqp1_driver.exceptions import DecodeError


def raised(error: BaseException):
    try:
        raise error
    except BaseException:
        return sys.exc_info()


def test_a_request_has_request_and_context():
    body = payload.dump_request({"method": "m", "args": {"a": 1}}, {"request_id": "r", "new": None})
    assert body == (
        b'{"request":{"method":"m","args":{"a":1}},"context":{"request_id":"r","new":null}}'
    )


def test_message_and_context_may_be_of_classes_derived_from_dict():
    body = payload.dump_request(OrderedDict(method="m"), defaultdict(list, roles=["admin"]))
    assert body == b'{"request":{"method":"m"},"context":{"roles":["admin"]}}'


def test_a_monitored_request_names_the_timeout():
    body = payload.dump_request({}, {}, call_monitor_timeout=30)
    assert body == b'{"request":{},"context":{},"call_monitor_timeout":30}'
    assert b"monitor" in payload.dump_request({}, {}, call_monitor_timeout=0)


def test_an_enveloped_request_has_the_message_as_text_in_it():
    body = payload.dump_request({"event_type": "e"}, {}, envelope=True)
    assert json.loads(body) == {
        "request": {"oslo.version": "2.0", "oslo.message": '{"event_type":"e"}'},
        "context": {},
    }


def test_values_that_json_does_not_know_become_primitives():
    moment = datetime.datetime(2020, 1, 2, 3, 4, 5)
    unique = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
    body = payload.dump_request({"t": moment, "u": unique, "s": (1,), "b": b"x"}, {})
    assert json.loads(body)["request"] == {
        "t": "2020-01-02T03:04:05.000000",
        "u": "00112233-4455-6677-8899-aabbccddeeff",
        "s": [1],
        "b": "x",
    }
    with pytest.raises(ValueError):
        payload.dump_request({"o": object()}, {})


@pytest.mark.parametrize(
    ("message", "ctxt", "reason"),
    [
        ({}, [1], "a context of type list is no JSON object"),
        ({}, "x", "a context of type str is no JSON object"),
        ({}, 1, "a context of type int is no JSON object"),
        ([1], {}, "a message of type list is no JSON object"),
        (None, {}, "a message of type NoneType is no JSON object"),
        ("x", {}, "a message of type str is no JSON object"),
        ({"o": object()}, {}, "cannot be encoded as JSON"),
        ({}, {"o": object()}, "cannot be encoded as JSON"),
        ({}, {(1, 2): 3}, "cannot be encoded as JSON"),
    ],
)
@pytest.mark.parametrize("envelope", [False, True])
def test_what_no_receiver_would_take_is_a_value_error_of_its_sender(
    message, ctxt, reason, envelope
):
    with pytest.raises(ValueError, match=reason):
        payload.dump_request(message, ctxt, envelope=envelope)


def test_a_circle_is_a_value_error_of_its_sender():
    circle = {}
    circle["self"] = circle
    with pytest.raises(ValueError, match="cannot be encoded as JSON"):
        payload.dump_request(circle, {})


@pytest.mark.parametrize("envelope", [False, True])
def test_a_context_may_be_none_or_of_a_class_that_becomes_an_object(envelope):
    class Context:
        """As jsonutils takes it apart."""

        def items(self):
            return [("user", "u")]

    assert payload.load_request(payload.dump_request({}, None, envelope=envelope)).ctxt == {}
    assert payload.load_request(payload.dump_request({}, Context(), envelope=envelope)).ctxt == {
        "user": "u"
    }
    assert payload.load_request(payload.dump_request(Context(), {}, envelope=envelope)).message == {
        "user": "u"
    }


def test_a_request_of_the_removed_driver_is_read():
    request = payload.load_request(
        b'{"request": {"method": "m"}, "context": {"k": [1]}, "call_monitor_timeout": 1.5}'
    )
    assert request.message == {"method": "m"}
    assert request.ctxt == {"k": [1]}
    assert request.client_timeout == 1.5


def test_an_envelope_of_the_removed_driver_is_undone():
    request = payload.load_request(
        b'{"request": {"oslo.version": "2.0", "oslo.message": "{\\"event_type\\": \\"e\\"}"},'
        b' "context": null}'
    )
    assert request == ({"event_type": "e"}, {}, None)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (None, "NoneType, not text"),
        ({}, "dict, not text"),
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100000, "not JSON"),
        (b"1" * 5000, "not JSON"),
        (b"[]", "a JSON list"),
        (b"{}", "no request"),
        (b'{"request": [1]}', "request is a JSON list, not an object"),
        (b'{"request": null}', "request is a JSON NoneType, not an object"),
        (b'{"request": "x"}', "request is a JSON str, not an object"),
        (b'{"request": 1}', "request is a JSON int, not an object"),
        (
            b'{"request": {"oslo.version": "2.0", "oslo.message": "[1]"}}',
            "request is a JSON list, not an object",
        ),
        (
            b'{"request": {"oslo.version": "2.0", "oslo.message": "null"}}',
            "request is a JSON NoneType, not an object",
        ),
        (b'{"request": {}, "call_monitor_timeout": NaN}', "not a number"),
        (b'{"request": {}, "context": []}', "context is a JSON list"),
        (b'{"request": {}, "call_monitor_timeout": "1"}', "not a number"),
        (b'{"request": {}, "call_monitor_timeout": true}', "not a number"),
        (b'{"request": {"oslo.version": "2.0", "oslo.message": "{"}}', "bad envelope"),
        (b'{"request": {"oslo.version": "2.0", "oslo.message": 1}}', "bad envelope"),
        (b'{"request": {"oslo.version": "3.0", "oslo.message": "{}"}}', "bad envelope"),
        (b'{"request": {"oslo.version": [], "oslo.message": "{}"}}', "bad envelope"),
    ],
)
def test_malformed_requests_are_decode_errors(body, reason):
    with pytest.raises(DecodeError, match=reason):
        payload.load_request(body)


@pytest.mark.parametrize("timeout", [b"3600", b"Infinity", b"1" + b"0" * 400])
def test_signs_of_life_are_asked_for_at_least_every_two_minutes(timeout):
    # oslo.messaging sends one each half of it, and can't wait for 1e400 seconds
    body = b'{"request": {}, "call_monitor_timeout": ' + timeout + b"}"
    assert payload.load_request(body).client_timeout == 240


@pytest.mark.parametrize("priority", [b"null", b"1", b"[]", b"{}"])
def test_a_notification_whose_priority_is_no_text_is_a_decode_error(priority):
    body = b'{"request": {"priority": ' + priority + b"}}"
    assert payload.load_request(body).message["priority"] != ""
    with pytest.raises(DecodeError, match=r"priority is a JSON .*, not text"):
        payload.load_notification(body)


def test_a_notification_may_be_without_priority():
    assert payload.load_notification(b'{"request": {}}') == ({}, {}, None)
    assert payload.load_notification(b'{"request": {"priority": "INFO"}}').message == {
        "priority": "INFO"
    }


def test_a_reply_has_the_response():
    assert payload.dump_reply({"a": [1]}, None) == b'{"response":{"a":[1]}}'
    assert payload.dump_reply(None, None) == b'{"response":null}'


def test_a_failure_has_the_exception_as_text_in_it():
    data = json.loads(payload.dump_reply(None, raised(ValueError("no"))))
    assert list(data) == ["failure"]
    failure = json.loads(data["failure"])
    assert failure["class"] == "ValueError"
    assert failure["module"] == "builtins"
    assert failure["args"] == ["no"]


def test_replies_of_the_removed_driver_are_read():
    assert payload.load_reply(b'{"response": {"a": [1]}}', []) == {"a": [1]}
    assert payload.load_reply(b'{"response": null}', []) is None
    assert payload.load_reply(b'{"response": 1, "failure": null}', []) == 1


FAILURE = (
    b'{"failure": "{\\"class\\": \\"%s\\", \\"module\\": \\"%s\\", \\"message\\": \\"no\\",'
    b' \\"tb\\": [], \\"args\\": [\\"no\\"], \\"kwargs\\": {}}"}'
)


def test_a_remote_exception_is_raised_again_if_its_module_is_allowed():
    with pytest.raises(ValueError, match="no"):
        payload.load_reply(FAILURE % (b"ValueError", b"builtins"), [])
    with pytest.raises(json.JSONDecodeError) as caught:
        payload.load_reply(
            (FAILURE % (b"JSONDecodeError", b"json")).replace(
                b'[\\"no\\"]', b'[\\"no\\", \\"doc\\", 0]'
            ),
            ["json"],
        )
    assert "Remote" in type(caught.value).__name__


def test_other_remote_exceptions_become_remote_errors():
    with pytest.raises(oslo_messaging.RemoteError) as caught:
        payload.load_reply(FAILURE % (b"JSONDecodeError", b"json"), [])
    assert caught.value.exc_type == "JSONDecodeError"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (None, "NoneType, not text"),
        (b"nonsense", "not JSON"),
        (b"{}", "neither response nor failure"),
        (b'{"failure": "nonsense"}', "failure cannot be read"),
        (b'{"failure": 1}', "failure cannot be read"),
    ],
)
def test_malformed_replies_are_decode_errors(body, reason):
    with pytest.raises(DecodeError, match=reason):
        payload.load_reply(body, [])


def test_a_reply_cannot_end_the_process():
    with pytest.raises(oslo_messaging.RemoteError):
        payload.load_reply(FAILURE % (b"SystemExit", b"builtins"), [])


def test_an_exception_whose_constructor_fails_is_a_decode_error(monkeypatch):
    class Picky(Exception):
        def __init__(self, *args):
            raise RuntimeError("cannot be made")

    monkeypatch.setattr(json, "Picky", Picky, raising=False)
    with pytest.raises(DecodeError, match="cannot be made"):
        payload.load_reply(FAILURE % (b"Picky", b"json"), ["json"])


def test_short_bodies_are_not_compressed():
    assert payload.compress(b"x" * 99, 100) == (b"x" * 99, False)


def test_long_bodies_are_compressed_with_gzip():
    packed, done = payload.compress(b"x" * 100, 100)
    assert done
    assert len(packed) < 100
    assert gzip.decompress(packed) == b"x" * 100


def test_bodies_that_would_grow_are_not_compressed():
    body = bytes(range(256))
    assert payload.compress(body, 100) == (body, False)


@pytest.mark.parametrize("encoding", [None, "", "identity"])
def test_bodies_without_encoding_are_left_alone(encoding):
    assert payload.decompress(b"x", encoding) == b"x"
    assert payload.decompress(None, encoding) is None


def test_gzip_bodies_are_unpacked_up_to_the_limit():
    packed = gzip.compress(b"x" * 1000)
    assert payload.decompress(packed, "gzip") == b"x" * 1000
    assert payload.decompress(packed, "gzip", 1000) == b"x" * 1000
    assert payload.decompress(gzip.compress(b""), "gzip") == b""
    with pytest.raises(DecodeError, match="more than 999 bytes"):
        payload.decompress(packed, "gzip", 999)


def test_there_is_always_a_bound_for_decompression():
    bomb = gzip.compress(bytes(payload.MAX_DECOMPRESSED + 1), 1)
    with pytest.raises(DecodeError, match="more than 67108864 bytes"):
        payload.decompress(bomb, "gzip", 0)


def test_a_bomb_is_refused_before_it_goes_off():
    bomb = gzip.compress(bytes(payload.MAX_DECOMPRESSED + 1), 1)
    with pytest.raises(DecodeError, match="more than 67108864 bytes"):
        payload.decompress(bomb, "gzip")


@pytest.mark.parametrize(
    ("body", "encoding", "reason"),
    [
        (b"x", "br", "content-encoding 'br'"),
        (None, "gzip", "body of NoneType"),
        (b"nonsense", "gzip", "damaged"),
        (b"", "gzip", "cut short"),
        (gzip.compress(b"x")[:-1], "gzip", "cut short"),
        (gzip.compress(b"x") + b"y", "gzip", "something behind"),
    ],
)
def test_damaged_or_unknown_compression_is_a_decode_error(body, encoding, reason):
    with pytest.raises(DecodeError, match=reason):
        payload.decompress(body, encoding)
