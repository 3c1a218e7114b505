# SPDX-License-Identifier: Apache-2.0

from typing import Any

def is_plain(value: Any) -> bool: ...
