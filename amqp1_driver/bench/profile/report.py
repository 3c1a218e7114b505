# SPDX-License-Identifier: Apache-2.0

"""Tables of a profile. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from amqp1_driver.bench.profile import native, samples
from amqp1_driver.bench.table import list_table, number, table

ROLES = ("client", "server")


def scenario_lines(scenario: dict[str, Any]) -> list[str]:
    """Return the lines of one scenario: costs, shares and functions of each driver."""
    lines = []
    for entry in scenario["entries"]:
        lines += [f"{scenario['title']}: {entry['label']}"]
        lines += [entry["trouble"]] if "trouble" in entry else _entry(entry)
        lines.append("")
    return lines[:-1]


def _entry(entry: dict[str, Any]) -> list[str]:
    lines = [_cost(entry), "", *_shares(entry, "layers", "processor time by layer")]
    if any(entry["roles"][role]["components"] for role in entry["roles"]):
        lines += ["", *_shares(entry, "components", "the same below Python, by perf")]
    if entry["missing"]:
        lines += ["", f"nothing below Python: {entry['missing']}"]
    for role, found in entry["roles"].items():
        rows = [[f"{role}: function, its line with the most", "own", "with calls"]]
        for each in found["functions"]:
            name = f"{each['function']}  {each['line']}: {each['text']}"[:120]
            rows.append([name, _percent(each["own"]), _percent(each["total"])])
        lines += ["", *table(rows)]
    lines += ["", f"flame graphs: {entry['folder']}/*.svg"]
    if entry["crashes"]:
        lines.append(
            f"sampled again {entry['crashes']} times: a sample that meets a call which C "
            "code is just making ends the process"
        )
    return lines


def _cost(entry: dict[str, Any]) -> str:
    plain, sampled = entry["plain"], entry["sampled"]
    samples = " + ".join(str(found["samples"]) for found in entry["roles"].values())
    return (
        f"{number(plain['received_per_s'])} messages/s, while sampled "
        f"{number(sampled['received_per_s'])} ({_change(*_rates(entry))}); CPU of clients and "
        f"servers {number(_cpu(plain))} us a message, while sampled {number(_cpu(sampled))} "
        f"({_change(_cpu(plain), _cpu(sampled))}); {samples} samples"
    )


def _rates(entry: dict[str, Any]) -> tuple[float, float]:
    return entry["plain"]["received_per_s"], entry["sampled"]["received_per_s"]


def _cpu(run: dict[str, Any]) -> float:
    return sum(run["cpu_us"][role] or 0.0 for role in ROLES)


def _change(before: float, after: float) -> str:
    return f"{100 * (after - before) / before:+.1f} %" if before else "-"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _shares(entry: dict[str, Any], what: str, title: str) -> list[str]:
    columns = [(entry, role) for role in ROLES if role in entry["roles"]]
    rows = [[title, *(head for _, role in columns for head in (role, "us/message"))]]
    more = {}
    if what == "layers":
        more["(all layers: in the kernel)"] = "system"
        more["(all layers: on the driver's I/O thread)"] = "io_thread"  # other drivers have none
    more = {
        words: key
        for words, key in more.items()
        if any(entry["roles"][role][key] for _, role in columns)
    }
    for name, pairs in _pairs(columns, what, more):
        rows.append([name, *itertools.chain(*pairs)])
    return table(rows)


def _pairs(
    columns: Sequence[tuple[dict[str, Any], str]], what: str, more: Mapping[str, str]
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each layer or component with its share and its microseconds a message, by column.

    :param columns: entries and roles
    :param what: "layers" or "components"
    :param more: keys of further shares, which come last, by their names
    """

    def pair(entry: dict[str, Any], role: str, share: float | None) -> tuple[str, str]:
        cpu = entry["plain"]["cpu_us"][role]
        unknown = share is None or cpu is None
        return "-" if share is None else _percent(share), number(None if unknown else share * cpu)

    for name in names([entry for entry, _ in columns], what):
        shares = (entry["roles"][role][what].get(name) for entry, role in columns)
        yield name, [pair(*column, share) for column, share in zip(columns, shares, strict=True)]
    for name, key in more.items():
        yield name, [pair(entry, role, entry["roles"][role][key]) for entry, role in columns]


def names(entries: Sequence[dict[str, Any]], what: str) -> list[str]:
    """Return the layers or components that have a share in any entry, in the order of the tables.

    :param what: "layers" or "components"
    """
    known = samples.LAYERS if what == "layers" else native.COMPONENTS
    there = {name for entry in entries for role in entry["roles"].values() for name in role[what]}
    return [name for name in known if name in there]


# -- for the documentation ---------------------------------------------------------


def rst(document: dict[str, Any]) -> str:
    """Return the tables in reStructuredText, with all scenarios of a driver beside each other."""
    lines = [f".. Written by amqp1 bench --profile, {document['when']}; not to be edited.", ""]
    machine = document["machine"]
    parts = [
        document["when"][:10],
        f"{machine['cpus']} processors",
        f"Python {machine['python']}",
        document["bus"],
    ]
    lines += [", ".join(filter(None, parts)) + ".", ""]
    for index, first in enumerate(document["scenarios"][0]["entries"]):
        found = [
            (scenario["title"], scenario["entries"][index])
            for scenario in document["scenarios"]
            if "trouble" not in scenario["entries"][index]
        ]
        if len(document["scenarios"][0]["entries"]) > 1:
            lines += [f"**{first['label']}**", ""]
        if found:
            lines += _rst_cost(found) + _rst_shares(found, "layers", "Layer")
            if names([entry for _, entry in found], "components"):
                lines += _rst_shares(found, "components", "Below Python")
    return "\n".join(lines).rstrip() + "\n"


def _rst_cost(found: Sequence[tuple[str, dict[str, Any]]]) -> list[str]:
    rows = [
        [
            "",
            "messages/s",
            "CPU us, client + server",
            "switches, client + server",
            "messages/s while sampled",
            "samples",
        ]
    ]
    for title, entry in found:
        plain = entry["plain"]
        rows.append(
            [
                title,
                number(plain["received_per_s"]),
                _both(plain["cpu_us"]),
                _both(plain["switches"]),
                f"{number(entry['sampled']['received_per_s'])} ({_change(*_rates(entry))})",
                " + ".join(str(part["samples"]) for part in entry["roles"].values()),
            ]
        )
    return list_table(rows)


def _both(parts: dict[str, float | None]) -> str:
    return " + ".join(number(parts[role]) for role in ROLES)


def _rst_shares(found: Sequence[tuple[str, dict[str, Any]]], what: str, title: str) -> list[str]:
    columns = [
        (name, entry, role) for name, entry in found for role in ROLES if role in entry["roles"]
    ]
    rows = [[f"{title}, us a message", *(f"{name}: {role}" for name, _, role in columns)]]
    more = {"*of all layers, in the kernel*": "system"} if what == "layers" else {}
    for name, pairs in _pairs([(entry, role) for _, entry, role in columns], what, more):
        rows.append([name, *(f"{us} ({share})" if us != "-" else "-" for share, us in pairs)])
    return list_table(rows)
