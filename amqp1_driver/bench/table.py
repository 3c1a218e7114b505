# SPDX-License-Identifier: Apache-2.0

"""Tables as text, and the lines that benchmarks write above and below tables. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

GAP = 2


def number(value: float | None) -> str:
    """Format a value with 2 decimals below 10, 1 below 100, and none from 100 on.

    :returns: "-" for None; an integer has no decimals
    """
    if value is None:
        return "-"
    size = abs(value)
    if isinstance(value, int) or size >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def spread(ratio: dict[str, float] | None) -> str:
    """Format a ratio with the lowest and the highest ratio of a round; "-" for None."""
    if ratio is None:
        return "-"
    if ratio["low"] == ratio["high"]:  # one round
        return f"{ratio['ratio']:.2f}"
    return f"{ratio['ratio']:.2f} ({ratio['low']:.2f}..{ratio['high']:.2f})"


def table(rows: Sequence[Sequence[str]], left: Container[int] = (0,)) -> list[str]:
    """Format rows as lines without trailing blanks.

    :param left: numbers of the columns that are aligned left; the others are aligned right
    """
    wide = widths(rows)
    return [
        (" " * GAP)
        .join(
            cell.ljust(width) if number in left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, wide, strict=True))
        )
        .rstrip()
        for row in rows
    ]


def list_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Format rows as a table of reStructuredText; the first row has the titles."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in rows:
        lines += [
            f"   {' ' if number else '*'} - {cell}".rstrip() for number, cell in enumerate(row)
        ]
    return [*lines, ""]


def widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def heading(scenario: Mapping[str, Any], each: str = "") -> str:
    """Return the line above a scenario's table: its title, and the number of rounds.

    :param each: description of a round
    """
    rounds = max(len(entry["runs"]) for entry in scenario["entries"])
    several = rounds > 1
    return (
        f"{scenario['title']} ({'medians of ' if several else ''}{rounds} "
        f"round{'s' if several else ''}{each})"
    )


def errors(label: str, found: Mapping[str, Mapping[str, Any]], more: str = "") -> Iterator[str]:
    """Yield a line for each kind of error, with the number of errors and the text of the first.

    :param more: description of what followed an error
    """
    for kind, error in found.items():
        words = (error["first"].splitlines() or [""])[0][:160]
        yield f"{label}: {error['count']} x {kind}{more}: {words}"
