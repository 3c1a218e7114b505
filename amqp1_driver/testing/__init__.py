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
"""What tests, of this project and of others, can use against an AMQP 1.0 client.

``clock`` a clock moved by hand; ``wire``, ``performatives``, ``messages`` and ``frames`` a small
AMQP 1.0 codec of their own (neither the driver's nor proton's, so that no two sides can be wrong
together); ``peer`` a server that follows a script frame by frame; ``proxy`` a TCP proxy with
faults; ``fixture`` the embedded bus in a thread or in a process.

Nothing of the driver imports this package.
"""
