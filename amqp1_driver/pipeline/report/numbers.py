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

"""How values are written in tables and beside figures."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from amqp1_driver.pipeline.report.model import Value

DASH = "-"
#: digits that count
_DIGITS = 4


def shown(value: Value, unit: str = "", decimals: int | None = None) -> str:
    """A value as text, without its unit.

    None and what is no number are dashes; times are UTC (a time without zone is taken for UTC), to
    the millisecond; numbers have commas between thousands and never an exponent. Unit "%" turns a
    share (0 to 1) into per cent.

    :param decimals: after the point; None: four digits that count
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
