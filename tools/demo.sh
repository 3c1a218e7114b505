#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Set-up, then the demonstration: an embedded bus, RPC servers in processes of
# their own, a notification listener, and what oslo.messaging does with them.
# Arguments go to "amqp1 demo". The first run compiles proton; the next starts at once.

set -euo pipefail
# shellcheck source=tools/lib.sh
. "$(dirname "$0")/lib.sh"

amqp1_setup runtime
exec "$VENV/bin/python" -m amqp1_driver.cli.main demo "$@"
