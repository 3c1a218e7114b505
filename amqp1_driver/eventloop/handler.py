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

"""What a transport and its owner have to say to each other."""

from typing import Protocol


class TransportHandler(Protocol):
    """What a transport tells and asks its owner, on the loop thread."""

    def connected(self, description: str) -> None:
        """TCP, and TLS if asked for, are up; ``description`` is for logs."""

    def data_received(self, data: bytes) -> None:
        """The peer sent this, never empty."""

    def pending_output(self) -> "memoryview | bytes | None":
        """What is to be sent next, None or empty without anything. Not consumed yet."""

    def output_written(self, n: int) -> None:
        """The first ``n`` bytes of pending_output() have been taken."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The end, exactly once. None: close() was called.

        Otherwise ConnectError, TlsError, Disconnected, or LoopClosed as the loop ended.
        """
