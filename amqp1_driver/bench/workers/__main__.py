# SPDX-License-Identifier: Apache-2.0

"""Entry point of ``python .../workers``: loads the package without its folder in ``sys.path``."""

import importlib
import importlib.util
import sys
from pathlib import Path

NAME = "amqp1_bench_workers"


def load() -> None:
    """Import the package under the name ``NAME``, and run its worker.

    Neither the package's folder nor its parents are in ``sys.path``.
    """
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    spec = importlib.util.spec_from_file_location(
        NAME, here / "__init__.py", submodule_search_locations=[str(here)]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = package
    spec.loader.exec_module(package)
    importlib.import_module(f"{NAME}.worker").main()


if __name__ == "__main__":
    load()
