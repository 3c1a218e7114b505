# SPDX-License-Identifier: Apache-2.0

import setuptools

FOLDER = "amqp1_driver/engine/_speedups"
FLAGS = ["-fvisibility=hidden", "-Wall", "-Wextra"]

# optional: where they can't be built the driver does without them, see engine/connection.py and
# codec/json_text.py
SPEEDUPS = setuptools.Extension(
    "amqp1_driver.engine._speedups",
    sources=[f"{FOLDER}/{name}.c" for name in ("module", "events", "messages")],
    depends=[f"{FOLDER}/speedups.h"],
    extra_compile_args=FLAGS,
    optional=True,
)
PLAIN = setuptools.Extension(
    "amqp1_driver.codec._plain",
    sources=["amqp1_driver/codec/_plain.c"],
    extra_compile_args=FLAGS,
    optional=True,
)

setuptools.setup(setup_requires=["pbr>=6.1.1"], pbr=True, ext_modules=[SPEEDUPS, PLAIN])
