# SPDX-License-Identifier: Apache-2.0

"""The form of an address decides what it is."""

from __future__ import annotations

import pytest

from amqp1_driver.bus.addresses import is_multicast, normalise, split_pool


@pytest.mark.parametrize(
    "address, expected",
    [
        ("openstack.org/om/rpc/multicast/exchange/topic", True),
        ("a/multicast", True),
        ("broadcast.exchange.topic.all", True),
        ("openstack.org/om/rpc/anycast/exchange/topic", False),
        ("openstack.org/om/rpc/unicast/exchange/topic/server", False),
        ("openstack.org/om/rpc/anycast/exchange/not-multicast-at-all", False),
        ("multicast", False),
        ("unicast.exchange.broadcast.x", False),
        ("exclusive.exchange.topic.server", False),
    ],
)
def test_multicast_is_a_path_segment_or_the_legacy_prefix(address: str, expected: bool) -> None:
    assert is_multicast(address) is expected


@pytest.mark.parametrize(
    "address, expected",
    [
        ("q", "q"),
        ("/q/r", "q/r"),
        ("amqp:/_topo/0/x/temp.y", "_topo/0/x/temp.y"),
        ("amqps://host:5671/q", "q"),
        ("amqp://host", ""),
        ("amqp:q", "q"),
    ],
)
def test_the_router_ignores_scheme_host_and_leading_slash(address: str, expected: str) -> None:
    assert normalise(address) == expected


@pytest.mark.parametrize(
    "address, expected",
    [("q", ("q", None)), ("q::p", ("q", "p")), ("q::", ("q", "")), ("a::b::c", ("a", "b::c"))],
)
def test_two_colons_separate_the_pool(address: str, expected: tuple[str, str | None]) -> None:
    assert split_pool(address) == expected
