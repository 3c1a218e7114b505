# SPDX-License-Identifier: Apache-2.0

"""The command ``amqp1 bus`` as its users see it: a process, its output, signals."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from proton import ConnectionException, Message
from proton.utils import BlockingConnection, LinkDetached

from amqp1_driver.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 10


class Process:
    """A running ``amqp1 bus``; ``first`` is its first line of output."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "amqp1_driver.cli.main", "bus", *arguments]
        self.popen = subprocess.Popen(
            command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self.popen.stdout is not None
        self.first = self.popen.stdout.readline()
        self.second = self.popen.stdout.readline()

    @property
    def url(self) -> str:
        return self.first.split()[2]

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; returns exit status and standard error."""
        self.popen.send_signal(number)
        _, errors = self.popen.communicate(timeout=TIMEOUT)
        return self.popen.returncode, errors


@pytest.fixture
def start() -> Iterator[Any]:
    running: list[Process] = []

    def starter(*arguments: str) -> Process:
        running.append(Process("--listen", "127.0.0.1:0", *arguments))
        return running[-1]

    yield starter
    for process in running:
        if process.popen.poll() is None:
            process.popen.kill()
        process.popen.communicate(timeout=TIMEOUT)


@pytest.mark.parametrize("mode", ["router", "broker"])
def test_the_first_line_says_where_it_listens(start: Any, mode: str) -> None:
    process = start("--mode", mode)
    words = process.first.split()
    assert words[:2] == ["listening", "on"]
    assert words[2].startswith("amqp://127.0.0.1:")
    assert words[3:] == [f"mode={mode}"]
    assert int(words[2].rpartition(":")[2]) > 0
    assert "development and tests only" in process.second
    assert process.end() == (0, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_closes_connections_cleanly_and_exits_0(start: Any, number: int) -> None:
    process = start()
    client = BlockingConnection(process.url, timeout=TIMEOUT, reconnect=False)
    process.popen.send_signal(number)
    with pytest.raises(ConnectionException, match="amqp:connection:forced"):
        client.wait(lambda: False, timeout=TIMEOUT)
    assert process.popen.wait(TIMEOUT) == 0


def test_users_and_watermarks_are_taken_from_the_command_line(start: Any) -> None:
    process = start(
        "--mode",
        "broker",
        "--user",
        "joe:secret",
        "--user",
        "jim:a:b",
        "--queue-capacity",
        "3",
        "--queue-resume",
        "1",
    )
    client = BlockingConnection(
        process.url,
        timeout=TIMEOUT,
        user="jim",
        password="a:b",
        allowed_mechs="PLAIN",
        reconnect=False,
    )
    sender = client.create_sender("q")
    for _ in range(3):
        sender.send(Message(body="x"))
    assert sender.link.credit == 0
    client.close()


def test_users_may_lie_in_a_file_or_in_the_environment(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others can read a command line."""
    (tmp_path / "users").write_text("joe:secret\n\njim:a:b\n")
    monkeypatch.setenv("BUS_USER", "ann:other")
    process = start("--user", f"file:{tmp_path}/users", "--user", "env:BUS_USER")
    for user, password in (("joe", "secret"), ("jim", "a:b"), ("ann", "other")):
        BlockingConnection(
            process.url,
            timeout=TIMEOUT,
            user=user,
            password=password,
            allowed_mechs="PLAIN",
            reconnect=False,
        ).close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--user", "env:NOBODY_SETS_THIS"), "there is no such variable in the environment"),
        (("--user", "file:/dev/null"), "file:/dev/null has no user"),
        (("--jwt-secret", "file:/nowhere"), "No such file or directory"),
        (("--sas-rule", "file:/nowhere"), "No such file or directory"),
    ],
)
def test_a_secret_that_is_not_there_is_named(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bus", *arguments])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_watermarks_of_addresses_come_from_a_file_that_is_read_again(
    start: Any, tmp_path: Path
) -> None:
    path = tmp_path / "limits.json"
    path.write_text('{"q": {"capacity": 3}}')
    process = start(
        "--mode", "broker", "--queue-capacity-bytes", "1000000", "--queue-limits", str(path)
    )
    client = BlockingConnection(process.url, timeout=TIMEOUT, reconnect=False)
    sender, other = client.create_sender("q"), client.create_sender("other")
    client.wait(lambda: (sender.link.credit, other.link.credit) == (3, 250), timeout=TIMEOUT)
    path.write_text('{"q": {"capacity": 9}, "other": {"capacity_bytes": "many"}}')
    process.popen.send_signal(signal.SIGHUP)
    assert process.popen.stderr is not None
    line = process.popen.stderr.readline()
    assert f"The watermarks stay as they are: {path}: " in line
    path.write_text('{"q": {"capacity": 9}}')
    process.popen.send_signal(signal.SIGHUP)
    assert "Watermarks of 1 address(es) are in force" in process.popen.stderr.readline()
    client.wait(lambda: sender.link.credit == 9, timeout=TIMEOUT)
    client.close()


def test_the_first_line_says_where_websockets_are_welcome(start: Any) -> None:
    words = start("--websocket", "0").first.split()
    assert words[3] == "mode=router"
    assert words[4].startswith("websocket=ws://127.0.0.1:")
    assert words[4].endswith("/$servicebus/websocket")
    assert len(words) == 5


def test_a_namespace_is_taken_from_the_command_line(start: Any) -> None:
    process = start(
        "--mode",
        "servicebus",
        "--queue",
        "q",
        "--session-queue",
        "replies",
        "--topic",
        "t:a,b",
        "--sas-rule",
        "root:key",
        "--sas-rule",
        "reader:other:Listen",
        "--jwt-secret",
        "secret",
        "--lock-duration",
        "5",
        "--max-delivery-count",
        "2",
        "--token-grace",
        "3",
    )
    assert process.first.split()[3:] == ["mode=servicebus"]
    client = BlockingConnection(
        process.url,
        timeout=TIMEOUT,
        user="root",
        password="key",
        allowed_mechs="PLAIN",
        reconnect=False,
    )
    client.create_sender("t").send(Message(body="to all"))
    for address in ("t/subscriptions/a", "t/subscriptions/b"):
        receiver = client.create_receiver(address)
        assert receiver.receive(timeout=TIMEOUT).body == "to all"
        receiver.accept()
    with pytest.raises(LinkDetached, match="amqp:not-found"):
        client.create_sender("other")
    client.close()


def test_a_namespace_without_a_rule_exits_1_with_the_reason(start: Any) -> None:
    process = start("--mode", "servicebus", "--queue", "q")
    _, errors = process.popen.communicate(timeout=TIMEOUT)
    assert process.popen.returncode == 1
    assert "needs a rule or a secret" in errors


def test_trace_writes_frames_to_standard_error(start: Any) -> None:
    process = start("--trace")
    BlockingConnection(process.url, timeout=TIMEOUT, reconnect=False).close()
    status, errors = process.end()
    assert status == 0
    assert "@open(16)" in errors


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--listen", "nowhere"], "is not HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "is not HOST:PORT"),
        (["--user", "joe"], "NAME:PASSWORD"),
        (["--mode", "hub"], "invalid choice"),
        (["--sas-rule", "root"], "NAME:KEY"),
        (["--topic", ":s"], "a topic is NAME"),
        (["--websocket", "http"], "invalid int value"),
    ],
)
def test_a_wrong_argument_is_explained(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bus", *arguments])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            ["--queue-capacity", "5"],
            "--queue-capacity is for --mode broker, and this is --mode router",
        ),
        (["--queue-resume", "0"], "--queue-resume is for --mode broker, and this is --mode router"),
        (
            ["--mode", "broker", "--queue", "q"],
            "--queue is for --mode servicebus, and this is --mode broker",
        ),
        (
            ["--mode", "broker", "--lock-duration", "60"],
            "--lock-duration is for --mode servicebus, and this is --mode broker",
        ),
        (
            ["--mode", "servicebus", "--queue-capacity", "5"],
            "--queue-capacity is for --mode broker, and this is --mode servicebus",
        ),
        (["--tls-key", "key.pem"], "--tls-key needs --tls-cert"),
        (["--tls-ca", "ca.pem"], "--tls-ca needs --tls-cert"),
    ],
)
def test_an_option_without_effect_ends_with_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bus", *arguments]) == 2
    assert capsys.readouterr().err == f"amqp1 bus: {message}\n"


def test_a_file_that_is_missing_or_no_certificate_is_named(start: Any, tmp_path: Path) -> None:
    missing, empty = tmp_path / "missing.pem", tmp_path / "empty.pem"
    empty.write_text("nothing")
    for arguments, path in (
        ([str(missing)], missing),
        ([str(empty)], empty),
        ([str(empty), "--tls-ca", str(missing)], missing),
    ):
        process = start("--tls-cert", *arguments)
        _, errors = process.popen.communicate(timeout=TIMEOUT)
        assert process.popen.returncode == 1
        assert str(path) in errors


def test_a_port_that_is_taken_exits_1_with_the_reason(start: Any) -> None:
    process = start()
    port = process.url.rpartition(":")[2]
    command = [sys.executable, "-m", "amqp1_driver.cli.main", "bus", "--listen"]
    second = subprocess.run(
        [*command, f"127.0.0.1:{port}"], cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert second.returncode == 1
    assert "Address already in use" in second.stderr


def test_without_a_subcommand_the_usage_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    assert "{bus" in capsys.readouterr().err
