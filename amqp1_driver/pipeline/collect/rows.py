# SPDX-License-Identifier: Apache-2.0

"""Rows of the spool, made of deliveries; an undecodable message becomes a row, too. Any thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from amqp1_driver.connection.receiver import Delivery
from amqp1_driver.exceptions import DecodeError
from amqp1_driver.pipeline.collect.decode import Content
from amqp1_driver.pipeline.spool import UNDECODABLE, Row
from amqp1_driver.pipeline.spool.rows import REASON_LENGTH, ROW_BYTES, sizes

LOG = logging.getLogger(__name__)


class Known(Protocol):
    """The part of a spool that can tell new rows from those it has."""

    def fresh(self, rows: Sequence[Row]) -> list[Row]: ...


def row_of(delivery: Delivery, received: float, decode: Callable[[bytes], Content]) -> Row:
    """Make the row of a delivery; never raise an error.

    A defect of the decoder makes one message undecodable, and does not stop the collector.

    :param decode: see :meth:`Decoder.decode`
    :param received: when the delivery came, seconds since 1970
    """
    at = int(received * 1_000_000)
    try:
        return Row(delivery.address, *decode(delivery.data), at)
    except Exception as error:
        known = isinstance(error, DecodeError)
        problem = str(error) if known else f"{type(error).__name__}: {error}"
        reason = problem[:REASON_LENGTH].encode("utf-8", "replace").decode()
        LOG.error(
            "Undecodable message on %s at %s is kept as it came: %s",
            delivery.address,
            delivery.host,
            reason,
        )
        return Row(
            delivery.address, None, bytes(delivery.data), None, {UNDECODABLE: reason}, 0, None, at
        )


def grown(row: Row) -> int:
    """Return the bytes of the part of a row that can be longer than in its message.

    This part is the body, which may have been compressed. With properties it is the whole row: as
    text, properties can be many times as long as in the message.
    """
    return len(row.body) if row.properties is None else sizes((row,))[0]


def too_large(row: Row, data: bytes, largest: int) -> int:
    """Return the bytes that a row takes in the spool if they exceed ``largest``, or else 0.

    :param data: the message of the row
    :param largest: bytes of the largest row that the spool ever takes
    """
    # no text of a row is longer than four times its encoding, see spool.rows
    if grown(row) + 5 * len(data) + ROW_BYTES <= largest:
        return 0
    size = sizes((row,))[0]
    return size if size > largest else 0


def fresh(rows: Sequence[Row], spool: Known) -> Sequence[Row]:
    """Return the rows without those that the spool, or this batch, has already.

    The bus marks a message that it delivers again by its delivery-count. The function looks up the
    ids of these messages only: an id that a sender uses twice is no reason to drop a message.
    """
    again = [row for row in rows if row.delivery_count and row.message_id is not None]
    if not again:
        return rows
    first = {row.message_id for row in rows if not row.delivery_count}
    new = {id(row) for row in spool.fresh(again) if row.message_id not in first}
    return [
        row for row in rows if not row.delivery_count or row.message_id is None or id(row) in new
    ]
