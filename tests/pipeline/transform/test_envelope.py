# SPDX-License-Identifier: Apache-2.0

"""Three envelopes, and everything that is none."""

from __future__ import annotations

import json
from typing import Any

from amqp1_driver.codec import dump_request
from tests.pipeline.transform.frames import message, raw, wrapped

NOT_JSON = "the body is not a JSON object as a notification is one"
NOT_INNER = "oslo.message is not a JSON object"
GOOD = message("compute.instance.create.end", {"vcpus": 1})


def _rabbit(inner: Any) -> bytes:
    return json.dumps({"oslo.version": "2.0", "oslo.message": json.dumps(inner)}).encode()


def test_what_is_opened_and_what_is_not(spark: Any) -> None:
    from amqp1_driver.pipeline.transform import envelope

    context = {"request_id": "req-1", "project_id": "tenant", "user_id": "user"}
    cases: list[tuple[bytes | None, str | None, str | None, str | None]] = [
        # body, form, reason, request id
        (dump_request(GOOD, context, envelope=True), "amqp", None, "req-1"),  # the driver's own
        (dump_request(GOOD, context), "amqp", None, "req-1"),
        (
            _rabbit({**GOOD, "_context_request_id": "req-2", "_unique_id": "1"}),
            "rabbit",
            None,
            "req-2",
        ),
        (json.dumps({**GOOD, "_context_request_id": "req-3"}).encode(), "bare", None, "req-3"),
        (wrapped(GOOD), "amqp", None, None),
        (json.dumps(GOOD, indent=1).encode(), "bare", None, None),
        (
            json.dumps({**GOOD, "event_type": "zeit.\u00fc"}, ensure_ascii=False).encode(),
            "bare",
            None,
            None,
        ),
        (json.dumps({**GOOD, "payload": [1, 2]}).encode(), "bare", None, None),
        # without an id of its own it has that of the AMQP message
        (json.dumps({**GOOD, "message_id": ""}).encode(), "bare", None, None),
        (None, "bare", "the body is empty", None),
        (b"", "bare", "the body is empty", None),
        (b"   ", "bare", NOT_JSON, None),
        (b"null", "bare", NOT_JSON, None),
        (b"[{}]", "bare", NOT_JSON, None),
        (b'"text"', "bare", NOT_JSON, None),
        (b'{"event_type":', "bare", NOT_JSON, None),
        (b'{"request": 7, "context": {}}', "bare", NOT_JSON, None),
        (b'{"request": {"oslo.message": "{}"}, "context": []}', "amqp", NOT_JSON, None),
        (b"\xff\xfe{}", "bare", "the body is not UTF-8", None),
        (b"\x1f\x8b\x08\x00", "bare", "the body is compressed", None),
        (b'{"oslo.message": "{"}', "rabbit", NOT_INNER, None),
        (b'{"oslo.message": "[1]"}', "rabbit", NOT_INNER, None),
        (b'{"request": {"oslo.message": "3"}}', "amqp", NOT_INNER, None),
        (b"{}", "bare", "no event_type", None),
        (b'{"request": {"method": "ping", "args": {}}}', "amqp", "no event_type", None),
        (wrapped({**GOOD, "timestamp": None}), "amqp", "no timestamp", None),
        (wrapped({**GOOD, "timestamp": "yesterday"}), "amqp", "the timestamp is not a time", None),
        (
            wrapped({**GOOD, "timestamp": "+12345-01-01 00:00:00"}),
            "amqp",
            "the timestamp is not a time",
            None,
        ),
        # received on the 10th of March: a clock may be a day ahead
        (wrapped({**GOOD, "timestamp": "2026-03-11 00:00:00"}), "amqp", None, None),
        (
            wrapped({**GOOD, "timestamp": "2026-03-11 00:00:00.000001"}),
            "amqp",
            "the timestamp is after the receipt",
            None,
        ),
        (
            wrapped({**GOOD, "timestamp": "2009-12-31 23:59:59"}),
            "amqp",
            "the timestamp is too early",
            None,
        ),
    ]
    found = (
        envelope.opened(raw(spark, [case[0] for case in cases]))
        .orderBy("seq")
        .select(
            "form",
            "reason",
            "n_request_id",
            "n_message_id",
            "n_tenant_id",
            "n_user_id",
            "n_event_type",
        )
        .collect()
    )
    assert [tuple(row)[:3] for row in found] == [case[1:] for case in cases]
    assert tuple(found[0])[3:6] == ("m-1", "tenant", "user")
    assert found[6].n_event_type == "zeit.\u00fc"
    assert found[8].n_message_id == "amqp-8"
