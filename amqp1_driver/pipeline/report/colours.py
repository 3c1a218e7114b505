# SPDX-License-Identifier: Apache-2.0

"""The colours of plots, for light and for dark. Pure, for any thread.

The colours of series differ visibly with each of the common forms of colour blindness, which a test
simulates; lines differ in dashes and markers as well. Plots use stand-ins, which are colours that
:func:`themed` replaces with CSS variables, so one drawing serves light, dark and paper.
"""

from __future__ import annotations

import re

#: CSS variable -> (light and paper, dark)
THEME: dict[str, tuple[str, str]] = {
    "page": ("#ffffff", "#15181c"),
    "panel": ("#f4f6f8", "#1e2329"),
    "ink": ("#1c2228", "#e4e8ec"),
    "faint": ("#5a646e", "#a3adb7"),
    "rule": ("#ccd3da", "#3b444d"),
    "link": ("#00559b", "#7cc0f5"),
    "warn": ("#fff3d6", "#3d2f0a"),
    "s0": ("#0d61f2", "#8ca8d9"),
    "s1": ("#cc8100", "#f2700d"),
    "s2": ("#1b9881", "#33997c"),
    "s3": ("#923399", "#dd33ff"),
    "s4": ("#793806", "#fff899"),
    "s5": ("#141414", "#f0f0f0"),
}
SERIES = 6
#: the colour that matplotlib draws with for a variable; no drawing has these colours by chance
_STAND_INS = {name: f"#0{index:x}fe0{index:x}" for index, name in enumerate(THEME)}
_PATTERN = re.compile("|".join(_STAND_INS.values()))
_BY_STAND_IN = {stand_in: name for name, stand_in in _STAND_INS.items()}


def stand_in(name: str) -> str:
    """Return the colour to draw with for a variable of the theme."""
    return _STAND_INS[name]


def series(index: int) -> str:
    """Return the colour to draw series ``index`` with; colours repeat after :data:`SERIES`."""
    return _STAND_INS[f"s{index % SERIES}"]


def themed(svg: str) -> str:
    """Return a drawing with CSS variables in place of stand-ins.

    Each variable falls back to its light colour where there is no style sheet.
    """

    def variable(match: re.Match[str]) -> str:
        name = _BY_STAND_IN[match.group()]
        return f"var(--{name}, {THEME[name][0]})"

    return _PATTERN.sub(variable, svg)
