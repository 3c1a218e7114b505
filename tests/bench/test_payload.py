# SPDX-License-Identifier: Apache-2.0

"""Payloads like those of services: their size, their shape, and that a seed gives one payload."""

import hashlib
import json

import pytest

from amqp1_driver.bench.workers.payload import payload

KINDS = ("nova", "neutron", "cinder")


def text(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def test_bytes_are_a_text_without_a_context() -> None:
    assert payload("bytes", 3) == ({}, "xxx")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [2048, 2049, 12288, 78848, 102400])
def test_context_and_payload_have_the_size(kind: str, size: int) -> None:
    ctxt, value = payload(kind, size)
    assert len(text(ctxt)) + len(text(value)) == size
    # the text that fills it up is shorter than the smallest object
    assert len(value["text"]) < 700


@pytest.mark.parametrize("kind", KINDS)
def test_a_payload_too_small_for_an_object_is_an_error(kind: str) -> None:
    with pytest.raises(ValueError, match=f"a payload of {kind} has at least 2048 bytes, not 2047"):
        payload(kind, 2047)


@pytest.mark.parametrize(
    ("kind", "digest"),
    [("nova", "5d98e08a"), ("neutron", "b5789f38"), ("cinder", "304b50ed")],
)
def test_a_seed_gives_one_payload_in_every_process(kind: str, digest: str) -> None:
    assert hashlib.sha256(text(payload(kind, 12288))).hexdigest()[:8] == digest
    assert payload(kind, 12288, 1) != payload(kind, 12288)


def test_nova_sends_objects_of_oslo_versionedobjects() -> None:
    ctxt, value = payload("nova", 12288)
    assert len(ctxt) == 26
    assert [item["nova_object.name"] for item in value["objects"]] == [
        "RequestSpec",
        "Instance",
        "Instance",
        "RequestSpec",
        "Service",
        "Service",
    ]
    for item in value["objects"]:
        assert list(item) == [
            "nova_object.name",
            "nova_object.namespace",
            "nova_object.version",
            "nova_object.data",
            "nova_object.changes",
        ]
        assert item["nova_object.namespace"] == "nova"
    instance = value["objects"][1]["nova_object.data"]
    assert instance["flavor"]["nova_object.name"] == "Flavor"
    assert (
        json.loads(instance["info_cache"]["nova_object.data"]["network_info"])[0]["type"] == "ovs"
    )


def test_neutron_sends_devices_rules_and_ports() -> None:
    ctxt, value = payload("neutron", 12288)
    assert ctxt["has_global_access"] is False
    device, rule, port = value["objects"][:3]
    assert device["network_type"] == "vxlan"
    assert rule["versioned_object.name"] == "SecurityGroupRule"
    assert port["versioned_object.namespace"] == "neutron"
    assert port["versioned_object.data"]["bindings"][0]["versioned_object.name"] == "PortBinding"


def test_cinder_sends_volumes() -> None:
    ctxt, value = payload("cinder", 12288)
    assert ctxt["message_action"] is None
    volume = value["objects"][0]
    assert volume["versioned_object.name"] == "Volume"
    assert volume["versioned_object.data"]["volume_type"]["versioned_object.name"] == "VolumeType"
