# SPDX-License-Identifier: Apache-2.0

"""Settings for all tests, and the option for their long forms.

``python -m pytest --long`` and AMQP1_LONG=1 are the same: the tests and their processes read
AMQP1_LONG.
"""

from __future__ import annotations

import os

import hypothesis
import pytest

# The time of an example says nothing on a loaded machine; the same examples each
# time, so that a failure in the gate can be had again.
hypothesis.settings.register_profile("gate", deadline=None, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=2000)
hypothesis.settings.load_profile("gate")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run tests at full size (AMQP1_LONG=1)")


def pytest_configure(config: pytest.Config) -> None:
    """Set AMQP1_LONG before any module that reads it is imported."""
    if config.getoption("--long"):
        os.environ["AMQP1_LONG"] = "1"
