# SPDX-License-Identifier: Apache-2.0
"""Bar: the idle time-out (2.4.5) is honoured in both directions, and is on by default."""

from __future__ import annotations

import itertools
import logging
import time
from typing import Any

import pytest

from amqp1_driver.testing import performatives as p
from amqp1_driver.testing.peer import ScriptedPeer
from tests.bars.support import Transports


def cast(transports: Transports, peer: ScriptedPeer, **settings: Any) -> None:
    transports.client(peer.url, default_send_timeout=5, **settings).cast({}, "echo", text="x")


def offered(peer: ScriptedPeer) -> int | None:
    """The idle-time-out of the driver's Open frame, milliseconds."""
    value: int | None = peer.frames(p.Open)[0].performative.idle_time_out
    return value


@pytest.mark.parametrize(
    ("settings", "milliseconds"),
    [({}, 30_000), ({"idle_timeout": 5.0}, 2500), ({"idle_timeout": 0}, None)],
    ids=["default", "5 s", "off"],
)
def test_half_of_the_time_is_told_to_the_peer(
    settings: dict[str, float], milliseconds: int | None, transports: Transports
) -> None:
    """2.7.1: peers should tell half of their actual threshold."""
    with ScriptedPeer(auto=True) as peer:
        cast(transports, peer, **settings)
        assert offered(peer) == milliseconds


def test_a_peer_that_falls_silent_is_given_up_and_tried_anew(
    transports: Transports, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "amqp1_driver")
    with ScriptedPeer(auto=True, heartbeats=False) as peer:
        cast(transports, peer, idle_timeout=1)
        since = time.monotonic()
        peer.wait_disconnected(3)
        assert 0.8 <= time.monotonic() - since <= 1.6
        peer.wait_connections(2, 3)
    assert f"Lost connection to 127.0.0.1:{peer.port}" in caplog.text
    assert "local-idle-timeout expired" in caplog.text


def test_a_connection_on_which_only_empty_frames_run_stays(transports: Transports) -> None:
    with ScriptedPeer(auto=True, idle_time_out=600) as peer:
        cast(transports, peer, idle_timeout=0.6)
        peer.wait_frames(None, 6, 5)
        peer.wait_connections(1, 0)
        assert len(peer.frames(p.Open)) == 1


def test_the_peer_hears_of_the_driver_within_its_own_idle_timeout(transports: Transports) -> None:
    heard: list[float] = []
    with ScriptedPeer(auto=True, idle_time_out=600) as peer:
        peer.override(times=None).expect_transfer().call(
            lambda event: heard.append(time.monotonic())
        ).accept()
        peer.override(times=None).expect_heartbeat().call(
            lambda event: heard.append(time.monotonic())
        )
        cast(transports, peer, idle_timeout=0)
        peer.wait_frames(None, 5, 5)
    gaps = [after - before for before, after in itertools.pairwise(heard)]
    assert max(gaps) <= 0.6
