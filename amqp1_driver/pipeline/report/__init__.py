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

"""Reports of the jobs: one HTML page that needs nothing else, with plots and tables.

A page is described by values (:mod:`~amqp1_driver.pipeline.report.model`) and then rendered::

    page = Page("Latency", [Section("By address", [
        Table("Percentiles", [Column("address"), Column("p99", "ms")], [["a", 1.5]]),
        Bars("p99", ["a"], {"call": [1.5]}, Axis("p99", "ms")),
    ])])
    write(page, "report.html")

The same values make the same bytes: no time is in a page unless it is given one. Pages load nothing
from anywhere, are readable in light and dark, and print.

Values are aggregates. Who has raw rows aggregates them first, in Spark.
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
