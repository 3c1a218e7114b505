# SPDX-License-Identifier: Apache-2.0
"""Makes the environment of the cloud, where that is not there, and starts tests.cloud.run in it.

For any Python 3.11; only its standard library.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile

from tests.functional import venvs

_REQUIREMENTS = pathlib.Path(__file__).with_name("requirements.txt")


def requirements() -> tuple[str, ...]:
    """Return what the services are installed from."""
    lines = (line.partition("#")[0].strip() for line in _REQUIREMENTS.read_text().splitlines())
    return tuple(line for line in lines if line)


def main() -> int:
    """Run the cloud with the arguments of this program; return its exit status."""
    python = venvs.environment("cloud", "openstack", requirements())
    with tempfile.TemporaryDirectory(prefix="cloud-driver-") as folder:
        site = venvs.install_driver(pathlib.Path(folder))
        environment = {
            **os.environ,
            "PYTHONPATH": f"{site}:{venvs.TOP}",
            "PYTHONWARNINGS": "ignore",
            "CLOUD_SITE": str(site),
            "CLOUD_CACHE": str(venvs.cache_folder() / "cloud"),
        }
        command = [str(python), "-m", "tests.cloud.run", *sys.argv[1:]]
        process = subprocess.Popen(command, cwd=venvs.TOP, env=environment)
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue  # the terminal has told it too; it ends its services first


if __name__ == "__main__":
    sys.exit(main())
