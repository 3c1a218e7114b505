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

"""Which thread model the process runs under: native threads or eventlet's green threads.

Everything is looked up when it is asked for, because ``eventlet.monkey_patch()`` may come
before or after the import of this module. eventlet itself is never imported from here.
"""

import importlib
import sys
from types import ModuleType
from typing import Any


def _patcher() -> Any:
    return sys.modules.get("eventlet.patcher")


def is_green() -> bool:
    """True if ``threading.Thread`` makes green threads in this process."""
    patcher = _patcher()
    return patcher is not None and bool(patcher.is_monkey_patched("thread"))


def native(name: str) -> ModuleType:
    """The module ``name`` as the standard library has it, whatever eventlet patched.

    Needed for what must run beside the green hub: a blocking name lookup in a real thread,
    and sockets whose non-blocking calls are ours alone.
    """
    key = "thread" if name == "threading" else name
    patcher = _patcher()
    if patcher is None or not patcher.is_monkey_patched(key):
        return importlib.import_module(name)
    module: ModuleType = patcher.original(name)
    return module


def green_select() -> Any:
    """eventlet's own ``select`` function, which yields to the hub."""
    return importlib.import_module("eventlet.green.select").select
