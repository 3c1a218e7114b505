#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A cloud of real OpenStack services on this machine, on this driver: Keystone, Placement, Glance,
# Neutron, Cinder and Nova from PyPI, MariaDB from Debian, in private folders and on ports of their
# own. It is taken through a scenario by the public APIs; then all of it ends.
#
#   bash tools/cloud.sh                          on the embedded router, with two hosts
#   bash tools/cloud.sh --bus rabbitmq-4.3 --computes 10
#   bash tools/cloud.sh --bus rabbitmq-4.3 --driver rabbit
#   bash tools/cloud.sh --help

set -euo pipefail
# shellcheck source=tools/lib.sh
. "$(dirname "$0")/lib.sh"

cd "$TOP"
ensure_system runtime
bash tools/mariadb.sh install
exec "$PYTHON" -m tests.cloud.setup "$@"
