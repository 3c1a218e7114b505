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

"""How many callers a mesh carries: a discrete-event model, its costs, its sweeps and its checks.

The model (``setup``, ``costs``, ``machine``, ``windows``, ``mesh``, ``sources``, ``result``) needs
simpy and nothing of Spark, of the driver or of the machine that it runs on. ``measure`` and ``fit``
make costs of real runs, ``plan`` makes the rows of a sweep, ``sweep`` runs them on Spark.
"""
