# SPDX-License-Identifier: Apache-2.0

"""The wheel holds what the page for operators says, and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "doc" / "source" / "install.rst"

DRIVER = {
    "addressing",
    "client",
    "codec",
    "compat.py",
    "connection",
    "driver",
    "engine",
    "eventloop",
    "exceptions.py",
    "flow.py",
    "flowframe.py",
    "interfaces.py",
    "masking.py",
    "options",
    "policy",
    "provisioning",
    "telemetry",
}
#: the parts of the page's table; the folders of the driver are one of them
BESIDE = {"bench", "bus", "cli", "pipeline", "testing", "wire"}


def known() -> set[str]:
    """The files that git knows, without those that are gone."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("no checkout: pbr asks git for the files")
    return {name for name in done.stdout.split("\0") if name and (ROOT / name).exists()}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel of this tree as it is now, without what was built in it."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in known():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    for command in (
        ["git", "init", "-q", str(source)],
        ["git", "-C", str(source), "add", "."],
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(source)],
    ):
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=110,
            env={**os.environ, "PBR_VERSION": "0.0.1"},
        )
        assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built)


def test_one_package_and_no_tests(wheel: zipfile.ZipFile) -> None:
    parts = [Path(name).parts for name in wheel.namelist()]
    assert {names[0] for names in parts} == {"amqp1_driver", "amqp1_driver-0.0.1.dist-info"}
    assert {names[1] for names in parts if names[0] == "amqp1_driver"} == {
        "__init__.py",
        "py.typed",
        *DRIVER,
        *BESIDE,
    }
    assert not [name for name in wheel.namelist() if "test_" in name or "conftest" in name]


def test_all_modules_and_what_they_read(wheel: zipfile.ZipFile) -> None:
    held = {name for name in wheel.namelist() if name.startswith("amqp1_driver/")}
    modules = {name for name in known() if re.fullmatch(r"amqp1_driver/.*\.py", name)}
    assert {name for name in held if name.endswith(".py")} == modules
    assert {name for name in held if not name.endswith((".py", ".so"))} == {
        "amqp1_driver/codec/_plain.c",
        "amqp1_driver/codec/_plain.pyi",
        "amqp1_driver/engine/_speedups.pyi",
        "amqp1_driver/engine/_speedups/events.c",
        "amqp1_driver/engine/_speedups/messages.c",
        "amqp1_driver/engine/_speedups/module.c",
        "amqp1_driver/engine/_speedups/speedups.h",
        "amqp1_driver/pipeline/capacity/measured/embedded-router.json",
        "amqp1_driver/pipeline/capacity/measured/skupper-router.json",
        "amqp1_driver/pipeline/report/page.html.jinja",
        "amqp1_driver/py.typed",
    }


def test_the_modules_in_c(wheel: zipfile.ZipFile) -> None:
    body, deliveries = sorted(name for name in wheel.namelist() if name.endswith(".so"))
    assert body.startswith("amqp1_driver/codec/_plain.cpython-")
    assert deliveries.startswith("amqp1_driver/engine/_speedups.cpython-")


def test_the_entry_points(wheel: zipfile.ZipFile) -> None:
    entries = ConfigParser()
    entries.read_string(wheel.read("amqp1_driver-0.0.1.dist-info/entry_points.txt").decode())
    assert {section: dict(entries[section]) for section in entries.sections()} == {
        "console_scripts": {"amqp1": "amqp1_driver.cli.main:main"},
        "oslo.config.opts": {"amqp1_driver": "amqp1_driver.options:list_opts"},
        "oslo.messaging.drivers": {"amqp": "amqp1_driver.driver:Amqp1Driver"},
    }


def test_the_page_for_operators_has_a_row_for_each_part_beside_the_driver() -> None:
    _, _, section = PAGE.read_text().partition("\nWhat the wheel holds\n")
    table, _, _ = section.partition("\nIs it complete?\n")
    rows = re.findall(r"^``amqp1_driver/([\w./*]*)`` ", table, re.MULTILINE)
    assert rows == [
        "",
        "engine/_speedups.*.so",
        "codec/_plain.*.so",
        "cli/",
        "bus/",
        "testing/",
        "wire/",
        "bench/",
        "pipeline/",
    ]
