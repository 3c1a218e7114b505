# SPDX-License-Identifier: Apache-2.0

"""The HTML of a page: everything in one file, which loads nothing.

On the caller's thread, one page at a time.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from amqp1_driver.pipeline.report import colours, plots
from amqp1_driver.pipeline.report.model import (
    Bars,
    Column,
    Facts,
    Heatmap,
    Histogram,
    Lines,
    Page,
    Part,
    Section,
    Table,
    Text,
)
from amqp1_driver.pipeline.report.numbers import shown
from amqp1_driver.pipeline.report.text import numeric

#: a cell with a text of more characters than this is wide
_LONG = 60


def render(page: Page) -> str:
    """Return the page as HTML. Needs jinja2 and matplotlib (extra ``spark``)."""
    sections = [_section(section, number) for number, section in enumerate(page.sections, 1)]
    made = shown(page.made) + " UTC" if page.made is not None else ""
    text: str = _template().render(page=page, sections=sections, made=made, theme=colours.THEME)
    return text


def write(page: Page, path: str | os.PathLike[str]) -> None:
    """Write the page to a file; readers of the file see either the old page or the new one.

    :raises OSError: the file cannot be written
    """
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.write_text(render(page), encoding="utf-8")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


@cache
def _template() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(__package__, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.jinja")


def _section(section: Section, number: int) -> dict[str, Any]:
    parts = [_part(part, f"s{number}p{i}-") for i, part in enumerate(section.parts, 1)]
    return {
        "title": section.title,
        "intro": _paragraphs(section.intro),
        "parts": parts,
        "anchor": f"s{number}",
    }


def _part(part: Part, prefix: str) -> dict[str, Any]:
    if isinstance(part, Facts):
        return {
            "kind": "facts",
            "facts": [
                {
                    "label": fact.label,
                    "value": shown(fact.value, fact.unit),
                    "unit": fact.unit,
                    "note": fact.note,
                }
                for fact in part.facts
            ],
        }
    if isinstance(part, Text):
        return {"kind": "text", "paragraphs": _paragraphs(part.text), "warning": part.warning}
    if isinstance(part, Table):
        return _table(part)
    return {
        "kind": "plot",
        "title": part.title,
        "caption": part.caption,
        "label": _label(part),
        "svg": plots.svg(part, prefix),
    }


def _table(table: Table) -> dict[str, Any]:
    right = [numeric(table, index) for index in range(len(table.columns))]
    rows = [
        [
            shown(value, column.unit, column.decimals)
            for value, column in zip(row, table.columns, strict=True)
        ]
        for row in table.rows
    ]
    heads = [_head(column) for column in table.columns]
    return {
        "kind": "table",
        "title": table.title,
        "caption": table.caption,
        "empty": table.empty,
        "heads": list(zip(heads, right, strict=True)),
        "rows": [
            [(text, _kind(text, flush)) for text, flush in zip(row, right, strict=True)]
            for row in rows
        ],
    }


def _kind(text: str, flush: bool) -> str:
    """Return the CSS class of a cell: numbers are flush right, and long texts have room."""
    return "r" if flush else "w" if len(text) > _LONG else ""


def _head(column: Column) -> tuple[str, str]:
    return column.name, column.unit


def _label(plot: Lines | Bars | Histogram | Heatmap) -> str:
    """Return a text that says what a plot shows, for readers who cannot see the plot."""
    return f"{plot.title}: {plot.y} over {plot.x}" if plot.x.label else f"{plot.title}: {plot.y}"


def _paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]
