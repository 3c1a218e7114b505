# SPDX-License-Identifier: Apache-2.0

"""Tokens of an embedded Service Bus: shared access signatures, JSON and simple web tokens.

Pure functions, any thread.

A shared access signature is HMAC-SHA256, keyed by the rule's key. It covers the resource as the
token spells it (URL-encoded), a line feed and the time of expiry (Azure's documentation, "Service
Bus access control with Shared Access Signatures").

A JSON Web Token is signed with HS256 (RFC 7519, 7518). Microsoft's own tokens, which Entra ID signs
with its private keys, are not available here.

A Simple Web Token is a URL-encoded form. Its last field is the HMAC-SHA256 of all fields before it
(Azure's Access Control Service, "SWT token format"). The other fields are ``ExpiresOn``,
``Audience`` and, unless the token gives all rights, ``net.windows.servicebus.action``.
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
_SWT_SIGNATURE = "&HMACSHA256="


class BadToken(Exception):
    """Refusal of a token; ``status`` is the status code of the reply to put-token."""

    def __init__(self, status: int, description: str) -> None:
        super().__init__(description)
        self.status = status


class Rule(NamedTuple):
    """A shared access authorisation rule."""

    key: str
    rights: frozenset[str] = ALL_RIGHTS


class Resource(NamedTuple):
    """The resource that a URI names: a host (empty: any) and a path on it, in lower case."""

    host: str
    path: str

    def covers(self, other: Resource) -> bool:
        """Return True if ``other`` is this resource or below it."""
        if self.host and other.host and self.host != other.host:
            return False
        return not self.path or f"{other.path}/".startswith(f"{self.path}/")


class Grant(NamedTuple):
    """The scope and rights of an accepted token, and its expiry (seconds since 1970)."""

    scope: Resource
    rights: frozenset[str]
    expires: float


def resource(uri: str) -> Resource:
    """Parse ``sb://host/path``, ``amqps://…``, ``https://…`` or a mere path."""
    if "://" not in uri:
        return Resource("", uri.strip("/").lower())
    parts = urlsplit(uri)
    return Resource((parts.hostname or "").lower(), unquote(parts.path).strip("/").lower())


def check(text: str, rules: Mapping[str, Rule], secret: str | None, now: float) -> Grant:
    """Verify a token of any kind.

    The function recognises the kind by the token, not by the type in the request: Microsoft's SDK
    for Python sends signatures as ``jwt``, and the service accepts them.

    :param secret: key of JSON and Simple Web Tokens; None: such tokens are not accepted
    :param now: seconds since 1970
    :raises BadToken: the token is malformed, expired or not correctly signed
    """
    if text.startswith(_PREFIX):
        grant = _signature(text, rules)
    else:
        grant = _swt(text, secret) if _SWT_SIGNATURE in text else _jwt(text, secret)
    if not grant.expires > now:  # refuses NaN, too
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
    _verify(f"{spelled}\n{expiry}", given, rule.key)
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
    _verify(f"{head}.{body}", given, secret if algorithm == "HS256" else None)
    return Grant(Resource("", ""), ALL_RIGHTS, expires)


def _swt(text: str, secret: str | None) -> Grant:
    signed, _, signature = text.rpartition(_SWT_SIGNATURE)
    fields = {
        unquote_plus(key): unquote_plus(value)
        for key, _, value in (part.partition("=") for part in signed.split("&"))
    }
    try:
        expires = float(int(fields["ExpiresOn"]))
        audience = resource(fields["Audience"])
        given = base64.b64decode(unquote(signature), validate=True)
    except (KeyError, ValueError, OverflowError, binascii.Error):
        problem = "MalformedToken: ExpiresOn, Audience and HMACSHA256 are needed"
        raise BadToken(401, problem) from None
    _verify(signed, given, secret)
    actions = fields.get("net.windows.servicebus.action")
    rights = ALL_RIGHTS if actions is None else ALL_RIGHTS & set(actions.split(","))
    return Grant(audience, rights, expires)


def _verify(signed: str, given: bytes, key: str | None) -> None:
    """Check a signature by HMAC-SHA256.

    :param key: None: the bus accepts no such tokens
    :raises BadToken: the signature is not valid
    """
    if key is None:
        raise BadToken(401, "InvalidToken: This bus knows nobody who signs such tokens")
    if not hmac.compare_digest(given, hmac.digest(key.encode(), signed.encode(), hashlib.sha256)):
        raise BadToken(401, "InvalidSignature: The token has an invalid signature.")


def _base64url(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
