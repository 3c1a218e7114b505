# SPDX-License-Identifier: Apache-2.0

"""A devstack that fits into one folder: the plugin as a clone, a venv for the services, localrc."""

from __future__ import annotations

import configparser
import os
import shlex
import shutil
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
STACK = Path(__file__).with_name("stack.sh")

#: What a clone of the project has that the plugin needs.
_CLONE = (
    "amqp1_driver",
    "devstack",
    "tools",
    "setup.cfg",
    "setup.py",
    "pyproject.toml",
    "requirements.txt",
    "README.rst",
    "LICENSE",
)


class Devstack:
    """:param folder: private; :param localrc: settings over those that every test needs."""

    def __init__(self, folder: Path, **localrc: object) -> None:
        self.folder = folder
        self.plugin = folder / "amqp1-driver"
        self.buses = folder / "data" / "amqp1"
        (folder / "etc").mkdir()
        settings = {
            "SERVICE_HOST": "127.0.0.1",
            "AMQP1_LISTEN_ADDRESS": "127.0.0.1",
            "RABBIT_PASSWORD": "pass word/1",
            **localrc,
        }
        lines = (f"{name}={shlex.quote(str(value))}\n" for name, value in settings.items())
        (folder / "localrc").write_text("".join(lines))
        self.plugin.mkdir()
        for name in ("devstack", "tools"):
            (self.plugin / name).symlink_to(TOP / name)

    def clone(self) -> None:
        """The whole project, not only links to what sourcing needs, and a venv for it."""
        shutil.rmtree(self.plugin)
        self.plugin.mkdir()
        for name in _CLONE:
            if (TOP / name).is_dir():
                shutil.copytree(
                    TOP / name, self.plugin / name, ignore=shutil.ignore_patterns("__pycache__")
                )
            else:
                shutil.copy(TOP / name, self.plugin)
        self.venv()

    def venv(self) -> None:
        """An environment that sees the packages of this one, but not the project itself."""
        venv = self.folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
        site = venv / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"
        (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def cached(self, tool: str, name: str) -> None:
        """Let the plugin find bus *name*, which is unpacked in the cache of this machine."""
        cache = (
            os.environ.get("AMQP1_CACHE")
            or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "amqp1-driver"
        )
        (self.buses / tool).mkdir(parents=True, exist_ok=True)
        (self.buses / tool / name).symlink_to(Path(cache) / tool / name)

    def run(
        self, mode: str, *arguments: str, timeout: float = 120, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """stack, unstack or clean; raises AssertionError with what it printed."""
        done = subprocess.run(
            ["bash", str(STACK), mode, str(self.folder), *arguments],
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env={**os.environ, "PBR_VERSION": "1.0.0"},
        )
        if check and done.returncode:
            raise AssertionError(f"{mode} failed\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}")
        return done

    def evaluate(self, command: str) -> str:
        """What a shell command with the plugin's functions prints."""
        return self.run("eval", command, timeout=20).stdout.rstrip("\n")

    def option(self, file: str, section: str, name: str) -> str | None:
        """An option in a file of the services."""
        ini = configparser.RawConfigParser(default_section="none")
        ini.read(self.folder / "etc" / file)
        return ini.get(section, name, fallback=None)

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The interpreter of the services."""
        return subprocess.run(
            [str(self.folder / "venv" / "bin" / "python3"), *arguments],
            cwd=self.folder,
            text=True,
            capture_output=True,
            timeout=90,
            check=False,
        )


def listens(port: int) -> bool:
    """Does anything accept connections there?"""
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0
