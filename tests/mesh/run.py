# SPDX-License-Identifier: Apache-2.0

"""Starts a mesh of routers, runs a command that finds it in AMQP1_TEST_BUSES, and ends it.

    AMQP1_TEST_ROUTER=/usr/sbin/skrouterd python -m tests.mesh.run -- \\
        python -m tests.functional.run --bus mesh --scheme amqp+oslo

The names are ``mesh``, all routers: oslo.messaging's suite has its servers on the first one and its
clients on the others; and ``one``, the first of them, unless --name names it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.mesh.pairs import wait_until_joined
from tests.mesh.routers import VARIABLE, Mesh, program


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mesh.run")
    parser.add_argument("--router", default=program(), help=f"the program ({VARIABLE})")
    parser.add_argument("--size", type=int, default=3, help="routers (%(default)s)")
    parser.add_argument("--name", default="one", help="what the first is called (%(default)s)")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what to run, after --")
    args = parser.parse_args(argv)
    if not args.router:
        parser.error(f"no router: --router or {VARIABLE} must name one")
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    with (
        tempfile.TemporaryDirectory(prefix="amqp1-mesh-") as folder,
        Mesh(args.router, Path(folder), args.size) as mesh,
    ):
        seconds = wait_until_joined(mesh)
        print(f"{args.size} routers know each other after {seconds:.1f} s", flush=True)
        buses = f"mesh={mesh.url()},{args.name}={mesh.url(0)}"
        return subprocess.call(command, env={**os.environ, "AMQP1_TEST_BUSES": buses})


if __name__ == "__main__":
    sys.exit(main())
