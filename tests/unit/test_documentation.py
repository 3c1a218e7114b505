# SPDX-License-Identifier: Apache-2.0

"""The documentation quotes the driver's texts as they are in the code."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "doc" / "source" / "troubleshooting.rst"
#: not ours: of oslo.messaging, of the system, of RabbitMQ
FOREIGN = (
    "DriverLoadFailure",
    "could not connect: ... (... Connection refused)",
    "write access to exchange 'amq.default'",
    "read access to queue 'amq.rabbitmq.reply-to.",
)
#: put together from two words of the code
ALIASES = {
    "timed out waiting for a connection": ["timed out waiting for ", "a connection"],
    "timed out waiting for the session's window, which RabbitMQ closes in an alarm": [
        "timed out waiting for ",
        "the session's window, which RabbitMQ closes in an alarm",
    ],
    "timed out waiting for credit": ["timed out waiting for ", "credit"],
    "timed out waiting for acknowledgement": ["timed out waiting for ", "acknowledgement"],
    "timed out waiting for reply": ["timed out waiting for ", "reply"],
    "timed out waiting for a sign of life from the server": [
        "timed out waiting for ",
        "a sign of life from the server",
    ],
    "timed out waiting for the I/O thread": ["timed out waiting for ", "the I/O thread"],
    "Link to ... on ... was refused by the peer": [
        "Link to ",
        " on ",
        " was ",
        "refused by the peer",
    ],
    "Link to ... on ... was detached by the peer": [
        "Link to ",
        " on ",
        " was ",
        "detached by the peer",
    ],
    "the bus does not declare ... (PUT): ...": ["the bus does not declare ", "PUT"],
    "token for ...: no token can be had: ...": ["token for ", "no token can be had: "],
    "token for ...: refused with status ... (...)": ["token for ", "refused with status "],
    "cannot connect to proxy ...": ["cannot connect", " to proxy "],
    "SASL: the peer offers ... but not EXTERNAL": [
        "SASL: ",
        "the peer offers ",
        " but not EXTERNAL",
    ],
    "SASL: EXTERNAL refused ...": ["SASL: ", "EXTERNAL", " refused (code "],
    "wrong host name in the certificate of the peer (expected ...)": [
        "wrong host name in the certificate of the peer",
        "expected ",
    ],
}


@functools.cache
def pieces() -> frozenset[str]:
    """All string literals of the driver, cut at their placeholders."""
    found = []
    for path in (ROOT / "amqp1_driver").rglob("*.py"):
        if {"bus", "testing", "cli"} & set(path.relative_to(ROOT).parts):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found += re.split(r"%[-.0-9]*[sdrf]|\{\w*\}|\n", node.value)
    return frozenset(found)


@functools.cache
def texts() -> str:
    return "\n".join(pieces())


def quoted() -> list[str]:
    """The terms of the page's lists."""
    return [
        text
        for line in PAGE.read_text().splitlines()
        if line.startswith("``")
        for text in re.findall(r"``(.+?)``", line)
    ]


@pytest.mark.parametrize("text", quoted())
def test_every_text_of_the_troubleshooting_page_is_in_the_code(text: str) -> None:
    if text in FOREIGN:
        return
    if text in ALIASES:  # short words: they have to be literals as they are
        assert [piece for piece in ALIASES[text] if piece not in pieces()] == []
        return
    fragments = re.split(r"\.\.\.|\[\.\.\.\]", text)
    code = texts()
    missing = [f for f in fragments if f.strip(" ():;[],") and f.strip(" ()[]") not in code]
    assert not missing


def test_every_alias_is_quoted_and_made_of_its_pieces() -> None:
    assert set(ALIASES) <= set(quoted())
    for text, parts in ALIASES.items():
        at = 0
        for part in parts:
            shown = part.strip().removesuffix(" (code")  # the page leaves the number out
            at = text.index(shown, at) + len(shown)


def test_the_page_is_found() -> None:
    assert len(quoted()) > 40
