# SPDX-License-Identifier: Apache-2.0

"""Reports of the jobs: one self-contained HTML page with plots and tables.

Values (:mod:`~amqp1_driver.pipeline.report.model`) describe a page, and :func:`write` renders it::

    page = Page("Latency", [Section("By address", [
        Table("Percentiles", [Column("address"), Column("p99", "ms")], [["a", 1.5]]),
        Bars("p99", ["a"], {"call": [1.5]}, Axis("p99", "ms")),
    ])])
    write(page, "report.html")

The same values make the same bytes: a page contains no time unless the caller gives it one. Pages
load nothing, are readable in light and dark, and can be printed.

Values are aggregates: a job with raw rows aggregates them first, in Spark. Rendering runs on the
caller's thread, one page at a time.
"""

from amqp1_driver.pipeline.report.html import render, write
from amqp1_driver.pipeline.report.model import (
    Axis,
    Bars,
    Column,
    Fact,
    Facts,
    Heatmap,
    Histogram,
    Lines,
    Mark,
    Page,
    Part,
    Plot,
    Section,
    Series,
    Table,
    Text,
)
from amqp1_driver.pipeline.report.numbers import shown
from amqp1_driver.pipeline.report.text import as_text

__all__ = [
    "Axis",
    "Bars",
    "Column",
    "Fact",
    "Facts",
    "Heatmap",
    "Histogram",
    "Lines",
    "Mark",
    "Page",
    "Part",
    "Plot",
    "Section",
    "Series",
    "Table",
    "Text",
    "as_text",
    "render",
    "shown",
    "write",
]
