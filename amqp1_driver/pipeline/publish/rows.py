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

"""Rows of a data frame as messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from amqp1_driver.addressing.base import Destination
from amqp1_driver.pipeline import bus

#: columns that mean something, and the Spark types that they may have
COLUMNS = {
    "body": ("binary", "string"),
    "address": ("string",),
    "message_id": ("string",),
    "content_type": ("string",),
    "properties": ("map<string,string>",),
}


class Outgoing(NamedTuple):
    """A message that is ready."""

    destination: Destination
    message_id: str
    body: bytes
    content_type: str | None
    properties: dict[str, str] | None


def check(columns: Iterable[tuple[str, str]], destination: Destination | None) -> None:
    """Refuse a data frame whose rows are no messages.

    :param columns: name and Spark's simple type of each
    :param destination: of rows without an address
    :raises ValueError: naming the column at fault
    """
    types = dict(columns)
    if "body" not in types:
        raise ValueError("a column 'body' of type binary or string is needed")
    if destination is None and "address" not in types:
        raise ValueError("where to send: option 'address' or 'topic', or a column 'address'")
    for name, kind in types.items():
        if name not in COLUMNS:
            raise ValueError(f"column {name!r} would be lost: a message has "
                             + ", ".join(COLUMNS))
        if kind not in COLUMNS[name]:
            raise ValueError(f"column {name!r} is {kind}, not {' or '.join(COLUMNS[name])}")


def messages(batches: Iterable[Any], destination: Destination | None,
             make_id: Callable[[int], str]) -> Iterator[Outgoing]:
    """The rows of Arrow record batches as messages, in order.

    A null body is sent as an empty one.

    :param destination: of rows without an address
    :param make_id: the id of the row of that number, for rows that have none
    :raises ValueError: a row has no address, and there is none for all
    """
    number = 0
    known: dict[str, Destination] = {}
    for batch in batches:
        for address, message_id, body, content_type, properties in zip(
                *(_column(batch, name) for name in
                  ("address", "message_id", "body", "content_type", "properties")), strict=True):
            where = destination
            if address is not None:
                where = known.get(address) or known.setdefault(address, bus.node(address))
            if where is None:
                raise ValueError(f"row {number} of this task has no address, and there is no "
                                 "option 'address' or 'topic' for such")
            yield Outgoing(where, message_id if message_id is not None else make_id(number),
                           body.encode() if isinstance(body, str) else body or b"", content_type,
                           _properties(properties))
            number += 1


def _column(batch: Any, name: str) -> Sequence[Any]:
    at = batch.schema.get_field_index(name)
    if at < 0:
        return [None] * batch.num_rows
    values: Sequence[Any] = batch.column(at).to_pylist()
    return values


def _properties(pairs: Sequence[tuple[str, str | None]] | None) -> dict[str, str] | None:
    """Nulls are left out: AMQP has no null strings in application-properties that all can read."""
    if not pairs:
        return None
    return {key: value for key, value in pairs if value is not None}
