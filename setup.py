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

import setuptools

FOLDER = "amqp1_driver/protocol/compiled"

# optional: where it can't be built the driver does without it, see protocol/engine.py
COMPILED = setuptools.Extension(
    "amqp1_driver.protocol._compiled",
    sources=[f"{FOLDER}/{name}.c" for name in ("module", "events", "messages")],
    depends=[f"{FOLDER}/compiled.h"],
    extra_compile_args=["-fvisibility=hidden", "-Wall", "-Wextra"],
    optional=True,
)

setuptools.setup(setup_requires=["pbr>=6.1.1"], pbr=True, ext_modules=[COMPILED])
