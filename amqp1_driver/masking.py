# SPDX-License-Identifier: Apache-2.0


"""Functions that keep secrets out of logs, errors, reports and command lines.  Any thread.

The module imports nothing of this package, so that the driver and all commands can use it.
"""

import os
import re

#: the text that replaces a secret
MASK = "***"

_SECRET_NAME = re.compile(
    "pass(?!ive)|pwd|secret|token(?!_(?:life|scope|provider)$)|key|proxy|credential|auth|jwt|"
    "signature",
    re.IGNORECASE,
)
_PASSWORD = re.compile("pass|pwd|secret", re.IGNORECASE)
_OPTION = re.compile(r"[A-Za-z][\w.:-]*", re.ASCII)
#: Matches values that are safe to show: without credentials, and without a further option.
_VALUE = re.compile(r"[\w.,:/+*%-]*", re.ASCII)

_CHARACTERS = r"[\w.~!$'()*+;=%-]"
_ENTRY = re.compile(
    rf"(?:(?P<user>{_CHARACTERS}*)(?P<password>:(?:{_CHARACTERS}|:)*)?@)?"
    r"(?:[\w.-]*|\[[0-9A-Fa-f:.%\w]+\])(?::\d*)?",
    re.ASCII,
)
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)"
    r"(?P<hosts>[^/?#\s]*)(?P<path>/[\w.~$%-]*)?(?:\?(?P<query>.*))?",
    re.ASCII | re.DOTALL,
)
#: "amqp:?NAME=VALUE": no host, because a benchmark starts the bus
_NO_HOST = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*:)(?:\?(?P<query>.*))?", re.ASCII | re.DOTALL)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.ASCII)

#: prefixes that say where a value is stored, as OpenSSL has them for passwords
_ENVIRONMENT, _FILE = "env:", "file:"


def masked(url: str) -> str:
    """Return a transport URL without its secrets, for logs, reports and errors.

    All hosts stay, with their users; passwords and the values of options that may be secret
    become ``***``. If the text is no proper URL, everything behind its scheme becomes ``***``,
    since any part of it may be a password. For example, a password may contain a character that
    should have been percent-encoded.
    """
    for prefix in ("proton:",):
        if url.startswith(prefix):
            return prefix + masked(url[len(prefix) :])
    found = _NO_HOST.fullmatch(url)
    if found is not None:
        return found["scheme"] + _query(found["query"])
    found = _URL.fullmatch(url)
    hosts = _hosts(found["hosts"]) if found is not None else None
    if found is None or hosts is None or ("@" in url[found.end("hosts") :] and MASK not in hosts):
        scheme = _SCHEME.match(url)
        return (scheme[0] if scheme is not None else "") + MASK
    return f"{found['scheme']}{hosts}{found['path'] or ''}{_query(found['query'])}"


def masked_option(text: str) -> str:
    """Return ``NAME=VALUE``, with ``***`` for a value that may be a secret.

    :returns: ``***`` alone for a text of another form
    """
    name, equals, value = text.partition("=")
    if not equals or not _OPTION.fullmatch(name):
        return MASK
    return text if _may_be_shown(name, value) else f"{name}={MASK}"


def scrubbed(text: str, url: str) -> str:
    """Return a text with each occurrence of this transport URL masked."""
    return text.replace(url, masked(url)) if url else text


def given(text: str) -> str:
    """Return the value that an argument names: ``env:NAME``, ``file:PATH``, or the text itself.

    The first two forms keep a secret out of the command line, which other users of the machine can
    read. Line ends at the end of the file are no part of the value.

    :raises ValueError: the variable is not set, or the file cannot be read
    """
    if text.startswith(_ENVIRONMENT):
        name = text[len(_ENVIRONMENT) :]
        try:
            return os.environ[name]
        except KeyError:
            raise ValueError(f"{text}: there is no such variable in the environment") from None
    if text.startswith(_FILE):
        path = text[len(_FILE) :]
        try:
            with open(path, encoding="utf-8") as file:
                return file.read().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "no UTF-8"
            raise ValueError(f"{text}: {reason}") from None
    return text


def _hosts(text: str) -> str | None:
    """Mask the passwords in the host part of a URL.

    :returns: None if a comma, colon or @ may belong to a password, which then may end anywhere
    """
    shown, kinds = [], set()
    for entry in text.split(","):
        found = _ENTRY.fullmatch(entry)
        if found is None:
            return None
        if found["user"] is None:
            kinds.add("no user")
            shown.append(entry)
            continue
        kinds.add("user" if found["password"] is None else "password")
        secret = "" if found["password"] is None else f":{MASK}"
        shown.append(f"{found['user']}{secret}{entry[entry.rindex('@') :]}")
    if len(kinds) > 1:
        return None
    return ",".join(shown)


def _query(text: str | None) -> str:
    """Mask the query; leave out all behind a secret, since the secret may contain the ``&``."""
    if text is None:
        return ""
    shown = []
    for part in text.split("&"):
        option = masked_option(part)
        shown.append(option)
        if option.endswith(MASK):
            break
    return "?" + "&".join(shown)


def _may_be_shown(name: str, value: str) -> bool:
    if not _VALUE.fullmatch(value):
        return False
    if name.endswith(("_file", "_dir")) and not _PASSWORD.search(name):
        return True  # the path of a secret is no secret
    return not _SECRET_NAME.search(name)
