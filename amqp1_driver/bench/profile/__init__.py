# SPDX-License-Identifier: Apache-2.0

"""The profiler of a benchmark: the processor time of clients and servers by layer of the code."""
