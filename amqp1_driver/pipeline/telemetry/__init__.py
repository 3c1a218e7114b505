# SPDX-License-Identifier: Apache-2.0

"""The job ``telemetry``: it turns records of the driver into a report with settings to try.

The job runs in the process that plans, on the thread that calls. Spark's workers run only
``arrow_files.decoded``.
"""
