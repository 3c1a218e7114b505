# SPDX-License-Identifier: Apache-2.0

"""Sphinx settings of the release notes."""

import sys
from pathlib import Path

# reno's directive, made so that it bears a clone without history
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "doc" / "ext"))

project = "amqp1-driver release notes"
author = "OpenStack contributors"
copyright = "OpenStack Foundation"
extensions = ["notes"]
master_doc = "index"
html_theme = "alabaster"
exclude_patterns: list[str] = []
