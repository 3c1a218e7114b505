# SPDX-License-Identifier: Apache-2.0

"""The bridge between threads of the application and the I/O thread."""
