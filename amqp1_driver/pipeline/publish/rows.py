# SPDX-License-Identifier: Apache-2.0

"""Conversion of the rows of a data frame into messages. Pure, for any thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from amqp1_driver.addressing.base import Destination
from amqp1_driver.pipeline import bus

#: the columns that a message is made of, and the Spark types that they may have
COLUMNS = {
    "body": ("binary", "string"),
    "address": ("string",),
    "message_id": ("string",),
    "content_type": ("string",),
    "properties": ("map<string,string>",),
}


class Outgoing(NamedTuple):
    """A message that is ready to send."""

    destination: Destination
    message_id: str
    body: bytes
    content_type: str | None
    properties: dict[str, str] | None


def check(columns: Iterable[tuple[str, str]], destination: Destination | None) -> None:
    """Refuse a data frame whose rows are not messages.

    :param columns: name and Spark's simple type of each column
    :param destination: destination of rows without an address; None: a column ``address`` is
        necessary
    :raises ValueError: a column is missing, unknown or of a wrong type; the text names it
    """
    types = dict(columns)
    if "body" not in types:
        raise ValueError("a column 'body' of type binary or string is needed")
    if destination is None and "address" not in types:
        raise ValueError("where to send: option 'address' or 'topic', or a column 'address'")
    for name, kind in types.items():
        if name not in COLUMNS:
            raise ValueError(f"column {name!r} would be lost: a message has " + ", ".join(COLUMNS))
        if kind not in COLUMNS[name]:
            raise ValueError(f"column {name!r} is {kind}, not {' or '.join(COLUMNS[name])}")


def messages(
    batches: Iterable[Any], destination: Destination | None, make_id: Callable[[int], str]
) -> Iterator[Outgoing]:
    """Convert the rows of Arrow record batches into messages, in order.

    A null body becomes an empty one.

    :param destination: destination of rows without an address; None: such rows are an error
    :param make_id: function that returns the message id for a row without one; its argument is the
        number of the row in the task, from 0
    :raises ValueError: a row has no address, and ``destination`` is None
    """
    number = 0
    known: dict[str, Destination] = {}
    for batch in batches:
        for address, message_id, body, content_type, properties in zip(
            *(
                _column(batch, name)
                for name in ("address", "message_id", "body", "content_type", "properties")
            ),
            strict=True,
        ):
            where = destination
            if address is not None:
                where = known.get(address) or known.setdefault(address, bus.node(address))
            if where is None:
                raise ValueError(
                    f"row {number} of this task has no address, and there is no "
                    "option 'address' or 'topic' for such"
                )
            yield Outgoing(
                where,
                message_id if message_id is not None else make_id(number),
                body.encode() if isinstance(body, str) else body or b"",
                content_type,
                _properties(properties),
            )
            number += 1


def _column(batch: Any, name: str) -> Sequence[Any]:
    at = batch.schema.get_field_index(name)
    if at < 0:
        return [None] * batch.num_rows
    values: Sequence[Any] = batch.column(at).to_pylist()
    return values


def _properties(pairs: Sequence[tuple[str, str | None]] | None) -> dict[str, str] | None:
    """Return the properties without nulls; None if there are no properties.

    Not every AMQP client can read a null in application-properties.
    """
    if not pairs:
        return None
    return {key: value for key, value in pairs if value is not None}
