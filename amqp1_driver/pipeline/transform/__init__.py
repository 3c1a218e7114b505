# SPDX-License-Identifier: Apache-2.0

"""Pure transformations, DataFrame to DataFrame, one module per table.  Any thread.

A transformation only extends Spark's plan. It does not read, write or start a job of Spark; the
callers choose sources, sinks and order.
"""
