# SPDX-License-Identifier: Apache-2.0

"""The text form of values in tables, key figures and plots. Pure, for any thread."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from amqp1_driver.pipeline.report.model import Value

DASH = "-"
#: significant digits
_DIGITS = 4


def shown(value: Value, unit: str = "", decimals: int | None = None) -> str:
    """Return a value as text, without its unit.

    None, NaN and infinity become a dash. Times are UTC, to the millisecond; a time without a zone
    counts as UTC. Numbers have commas between thousands and never an exponent. The unit "%" turns a
    share (0 to 1) into per cent.

    :param decimals: digits after the point; None: none for an int, and for a float as many as make
        four significant digits, without zeros at the end
    """
    if value is None:
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return _time(value)
    if not math.isfinite(value):
        return DASH
    if unit == "%":
        value = value * 100
    if isinstance(value, int):
        return f"{value:,}" if decimals is None else f"{value:,.{decimals}f}"
    return _number(value, decimals)


def _number(value: float, decimals: int | None) -> str:
    if decimals is not None:
        return f"{value:,.{decimals}f}"
    if value == 0:
        return "0"
    digits = max(0, _DIGITS - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _time(value: datetime) -> str:
    if value.tzinfo is not None:
        value = value.astimezone(UTC)
    text = value.strftime("%Y-%m-%d %H:%M:%S")
    return f"{text}.{value.microsecond // 1000:03d}" if value.microsecond >= 1000 else text
