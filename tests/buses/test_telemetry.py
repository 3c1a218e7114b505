# SPDX-License-Identifier: Apache-2.0

"""Records of an application on RabbitMQ."""

from pathlib import Path

import pytest

from tests.buses.rabbit import Node
from tests.contract.apps import App
from tests.contract.telemetry import check, lines, some_of_each


@pytest.mark.rabbitmq
def test_records_of_an_application(rabbit43: Node, tmp_path: Path) -> None:
    with App(rabbit43.url(), telemetry_directory=str(tmp_path / "telemetry")) as app:
        some_of_each(app)
    check(lines(tmp_path / "telemetry"))
