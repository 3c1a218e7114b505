# SPDX-License-Identifier: Apache-2.0

"""Idle time-outs count from the last byte, not from when proton looked (AMQP 1.0, 2.4.5)."""

import math
from types import SimpleNamespace

import pytest

from amqp1_driver.engine.idle_timeout import IdleTimeout

from .world import World


@pytest.mark.parametrize("after", [0.1, 3, 7.9])
def test_a_silent_peer_is_given_up_soon_after_the_idle_timeout(path, after):
    world = World(path, idle_timeout=8).start()
    world.advance(after)
    assert world.cast().future.done  # the peer's last words
    world.advance(7.9)
    assert world.state == "ready"
    world.advance(1.2)
    assert len(world.port.connects) + (world.state == "backoff") == 2


@pytest.mark.parametrize("after", [0.1, 1, 1.9])
def test_a_peer_hears_of_us_soon_after_half_of_its_idle_timeout(path, after):
    world, beats = World(path, peer={"idle_time_out": 4000}).start(), []
    world.peer.override(None).expect_heartbeat().call(lambda event: beats.append(world.clock()))
    world.advance(after)
    world.cast()
    sent = world.clock()
    beats.clear()
    world.advance(4)
    assert 1.9 <= beats[0] - sent <= 2.6


def transport(**fields):
    return SimpleNamespace(
        **{
            "idle_timeout": 0.0,
            "remote_idle_timeout": 0.0,
            "frames_input": 0,
            "frames_output": 0,
            **fields,
        }
    )


def test_without_time_outs_no_tick_is_due():
    ticks = IdleTimeout()
    ticks.ticked(transport(frames_input=1), 100.0)
    ticks.passed_over(101.0)
    assert (ticks.due, ticks.sooner(0.0), ticks.sooner(5.0)) == (math.inf, 0.0, 5.0)


def test_a_tick_is_due_an_eighth_of_the_shorter_time_out_after_traffic():
    ticks = IdleTimeout()
    ticks.ticked(transport(idle_timeout=16.0, remote_idle_timeout=8.0, frames_input=1), 100.0)
    assert (ticks.sooner(0.0), ticks.sooner(200.0), ticks.sooner(100.5)) == (101.0, 101.0, 100.5)


def test_while_nothing_moves_no_tick_is_due():
    ticks = IdleTimeout()
    ticks.ticked(transport(idle_timeout=8.0, frames_output=3), 100.0)
    ticks.ticked(transport(idle_timeout=8.0, frames_output=3), 101.0)
    assert ticks.due == math.inf
    ticks.passed_over(150.0)  # a turn of the loop that may have sent or received
    ticks.passed_over(150.5)
    assert ticks.due == 151.0
