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

"""Options of the same kind, made the same way."""

from typing import Any

from oslo_config import cfg

#: options that the driver in oslo.messaging had in this group
OLD: dict[str, Any] = {"deprecated_group": "amqp1"}


def seconds(name: str, default: float, help: str, minimum: float = 0.001, **kw: Any) -> cfg.Opt:
    return cfg.FloatOpt(name, default=default, min=minimum, help=help, **kw)


def count(name: str, default: int, help: str, minimum: int = 1, **kw: Any) -> cfg.Opt:
    return cfg.IntOpt(name, default=default, min=minimum, help=help, **kw)


def text(name: str, default: str | None, help: str, **kw: Any) -> cfg.Opt:
    return cfg.StrOpt(name, default=default, help=help, **kw)
