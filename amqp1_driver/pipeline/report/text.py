# SPDX-License-Identifier: Apache-2.0

"""Tables as text for a terminal. Pure, for any thread."""

from __future__ import annotations

from amqp1_driver.bench.table import table as aligned
from amqp1_driver.pipeline.report.model import Column, Table, Value
from amqp1_driver.pipeline.report.numbers import shown

#: characters of a cell, at most: as_text() cuts longer texts to keep a row on one line
WIDEST = 48


def as_text(table: Table) -> str:
    """Return the table as lines with aligned columns below its title, without trailing blanks."""
    if not table.rows:
        return f"{table.title}\n  {table.empty}"
    heads = [f"{c.name} {c.unit}" if c.unit else c.name for c in table.columns]
    cells = [
        [_cell(value, column) for value, column in zip(row, table.columns, strict=True)]
        for row in table.rows
    ]
    left = [index for index in range(len(heads)) if not numeric(table, index)]
    lines = (f"  {line}".rstrip() for line in aligned([heads, *cells], left))
    return "\n".join([table.title, *lines])


def numeric(table: Table, index: int) -> bool:
    """Return whether a column has numbers, and nothing else but gaps."""
    values = [row[index] for row in table.rows if row[index] is not None]
    return bool(values) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in values
    )


def _cell(value: Value, column: Column) -> str:
    text = " ".join(shown(value, column.unit, column.decimals).split())
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"
