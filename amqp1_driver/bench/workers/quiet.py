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

"""Takes out what oslo.messaging 14.9.3 spends on saying that its AMQP 1.0 driver will go.

The driver's classes are decorated with debtcollector's ``removed_class``, one of them the class of
incoming messages: each message formats a warning, looks its source line up and, since the module
calls ``warnings.simplefilter("always")`` at import, writes it to standard error. It is the
driver that is to be measured, so the decorator does nothing here; other drivers do not use it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any


def before_import() -> None:
    """To be called before oslo.messaging is imported."""
    warnings.simplefilter("ignore")
    try:
        from debtcollector import removals
    except ImportError:
        return
    module: Any = removals
    module.removed_class = _undecorated


def after_import() -> None:
    """To be called when the driver has been loaded: undoes its "always"."""
    warnings.resetwarnings()
    warnings.simplefilter("ignore")


def _undecorated(*_args: Any, **_options: Any) -> Callable[[type], type]:
    return lambda cls: cls
