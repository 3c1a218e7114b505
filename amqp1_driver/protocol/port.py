#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Where the protocol ends: sockets, engines and tokens come from outside."""

from typing import Any, Protocol

from amqp1_driver.options import Host
from amqp1_driver.protocol.cbs import TokenSource
from amqp1_driver.protocol.engine import Engine
from amqp1_driver.protocol.sessionlock import Clocks


class Port(Clocks, Protocol):
    """What the connection needs of the world.  Lives on the I/O thread."""

    #: hostname of the next Open frame; None: the name of the host
    virtual_host: str | None

    def connect(self, host: Host) -> None: ...
    def disconnect(self) -> None: ...
    def token_source(self, host: Host) -> TokenSource | None: ...
    def new_engine(self, host: Host, handler: Any) -> Engine: ...
