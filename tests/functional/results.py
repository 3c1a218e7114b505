# SPDX-License-Identifier: Apache-2.0

"""Results of test runs as a JSON file, from which the documentation's matrix of buses is made."""

from __future__ import annotations

import datetime
import json
import pathlib
import subprocess
import urllib.parse
from typing import Any

import proton.utils

TOP = pathlib.Path(__file__).resolve().parents[2]

#: One entry replaces an older one with the same values of these.
_KEY = ("kind", "bus", "suite", "scheme", "threads")


def identity(address: str) -> str:
    """Product and version that the bus at [user:password@]host:port[/...] names in its Open frame.

    Of several hosts the first one is asked. By proton alone: what the driver makes of a bus is
    what is tested.
    """
    first = address.partition("/")[0].partition("?")[0].partition(",")[0]
    parts = urllib.parse.urlsplit(f"amqp://{first}")
    login: dict[str, Any] = {"allowed_mechs": "ANONYMOUS"}
    if parts.username:
        login = {
            "allowed_mechs": "PLAIN",
            "allow_insecure_mechs": True,
            "user": urllib.parse.unquote(parts.username),
            "password": urllib.parse.unquote(parts.password or ""),
        }
    link = proton.utils.BlockingConnection(
        f"amqp://{parts.hostname}:{parts.port or 5672}", timeout=10, **login
    )
    try:
        given = {str(key): str(value) for key, value in (link.conn.remote_properties or {}).items()}
    finally:
        link.close()
    words = (given.get("product", ""), given.get("version", ""))
    return " ".join(filter(None, words)) or "unnamed"


def entry(
    kind: str, bus: str, product: str, tests: list[dict[str, Any]], **run: str
) -> dict[str, Any]:
    """One run: *tests* are dicts with id, outcome (passed, failed, skipped) and detail."""
    return {
        "kind": kind,
        "bus": bus,
        "product": product,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": _commit(),
        "suite": "",
        "scheme": "",
        "threads": "",
        **run,
        "tests": sorted(
            (
                {
                    "id": test["id"],
                    "outcome": test["outcome"],
                    "detail": _last_line(str(test["detail"])),
                }
                for test in tests
            ),
            key=lambda test: str(test["id"]),
        ),
    }


def store(file: pathlib.Path, new: dict[str, Any]) -> None:
    """Put an entry into *file*, in the place of the older one of the same run."""
    entries: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else []
    kept = [old for old in entries if any(old[name] != new[name] for name in _KEY)]
    ordered = sorted([*kept, new], key=lambda one: tuple(one[name] for name in _KEY))
    file.write_text(json.dumps(ordered, indent=1) + "\n")


def _commit() -> str:
    """What the driver was built from; empty outside of a checkout."""
    done = subprocess.run(
        ["git", "-C", str(TOP), "rev-parse", "--short", "HEAD"],
        text=True,
        capture_output=True,
        check=False,
    )
    return done.stdout.strip()


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1][:400]
