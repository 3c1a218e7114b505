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
