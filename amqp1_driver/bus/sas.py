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

"""Tokens that an embedded Service Bus accepts: shared access signatures and JSON Web Tokens.

Pure functions, any thread. A signature is HMAC-SHA256, keyed by the rule's key, over the resource
as the token spells it (URL-encoded), a line feed and the time of expiry (Azure's documentation,
"Service Bus access control with Shared Access Signatures"). A JSON Web Token is signed with HS256
(RFC 7519, 7518): Microsoft's own, which Entra ID signs with its private keys, cannot be had here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, unquote_plus, urlsplit

SEND, LISTEN, MANAGE = "Send", "Listen", "Manage"
ALL_RIGHTS = frozenset((SEND, LISTEN, MANAGE))
_PREFIX = "SharedAccessSignature "


class BadToken(Exception):
    """A token that is not accepted; ``status`` is what the reply to put-token says."""

    def __init__(self, status: int, description: str) -> None:
        super().__init__(description)
        self.status = status


class Rule(NamedTuple):
    """A shared access authorisation rule."""

    key: str
    rights: frozenset[str] = ALL_RIGHTS


class Resource(NamedTuple):
    """What a URI stands for: a host (empty: any) and a path in it, in small letters."""

    host: str
    path: str

    def covers(self, other: Resource) -> bool:
        """True if ``other`` is this resource or below it."""
        if self.host and other.host and self.host != other.host:
            return False
        return not self.path or f"{other.path}/".startswith(f"{self.path}/")


class Grant(NamedTuple):
    """What an accepted token allows, and until when (seconds since 1970)."""

    scope: Resource
    rights: frozenset[str]
    expires: float


def resource(uri: str) -> Resource:
    """Read ``sb://host/path``, ``amqps://…``, ``https://…`` or a mere path."""
    if "://" not in uri:
        return Resource("", uri.strip("/").lower())
    parts = urlsplit(uri)
    return Resource((parts.hostname or "").lower(), unquote(parts.path).strip("/").lower())


def check(text: str, rules: Mapping[str, Rule], secret: str | None, now: float) -> Grant:
    """Verify a token of either kind; raises :class:`BadToken`.

    The kind is seen from the token, not from the type in the request: Microsoft's SDK for Python
    sends signatures as ``jwt``, and the service takes them.
    """
    grant = _signature(text, rules) if text.startswith(_PREFIX) else _jwt(text, secret)
    if not grant.expires > now:  # nor anything that is no number
        raise BadToken(401, f"ExpiredToken: The token is expired. Expiration time: {grant.expires}")
    return grant


def _signature(text: str, rules: Mapping[str, Rule]) -> Grant:
    fields = dict(part.partition("=")[::2] for part in text[len(_PREFIX) :].split("&"))
    try:
        spelled, expiry, name = fields["sr"], fields["se"], unquote_plus(fields["skn"])
        given = base64.b64decode(unquote(fields["sig"]), validate=True)
        expires = float(int(expiry))
    except (KeyError, ValueError, OverflowError, binascii.Error):
        raise BadToken(401, "MalformedToken: sr, sig, se and skn are needed") from None
    rule = rules.get(name)
    if rule is None:
        raise BadToken(401, f"InvalidSignature: There is no rule {name!r}")
    signed = f"{spelled}\n{expiry}".encode()
    if not hmac.compare_digest(given, hmac.digest(rule.key.encode(), signed, hashlib.sha256)):
        raise BadToken(401, "InvalidSignature: The token has an invalid signature.")
    return Grant(resource(unquote_plus(spelled)), rule.rights, expires)


def _jwt(text: str, secret: str | None) -> Grant:
    head, _, rest = text.partition(".")
    body, _, signature = rest.partition(".")
    try:
        header: Any = json.loads(_base64url(head))
        claims: Any = json.loads(_base64url(body))
        given = _base64url(signature)
        algorithm, expires = header["alg"], float(claims["exp"])
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        raise BadToken(401, "MalformedToken: neither a signature nor a JSON Web Token") from None
    if secret is None or algorithm != "HS256":
        raise BadToken(401, "InvalidToken: This bus knows nobody who signs such tokens")
    signed = f"{head}.{body}".encode()
    if not hmac.compare_digest(given, hmac.digest(secret.encode(), signed, hashlib.sha256)):
        raise BadToken(401, "InvalidSignature: The token has an invalid signature.")
    return Grant(Resource("", ""), ALL_RIGHTS, expires)


def _base64url(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
