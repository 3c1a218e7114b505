# SPDX-License-Identifier: Apache-2.0

"""The outbox: all messages of a connection that are not sent yet.

A message leaves the outbox when it is put on the wire, and comes back when it has to be sent
again. For each message in the outbox a thread waits, or the bounded backlog of replies counts the
message. Therefore the outbox is bounded too. Sans-I/O; lives on the I/O thread.
"""

from collections.abc import Callable

from amqp1_driver import exceptions
from amqp1_driver.connection.operation import Operation, Place, Queue, expired


class Outbox:
    """Queues of messages; each message is in one queue at most, which its ``queue`` names.

    :param host: returns ``hostname:port``, for errors
    """

    def __init__(self, host: Callable[[], str]) -> None:
        self._host = host
        #: messages that wait for a connection
        self.connection = Queue(Place.CONNECTION, "a connection")
        self._queues: dict[Queue, None] = {}
        self._closed = False

    def __bool__(self) -> bool:
        """Return whether any message waits."""
        return any(queue.operations for queue in self._queues)

    def submit(self, op: Operation, now: float) -> None:
        """Queue a message until there is a connection.

        The message fails at once if its deadline has passed or the outbox is closed.

        :param now: seconds of the loop's clock
        """
        if op.finished:
            return
        if op.deadline.expired(now):
            # The message was in the mailbox for too long; its caller has given up.
            op.fail(expired(op, self._host()))
        elif self._closed:
            op.fail(
                exceptions.Closed(
                    "the transport is closed",
                    host=self._host(),
                    address=op.address,
                    message_id=op.message_id,
                )
            )
        else:
            self.hold(op, self.connection)

    def hold(self, op: Operation, queue: Queue) -> None:
        """Put a message at the end of a queue."""
        op.queue = queue
        queue.operations[id(op)] = op
        self._queues[queue] = None

    def take(self, queue: Queue) -> list[Operation]:
        """Remove all messages of a queue; return those that are not finished, oldest first."""
        operations = [op for op in queue.operations.values() if not op.finished]
        queue.operations.clear()
        return operations

    def requeue(self, queue: Queue) -> None:
        """Move all messages of a queue to those that wait for a connection."""
        for op in self.take(queue):
            self.hold(op, self.connection)

    def remove(self, op: Operation) -> bool:
        """Remove a message that was sent, or whose caller has given up.

        :returns: whether it was in the outbox
        """
        return op.queue is not None and op.queue.operations.pop(id(op), None) is not None

    def expire(self, now: float) -> None:
        """Fail all messages whose deadline has passed.

        :param now: seconds of the loop's clock
        """
        for queue in list(self._queues):
            for op in list(queue.operations.values()):
                if op.finished:
                    self.remove(op)
                elif op.deadline.expired(now):
                    self.remove(op)
                    op.fail(expired(op, self._host()))
            if not queue.operations:
                self._queues.pop(queue, None)

    def fail(self, queue: Queue, error: BaseException) -> None:
        """Fail all messages of a queue."""
        for op in self.take(queue):
            op.fail(error)

    def fail_all(self, error: BaseException) -> None:
        """Fail all messages of all queues."""
        for queue in list(self._queues):
            self.fail(queue, error)
        self._queues.clear()

    def fail_attempt(self, queue: Queue, error: BaseException) -> None:
        """Count a failed attempt to send the messages of a queue.

        A message without retries left fails. A message that waits for a link also fails if the
        error is permanent, or if the message is mandatory and the node does not exist. A message
        that waits for a connection and has unlimited retries stays: an operator may repair the
        hosts.
        """
        before_link = queue is not self.connection
        missing = before_link and exceptions.nobody_there(error)
        for op in list(queue.operations.values()):
            patient = not before_link and op.retry.left is None
            if patient or (op.retry.may_retry(error) and not (missing and op.mandatory)):
                op.retry = op.retry.spent()
            else:
                self.remove(op)
                op.fail(error)

    def close(self, error: BaseException) -> None:
        """Fail the messages that wait for a connection, and all that are submitted later."""
        self._closed = True
        self.fail(self.connection, error)
