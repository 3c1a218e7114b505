# SPDX-License-Identifier: Apache-2.0

"""One target, or all, under atheris: ``python -m tests.fuzz.child NAME FINDINGS [OPTION...]``.

Appends a line of JSON to FINDINGS for each new kind of exception.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import traceback

import atheris

from tests.fuzz import sanitized

sanitized.install()
with atheris.instrument_imports(include=["amqp1_driver", "wsproto", "h11", "proton", "pyngus"]):
    from tests.fuzz.targets import ALL, TARGETS, quiet


def kind_of(error: BaseException) -> str:
    """Return type and place of an error: two of one kind are one finding."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{os.path.basename(frame.filename)}:{frame.lineno}" for frame in frames]
    return f"{type(error).__name__} at {' < '.join(reversed(places[-3:]))}"


def main() -> None:
    """Fuzz until libFuzzer has enough."""
    target = TARGETS.get(sys.argv[1], ALL)
    findings = pathlib.Path(sys.argv[2])
    known: set[str] = set()

    def one(data: bytes) -> None:
        try:
            target.run(data)
        except Exception as error:
            kind = kind_of(error)
            if kind not in known:
                known.add(kind)
                trace = "".join(traceback.format_exception(error)[-6:])
                with findings.open("a") as file:
                    file.write(
                        json.dumps({"kind": kind, "input": data.hex(), "trace": trace}) + "\n"
                    )

    quiet()
    atheris.Setup([sys.argv[0], f"-max_len={target.length}", *sys.argv[3:]], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
