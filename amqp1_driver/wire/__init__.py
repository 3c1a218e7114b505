# SPDX-License-Identifier: Apache-2.0

"""The AMQP 1.0 codec of the embedded bus and of the scripted peer.

``types`` encodes and decodes values, ``performatives`` composite types, ``messages`` messages and
``frames`` frames. ``outline`` reads and changes single fields of an encoded message without
decoding the rest; the bus does this for each message.

The codec is neither the driver's nor proton's, so that no mistake is common to both ends of a
connection. It imports only the standard library. Pure functions and plain objects, any thread.
"""
