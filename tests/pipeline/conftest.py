# SPDX-License-Identifier: Apache-2.0

"""One Spark session for all tests of the pipeline in a process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

#: starting Spark may take half a minute on a loaded machine
TIMEOUT = 300


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(TIMEOUT))
            # py4j and Spark leave sockets to the garbage collector
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """``local[2]``; nothing is compiled that tests run a few times only."""
    from amqp1_driver.pipeline.session import spark_session

    folder = tmp_path_factory.mktemp("spark")
    session = spark_session(
        "tests",
        "local[2]",
        {
            "spark.driver.extraJavaOptions": (
                f"-XX:TieredStopAtLevel=1 -Dderby.system.home={folder}"
            ),
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
            "spark.sql.streaming.numRecentProgressUpdates": "1000",
        },
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
