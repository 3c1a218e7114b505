# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Deliveries as rows of the spool; what cannot be read is a row, too."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from amqp1_driver.exceptions import DecodeError
from amqp1_driver.pipeline.collect.decode import Content
from amqp1_driver.pipeline.spool import Row
from amqp1_driver.protocol.receiver import Delivery

LOG = logging.getLogger(__name__)

#: property of a row whose body is a whole message that could not be read: the reason
UNDECODABLE = "amqp1:undecodable"


class Known(Protocol):
    """The part of a spool that knows what it has."""

    def fresh(self, rows: Sequence[Row]) -> list[Row]: ...


def row_of(delivery: Delivery, received: float, decode: Callable[[bytes], Content]) -> Row:
    """The row of a delivery; never raises.

    :param decode: see :meth:`Decoder.decode`
    :param received: seconds since 1970
    """
    at = int(received * 1_000_000)
    try:
        return Row(delivery.address, *decode(delivery.data), at)
    except DecodeError as error:
        LOG.error("Undecodable message on %s at %s is kept as it came: %s", delivery.address,
                  delivery.host, error)
        reason = str(error).encode("utf-8", "replace").decode()
        return Row(delivery.address, None, bytes(delivery.data), None, {UNDECODABLE: reason},
                   0, None, at)


def fresh(rows: Sequence[Row], spool: Known) -> Sequence[Row]:
    """Without those that were delivered before and are in the spool, or among these, already.

    Whether a message comes again the bus says by its delivery-count: only then is its id
    looked for, and who gives two messages the same id does not lose one for that.
    """
    again = [row for row in rows if row.delivery_count and row.message_id is not None]
    if not again:
        return rows
    first = {row.message_id for row in rows if not row.delivery_count}
    new = {id(row) for row in spool.fresh(again) if row.message_id not in first}
    return [row for row in rows
            if not row.delivery_count or row.message_id is None or id(row) in new]
