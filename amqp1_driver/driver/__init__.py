# SPDX-License-Identifier: Apache-2.0

"""The driver as oslo.messaging calls it, on threads of the application."""

from amqp1_driver.driver.driver import Amqp1Driver

__all__ = ["Amqp1Driver"]

# the module in which the entry point and users find the class
Amqp1Driver.__module__ = __name__
