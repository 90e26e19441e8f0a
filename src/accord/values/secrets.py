"""Keys and passwords never come back out: the one place that knows the secrets of a run and takes them out of texts.

Whoever is given a secret says so (`keep_secret`, `keep_url_secrets`); whoever lets a text out, to a terminal, a store,
a log or a page, passes it through `redacted`. An endpoint that repeats a key, or some letters of it, shows nothing.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from urllib.parse import parse_qsl, unquote, urlsplit

SHORTEST_PART = 8
"""Letters of a secret, one after another, that are taken out wherever they stand."""
HIDDEN = "[secret]"
VARIABLES = ("OPENAI_API_KEY", "ACCORD_TOKEN", "PGPASSWORD")
"""Environment variables that hold secrets."""

_kept: set[str] = set()
_SECRET_NAME = re.compile(r"key|token|secret|pass|pwd|sig|auth|credential|webhook", re.IGNORECASE)
_USER = re.compile(r"(://)[^/\s@'\"]+@")
_GIVEN = re.compile(
    r"\b((?:ssl)?password|passwd|pwd|api[-_]?key|access[-_]token|client[-_]secret)=([^\s&'\"]+)", re.IGNORECASE
)


def is_secret_name(name: str) -> bool:
    """Whether a setting or a variable of that name holds a secret.

    >>> is_secret_name("OPENAI_API_KEY"), is_secret_name("api-version")
    (True, False)
    """
    return _SECRET_NAME.search(name) is not None


def keep_secret(secret: str | None) -> None:
    """Note a secret, as it is written and as it stands decoded in a URL; `redacted` takes it out from now on.

    One that is shorter than `SHORTEST_PART` is too likely a word of its own, and is not noted.
    """
    _kept.update(each for each in (secret or "", unquote(secret or "")) if len(each) >= SHORTEST_PART)


def keep_url_secrets(url: str | None) -> None:
    """Note what is secret in a URL: its password, or its user where it has none, and what its query calls a key."""
    try:
        parts = urlsplit(url or "")
        keep_secret(parts.password or parts.username)
        pairs = parse_qsl(parts.query)
    except ValueError:
        return
    for name, value in pairs:
        if is_secret_name(name):
            keep_secret(value)


@lru_cache(256)
def _parts(secret: str) -> frozenset[str]:
    return frozenset(secret[at : at + SHORTEST_PART] for at in range(len(secret) - SHORTEST_PART + 1))


def redacted(text: str) -> str:
    """The text with every noted secret, and every part of one of at least `SHORTEST_PART` letters, hidden."""
    spans = []
    for secret in {*_kept, *(os.environ.get(name, "") for name in VARIABLES)}:
        for part in _parts(secret):
            at = text.find(part)
            while at >= 0:
                spans.append((at, at + len(part)))
                at = text.find(part, at + 1)
    return _without(text, sorted(spans)) if spans else text


def redacted_message(text: str) -> str:
    """`redacted`, and what stands where credentials do: for messages, which may repeat an address that nobody noted.

    >>> redacted_message("postgresql://ada:lovelace@host/db?password=byron is down")
    'postgresql://[secret]@host/db?password=[secret] is down'
    """
    return redacted(_GIVEN.sub(rf"\1={HIDDEN}", _USER.sub(rf"\1{HIDDEN}@", text)))


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    """The text with spans, in the order of their beginnings, hidden; those that touch are one."""
    merged = [spans[0]]
    for start, end in spans[1:]:
        if start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    places = [0, *(place for span in merged for place in span), len(text)]
    return HIDDEN.join(text[places[i] : places[i + 1]] for i in range(0, len(places), 2))
