#!/usr/bin/env bash
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
#
# Set-up, then the demonstration of the data pipeline: an embedded bus, generated
# notifications of three services sent through the driver, Spark with the data source
# "amqp1", the gold tables, and a page with plots. Arguments go to "amqp1 pipeline demo".
# The first run compiles proton and fetches Spark (about 500 MB); the next starts at once.

set -euo pipefail
# shellcheck source=tools/lib.sh
. "$(dirname "$0")/lib.sh"

amqp1_setup spark
exec "$VENV/bin/python" -m amqp1_driver.cli.main pipeline demo "$@"
