# SPDX-License-Identifier: Apache-2.0

"""The notification lake: its folders, and the stages that fill them.

``plan`` holds what the job is to do. ``storage`` handles files on the lake's file system, and
``layout`` the lake's folders and tables. ``bronze``, ``silver`` and ``gold`` are the stages, which
``job`` runs in order. ``figures`` and ``page`` make the report. All of them run on the driver
program's thread, except the batches of silver.
"""
