# SPDX-License-Identifier: Apache-2.0

"""Commands say at once that nobody listens, and keep JSON apart from tables."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from amqp1_driver.cli import main as cli
from amqp1_driver.cli.reach import hosts, nobody_at


@pytest.fixture
def closed() -> Iterator[int]:
    """A port that nobody listens on, and that nobody else gets."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.mark.parametrize(
    "url, expected",
    [
        ("amqp://127.0.0.1:5673/", [("127.0.0.1", 5673)]),
        ("amqp://user:p%40ss@one:1,user:x@two:2/vhost", [("one", 1), ("two", 2)]),
        ("amqps://bus", [("bus", 5671)]),
        ("rabbit://bus/", [("bus", 5672)]),
        ("amqp://[::1]:99/", [("::1", 99)]),
        ("amqp://[::1]/", [("::1", 5672)]),
        ("amqp://user:pa/ss@bus:1/", []),
        ("amqp://user:pa\u2100ss@bus:1/", []),
    ],
)
def test_hosts_of_a_url(url: str, expected: list[tuple[str, int]]) -> None:
    assert hosts(url) == expected


def test_one_host_that_listens_is_enough(closed: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert nobody_at(f"amqp://127.0.0.1:{closed},127.0.0.1:{port}/") is None


def test_a_bus_behind_a_proxy_is_not_looked_at(closed: int) -> None:
    assert nobody_at(f"amqp://127.0.0.1:{closed}/?proxy=http://p:3128") is None


@pytest.mark.parametrize("password", ["se/cret", "1/cret", "se\u2100cret"])
def test_of_a_malformed_url_nothing_is_said(closed: int, password: str) -> None:
    """A part of the password would be shown as a host."""
    assert nobody_at(f"amqp://me:{password}@127.0.0.1:{closed}/") is None


@pytest.mark.timeout(20)
def test_a_demonstration_where_nobody_listens_ends_at_once(
    closed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["demo", "--url", f"amqp://me:secret@127.0.0.1:{closed}/"]) == 1
    said = capsys.readouterr().out
    assert said == f"nobody can be reached at 127.0.0.1:{closed} (Connection refused)\n"


@pytest.mark.timeout(20)
def test_a_benchmark_where_nobody_listens_ends_at_once(
    closed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    urls = [f"amqp://me:secret@127.0.0.1:{closed}/", "amqp:"]
    assert cli.main(["bench", "--compare", *urls, "--seconds", "0.1"]) == 1
    assert capsys.readouterr().err == (
        f"amqp1 bench: amqp: nobody can be reached at 127.0.0.1:{closed} (Connection refused)\n"
    )


@pytest.mark.timeout(20)
def test_a_benchmark_of_growth_where_nobody_listens_ends_at_once(
    closed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"amqp://me:secret@127.0.0.1:{closed}/"
    assert cli.main(["bench-scale", "targets", "--n", "1", "--bus", url]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        f"amqp1 bench-scale: amqp: nobody can be reached at 127.0.0.1:{closed} "
        "(Connection refused)\n"
    )


@pytest.mark.parametrize("job", [["notifications", "--lake", "lake"], ["telemetry"]])
def test_a_pipeline_says_that_nobody_listens_before_spark_starts(
    closed: int,
    job: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(args: object) -> int:
        print("started")
        return 0

    monkeypatch.setattr(f"amqp1_driver.pipeline.commands.{job[0]}.run", run)
    monkeypatch.setenv("BUS_URL", f"amqp://me:secret@127.0.0.1:{closed}/")
    assert cli.main(["pipeline", *job, "--url", "env:BUS_URL"]) == 0
    said = capsys.readouterr()
    assert said.out == "started\n"
    assert said.err == (
        f"amqp1 pipeline {job[0]}: nobody can be reached at 127.0.0.1:{closed} "
        "(Connection refused); the job goes on trying\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"amqp://127.0.0.1:{server.getsockname()[1]}/"
        assert cli.main(["pipeline", *job, "--url", url]) == 0
    assert capsys.readouterr().err == ""


def test_json_on_standard_output_is_nothing_but_json(capfd: pytest.CaptureFixture[str]) -> None:
    assert (
        cli.main(
            ["bench", "--compare", "floor:", "--count", "20", "--warmup", "0.01", "--json", "-"]
        )
        == 0
    )
    said = capfd.readouterr()
    assert json.loads(said.out)["scenarios"][0]["title"].startswith("call")
    assert "call, 8 threads" in said.err
