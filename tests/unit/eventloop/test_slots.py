# SPDX-License-Identifier: Apache-2.0


"""Numbers that processes share out among themselves."""

import os
import secrets
import socket
import subprocess
import sys

import pytest

from amqp1_driver.eventloop import claim
from tests.unit.eventloop.helpers import PATIENCE


@pytest.fixture
def key() -> str:
    return secrets.token_hex(8)


def test_the_first_that_is_free_until_there_is_none(key: str) -> None:
    first, second = claim(key, 2), claim(key, 2)
    assert first is not None and second is not None
    assert (first.number, second.number, claim(key, 2)) == (1, 2, None)
    other = claim(key + "x", 2)
    assert other is not None and other.number == 1
    first.release()
    first.release()
    again = claim(key, 2)
    assert again is not None and again.number == 1
    for slot in (again, second, other):
        slot.release()


def test_the_number_of_a_process_that_was_killed_is_free(key: str) -> None:
    code = (
        f"from amqp1_driver.eventloop import claim; slot = claim({key!r}, 3);"
        "print(slot.number, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        second = claim(key, 3)
        assert second is not None and second.number == 2
        process.kill()
        process.wait(PATIENCE)
    first = claim(key, 3)
    assert first is not None and first.number == 1
    first.release()
    second.release()


def test_the_child_of_a_fork_has_none(key: str) -> None:
    slot = claim(key, 1)
    assert slot is not None
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(ready[1], b"x")
        os.read(done[0], 1)
        os._exit(0)
    assert os.read(ready[0], 1) == b"x"
    slot.release()
    again = claim(key, 1)
    os.write(done[1], b"x")
    os.waitpid(child, 0)
    for end in (*ready, *done):
        os.close(end)
    assert again is not None  # the child, which still runs, does not keep it
    again.release()


def test_where_there_are_no_abstract_names(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Elsewhere(socket.socket):
        def bind(self, address: object) -> None:
            raise FileNotFoundError(address)

    monkeypatch.setattr(socket, "socket", Elsewhere)
    slot = claim(key, 5)
    assert slot is not None and slot.number == 1
    slot.release()
