# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Virtual environments with the drivers that ours is compared with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from amqp1_driver.bench.children import Trouble

#: what to install: the AMQP 1.0 driver that oslo.messaging had up to 14.9, and the rabbit driver
#: from the first release that does not sleep half a second in every call
REQUIREMENTS = {
    "removed": ("oslo.messaging==14.9.3", "pyngus", "python-qpid-proton"),
    "rabbit": ("oslo.messaging>=18.2",),
}
_SECONDS = 900.0


def make(kind: str, folder: str) -> str:
    """Make one, with pip and its configuration; returns its path, Trouble if it fails."""
    path = Path(folder).expanduser().absolute()
    if (path / "bin" / "python").exists():
        raise Trouble(f"there is a virtual environment in {path} already")
    pip = [str(path / "bin" / "python"), "-m", "pip", "install", "-q",
           "--disable-pip-version-check"]  # fmt: skip
    for command in ([sys.executable, "-m", "venv", str(path)], [*pip, *REQUIREMENTS[kind]]):
        try:
            subprocess.run(command, check=True, timeout=_SECONDS, stdin=subprocess.DEVNULL)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise Trouble(f"{' '.join(command)}: {error}") from error
    return str(path)
