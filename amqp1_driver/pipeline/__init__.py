# SPDX-License-Identifier: Apache-2.0

"""The data pipeline that takes notifications and telemetry through Spark; extra ``spark``.

The driver does not import this package. Each module says on which thread it runs.
"""
