# SPDX-License-Identifier: Apache-2.0

"""Prints RabbitMQ's definitions of the one user that AMQP1_USERNAME and AMQP1_PASSWORD name."""

import json
import os
import sys

_USER, _ALL = os.environ["AMQP1_USERNAME"], ".*"
_RIGHTS = {"configure": _ALL, "write": _ALL, "read": _ALL}

json.dump(
    {
        "vhosts": [{"name": "/"}],
        "users": [{"name": _USER, "password": os.environ["AMQP1_PASSWORD"], "tags": ""}],
        "permissions": [{"user": _USER, "vhost": "/", **_RIGHTS}],
    },
    sys.stdout,
)
