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

"""Realistic notifications of three services, for the demo, tests and load.

``payloads`` what services write; ``notification`` the envelopes; ``story`` two fixed days whose
tables can be computed by hand; ``cloud`` any number of life cycles from a seed; ``faults`` what
goes wrong on the way; ``send`` to a bus.

Everything is made from its arguments: the same seed makes the same bytes.
"""
