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
