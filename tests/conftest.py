# SPDX-License-Identifier: Apache-2.0

"""Settings for all tests."""

from __future__ import annotations

import hypothesis

# The time of an example says nothing on a loaded machine; the same examples each
# time, so that a failure in the gate can be had again.
hypothesis.settings.register_profile("gate", deadline=None, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=2000)
hypothesis.settings.load_profile("gate")
