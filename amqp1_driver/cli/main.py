# SPDX-License-Identifier: Apache-2.0

"""Entry point of the command ``amqp1``, on the main thread."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from typing import Any

#: Subcommands, each a module of this package with ``add_parser(subparsers)`` and ``run(args)``.
#: A dash in the command is an underscore in the name of the module.
COMMANDS = ("bus", "demo", "bench", "bench-scale", "bench-flow", "entities", "pipeline")


def _name(command: str) -> str:
    return f"{__package__}.{command.replace('-', '_')}"


def _module(command: str) -> Any:
    return importlib.import_module(_name(command))


def _available() -> list[str]:
    return [c for c in COMMANDS if importlib.util.find_spec(_name(c)) is not None]


def parser(commands: Sequence[str]) -> argparse.ArgumentParser:
    """Build the parser for these subcommands, which imports their modules."""
    result = argparse.ArgumentParser(
        prog="amqp1", description="Tools of the AMQP 1.0 driver for oslo.messaging."
    )
    subparsers = result.add_subparsers(dest="command", required=True)
    for command in commands:
        _module(command).add_parser(subparsers)
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; return the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    available = _available()
    # Import only the module of the given command: the others may need more packages.
    commands = [arguments[0]] if arguments and arguments[0] in available else available
    args = parser(commands).parse_args(arguments)
    status: int = _module(args.command).run(args)
    return status


if __name__ == "__main__":
    sys.exit(main())
