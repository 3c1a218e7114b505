# SPDX-License-Identifier: Apache-2.0

"""Makes AMQP1_USERNAME with AMQP1_PASSWORD a user of a running Broker-J, in place of "guest".

    python brokerj_users.py NODE

Goes by its REST API on the loopback interface. The administrator gets the same password.
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import sys
import urllib.error
import urllib.parse
import urllib.request

_NO_PROXY = urllib.request.ProxyHandler({})
_SECONDS = 20


class Api:
    """The users of the authentication provider "plain"."""

    def __init__(self, port: int, password: str) -> None:
        self._base = f"http://127.0.0.1:{port}/api/latest/user/plain/"
        self._password = password

    def request(self, method: str, user: str, body: dict[str, str] | None = None) -> int:
        """Returns the HTTP status."""
        request = urllib.request.Request(self._base + urllib.parse.quote(user, safe=""))
        request.method = method
        credentials = base64.b64encode(f"admin:{self._password}".encode()).decode()
        request.add_header("Authorization", f"Basic {credentials}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.build_opener(_NO_PROXY).open(request, timeout=_SECONDS) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code


def main(node: pathlib.Path) -> int:
    user, password = os.environ["AMQP1_USERNAME"], os.environ["AMQP1_PASSWORD"]
    port = int((node / "admin").read_text())
    # the second one where this ran before
    for known in ("admin", password):
        api = Api(port, known)
        if api.request("GET", "admin") == 200:
            break
    else:
        print("Broker-J refuses its administrator", file=sys.stderr)
        return 1
    status = api.request("PUT", user, {"name": user, "type": "managed", "password": password})
    if status not in (200, 201):
        print(f"Broker-J does not make the user: HTTP {status}", file=sys.stderr)
        return 1
    if user != "guest":
        api.request("DELETE", "guest")
    if known != password:
        status = api.request("POST", "admin", {"password": password})
    return 0 if status in (200, 201) else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
