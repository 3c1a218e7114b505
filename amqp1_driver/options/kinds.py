# SPDX-License-Identifier: Apache-2.0

"""Functions that make options of one kind: durations, counts, texts.  Any thread."""

from typing import Any

from oslo_config import cfg

#: arguments of options that the driver in oslo.messaging had in group ``amqp1``
OLD: dict[str, Any] = {"deprecated_group": "amqp1"}


def seconds(name: str, default: float, help: str, minimum: float = 0.001, **kw: Any) -> cfg.Opt:
    return cfg.FloatOpt(name, default=default, min=minimum, help=help, **kw)


def count(name: str, default: int, help: str, minimum: int = 1, **kw: Any) -> cfg.Opt:
    return cfg.IntOpt(name, default=default, min=minimum, help=help, **kw)


def text(name: str, default: str | None, help: str, **kw: Any) -> cfg.Opt:
    return cfg.StrOpt(name, default=default, help=help, **kw)
