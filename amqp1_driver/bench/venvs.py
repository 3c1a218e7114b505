# SPDX-License-Identifier: Apache-2.0

"""Virtual environments with other drivers, for comparison with ours. Main thread."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from amqp1_driver.bench.children import Trouble

#: packages to install: for the AMQP 1.0 driver that oslo.messaging had up to 14.9, and for the
#: rabbit driver from the first release that does not sleep half a second in every call
REQUIREMENTS = {
    "removed": ("oslo.messaging==14.9.3", "pyngus", "python-qpid-proton"),
    "rabbit": ("oslo.messaging>=18.2",),
}
_SECONDS = 900.0


def make(kind: str, folder: str) -> str:
    """Make a virtual environment, and install a driver with pip and the user's pip configuration.

    :param kind: key of ``REQUIREMENTS``
    :returns: absolute path of the environment
    :raises Trouble: the environment exists already, or a command fails
    """
    path = Path(folder).expanduser().absolute()
    if (path / "bin" / "python").exists():
        raise Trouble(f"there is a virtual environment in {path} already")
    pip = ["-m", "pip", "install", "-q", "--disable-pip-version-check"]
    python = str(path / "bin" / "python")
    for command in (
        [sys.executable, "-m", "venv", str(path)],
        [python, *pip, *REQUIREMENTS[kind]],
    ):
        try:
            subprocess.run(command, check=True, timeout=_SECONDS, stdin=subprocess.DEVNULL)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise Trouble(f"{' '.join(command)}: {error}") from error
    return str(path)
