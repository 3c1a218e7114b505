# SPDX-License-Identifier: Apache-2.0


"""What the list of connections of a bus says of us."""

import importlib.metadata
import platform

import pytest

from amqp1_driver.client import identity
from amqp1_driver.client.identity import Identity

NOVA = Identity("nova-compute", "compute-7.example.org", 4711, "rpc")


def test_the_properties_name_program_host_process_and_purpose():
    assert NOVA.properties() == {
        "product": "amqp1-driver",
        "version": importlib.metadata.version("amqp1-driver"),
        "platform": f"Python {platform.python_version()}",
        "connection_name": "nova-compute on compute-7.example.org (pid 4711): rpc",
        "process": "nova-compute",
        "node": "compute-7.example.org",
        "pid": 4711,
        "purpose": "rpc",
    }


def test_without_a_purpose_none_is_named():
    found = Identity("p", "n", 1).properties()
    assert found["connection_name"] == "p on n (pid 1)"
    assert "purpose" not in found


@pytest.mark.parametrize(
    ("program", "name", "container"),
    [
        ("nova-compute", None, "nova-compute-compute-7.example.org-4711-abc"),
        ("nova-compute", "mine", "mine-compute-7.example.org-4711-abc"),
        ("a b/c@\n", None, "a_b_c_-compute-7.example.org-4711-abc"),
        ("x" * 100, None, "x" * 64 + "-compute-7.example.org-4711-abc"),
    ],
)
def test_the_container_id_is_one_that_every_bus_takes(program, name, container):
    who = Identity(program, NOVA.node, 4711)
    assert who.container(name, "abc") == container


@pytest.mark.parametrize(
    ("argv", "program"),
    [
        (["/usr/bin/nova-compute", "--password", "secret"], "nova-compute"),
        (["/opt/amqp1_driver/cli/__main__.py"], "cli"),
        (["-c"], "python"),
        ([""], "python"),
        ([], "python"),
        (["-m"], "python"),
        (["/a/" + "x" * 100], "x" * 64),
    ],
)
def test_of_the_command_line_only_the_program_is_told(monkeypatch, argv, program):
    monkeypatch.setattr("sys.argv", argv)
    monkeypatch.setattr("socket.gethostname", lambda: "here")
    monkeypatch.setattr("os.getpid", lambda: 7)
    assert identity.identity("rpc") == Identity(program, "here", 7, "rpc")
    assert "secret" not in str(identity.identity().properties())


def test_an_interpreter_without_arguments(monkeypatch):
    monkeypatch.delattr("sys.argv")
    assert identity.identity().program == "python"


def test_what_is_not_installed_has_no_version(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", missing)
    identity.version.cache_clear()
    assert identity.version() == ""
    identity.version.cache_clear()
