# SPDX-License-Identifier: Apache-2.0

"""The command ``amqp1``: which subcommands there are, and how it leaves."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from amqp1_driver.cli import main as cli


def test_help_lists_every_subcommand(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert "bus" in text
    assert "demo" in text


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["bus", "--nonsense"]])
def test_wrong_arguments_end_with_status_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    assert "usage: amqp1" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["bus", "demo"])
def test_each_subcommand_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main([command, "--help"])
    assert stop.value.code == 0
    assert f"usage: amqp1 {command}" in capsys.readouterr().out


def test_the_status_of_a_subcommand_is_the_status_of_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from amqp1_driver.cli import demo

    monkeypatch.setattr(demo, "run", lambda args: 7)
    assert cli.main(["demo"]) == 7


def test_arguments_come_from_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from amqp1_driver.cli import demo

    seen = []
    monkeypatch.setattr(demo, "run", lambda args: seen.append(args) or 0)
    monkeypatch.setattr(sys, "argv", ["amqp1", "demo", "--mode", "broker", "--url", "amqp://h/"])
    assert cli.main() == 0
    assert (seen[0].mode, seen[0].url, seen[0].verbose) == ("broker", "amqp://h/", False)


def test_console_script_is_this_command() -> None:
    (script,) = entry_points(group="console_scripts", name="amqp1")
    assert script.value == "amqp1_driver.cli.main:main"


def test_help_for_one_subcommand_does_not_import_the_driver() -> None:
    code = (
        "import sys\n"
        "from amqp1_driver.cli.main import main\n"
        "try:\n"
        "    main(['demo', '--help'])\n"
        "except SystemExit:\n"
        "    pass\n"
        "print(sorted({'proton', 'oslo_messaging', 'amqp1_driver.bus'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
