# SPDX-License-Identifier: Apache-2.0

"""AMQP 1.0 on one physical connection, by proton and pyngus; sans-I/O."""
