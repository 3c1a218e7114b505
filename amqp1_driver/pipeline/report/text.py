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

"""Tables for a terminal."""

from __future__ import annotations

from amqp1_driver.pipeline.report.model import Column, Table, Value
from amqp1_driver.pipeline.report.numbers import shown

#: Longer texts are cut, so that a line stays a line.
WIDEST = 48


def as_text(table: Table) -> str:
    """The table as lines with aligned columns, its title above; no blanks at the ends of lines."""
    if not table.rows:
        return f"{table.title}\n  {table.empty}"
    heads = [f"{c.name} {c.unit}" if c.unit else c.name for c in table.columns]
    cells = [[_cell(value, column) for value, column in zip(row, table.columns, strict=True)]
             for row in table.rows]  # fmt: skip
    widths = [max(len(line[i]) for line in [heads, *cells]) for i in range(len(heads))]
    right = [numeric(table, i) for i in range(len(heads))]
    lines = [table.title]
    for line in [heads, *cells]:
        padded = (text.rjust(width) if flush else text.ljust(width)
                  for text, width, flush in zip(line, widths, right, strict=True))  # fmt: skip
        lines.append(("  " + "  ".join(padded)).rstrip())
    return "\n".join(lines)


def numeric(table: Table, index: int) -> bool:
    """Whether a column has numbers, and nothing else but gaps."""
    values = [row[index] for row in table.rows if row[index] is not None]
    return bool(values) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _cell(value: Value, column: Column) -> str:
    text = " ".join(shown(value, column.unit, column.decimals).split())
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"
