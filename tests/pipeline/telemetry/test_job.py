# SPDX-License-Identifier: Apache-2.0

"""The job as a command, with records of the real driver on the embedded bus."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from amqp1_driver.bus import Bus
from amqp1_driver.cli.main import parser
from amqp1_driver.pipeline.commands import telemetry
from tests.contract.apps import App, Endpoint
from tests.contract.telemetry import some_of_each

from .frames import send

CUT_OFF = '{"time":"2026-11-21T08:0'


def arguments(*words: str) -> argparse.Namespace:
    return parser(["pipeline"]).parse_args(["pipeline", "telemetry", *words])


def test_records_of_the_driver(spark: Any, tmp_path: Path, capsys: Any) -> None:
    """Two connections' worth of calls, one of which times out; and a line cut off.

    On a broker, which takes the reply that comes too late.
    """
    folder = tmp_path / "telemetry"
    with Bus("broker") as bus:
        some_of_each(App(bus.address, telemetry_directory=str(folder)))
    (folder / "broken.jsonl").write_text(CUT_OFF)
    page, data = tmp_path / "report.html", tmp_path / "report.json"
    args = arguments(str(folder), "--html", str(page), "--json", str(data))
    telemetry.report(spark, args, telemetry.checked(args))

    found = json.loads(data.read_text())
    tables = found["tables"]
    summary = found["summary"]
    assert (summary["messages"], summary["failed"], summary["clients"]) == (9, 1, 3)
    assert {
        row["operation"]: row["count"] for row in tables["latency_all"] if row["measure"] == "total"
    } == {"call": 2, "cast": 1, "fanout": 1, "notification": 1, "reply": 3}
    assert [(row["operation"], row["stage"], row["count"]) for row in tables["timeouts"]] == [
        ("call", "reply", 1)
    ]
    assert [(row["outcome"], row["error"]) for row in tables["causes"]] == [
        ("timeout", "DeadlineExpired")
    ]
    assert sum(row["count"] for row in tables["hot"]) == 6
    assert tables["hosts"] == [
        {
            "host": f"127.0.0.1:{bus.port}",
            "connections": 3,
            "lost": 0,
            "open": 0,
            "reply_links": 0,
            "p50": None,
            "max": None,
        }
    ]
    assert tables["first"][0]["count"] == 3 and tables["first"][0]["vain"] == 0
    assert tables["corrupt"] == [{"reason": "not a record in JSON", "count": 1, "example": CUT_OFF}]
    assert tables["unknown"] == [] and tables["dropped"] == []
    assert {one["verdict"] for one in found["settings"]} == {"too few records"}

    out = capsys.readouterr().out
    assert "9 messages, 1 failed" in out
    assert "Lines that are no records, and are left out: 1." in out
    assert "rpc_server_credit" in out
    html = page.read_text()
    assert html.startswith("<!DOCTYPE html>") and html.count("<svg") >= 4
    assert CUT_OFF.replace('"', "&#34;") in html


def test_records_from_the_bus(spark: Any, tmp_path: Path) -> None:
    """They come as messages, and are gone once they were reported and purged."""
    with Bus("broker") as bus:
        app = App(bus.address, telemetry_topic="telemetry")
        with app:
            app.server(Endpoint())
            app.client().call({}, "echo", value=1)
        data = tmp_path / "report.json"
        words = [
            "--url",
            bus.address,
            "--topic",
            "telemetry",
            "--spool",
            str(tmp_path / "spool"),
            "--json",
            str(data),
            "--option",
            "drainIdleMs=300",
        ]
        args = arguments(*words, "--purge")
        telemetry.report(spark, args, telemetry.checked(args))
        found = json.loads(data.read_text())
        assert {row["what"]: row["count"] for row in found["tables"]["times"]} == {
            "call": 1,
            "reply": 1,
        }
        args = arguments(*words)
        with pytest.raises(ValueError, match="there are no records: the input is empty"):
            telemetry.report(spark, args, telemetry.checked(args))


def test_empty_and_wrong_files(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for text, words in (
        ("", "there are no records: the input is empty"),
        (
            "x\nx\n",
            "there is no telemetry of the driver in the input: 2 x not a record in JSON: 'x'",
        ),
    ):
        path.write_text(text)
        args = arguments(str(path))
        with pytest.raises(ValueError, match=words):
            telemetry.report(spark, args, telemetry.checked(args))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no input: give files or folders, or --url, --topic and --spool"),
        (["--url", "amqp://h", "--topic", "t"], "to read from the bus, --spool is needed as well"),
        (
            ["--spool", "s"],
            "to read from the bus, --url and --address or --topic is needed as well",
        ),
        (
            ["--url", "u", "--address", "a", "--topic", "t", "--spool", "s"],
            "either --address or --topic",
        ),
        (
            ["--url", "u", "--topic", "t", "--spool", "s", "x.jsonl"],
            "either files or the bus, not both",
        ),
        (
            ["--url", "u", "--topic", "t", "--spool", "s", "--option", "x"],
            "--option 'x': NAME=VALUE is expected",
        ),
        (["--purge", "{file}"], "--option and --purge are for the bus only"),
        (["/no/such/file.jsonl"], "/no/such/file.jsonl: there is no such file or folder"),
        (
            ["{file}", "--html", "/no/such/report.html"],
            "/no/such/report.html: there is no such folder",
        ),
        (["{file}", "--config-file", "/no/nova.conf"], "configuration: "),
    ],
)
def test_what_makes_no_sense(tmp_path: Path, words: list[str], message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.touch()
    given = [word.format(file=path, folder=tmp_path) for word in words]
    with pytest.raises(ValueError) as error:
        telemetry.checked(arguments(*given))
    assert message in str(error.value)


def test_options_of_the_data_source() -> None:
    asked = telemetry.checked(
        arguments(
            "--url", "amqp://u:p@h", "--topic", "t", "--spool", "s", "--option", "exchange=nova"
        )
    )
    assert asked.files is None
    assert asked.bus == {
        "url": "amqp://u:p@h",
        "topic": "t",
        "priorities": "info",
        "spoolDir": "s",
        "exchange": "nova",
    }


def test_values_of_the_configuration(tmp_path: Path) -> None:
    path, conf = tmp_path / "a.jsonl", tmp_path / "nova.conf"
    path.touch()
    conf.write_text("[oslo_messaging_amqp]\nidle_timeout = 15\n")
    asked = telemetry.checked(arguments(str(path), "--config-file", str(conf)))
    assert asked.current == {"idle_timeout": 15}


def test_as_a_program_of_its_own(tmp_path: Path) -> None:
    """As spark-submit runs it, up to where Spark begins; with Spark in the long form."""
    program = [sys.executable, str(telemetry.__file__)]
    failed = subprocess.run(
        [*program, "/no/such"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr == "telemetry: /no/such: there is no such file or folder\n"
    if os.environ.get("AMQP1_LONG"):
        path = tmp_path / "a.jsonl"
        path.write_text(send("08:00:00", total_us=1500) + "\n")
        submit = Path(sys.executable).with_name("spark-submit")
        done = subprocess.run(
            [str(submit), "--master", "local[1]", telemetry.__file__, str(path)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "1 records of 1 clients over 0.0 s: 1 messages, 0 failed" in done.stdout
