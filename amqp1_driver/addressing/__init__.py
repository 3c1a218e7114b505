# SPDX-License-Identifier: Apache-2.0

"""Translation of oslo.messaging destinations into addresses of a bus. Pure, for any thread."""
