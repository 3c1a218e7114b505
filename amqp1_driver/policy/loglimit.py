# SPDX-License-Identifier: Apache-2.0

"""A limit on log lines of one kind, so that a peer cannot fill the log. For any thread."""

#: lines of one kind in an interval
LINES = 10
#: length of an interval, seconds
SECONDS = 60.0


class LogLimit:
    """A limit that admits the first lines of each interval and counts the others.

    For any thread; two threads at once may get one line too many.

    :param lines: lines admitted in an interval
    :param seconds: length of an interval
    """

    def __init__(self, lines: int = LINES, seconds: float = SECONDS) -> None:
        self._lines = lines
        self._seconds = seconds
        self._until = float("-inf")
        self._logged = self._left_out = 0

    def note(self, now: float) -> str | None:
        """Count a line, and return whether to log it.

        :param now: monotonic seconds
        :returns: text to append to the line, often empty; None: do not log the line
        """
        if now >= self._until:
            self._until = now + self._seconds
            self._logged = 0
        if self._logged >= self._lines:
            self._left_out += 1
            return None
        self._logged += 1
        left_out, self._left_out = self._left_out, 0
        if left_out:
            return f" ({left_out} more such lines were left out before this one)"
        if self._logged == self._lines:
            return f" (further lines like this are left out for up to {self._seconds:g} s)"
        return ""
