# SPDX-License-Identifier: Apache-2.0
"""Makes the environment of the cloud, where that is not there, and starts tests.cloud.run in it.

For any Python 3.11; only its standard library.
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile

from tests.functional import venvs

_REQUIREMENTS = pathlib.Path(__file__).with_name("requirements.txt")


def requirements() -> tuple[str, ...]:
    """Return what the services are installed from."""
    lines = (line.partition("#")[0].strip() for line in _REQUIREMENTS.read_text().splitlines())
    return tuple(line for line in lines if line)


def main() -> None:
    """Become the process that runs the cloud, with the arguments of this program."""
    python = venvs.environment("cloud", "openstack", requirements())
    # tests.cloud.run removes it
    site = venvs.install_driver(pathlib.Path(tempfile.mkdtemp(prefix="cloud-driver-")))
    environment = {
        **os.environ,
        "PYTHONPATH": f"{site}:{venvs.TOP}",
        "PYTHONWARNINGS": "ignore",
        "CLOUD_SITE": str(site),
        "CLOUD_CACHE": str(venvs.cache_folder() / "cloud"),
    }
    os.chdir(venvs.TOP)
    os.execve(python, [str(python), "-m", "tests.cloud.run", *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
