# SPDX-License-Identifier: Apache-2.0
"""Forks after the transport has been used, as services with worker processes do."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

import oslo_messaging as om


def run(transport: Any, topic: str, children: int, calls: int) -> dict[str, Any]:
    """Calls before the fork; then in each child and in the parent, all at the same time.

    :returns: what each process saw: pid -> {"address": of its replies, "wrong": answers that
        were meant for others, "errors": ...}
    """
    client = om.get_rpc_client(transport, om.Target(topic=topic), timeout=10)
    before = _calls(client, "before", calls)
    started = [_fork(transport, client, calls) for _ in range(children)]
    here = _calls(client, "parent", calls)
    seen = {str(os.getpid()): {"address": _address(transport), **here, "before": before}}
    for pid, pipe in started:
        with os.fdopen(pipe) as stream:
            seen[str(pid)] = json.loads(stream.read() or "{}")
        seen[str(pid)]["status"] = os.waitpid(pid, 0)[1]
    # the children's end has not touched the connection of this process
    seen[str(os.getpid())]["after"] = _calls(client, "after", calls)
    return seen


def _fork(transport: Any, client: Any, calls: int) -> tuple[int, int]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    status = 1
    try:
        seen = _calls(client, f"child-{os.getpid()}", calls)
        seen["address"] = _address(transport)
        transport.cleanup()
        os.write(writing, json.dumps(seen).encode())
        status = 0
    finally:
        os._exit(status)


def _calls(client: Any, name: str, count: int) -> dict[str, Any]:
    """From two threads; each call has a text of its own that has to come back."""
    wrong: list[Any] = []
    errors: list[str] = []

    def work(thread: int) -> None:
        for number in range(count):
            text = f"{name}-{os.getpid()}-{thread}-{number}"
            try:
                answer = client.call({}, "identify", text=text)
            except Exception as error:
                errors.append(repr(error))
                return
            if answer[1] != text:
                wrong.append([text, answer])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"wrong": wrong, "errors": errors}


def _address(transport: Any) -> str | None:
    """Where replies to this process go; nothing public tells it."""
    context = transport._driver._client.context
    return None if context is None else context.reply_address
