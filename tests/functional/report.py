# SPDX-License-Identifier: Apache-2.0

"""The documentation's matrix of buses, made from results of tests.

    python -m tests.functional.report doc/source/bus-matrix.json > doc/source/bus-matrix.inc

The results come from ``tests.functional.run --results``, ``tests.functional.abilities`` and
``pytest -p tests.functional.collect --bus-results``; each replaces its own older ones.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

from tests.functional import abilities

Entry = dict[str, Any]

#: Columns; buses that are not here come after these.
_ORDER = (
    "rabbitmq-4.3",
    "rabbitmq-4.0",
    "artemis",
    "broker-j",
    "qpidd",
    "skupper",
    "dispatch",
    "mesh",
    "router",
    "broker",
)
_EMBEDDED = {"router": "embedded router", "broker": "embedded broker"}

#: Parts of oslo.messaging's suite: title, and what the id of a test has in it.
_PARTS = (
    ("RPC calls: any server, one server, exchanges, errors, time-outs", ".CallTestCase."),
    ("RPC casts and fanout", ".CastTestCase."),
    ("Notifications: topics, priorities, batches, compression", ".NotifyTestCase."),
    ("Notifications of the logging handler", ".LoggingNotificationHandlerTestCase."),
    ("Metrics", ".MetricsTestCase."),
)


class Matrix:
    """The page, section by section."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries
        present = {entry["bus"] for entry in entries}
        self.buses = [bus for bus in _ORDER if bus in present]
        self.buses += sorted(present - set(_ORDER))
        self._reasons: list[str] = []

    def text(self) -> str:
        parts = [
            "..",
            "   Made by tests.functional.report; not to be edited.",
            "",
            *self._versions(),
            *self._suite(),
            *self._abilities(),
            *self._own(),
            *self._footnotes(),
            *self._skips(),
        ]
        return "\n".join(parts).rstrip() + "\n"

    # -- sections ---------------------------------------------------------------------------

    def _versions(self) -> list[str]:
        rows = []
        for bus in self.buses:
            mine = [entry for entry in self._entries if entry["bus"] == bus]
            counts = {outcome: 0 for outcome in ("passed", "failed", "skipped")}
            for test in _tests(mine, "suite"):
                counts[test["outcome"]] += 1
            suite = "{passed} / {failed} / {skipped}".format(**counts)
            newest = max(mine, key=lambda entry: str(entry["date"]))
            rows.append(
                [
                    self._name(bus),
                    self._product(bus),
                    suite if sum(counts.values()) else "",
                    newest["date"],
                    newest["commit"],
                ]
            )
        title = "Passed, failed, skipped in oslo.messaging's suite"
        return _table(["bus", "calls itself", title, "date", "commit"], rows)

    def _suite(self) -> list[str]:
        def row(part: str) -> list[str]:
            return [
                self._share([test for test in self._of(bus, "suite") if part in test["id"]])
                for bus in self.buses
            ]

        rows = [[title, *row(part)] for title, part in _PARTS]
        return _section("oslo.messaging's functional suite", self._grid(rows))

    def _abilities(self) -> list[str]:
        return self._by_id(
            "What else it can do",
            "abilities",
            [(which.__name__, (which.__doc__ or "").strip()) for which in abilities.PROBES],
        )

    def _own(self) -> list[str]:
        names = sorted({test["id"] for test in _tests(self._entries, "buses")})
        return self._by_id(
            "Tests of this project on the real bus",
            "buses",
            [(name, name.removeprefix("test_").replace("_", " ")) for name in names],
        )

    def _by_id(self, title: str, kind: str, names: Iterable[tuple[str, str]]) -> list[str]:
        rows = [
            [
                text,
                *(
                    self._cell([test for test in self._of(bus, kind) if test["id"] == name])
                    for bus in self.buses
                ),
            ]
            for name, text in names
        ]
        return _section(title, self._grid(rows)) if rows else []

    def _footnotes(self) -> list[str]:
        return [
            *(
                f".. [#m{number}] {_plain(reason)}"
                for number, reason in enumerate(self._reasons, 1)
            ),
            "",
        ]

    def _skips(self) -> list[str]:
        found: dict[str, set[str]] = {}
        for test in _tests(self._entries, "suite"):
            if test["outcome"] == "skipped":
                found.setdefault(test["detail"], set()).add(test["id"].rpartition(".")[2])
        lines = [
            f"* ``{'``, ``'.join(sorted(tests))}``: {_plain(reason)}"
            for reason, tests in sorted(found.items())
        ]
        return _section("Skipped by oslo.messaging itself", [*lines, ""]) if lines else []

    # -- cells ------------------------------------------------------------------------------

    def _share(self, tests: list[Entry]) -> str:
        counted = [test for test in tests if test["outcome"] != "skipped"]
        passed = sum(test["outcome"] == "passed" for test in counted)
        return f"{passed} of {len(counted)}" if counted else ""

    def _cell(self, tests: list[Entry]) -> str:
        """yes, no with its reason, or nothing where it was not tried; the worst of several."""
        for test in tests:
            if test["outcome"] == "failed":
                return f"no {self._reason(test['detail'])}"
        if any(test["outcome"] == "passed" for test in tests):
            return "yes"
        return f"skipped {self._reason(tests[0]['detail'])}" if tests else ""

    def _reason(self, text: str) -> str:
        text = _timeless(text)
        if text not in self._reasons:
            self._reasons.append(text)
        return f"[#m{self._reasons.index(text) + 1}]_"

    # -- helpers ----------------------------------------------------------------------------

    def _of(self, bus: str, kind: str) -> list[Entry]:
        return _tests([entry for entry in self._entries if entry["bus"] == bus], kind)

    def _product(self, bus: str) -> str:
        return next(
            (
                entry["product"]
                for entry in self._entries
                if entry["bus"] == bus and entry["product"]
            ),
            "",
        )

    def _name(self, bus: str) -> str:
        return _EMBEDDED.get(bus, bus)

    def _grid(self, rows: list[list[str]]) -> list[str]:
        return _table(["", *map(self._name, self.buses)], rows)


def _tests(entries: list[Entry], kind: str) -> list[Entry]:
    return [test for entry in entries if entry["kind"] == kind for test in entry["tests"]]


def _timeless(text: str) -> str:
    """*text* without what is of one run only: host, port, addresses and ids."""
    text = re.sub(r"\b(host|address|message-id)=[^,()]*(, )?", "", text)
    text = re.sub(r"(, )?\bdescription=(?=\))| ?\((, )?\)", "", text)
    # cut off where it was kept
    return text if text.count("(") == text.count(")") else f"{text} ..."


def _plain(text: str) -> str:
    """*text* without a meaning of its signs in reStructuredText."""
    escape: Callable[[re.Match[str]], str] = lambda match: "\\" + match[0]  # noqa: E731
    return re.sub(r"[*`|_\\]", escape, text) or "no reason given"


def _section(title: str, body: list[str]) -> list[str]:
    return [title, "=" * len(title), "", *body]


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in [header, *rows]:
        for number, cell in enumerate(row):
            lines.append(f"   {'*' if number == 0 else ' '} - {cell}".rstrip())
    return [*lines, ""]


def main(argv: list[str]) -> int:
    entries: list[Entry] = []
    for name in argv:
        entries += json.loads(pathlib.Path(name).read_text())
    sys.stdout.write(Matrix(entries).text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
