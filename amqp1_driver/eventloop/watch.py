# SPDX-License-Identifier: Apache-2.0

"""The descriptors that a loop watches, and the one that wakes the loop; loop thread."""

from collections.abc import Callable
from dataclasses import dataclass

from amqp1_driver.eventloop.borrowed_fd import BorrowedFd
from amqp1_driver.eventloop.poller import (
    ERROR,
    MAX_EVENTS,
    READ,
    WRITE,
    EpollPoller,
    Poll,
    Waker,
    make_poller,
)

Callback = Callable[[], object]


@dataclass(slots=True, eq=False)
class _Registration:
    on_readable: Callback
    on_writable: Callback
    failed: Callable[[Exception], object] | None
    mask: int = READ
    active: bool = True


class Watch:
    """A poller with its waker, and the callbacks for each watched descriptor.

    Threads: wait() runs on the loop's own thread without the loop lock
    (``loop_lock``), everything else on the thread that holds ``loop_lock``.

    The result of wait() may be out of date when the loop's own thread holds ``loop_lock`` again.
    ``changes`` then has another value than before wait(), and look_again() polls anew. Events mean
    something only together with the descriptor's registration, so dispatch() looks up the
    registration with ``loop_lock`` held.

    :param waker: the waker of the loop, which the watch opens and closes
    :raises OSError: out of descriptors
    """

    def __init__(self, waker: Waker) -> None:
        self._registrations: dict[int, _Registration] = {}
        self._waker = waker
        waker.open()
        try:
            self._poller = make_poller()
        except BaseException:
            waker.close()
            raise
        self._read_wakeups = self._poller.add_waker(waker.fileno())
        #: waits for events
        self.wait: Poll = self._poller.poll
        #: True if another thread may change the poller while the loop's own thread waits in it
        self.shared = isinstance(self._poller, EpollPoller)
        #: number of calls of register() and unregister() so far
        self.changes = 0
        self._loan: BorrowedFd | None = None

    def look_again(self) -> list[tuple[int, int]]:
        """Poll again without waiting, after registrations have changed during wait().

        A descriptor number in the result of wait() may belong to another file by now. No event is
        lost, as descriptors that are ready stay ready.
        """
        self._waker.clear(self._read_wakeups)
        return self._poller.poll(0, MAX_EVENTS)

    def register(
        self,
        fileno: int,
        on_readable: Callback,
        on_writable: Callback,
        failed: Callable[[Exception], object] | None = None,
    ) -> None:
        """Watch a descriptor for reading.

        :param failed: called with an exception of a callback; None: the exception ends the loop
        """
        self.changes += 1
        self._poller.add(fileno, READ)
        self._registrations[fileno] = _Registration(on_readable, on_writable, failed)

    def set_writable(self, fileno: int, wanted: bool) -> None:
        """Watch a descriptor for writing too, or for reading only."""
        registration = self._registrations[fileno]
        mask = READ | WRITE if wanted else READ
        if mask != registration.mask:
            registration.mask = mask
            self._poller.change(fileno, mask)

    def is_registered(self, fileno: int) -> bool:
        """Return True if a descriptor is watched."""
        return fileno in self._registrations

    def unregister(self, fileno: int) -> None:
        """Stop watching a descriptor, and recall the loan if there is one."""
        self.changes += 1
        registration = self._registrations.pop(fileno)
        registration.active = False  # later events of this batch are dropped
        self.recall()
        self._poller.remove(fileno)

    def lend(self) -> BorrowedFd | None:
        """Lend the only watched descriptor to another thread, which waits for it until take_back().

        Meanwhile wait() reports only errors of that descriptor. An error wakes both threads: the
        thread that gets ``loop_lock`` first handles the error, and the other one sees the new value
        of ``changes``.

        :returns: the loan; None if the loop watches more or less than one descriptor, or watches it
            for writing too, if the poller is not epoll, or if the system refuses
        """
        poller = self._poller
        if len(self._registrations) != 1 or not isinstance(poller, EpollPoller):
            return None
        [(fileno, registration)] = self._registrations.items()
        if registration.mask != READ:
            return None
        try:
            if self._loan is None:
                self._loan = BorrowedFd()
            poller.pause(fileno)
        except OSError:
            return None
        self._loan.begin(fileno, registration)
        return self._loan

    def recall(self) -> None:
        """Make the borrowing thread's wait return, if there is a loan."""
        if self._loan is not None and self._loan.out:
            self._loan.recall()

    def on_borrowed_readable(self, loan: BorrowedFd) -> None:
        """Call on_readable of the lent descriptor."""
        registration = self._registrations.get(loan.fileno)
        if registration is not None:
            try:
                registration.on_readable()
            except Exception as error:
                self._failed(registration, error)

    def take_back(self, loan: BorrowedFd) -> None:
        """End the loan: wait() reports the descriptor again."""
        loan.out = False
        registration = self._registrations.get(loan.fileno)
        if registration is not None:
            self._poller.change(loan.fileno, registration.mask)

    def dispatch(self, events: list[tuple[int, int]]) -> None:
        """Call the callbacks for the events that wait() returned."""
        registrations, changes = self._registrations, self.changes
        for fd, mask in events:
            if fd not in registrations:
                # the waker, or a descriptor that an earlier callback has unregistered
                self._waker.clear(self._read_wakeups)
            elif changes != self.changes:
                # The number may belong to another descriptor by now. No event is lost, as
                # descriptors that are ready stay ready.
                pass
            elif mask != READ:
                self._call_back(registrations[fd], mask)
            else:  # nearly always
                registration = registrations[fd]
                try:
                    registration.on_readable()
                except Exception as error:
                    self._failed(registration, error)

    def _call_back(self, registration: _Registration, mask: int) -> None:
        # A descriptor in error counts as ready for all that it is watched for.
        try:
            if mask & (READ | ERROR) and registration.active:
                registration.on_readable()
            if mask & (WRITE | ERROR) and registration.active and registration.mask & WRITE:
                registration.on_writable()
        except Exception as error:
            self._failed(registration, error)

    @staticmethod
    def _failed(registration: _Registration, error: Exception) -> None:
        """Pass a callback's exception to ``failed``; without ``failed``, it ends the loop."""
        if registration.failed is None:
            raise error
        registration.failed(error)

    def close(self) -> None:
        """Close the descriptors; a thread that has the loan closes the loan."""
        self._poller.close()
        self._waker.close()
        if self._loan is not None and not self._loan.out:
            self._loan.close()

    def abandon(self) -> None:
        """Close the descriptors in the child of a fork, without unregistering or locking."""
        self._poller.close()
        self._waker.abandon()
        if self._loan is not None:
            self._loan.close()
