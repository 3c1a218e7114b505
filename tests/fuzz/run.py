# SPDX-License-Identifier: Apache-2.0

"""Run fuzz targets under atheris, which follows the coverage of the code.

::

    python -m tests.fuzz.run                              # each target for a minute
    python -m tests.fuzz.run codec urls --seconds 600
    python -m tests.fuzz.run --runs 100000 --results fuzz.json
    python -m tests.fuzz.run frames-compiled --sanitize   # the module in C, with sanitizers
    python -m tests.fuzz.run all --seconds 5              # all targets in one process

Each target has a process of its own, two at a time. A finding does not stop it: each kind (type
of the exception and place) is kept once, printed with the input in hexadecimal, and makes the
exit status 1. To keep one as a test, put the line into ``tests/fuzz/crashers/TARGET.hex``.
``--keep`` adds what has widened the coverage to ``tests/fuzz/corpus/TARGET.hex``.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from typing import Any

from tests.fuzz import sanitized

FOLDER = pathlib.Path(__file__).parent
CORPUS, CRASHERS = FOLDER / "corpus", FOLDER / "crashers"
NAMES = (
    "codec",
    "bodies",
    "collector",
    "frames-compiled",
    "frames-public",
    "sasl",
    "websocket",
    "tunnel",
    "bus",
    "bus-streams",
    "urls",
    "redirects",
)
#: inputs that are kept for each target; those that came first
KEPT = 150

_STATISTIC = re.compile(rb"^stat::(\w+):\s+(\d+)", re.MULTILINE)
_PROGRESS = re.compile(rb"^#\d+\s.*?cov: (\d+) ft: (\d+) corp: (\d+)", re.MULTILINE)


def inputs(folder: pathlib.Path, target: str) -> list[bytes]:
    """Return the inputs that are kept in ``folder`` for a target.

    A line is one input in hexadecimal; behind ``#`` stands what it was once.
    """
    if target == "all":
        return [
            bytes((number,)) + data
            for number, name in enumerate(NAMES)
            for data in inputs(folder, name)
        ]
    path = folder / f"{target}.hex"
    if not path.exists():
        return []
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return [bytes.fromhex(line) for line in lines if line]


def run(
    target: str, options: argparse.Namespace, work: pathlib.Path, environment: dict[str, str] | None
) -> dict[str, Any]:
    """Run one target in a process of its own; return its figures and findings.

    :param options: of the command line
    :param work: folder for the corpus that grows
    :param environment: of the process, None for this one's
    """
    seconds, runs, seed = options.seconds, options.runs, options.seed
    grown = work / target
    grown.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate([*inputs(CORPUS, target), *inputs(CRASHERS, target)]):
        (grown / f"kept-{number}").write_bytes(data)
    findings = work / f"{target}.findings"
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "tests.fuzz.child",
        target,
        str(findings),
        f"-max_total_time={max(1, round(seconds))}",
        f"-seed={seed}",
        "-timeout=60",
        "-rss_limit_mb=3000",
        "-print_final_stats=1",
        f"-artifact_prefix={grown}-",
        str(grown),
    ]
    if runs:
        command.insert(-1, f"-runs={runs}")
    begun = time.monotonic()
    done = subprocess.run(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
        timeout=seconds + 600,
        env=environment,
    )
    figures = {name.decode(): int(value) for name, value in _STATISTIC.findall(done.stderr)}
    progress = _PROGRESS.findall(done.stderr)
    found = (
        [json.loads(line) for line in findings.read_text().splitlines()]
        if findings.exists()
        else []
    )
    if done.returncode != 0:
        tail = done.stderr[-2000:].decode("utf-8", "replace")
        found.append(
            {"kind": f"exit status {done.returncode}", "input": _left(work, target), "trace": tail}
        )
    return {
        "target": target,
        "seed": seed,
        "inputs": figures.get("number_of_executed_units", 0),
        "seconds": round(time.monotonic() - begun, 1),
        "edges": int(progress[-1][0]) if progress else 0,
        "features": int(progress[-1][1]) if progress else 0,
        "corpus": int(progress[-1][2]) if progress else 0,
        "findings": found,
    }


def _left(work: pathlib.Path, target: str) -> str:
    """The input at which the process ended: a crash, a time-out or a lack of memory."""
    for path in sorted(work.glob(f"{target}-*")):
        return path.read_bytes().hex()
    return ""


def keep(target: str, work: pathlib.Path) -> None:
    """Add the smallest inputs that widened the coverage to those in the tree."""
    known = inputs(CORPUS, target)
    fresh = sorted(
        {path.read_bytes() for path in (work / target).iterdir()} - set(known),
        key=lambda data: (len(data), data),
    )
    kept = [data for data in [*known, *fresh] if 0 < len(data) <= 400][:KEPT]
    CORPUS.mkdir(exist_ok=True)
    (CORPUS / f"{target}.hex").write_text("".join(f"{data.hex()}\n" for data in kept))


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.run", description="Fuzz what strangers' bytes come into."
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(NAMES))
    parser.add_argument("--seconds", type=float, default=60, help="for each target (60)")
    parser.add_argument("--runs", type=int, default=0, help="inputs for each target at most")
    parser.add_argument("--seed", type=int, default=1, help="of the mutations (1)")
    parser.add_argument("--jobs", type=int, default=2, help="targets at a time (2)")
    parser.add_argument("--results", type=pathlib.Path, help="file for a line of JSON per target")
    parser.add_argument("--keep", action="store_true", help="add to the corpus in the tree")
    parser.add_argument(
        "--sanitize",
        action="store_true",
        help="build the module in C with the sanitizers of gcc and use that",
    )
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.targets) - {*NAMES, "all"})
    if unknown:
        parser.error(f"unknown target {', '.join(unknown)}")
    failed = False
    print(f"{'target':16} {'inputs':>10} {'seconds':>8} {'edges':>6} {'features':>8} findings")
    with (
        tempfile.TemporaryDirectory() as folder,
        concurrent.futures.ThreadPoolExecutor(options.jobs) as pool,
    ):
        work = pathlib.Path(folder)
        environment = sanitized.build(work) if options.sanitize else None
        under_way = [
            pool.submit(run, name, options, work, environment) for name in options.targets or NAMES
        ]
        for future in under_way:
            result = future.result()
            print(
                f"{result['target']:16} {result['inputs']:10} {result['seconds']:8} "
                f"{result['edges']:6} {result['features']:8} {len(result['findings'])}",
                flush=True,
            )
            for finding in result["findings"]:
                failed = True
                print(f"    {finding['kind']}\n    {finding['input']}\n{finding['trace']}")
            if options.results:
                with options.results.open("a") as file:
                    file.write(json.dumps(result) + "\n")
            if options.keep and result["target"] in NAMES:
                keep(result["target"], work)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
