# SPDX-License-Identifier: Apache-2.0

"""Virtual environments for the suites, one for each release line, kept in the cache folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

from tests.functional import suites

TOP = pathlib.Path(__file__).resolve().parents[2]

#: What the wheel of the driver is made of.
_SOURCES = ("setup.cfg", "setup.py", "pyproject.toml", "requirements.txt", "README.rst", "LICENSE")


def cache_folder() -> pathlib.Path:
    """Where environments, wheels and RabbitMQ are kept between runs (AMQP1_CACHE)."""
    chosen = os.environ.get("AMQP1_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(chosen) if chosen else pathlib.Path(base) / "amqp1-driver"


def python_for(suite: suites.Suite) -> pathlib.Path:
    """The interpreter of the suite's environment, which is made when it is not there.

    The driver itself is not in it: see install_driver.
    """
    return environment("functional", f"oslo.messaging-{suite.line}", suite.requirements)


def environment(kind: str, name: str, requirements: tuple[str, ...]) -> pathlib.Path:
    """The interpreter of an environment with these requirements and those of the driver.

    :param kind: folder of the cache that it is kept in
    """
    requirements = (*requirements, *_driver_requirements())
    key = hashlib.sha256(
        "\n".join((sys.version, sysconfig.get_platform(), *requirements)).encode()
    ).hexdigest()[:12]
    folder = cache_folder() / kind / f"{name}-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    python, stamp = folder / "venv" / "bin" / "python", folder / "complete"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists():
            print(f"making the environment for {name}", flush=True)
            shutil.rmtree(folder / "venv", ignore_errors=True)
            _run(sys.executable, "-m", "venv", str(folder / "venv"))
            _shell('venv_install "$@"', str(python), *requirements)
            stamp.touch()
    return python


def _driver_requirements() -> tuple[str, ...]:
    lines = (TOP / "requirements.txt").read_text().splitlines()
    wanted = (line.partition("#")[0].strip() for line in lines)
    # oslo.messaging's bound is the suite's business
    return tuple(line for line in wanted if line and not line.startswith("oslo.messaging"))


def install_driver(folder: pathlib.Path) -> pathlib.Path:
    """Build the driver's wheel from this tree and unpack it below *folder*; returns what goes into
    PYTHONPATH. So one environment serves any checkout, and what is tested is what is shipped.
    """
    source, site = folder / "source", folder / "site"
    source.mkdir()
    for name in _SOURCES:
        shutil.copy(TOP / name, source)
    shutil.copytree(
        TOP / "amqp1_driver", source / "amqp1_driver", ignore=shutil.ignore_patterns("__pycache__")
    )
    pip = (sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check")
    _run(*pip, "--no-deps", "--target", str(site), str(source), PBR_VERSION="0.0.1")
    return site


def _shell(command: str, *args: str) -> None:
    """Run a function of tools/lib.sh, which knows how proton has to be built."""
    script = f'set -u; . "{TOP}/tools/lib.sh"; {command}'
    _run("bash", "-c", script, "lib.sh", *args)


def _run(*command: str, **environment: str) -> None:
    subprocess.run(command, check=True, env={**os.environ, **environment})
