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
