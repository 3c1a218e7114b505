# SPDX-License-Identifier: Apache-2.0

"""What does not go together is refused where it is made, not when the page is drawn."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from amqp1_driver.pipeline.report import (
    Axis,
    Bars,
    Column,
    Heatmap,
    Histogram,
    Series,
    Table,
    as_text,
    shown,
)


def test_series_of_different_lengths() -> None:
    with pytest.raises(ValueError, match="series 'a': x, y, low and high differ in length"):
        Series("a", [1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="differ in length"):
        Series("a", [1.0, 2.0], [1.0, 2.0], low=[1.0, 1.0])


def test_too_many_points() -> None:
    with pytest.raises(ValueError, match="20001 points, more than 20000: aggregate it first"):
        Series("a", [0.0] * 20001, [0.0] * 20001)


def test_bars_without_a_value_for_each_category() -> None:
    with pytest.raises(ValueError, match="bars 'b': group 'p50' has 1 values for 2 categories"):
        Bars("b", ["x", "y"], {"p50": [1.0]}, Axis("time"))


def test_edges_have_to_rise_and_to_enclose_the_counts() -> None:
    with pytest.raises(ValueError, match="the edges do not rise"):
        Histogram("h", [0.0, 1.0, 1.0], {"a": [1.0, 2.0]}, Axis("time"))
    with pytest.raises(ValueError, match="'a' has 1 counts for 3 edges"):
        Histogram("h", [0.0, 1.0, 2.0], {"a": [1.0]}, Axis("time"))


def test_heatmap_is_as_large_as_its_names() -> None:
    with pytest.raises(ValueError, match="'m' is not 1 rows of 2 values"):
        Heatmap("m", ["a", "b"], ["r"], [[1.0]], Axis("x"), Axis("y"), Axis("v"))


def test_row_with_too_few_values() -> None:
    with pytest.raises(ValueError, match="table 't': 1 values for 2 columns"):
        Table("t", [Column("a"), Column("b")], [["x"]])


@pytest.mark.parametrize(
    ("value", "unit", "decimals", "text"),
    [
        (None, "", None, "-"),
        (float("nan"), "ms", None, "-"),
        (True, "", None, "yes"),
        ("a & b", "", None, "a & b"),
        (1234567, "", None, "1,234,567"),
        (0.0, "ms", None, "0"),
        (1.23456, "ms", None, "1.235"),
        (12345.6, "ms", None, "12,346"),
        (100.0, "ms", None, "100"),
        (0.00012345, "s", None, "0.0001234"),
        (-2.5, "s", None, "-2.5"),
        (2.0, "s", 2, "2.00"),
        (0.0123, "%", None, "1.23"),
        (1, "%", 1, "100.0"),
        (datetime(2026, 11, 22, 1, 2, 3), "", None, "2026-11-22 01:02:03"),
        (datetime(2026, 11, 22, 1, 2, 3, 4567, tzinfo=UTC), "", None, "2026-11-22 01:02:03.004"),
        (
            datetime(2026, 11, 22, 1, tzinfo=timezone(timedelta(hours=2))),
            "",
            None,
            "2026-11-21 23:00:00",
        ),
    ],
)
def test_values_as_text(value: object, unit: str, decimals: int | None, text: str) -> None:
    assert shown(value, unit, decimals) == text


def test_table_on_a_terminal() -> None:
    table = Table(
        "Latency",
        [Column("address"), Column("p99", "ms"), Column("note")],
        [["a", 1.5, None], ["longer", 1000, "x\ny" + "z" * 60]],
    )
    assert as_text(table) == (
        "Latency\n"
        "  address  p99 ms  note\n"
        "  a           1.5  -\n"
        "  longer    1,000  x yzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz…"
    )


def test_empty_table_on_a_terminal() -> None:
    assert as_text(Table("Stalls", [Column("a")], [], empty="No stalls.")) == "Stalls\n  No stalls."
