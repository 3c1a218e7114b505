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

"""What flow control is worth to oslo.messaging: senders and a receiver in one process, on RabbitMQ.

A fast queue and a slow one are used at the same time over one transport, and each alone before:
what one loses by the other's company is what flow control of the whole connection costs.
"""
