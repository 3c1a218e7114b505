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

"""The descriptors that a loop watches, and the one that wakes it."""

from collections.abc import Callable

from amqp1_driver.eventloop.loan import Loan
from amqp1_driver.eventloop.poller import READ, WRITE, EpollPoller, Waker, make_poller

Callback = Callable[[], object]


class _Registration:
    __slots__ = ("active", "mask", "on_readable", "on_writable")

    def __init__(self, on_readable: Callback, on_writable: Callback) -> None:
        self.on_readable = on_readable
        self.on_writable = on_writable
        self.mask = READ
        self.active = True


class Watch:
    """A poller, its waker and what to call. wake() on any thread, all else on the loop's.

    :raises OSError: out of descriptors
    """

    def __init__(self) -> None:
        self._registrations: dict[int, _Registration] = {}
        self._waker = Waker()
        try:
            self._poller = make_poller()
        except BaseException:
            self._waker.close()
            raise
        self._read_wakeups = self._poller.add_waker(self._waker.fileno())
        #: What has happened, after up to so many seconds (None: any time).
        self.wait: Callable[[float | None], list[tuple[int, int]]] = self._poller.poll
        #: whether it may be changed by another thread while one waits in it
        self.shared = isinstance(self._poller, EpollPoller)
        #: counts what was registered and unregistered
        self.changes = 0
        self._loan: Loan | None = None

    def wake(self) -> None:
        """Have wait() return."""
        self._waker.wake()

    def look_again(self) -> list[tuple[int, int]]:
        """The watched have changed during wait(): a number in its answer may belong to another
        file by now. What is ready still is."""
        self._waker.clear(self._read_wakeups)
        return self._poller.poll(0)

    def register(self, fileno: int, on_readable: Callback, on_writable: Callback) -> None:
        """Watch for reading."""
        self.changes += 1
        self._poller.add(fileno, READ)
        self._registrations[fileno] = _Registration(on_readable, on_writable)

    def set_writable(self, fileno: int, wanted: bool) -> None:
        """Watch for writing too, or no more."""
        registration = self._registrations[fileno]
        mask = READ | WRITE if wanted else READ
        if mask != registration.mask:
            registration.mask = mask
            self._poller.change(fileno, mask)

    def is_registered(self, fileno: int) -> bool:
        """Is it watched?"""
        return fileno in self._registrations

    def unregister(self, fileno: int) -> None:
        """Watch it no more."""
        self.changes += 1
        registration = self._registrations.pop(fileno)
        registration.active = False  # its events of this batch are void
        self.recall()
        self._poller.remove(fileno)

    def lend(self) -> Loan | None:
        """The only descriptor, for another thread to wait for; None if there is not just one
        that is to be read, or no descriptor left to call that thread away by. wait() does not
        tell of it until it is given back.
        """
        poller = self._poller
        if len(self._registrations) != 1 or not isinstance(poller, EpollPoller):
            return None
        [(fileno, registration)] = self._registrations.items()
        if registration.mask != READ:
            return None
        if self._loan is None:
            try:
                self._loan = Loan()
            except OSError:
                return None
        poller.pause(fileno)
        self._loan.begin(fileno, registration)
        return self._loan

    def recall(self) -> None:
        """Have the thread that waits for what was lent look up."""
        if self._loan is not None and self._loan.out:
            self._loan.recall()

    def read_lent(self, loan: Loan) -> None:
        """What was lent can be read."""
        registration = self._registrations.get(loan.fileno)
        if registration is not None:
            registration.on_readable()

    def take_back(self, loan: Loan) -> None:
        """wait() tells of it again."""
        loan.out = False
        registration = self._registrations.get(loan.fileno)
        if registration is not None:
            self._poller.change(loan.fileno, registration.mask)

    def dispatch(self, events: list[tuple[int, int]]) -> None:
        """Call what is to be called for the answer of wait()."""
        if len(events) == 1:
            fd, mask = events[0]
            only = self._registrations.get(fd)
            if mask == READ and only is not None:
                only.on_readable()
            else:
                self._tell(only, mask)
            return
        # All lookups come before the first callback: a descriptor number that is closed and
        # opened again meanwhile must not get the events of its predecessor.
        registrations = self._registrations
        ready = [(registrations.get(fd), mask) for fd, mask in events]
        for registration, mask in ready:
            self._tell(registration, mask)

    def _tell(self, registration: _Registration | None, mask: int) -> None:
        if registration is None:
            self._waker.clear(self._read_wakeups)
            return
        if mask & READ and registration.active:
            registration.on_readable()
        if mask & WRITE and registration.active and registration.mask & WRITE:
            registration.on_writable()

    def close(self) -> None:
        """Give the descriptors back."""
        self._poller.close()
        self._waker.close()
        if self._loan is not None and not self._loan.out:
            self._loan.close()

    def abandon(self) -> None:
        """close() in the child of a fork: unregisters nothing, takes no lock."""
        self._poller.close()
        self._waker.abandon()
        if self._loan is not None:
            self._loan.close()
