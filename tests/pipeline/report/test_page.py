# SPDX-License-Identifier: Apache-2.0

"""The page: complete in itself, and the same each time."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest

from amqp1_driver.pipeline.report import (
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
    Section,
    Series,
    Table,
    Text,
    render,
    write,
)
from amqp1_driver.pipeline.report.plots import svg

TIMES = [datetime(2026, 11, 22, 0, minute, tzinfo=UTC) for minute in (0, 1, 2)]
LINES = Lines(
    "Rate over time",
    [Series("nova", TIMES, [1.0, None, 3.0]), Series("a <b> & $c$", TIMES, [2.0, 2.0, 2.0])],
    Axis("time"),
    Axis("rate", "1/s"),
    marks=[Mark("limit 5", 5.0)],
)
BARS = Bars(
    "p99",
    ["call", "cast"],
    {"before": [1.0, 2.0], "after": [None, 1.0]},
    Axis("p99", "ms"),
    across=True,
    caption="lower is better",
)
HISTOGRAM = Histogram("Spread", [0.1, 1.0, 10.0], {"call": [5, 1]}, Axis("total", "ms", log=True))
HEATMAP = Heatmap(
    "Errors",
    ["00:00", "00:01"],
    ["a", "b"],
    [[0.25, None], [0.5, 1.0]],
    Axis("time"),
    Axis("address"),
    Axis("share", "%"),
)
TABLE = Table(
    "Percentiles",
    [Column("address"), Column("p99", "ms")],
    [["<script>alert(1)</script>", 1.5]],
    caption="of accepted ones",
)
PAGE = Page(
    "Report & more",
    [
        Section(
            "First",
            [
                Facts([Fact("records", 12345, "1", "all")]),
                Text("One.\n\nTwo.", True),
                TABLE,
                Table("Stalls", [Column("a")], []),
            ],
            intro="Begin.",
        ),
        Section("Plots", [LINES, BARS, HISTOGRAM, HEATMAP]),
        Section("Last", [Lines("Nothing", [], Axis("x"), Axis("y"))]),
    ],
    subtitle="of three files",
)


@pytest.fixture(scope="module")
def html() -> str:
    return render(PAGE)


class Reader(HTMLParser):
    """Elements that are open, the text in them, and each link to elsewhere."""

    VOID = frozenset(("meta", "br", "hr", "img", "link"))

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.ids: list[str] = []
        self.elsewhere: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href") and not re.match("#|data:", value or ""):
                self.elsewhere.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data.strip())


def test_elements_are_closed_and_identifiers_unique(html: str) -> None:
    reader = Reader(html)
    assert reader.open == []
    assert len(reader.ids) > 20
    assert len(set(reader.ids)) == len(reader.ids)


def test_every_reference_within_a_plot_has_its_target(html: str) -> None:
    ids = set(Reader(html).ids)
    used = set(re.findall(r"url\(#([^)]+)\)", html)) | set(re.findall(r'href="#([^"]+)"', html))
    assert used and used <= ids


def test_nothing_is_loaded_from_elsewhere(html: str) -> None:
    assert Reader(html).elsewhere == []
    assert "<script" not in html and "@import" not in html
    places = set(re.findall(r"https?://[^\s\"')<]+", html))
    # names of namespaces, which nobody fetches
    assert places == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_texts_are_escaped(html: str) -> None:
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "<title>Report &amp; more</title>" in html
    assert "a &lt;b&gt; &amp; $c$" in html  # in a legend; dollars are no formula


def test_what_is_on_the_page(html: str) -> None:
    words = Reader(html).words
    for text in (
        "12,345",
        "One.",
        "Two.",
        "of accepted ones",
        "lower is better",
        "of three files",
        "None.",
        "nothing to show",
        "rate (1/s)",
        "p99 (ms)",
        "total (ms)",
        "share (%)",
        "limit 5",
        "nova",
    ):
        assert text in words, text


def test_the_same_values_make_the_same_page(html: str) -> None:
    assert render(PAGE) == html
    assert "Made" not in html


def test_the_time_of_making_is_shown_where_given() -> None:
    page = Page("x", [], made=datetime(2026, 11, 22, 1, 2, 3, tzinfo=UTC))
    assert "Made 2026-11-22 01:02:03 UTC" in render(page)


def test_plots_are_drawn_in_colours_of_the_page(html: str) -> None:
    plots = re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL)
    assert len(plots) == 5
    for plot in plots:
        ElementTree.fromstring(plot)
        assert re.findall(r"#0.fe0.", plot) == []  # no stand-in is left
    assert "var(--s0, #0d61f2)" in plots[0] and "var(--s1, #cc8100)" in plots[0]


def test_a_gap_stays_a_gap() -> None:
    line = Series("s", [1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0, None, 3.0, 4.0])
    drawn = svg(Lines("Gap", [line], Axis("x"), Axis("y")))
    path = next(
        path
        for path in re.findall(r'<path d="([^"]*)"[^>]*style="([^"]*)"', drawn)
        if "var(--s0" in path[1] and "stroke-width: 1.6" in path[1]
    )
    assert re.findall("[A-Z]", path[0]) == ["M", "L", "M", "L"]


def test_writing_replaces_the_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    write(Page("new", []), path)
    assert "<title>new</title>" in path.read_text(encoding="utf-8")
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write(Page("x", []), tmp_path / "no" / "report.html")


def test_a_logarithmic_heatmap_leaves_out_a_zero() -> None:
    drawing = svg(
        Heatmap(
            "Errors",
            ["one", "two"],
            ["a"],
            [[0.0, 250.0]],
            Axis("time"),
            Axis("address"),
            Axis("errors", log=True),
        )
    )
    texts = re.findall(r">([^<>]+)</text>", drawing)
    assert "250" in texts
    assert "0" not in texts
