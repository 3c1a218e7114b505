# SPDX-License-Identifier: Apache-2.0

"""Events, and the flat record that each of them becomes. Pure, for any thread.

The code that an event concerns makes the event from values it has at hand. For a message, which is
the most frequent event, that is a :class:`Message`, with durations as float seconds: the hub's
thread, for which no caller waits, makes the record later. All other events are records already.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring
from typing import NamedTuple, get_type_hints

KINDS = ("send", "reply", "stall", "resume", "connection", "link")
SEND, REPLY, STALL, RESUME, CONNECTION, LINK = KINDS
#: the first four with SEND, the others with REPLY
OPERATIONS = ("call", "cast", "fanout", "notification", "reply", "heartbeat")
CALL, CAST, FANOUT, NOTIFICATION, ANSWER, HEARTBEAT = OPERATIONS
OUTCOMES = ("accepted", "rejected", "released", "modified", "unknown", "none", "timeout")
ACCEPTED, REJECTED, RELEASED, MODIFIED, UNKNOWN, NONE, TIMEOUT = OUTCOMES
STAGES = ("handover", "connection", "link", "credit", "acknowledgement", "reply")
HANDOVER, AT_CONNECTION, AT_LINK, CREDIT, ACKNOWLEDGEMENT, AT_REPLY = STAGES


class Record(NamedTuple):
    """One event as a flat row; a field that does not apply is None. Durations are microseconds.

    :param time: end of the event, microseconds since 1970
    :param kind: send (by a caller), reply (by a server), stall, resume, connection, link
    :param container: container-id of the connection, which is unique for each process
    :param pid: process id
    :param host: host:port of the bus
    :param address: address on the bus; the routing key if there was no connection that determines
        the address; None for a link to the anonymous terminus
    :param operation: call, cast, fanout, notification (send); reply, heartbeat (reply)
    :param outcome: of a message: accepted; rejected, released or modified by the bus; unknown:
        link or connection lost after the message was sent; none: never sent, or (without
        ``error``) sent settled, without asking for an outcome; timeout. Of a resume: none if the
        stall ended because the link was lost or no message waits any more, otherwise None
    :param error: condition of the peer's error, or name of the exception's class
    :param stage: of a message that failed, the stage at which it failed: handover, connection,
        link, credit, acknowledgement, reply. Of a stall and its resume: credit if messages wait
        to be sent, None if a subscription's credit is used up
    :param handover_us: from the caller to the I/O thread
    :param wait_us: from the end of ``handover_us`` until the last attempt sent the message: the
        wait for connection, link and credit
    :param ack_us: from sending to the outcome; None also if the reply came first
    :param reply_us: from sending to the reply
    :param total_us: of a message, duration for the caller; of a resume, duration of the stall
    :param size: bytes of the body
    :param credit: of the stall and resume of a subscription, credit limit of its link
    :param state: the new state of the connection or link, as in the state tables
    :param dropped: events that this process dropped since the previous record, normally 0
    """

    time: int
    kind: str
    container: str
    pid: int
    host: str | None = None
    address: str | None = None
    operation: str | None = None
    message_id: str | None = None
    outcome: str | None = None
    error: str | None = None
    stage: str | None = None
    handover_us: int | None = None
    wait_us: int | None = None
    ack_us: int | None = None
    reply_us: int | None = None
    total_us: int | None = None
    size: int | None = None
    credit: int | None = None
    state: str | None = None
    dropped: int = 0

    def record(self, dropped: int = 0) -> "Record":
        return self._replace(dropped=dropped) if dropped else self


#: names of the columns, in order
FIELDS: tuple[str, ...] = Record._fields
#: columns that are text; all others but ``time`` are 64-bit integers
TEXTS = frozenset(
    name for name, kind in get_type_hints(Record).items() if kind in (str, str | None)
)


class Origin(NamedTuple):
    """The connection (by its container-id) and process that events come from."""

    container: str
    pid: int


class Message(NamedTuple):
    """The end of a message's delivery: its outcome or reply has come, or it has failed.

    Durations are seconds, with the meaning of the fields of :class:`Record`; None: the message did
    not reach that stage.

    :param time: wall clock, seconds since 1970
    :param kind: SEND or REPLY
    """

    origin: Origin
    time: float
    kind: str
    host: str | None
    address: str | None
    operation: str
    message_id: str
    outcome: str
    error: str | None
    stage: str | None
    handover: float | None
    wait: float | None
    ack: float | None
    reply: float | None
    total: float
    size: int

    def record(self, dropped: int = 0) -> Record:
        (container, pid), time, kind, *texts, handover, wait, ack, reply, total, size = self
        values = (
            round(time * 1e6),
            kind,
            container,
            pid,
            *texts,
            None if handover is None else round(handover * 1e6),
            None if wait is None else round(wait * 1e6),
            None if ack is None else round(ack * 1e6),
            None if reply is None else round(reply * 1e6),
            round(total * 1e6),
            size,
            None,
            None,
            dropped,
        )
        return Record._make(values)  # in less time than by the constructor


Event = Message | Record


def iso(us: int) -> str:
    """Format microseconds since 1970 as 2026-11-22T00:15:00.000001Z."""
    whole, rest = divmod(us, 1000000)
    return f"{_second(whole)}.{rest:06d}Z"


@lru_cache(100)
def _second(whole: int) -> str:
    return datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")


#: JSON text before the value of each column but the first
_HEADS = [f',"{name}":' for name in FIELDS[1:]]


def to_lines(records: Sequence[Record]) -> bytes:
    """Encode records as JSON lines in UTF-8, each with its line feed.

    The lines leave out fields that are None; the time is ISO 8601 in UTC. This function
    makes the JSON itself, because it runs for every message; the json module takes twice as long.
    """
    parts: list[str] = []
    add = parts.append
    for record in records:
        add('{"time":"')
        add(iso(record.time))
        add('"')
        for head, value in zip(_HEADS, record[1:], strict=True):
            if value is not None:
                add(head)
                add(encode_basestring(value) if isinstance(value, str) else str(value))
        add("}\n")
    return "".join(parts).encode("utf-8", "replace")
