#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
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
