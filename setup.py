# SPDX-License-Identifier: Apache-2.0

import setuptools

FOLDER = "amqp1_driver/engine/_speedups"

# optional: where it can't be built the driver does without it, see engine/connection.py
SPEEDUPS = setuptools.Extension(
    "amqp1_driver.engine._speedups",
    sources=[f"{FOLDER}/{name}.c" for name in ("module", "events", "messages")],
    depends=[f"{FOLDER}/speedups.h"],
    extra_compile_args=["-fvisibility=hidden", "-Wall", "-Wextra"],
    optional=True,
)

setuptools.setup(setup_requires=["pbr>=6.1.1"], pbr=True, ext_modules=[SPEEDUPS])
