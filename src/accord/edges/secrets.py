"""Redaction of secrets: the registry of the secrets of a run, and the functions that remove them from texts.

| text | function | caller |
|---|---|---|
| a secret of the configuration | `register_secret`, `register_url_secrets` | configuration, clients, stores |
| the body of a reply, parsed from JSON | `redact_json` | `models/requests/reply_parsing.py`, first |
| a value of a reply inside a message | `short` in `models/requests/reply_parsing.py` | batches, streams, decisions |
| the results of a run | `redact_json` | the store, before they are written |
| the text of an error | `redact_message` | `AccordError`, `CallFailed`, the command line |
| a page, a terminal line, a spooled row | `redact` | `report`, `cli/terminal.py`, `store/request_claims.py` |

Every registered secret, and every part of one with at least `SHORTEST_PART` letters, is replaced by `HIDDEN`.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

SHORTEST_PART = 8
"""Minimum number of consecutive letters of a secret that are redacted."""
_FEW_PARTS = 1000
"""Number of parts of a secret up to which each is searched for; for more, each piece of the text is looked up."""
HIDDEN = "[secret]"
VARIABLES = ("OPENAI_API_KEY", "ACCORD_TOKEN", "PGPASSWORD")
"""Environment variables that hold secrets."""

_registered: set[str] = set()
_SECRET_NAME = re.compile(r"key|token|secret|pass|pwd|sig|auth|credential|webhook", re.IGNORECASE)
_USER = re.compile(r"((?<=[a-z0-9+.-]{2}):/{1,3})[^/\s'\"]+@", re.IGNORECASE)
"""User and password of a URL; one slash is enough, because `pathlib` collapses `//`."""
_QUERY = re.compile(
    r"([?&;](?=[^\s=&;?'\"]*?(?:key|token|secret|pass|pwd|sig|auth|credential))[^\s=&;?'\"]++=)[^\s&;'\"]+",
    re.IGNORECASE,
)
_ASSIGNMENT = re.compile(
    r"\b((?:ssl)?password|passwd|pwd|api[-_]?key|access[-_]token|client[-_]secret)=([^\s&'\"]+)", re.IGNORECASE
)


def is_secret_name(name: str) -> bool:
    """Return True if a setting or a variable with this name holds a secret.

    >>> is_secret_name("OPENAI_API_KEY"), is_secret_name("api-version")
    (True, False)
    """
    return _SECRET_NAME.search(name) is not None


def register_secret(secret: str | None) -> None:
    """Register a secret, as text and decoded from a URL, so that `redact` removes it.

    A secret shorter than `SHORTEST_PART` letters may be a common word and is not registered.
    """
    _registered.update(text for text in (secret or "", unquote(secret or "")) if len(text) >= SHORTEST_PART)


def register_url_secrets(url: str | None) -> None:
    """Register the secrets of a URL: its password (without one, its user) and the values of secret query parameters."""
    try:
        parts = urlsplit(url or "")
        register_secret(parts.password or parts.username)
        pairs = parse_qsl(parts.query)
    except ValueError:
        return
    for name, value in pairs:
        if is_secret_name(name):
            register_secret(value)


@lru_cache(256)
def _parts(secret: str) -> frozenset[str]:
    return frozenset(secret[at : at + SHORTEST_PART] for at in range(len(secret) - SHORTEST_PART + 1))


def redact(text: str) -> str:
    """Return a text with all registered secrets, and parts of at least `SHORTEST_PART` letters, replaced."""
    spans = []
    for secret in {*_registered, *(os.environ.get(name, "") for name in VARIABLES)}:
        parts = _parts(secret)
        if len(parts) > _FEW_PARTS:
            pieces = ((at, text[at : at + SHORTEST_PART]) for at in range(len(text) - SHORTEST_PART + 1))
            spans += [(at, at + SHORTEST_PART) for at, piece in pieces if piece in parts]
            continue
        for part in parts:
            at = text.find(part)
            while at >= 0:
                spans.append((at, at + len(part)))
                at = text.find(part, at + 1)
    return _without(text, sorted(spans)) if spans else text


def redact_json(value: Any) -> Any:
    """Return a JSON value with its texts redacted. Object keys stay unchanged.

    >>> register_secret("sk-doctest-1234")
    >>> redact_json({"errors": [{"message": "bad key sk-doctest-1234"}], "count": 2})
    {'errors': [{'message': 'bad key [secret]'}], 'count': 2}
    """
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: redact_json(item) for key, item in value.items()}
    return [redact_json(item) for item in value] if isinstance(value, list | tuple) else value


def redact_message(text: str) -> str:
    """Return a message without registered secrets, and without credentials in URLs and `password=` settings.

    >>> redact_message("postgresql://ada:lovelace@host/db?password=byron is down")
    'postgresql://[secret]@host/db?password=[secret] is down'
    >>> redact_message("no file https:/ada:lovelace@host/a?X-Amz-Signature=byron&part=2")
    'no file https:/[secret]@host/a?X-Amz-Signature=[secret]&part=2'
    """
    without_urls = _QUERY.sub(rf"\1{HIDDEN}", _USER.sub(rf"\1{HIDDEN}@", text))
    return redact(_ASSIGNMENT.sub(rf"\1={HIDDEN}", without_urls))


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    """Return a text with sorted spans replaced; adjacent spans are merged."""
    merged = [spans[0]]
    for start, end in spans[1:]:
        if start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    places = [0, *(place for span in merged for place in span), len(text)]
    return HIDDEN.join(text[places[i] : places[i + 1]] for i in range(0, len(places), 2))
