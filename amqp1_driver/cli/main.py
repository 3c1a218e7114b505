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

"""Entry point of the command ``amqp1``."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from typing import Any

#: Subcommands, each a module of this package with ``add_parser(subparsers)`` and ``run(args)``;
#: what is a dash in the command is an underscore in the name of its module.
COMMANDS = ("bus", "demo", "bench", "bench-scale", "bench-flow", "entities", "pipeline")


def _name(command: str) -> str:
    return f"{__package__}.{command.replace('-', '_')}"


def _module(command: str) -> Any:
    return importlib.import_module(_name(command))


def _available() -> list[str]:
    return [c for c in COMMANDS if importlib.util.find_spec(_name(c)) is not None]


def parser(commands: Sequence[str]) -> argparse.ArgumentParser:
    """Build the parser for these subcommands; imports their modules."""
    result = argparse.ArgumentParser(
        prog="amqp1", description="Tools of the AMQP 1.0 driver for oslo.messaging."
    )
    subparsers = result.add_subparsers(dest="command", required=True)
    for command in commands:
        _module(command).add_parser(subparsers)
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    available = _available()
    # Only the module that is asked for is imported: the others may need more packages.
    commands = [arguments[0]] if arguments and arguments[0] in available else available
    args = parser(commands).parse_args(arguments)
    status: int = _module(args.command).run(args)
    return status


if __name__ == "__main__":
    sys.exit(main())
