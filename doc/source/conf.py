# SPDX-License-Identifier: Apache-2.0

"""Sphinx settings of the documentation."""

import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP), str(TOP / "doc" / "ext")]

project = "amqp1-driver"
author = "OpenStack contributors"
copyright = "OpenStack Foundation"
extensions = ["oslo_config.sphinxext", "notes", "pictures"]
master_doc = "index"
exclude_patterns: list[str] = []
nitpicky = True
pygments_style = "sphinx"
html_theme = "alabaster"
html_theme_options = {
    "description": "AMQP 1.0 driver for oslo.messaging",
    "fixed_sidebar": True,
    "page_width": "1180px",
    "sidebar_width": "250px",
}
html_copy_source = False
