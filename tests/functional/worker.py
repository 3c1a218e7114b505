# SPDX-License-Identifier: Apache-2.0

"""Runs oslo.messaging's functional tests, one after the other, inside the suite's own venv.

Usage: worker.py native|eventlet

Imports nothing of this project. Talks JSON lines on what was its standard output: first
{"tests": [ids]}; then, for every test id read from standard input,
{"id", "outcome": passed|failed|skipped, "detail", "seconds"}. Whatever the tests print goes to
standard error.

Which thread model the suite runs under is decided by upstream at import: from 16.0 to 18.3
oslo_messaging/tests/__init__.py calls eventlet.monkey_patch(), always, and its fixtures ask for the
"eventlet" executor by name. So

- eventlet: patch before anything else is imported, as a service does, which is stricter than
  upstream (whose oslo_messaging is imported before the patch);
- native: the call to monkey_patch does nothing, and the executor called "eventlet" is the
  one of native threads, which is what oslo.messaging takes when it is left to choose.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import itertools
import json
import os
import sys
import threading
import time
import unittest

#: After so many seconds the stacks of a hanging test go to standard error; the parent then ends us.
HANG_SECONDS = 100


def choose_threads(model: str) -> None:
    """Make the process patched or not, before any other import."""
    import eventlet

    if model == "eventlet":
        eventlet.monkey_patch()
        return
    if model != "native":
        raise SystemExit(f"unknown thread model {model!r}")
    eventlet.monkey_patch = lambda *_args, **_kwargs: None

    import futurist

    futurist.GreenThreadPoolExecutor = futurist.ThreadPoolExecutor


def check_threads(model: str) -> None:
    """Say so if the suite's own imports changed the model that was chosen."""
    from eventlet import patcher

    if patcher.is_monkey_patched("thread") != (model == "eventlet"):
        raise SystemExit(f"threads are not {model} after the suite was imported")


def take_roles() -> None:
    """Where the transport URL names several hosts: servers use the first one, clients the others.

    So that on a mesh each message goes from one router to another. Not every transport the next
    host: a mesh gives to the server next to the client what that one can take, and upstream
    expects something to be left for each server.
    """
    from oslo_messaging import transport
    from oslo_messaging.tests.functional import utils

    parse, turns, serving = transport.TransportURL.parse, itertools.count(), threading.local()

    def parsed(*args, **kwargs):
        url = parse(*args, **kwargs)
        first, *others = url.hosts or [None]
        if others:
            server = getattr(serving, "now", False)
            url.hosts[:] = [first if server else others[next(turns) % len(others)]]
        return url

    def in_role(set_up):
        def wrapped(self):
            serving.now = True
            try:
                set_up(self)
            finally:
                serving.now = False

        return wrapped

    transport.TransportURL.parse = staticmethod(parsed)
    for fixture in (utils.RpcServerFixture, utils.NotificationFixture):
        fixture.setUp = in_role(fixture.setUp)


def load() -> dict[str, unittest.TestCase]:
    """All tests of the suite in the wheel, by id."""
    spec = importlib.util.find_spec("oslo_messaging")
    top = os.path.dirname(os.path.dirname(spec.origin))
    folder = os.path.join(top, "oslo_messaging", "tests", "functional")
    found = unittest.TestLoader().discover(folder, pattern="test_*.py", top_level_dir=top)
    return {test.id(): test for test in _flatten(found)}


def _flatten(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from _flatten(item)
        else:
            yield item


class Outcome(unittest.TestResult):
    """The one outcome of one test."""

    def __init__(self) -> None:
        super().__init__()
        self.outcome, self.detail = "passed", ""

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.outcome, self.detail = "skipped", reason

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._failed(self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self._failed(self.errors[-1][1])

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._failed("unexpected success")

    def _failed(self, text):
        self.outcome, self.detail = "failed", (self.detail + "\n" + text).strip()


def run(test: unittest.TestCase) -> dict:
    result, since = Outcome(), time.monotonic()
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=False)
    try:
        test(result)
    finally:
        faulthandler.cancel_dump_traceback_later()
    return {
        "id": test.id(),
        "outcome": result.outcome,
        "detail": result.detail,
        "seconds": round(time.monotonic() - since, 2),
    }


def main() -> None:
    model = sys.argv[1]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    choose_threads(model)
    tests = load()
    check_threads(model)
    take_roles()
    print(json.dumps({"tests": list(tests)}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(run(tests[line.strip()])), file=answers, flush=True)
    # Threads that a failed test left behind must not keep the process.
    answers.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
