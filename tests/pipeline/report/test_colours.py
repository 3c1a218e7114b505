# SPDX-License-Identifier: Apache-2.0

"""Colours of series: seen against the page, and told apart by those who see fewer colours."""

from __future__ import annotations

from itertools import combinations

import pytest

from amqp1_driver.pipeline.report.colours import SERIES, THEME

Linear = tuple[float, float, float]
# Vienot, Brettel and Mollon 1999: linear RGB as seen without long or middle cones
BLIND: dict[str, tuple[Linear, Linear, Linear]] = {
    "all cones": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "protanopia": ((0.11238, 0.88762, 0.0), (0.11238, 0.88762, 0.0), (0.00401, -0.00401, 1.0)),
    "deuteranopia": ((0.29275, 0.70725, 0.0), (0.29275, 0.70725, 0.0), (-0.02234, 0.02234, 1.0)),
}


def _linear(colour: str) -> Linear:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))

    def one(value: float) -> float:
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    return one(red), one(green), one(blue)


def _seen(colour: Linear, sight: str) -> Linear:
    a, b, c = (
        sum(weight * part for weight, part in zip(row, colour, strict=True)) for row in BLIND[sight]
    )
    return a, b, c


def _lab(colour: Linear) -> Linear:
    red, green, blue = (min(1.0, max(0.0, part)) for part in colour)
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089

    def root(t: float) -> float:
        return t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116

    return 116 * root(y) - 16, 500 * (root(x) - root(y)), 200 * (root(y) - root(z))


def _apart(one: str, other: str, sight: str) -> float:
    """CIE 1976 difference; 2.3 is just noticed."""
    a, b = (_lab(_seen(_linear(colour), sight)) for colour in (one, other))
    return sum((p - q) ** 2 for p, q in zip(a, b, strict=True)) ** 0.5


@pytest.mark.parametrize("sight", sorted(BLIND))
@pytest.mark.parametrize("theme", [0, 1])
def test_any_two_series_are_told_apart(sight: str, theme: int) -> None:
    colours = [THEME[f"s{index}"][theme] for index in range(SERIES)]
    for one, other in combinations(colours, 2):
        assert _apart(one, other, sight) > 25, (one, other)


@pytest.mark.parametrize("theme", [0, 1])
def test_contrast_with_the_page(theme: int) -> None:
    """WCAG 2.2: 3 : 1 for drawings, 4.5 : 1 for text."""

    def contrast(name: str, ground: str) -> float:
        shades = []
        for each in (name, ground):
            red, green, blue = _linear(THEME[each][theme])
            shades.append(0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)
        return max(shades) / min(shades)

    assert all(contrast(f"s{index}", "page") >= 3 for index in range(SERIES))
    for text in ("ink", "faint", "link"):
        assert contrast(text, "page") >= 4.5
        assert contrast(text, "panel") >= 4.5
    assert contrast("ink", "warn") >= 4.5
