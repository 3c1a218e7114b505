# SPDX-License-Identifier: Apache-2.0

"""Generators of realistic notifications of nova, cinder and neutron, for the demo, tests and load.

``payloads`` makes the payloads, and ``notification`` puts them into envelopes. ``story`` tells two
fixed days whose tables a reader can compute by hand; ``cloud`` simulates any number of life cycles
from a seed. ``faults`` adds late, doubled and broken messages, and ``send`` publishes messages to a
bus. Everything runs on the caller's thread.

The output depends on the arguments only: the same seed makes the same bytes.
"""
