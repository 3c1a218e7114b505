# SPDX-License-Identifier: Apache-2.0

"""What the log says of connections: each failure once, each host once in a line."""

from __future__ import annotations

import logging

import pytest

from amqp1_driver import exceptions
from amqp1_driver.testing import performatives as p

from .world import World


def lines(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_lost_connection_is_one_line_that_names_the_host_once(path, caplog):
    World(path, hosts=2).start().drop()
    (line,) = lines(caplog)
    assert line.startswith("Lost connection to host0:5672: reset by peer; trying host1:5672 in ")
    assert line.count("host0") == 1


def test_with_one_host_the_next_is_not_named_again(path, caplog):
    world = World(path)
    world.modes["host0:5672"] = "refuse"
    world.start()
    assert lines(caplog) == ["Can't connect to host0:5672: refused; trying again in 1.0 s"]


def test_a_failure_that_goes_on_is_a_warning_once_a_minute(path, caplog):
    caplog.set_level(logging.INFO)
    world = World(path)
    world.modes["host0:5672"] = "refuse"
    world.start()
    for _ in range(59):
        world.advance(1)
    assert len(lines(caplog)) == 1
    attempts = [r for r in caplog.records if r.getMessage().startswith("Can't connect to host0")]
    assert len(attempts) >= 3
    assert {r.levelno for r in attempts[1:]} == {logging.INFO}
    for _ in range(60):
        world.advance(1)
    assert len(lines(caplog)) == 2


def test_another_failure_and_one_after_a_success_are_warnings(path, caplog):
    world = World(path, connect_timeout=10)
    world.modes["host0:5672"] = "refuse"
    world.start()
    world.modes["host0:5672"] = "silent"
    world.advance(20)
    world.modes.clear()
    world.advance(20)
    assert world.state == "ready"
    world.modes["host0:5672"] = "refuse"
    world.drop().advance(5)
    assert [line.split(";")[0] for line in lines(caplog)] == [
        "Can't connect to host0:5672: refused",
        "Can't connect to host0:5672: no answer within 10 s while waiting for its host name, TCP "
        "or TLS",
        "Lost connection to host0:5672: reset by peer",
        "Can't connect to host0:5672: refused",
    ]


def test_each_host_has_its_own_warning(path, caplog):
    world = World(path, hosts=2)
    world.modes.update({"host0:5672": "refuse", "host1:5672": "refuse"})
    world.start().advance(5)
    assert [line.split(":")[0] for line in lines(caplog)] == [
        "Can't connect to host0",
        "Can't connect to host1",
    ]


@pytest.mark.parametrize("error", [None, "amqp:internal-error"])
def test_nothing_is_logged_beside_it(path, caplog, error):
    """pyngus says each failure at ERROR, and names nobody."""
    world = World(path).start()
    condition = p.Error(condition=error, description="odd") if error else None
    world.core.send(p.Close(error=condition))
    world.run()
    world.advance(5)
    world.peer.override().expect_open().raw(b"no AMQP at all")
    world.drop().advance(5)
    assert [
        record.name
        for record in caplog.records
        if record.levelno >= logging.WARNING and record.name.startswith("pyngus")
    ] == []
    assert all(line.count("host0") == 1 for line in lines(caplog))
    assert len(lines(caplog)) >= 2


def hang_up(world):
    """The peer goes before it has said a word."""
    world.drop(exceptions.ConnectionLost("closed", host=world.connection.host))


def opening(path, *, before):
    """A connection that ends before the peer's Open frame.

    :param before: the host has been connected to
    """
    world = World(path)
    if before:
        world.start()
        world.peer.override(None).expect_header().silence()
        world.drop()
        world.advance(1)
    else:
        world.peer.override(None).expect_header().silence()
        world.start()
    assert world.state == "opening"
    hang_up(world)
    return str(world.connection.last_error)


def test_a_host_that_has_never_spoken_amqp_is_asked_for_its_port(path):
    assert "is this a TLS port?" in opening(path, before=False)


def test_one_that_has_is_not(path):
    assert "is this a TLS port?" not in opening(path, before=True)


def test_a_connection_says_as_whom_it_is_known(path, caplog):
    caplog.set_level(logging.INFO)
    World(path).start()
    assert [
        record.getMessage() for record in caplog.records if "Connected" in record.getMessage()
    ] == ["Connected to host0:5672 (scripted-peer 1.0) as container, replies to peer/dynamic/1"]
