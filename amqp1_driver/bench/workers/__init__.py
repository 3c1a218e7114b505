# SPDX-License-Identifier: Apache-2.0

"""The measuring processes of ``amqp1 bench``.

They run in any virtual environment, also in one without this project: these modules import only
each other, the standard library and the libraries that they measure.
"""
