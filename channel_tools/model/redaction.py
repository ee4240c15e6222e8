"""Credentials taken out of text before anybody sees it.

Text of foreign origin (messages of clients and servers, addresses, answers) passes :func:`redact` before
it is printed, logged, or stored. It knows credentials by their place (the user part of an address, a token
in its path, a signature in its query, a header), by their shape (AWS keys, tokens with a known start), and
by their value, when an environment variable with a secret's name has it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import quote

HIDDEN = "***"

SHORTEST = 6
"""Characters; a shorter value of a variable would hide ordinary words."""

_SECRET_NAME = re.compile(
    r"(SECRET|TOKEN|PASSWORD|PASSWD|API_?KEY|ACCESS_?KEY|ACCESS_KEY_ID|PRIVATE_KEY|CREDENTIALS?|AUTH)$", re.I
)

_WORD = (
    r"(?:secret|token|password|passwd|api[_-]?key|access[_-]?key(?:[_-]?id)?|secret[_-]?key"
    r"|signature|credential)"
)
_QUOTED = r"(?:\"[^\"\n]*\"|'[^'\n]*')"
_HEADER = (
    r"(?:proxy-)?authorization|x-api-key|x-auth|x-auth-token|x-jfrog-art-api|x-amz-security-token"
    r"|(?:set-)?cookie"
)

_PLACES = (
    # https://user:password@host, https://token@host; not ssh://git@host
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)(?!git@)[^\s/?#\"'<>]+@"), rf"\1{HIDDEN}@"),
    # conda's tokens: https://host/t/TOKEN/channel
    (re.compile(r"(?i)((?<!file)://[^\s\"'<>]{0,400}?/t/)[^\s/\"'<>]+"), rf"\1{HIDDEN}"),
    # query of a signed address, and other values with a secret's name: token=..., X-Amz-Signature=...
    (
        re.compile(rf"(?i)((?<![\w-])(?:x-amz-[a-z-]+|[\w-]*?{_WORD}|sig)=)(?:{_QUOTED}|[^\s&\"'<>]+)"),
        rf"\1{HIDDEN}",
    ),
    # the same in JSON and in Python's dictionaries
    (re.compile(rf"(?i)([\"'][\w-]*?{_WORD}[\"']\s*:\s*){_QUOTED}"), rf'\1"{HIDDEN}"'),
    # headers, as a dictionary or a line
    (re.compile(rf"(?i)([\"'](?:{_HEADER})[\"']\s*:\s*){_QUOTED}"), rf'\1"{HIDDEN}"'),
    (re.compile(rf"(?i)(\b(?:{_HEADER})\s*[:=]\s*)[^\s\"'][^\r\n]*"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)\b(bearer|basic)\s+(?=\S*\d)[\w.~+/=-]{8,}"), rf"\1 {HIDDEN}"),
)

_SHAPES = (
    re.compile(r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    re.compile(r"\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|pfx_\w{16,})"),
    re.compile(r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+"),
)


def redact(text: str, environment: Mapping[str, str] | None = None) -> str:
    """The text with ``***`` in the place of every credential.

    :param environment: variables to look for secrets in; this process's own when None
    """
    for value in _secrets(os.environ if environment is None else environment):
        text = text.replace(value, HIDDEN)
    for pattern, replacement in _PLACES:
        text = pattern.sub(replacement, text)
    for pattern in _SHAPES:
        text = pattern.sub(HIDDEN, text)
    return text


def _secrets(environment: Mapping[str, str]) -> list[str]:
    """Values of variables with a secret's name, longest first, also as they stand in an address."""
    found = set()
    for name, value in environment.items():
        value = value.strip()
        if _SECRET_NAME.search(name) and len(value) >= SHORTEST:
            found |= {value, quote(value, safe=""), quote(value)}
    return sorted(found, key=len, reverse=True)
