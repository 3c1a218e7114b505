# SPDX-License-Identifier: Apache-2.0

"""The command ``amqp1``: one program with subcommands, each in a module of its own."""
