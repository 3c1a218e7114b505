# SPDX-License-Identifier: Apache-2.0

"""The module in C under the address and undefined-behaviour sanitizers of gcc.

:func:`build` compiles it; in a process that is started with the environment that it returns,
:func:`install` puts it in the place of the one that was installed. A report of a sanitizer ends
the process, which the fuzzer takes for a finding.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys
import sysconfig

import amqp1_driver.engine

_NAME = "amqp1_driver.engine._speedups"
_VARIABLE = "AMQP1_FUZZ_MODULE"
_SOURCES = pathlib.Path(amqp1_driver.engine.__file__).parent / "_speedups"


def build(folder: pathlib.Path) -> dict[str, str]:
    """Compile the module into ``folder``; return the environment for processes that use it.

    :raises subprocess.CalledProcessError: gcc or its sanitizers are missing
    """
    target = folder / f"_speedups{sysconfig.get_config_var('EXT_SUFFIX')}"
    subprocess.run(
        [
            "gcc",
            "-shared",
            "-fPIC",
            "-g",
            "-O1",
            "-fno-omit-frame-pointer",
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover=all",
            f"-I{sysconfig.get_path('include')}",
            *map(str, sorted(_SOURCES.glob("*.c"))),
            "-o",
            str(target),
        ],
        check=True,
    )
    library = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True
    ).stdout.strip()
    return {
        **os.environ,
        _VARIABLE: str(target),
        "LD_PRELOAD": library,
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
    }


def install() -> None:
    """Load what build() has made, if this process is for it."""
    path = os.environ.get(_VARIABLE)
    if not path:
        return
    loader = importlib.machinery.ExtensionFileLoader(_NAME, path)
    spec = importlib.util.spec_from_file_location(_NAME, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = module
    loader.exec_module(module)
    amqp1_driver.engine._speedups = module
