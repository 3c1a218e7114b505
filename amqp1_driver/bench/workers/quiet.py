# SPDX-License-Identifier: Apache-2.0

"""Removal of the cost of deprecation warnings in the AMQP 1.0 driver of oslo.messaging 14.9.3.

oslo.messaging decorates that driver's classes with debtcollector's ``removed_class``, also the
class of incoming messages. So each message formats a warning and looks up its source line. Each
message also writes the warning to standard error, because the driver's module calls
``warnings.simplefilter("always")`` at import. The benchmark measures the driver, not its warnings,
so it replaces the decorator by one that does nothing. Other drivers do not use the decorator.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any


def before_import() -> None:
    """Disable the decorator and all warnings; call this before oslo.messaging is imported."""
    warnings.simplefilter("ignore")
    try:
        from debtcollector import removals
    except ImportError:
        return
    module: Any = removals
    module.removed_class = _undecorated


def after_import() -> None:
    """Undo the driver's filter "always"; call this when the driver has been loaded."""
    warnings.resetwarnings()
    warnings.simplefilter("ignore")


def _undecorated(*_args: Any, **_options: Any) -> Callable[[type], type]:
    return lambda cls: cls
