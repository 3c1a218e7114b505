# SPDX-License-Identifier: Apache-2.0

"""The jobs as commands: ``amqp1 pipeline JOB``, and by spark-submit."""
