# SPDX-License-Identifier: Apache-2.0

"""A writer that is killed at a chosen call to the system; run as a program by test_crash.

``python -m tests.pipeline.spool.crash FOLDER`` lets a fork of itself work in ``FOLDER/1``, killed
by SIGKILL before its first call to fsync, rename, replace or unlink; in ``FOLDER/2`` before its
second; and so on until one comes to its end. Prints a JSON list: for each its last acknowledged
and last committed row, and the call that it did not get to make.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from amqp1_driver.pipeline.spool import Spool, SpoolLimits
from tests.pipeline.spool.rows import numbered

LIMITS = SpoolLimits(max_rows=20, segment_rows=2)


def work(folder: Path, tell: Any) -> None:
    """Twice: open, append and acknowledge, commit; 9 rows in all, 6 of them committed."""
    for first, last, committed in ((1, 5, 2), (6, 9, 6)):
        spool = Spool.open(folder, LIMITS)
        # redelivered after a crash, as the bus would
        for lo in range(first, last + 1, 4):
            spool.append(spool.fresh(numbered(max(1, lo - 1), min(last, lo + 3))))
            tell("acknowledged", spool.high)
        spool.commit(committed)
        tell("committed", committed)
        spool.close()


def killed(folder: Path, at: int) -> dict[str, Any]:
    """Let a fork work in the folder until call ``at``."""
    source, sink = os.pipe()
    pid = os.fork()
    if not pid:
        count = itertools.count(1)

        def tell(name: str, value: Any) -> None:
            os.write(sink, json.dumps({name: value}).encode() + b"\n")

        def arm(name: str) -> None:
            real = getattr(os, name)

            def call(*args: Any) -> Any:
                if next(count) == at:
                    tell("call", name)
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*args)

            setattr(os, name, call)

        for name in ("fsync", "rename", "replace", "unlink"):
            arm(name)
        try:
            work(folder, tell)
            tell("call", None)
        finally:
            os._exit(1)
    os.close(sink)
    seen = {"acknowledged": 0, "committed": 0, "call": "crash"}
    with open(source) as file:
        for line in file:
            seen.update(json.loads(line))
    os.waitpid(pid, 0)
    return seen


def main() -> None:
    work(Path(sys.argv[1], "0"), lambda *_: None)  # so that not each fork imports pandas
    results: list[dict[str, Any]] = []
    while not results or results[-1]["call"]:
        results.append(killed(Path(sys.argv[1], str(len(results) + 1)), len(results) + 1))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
