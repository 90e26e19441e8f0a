"""What browsers send: forms and small JSON, read strictly, and only from pages that this server itself has given."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from accord.edges import BadInput
from accord.live import Refused, media_type

FORM, JSON = "application/x-www-form-urlencoded", "application/json"
FIELDS = 400
"""The most fields that a form may have."""
TOKEN = "form"
"""The field, and the header `X-Accord-Form`, that shows that a form is from a page of this server."""
_KEY = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


def new_key() -> str:
    """A random key, of 256 bits: of a browser, or of a personal link."""
    return secrets.token_urlsafe(32)


def key_in(text: str) -> str | None:
    """The key, where the text has the form of one."""
    return text if _KEY.fullmatch(text) else None


def digest_of(key: str) -> str:
    """What is kept of a key: whoever reads it cannot come in by it."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


def form_token(key: str, *about: object) -> str:
    """What a form carries so that no other page can have made it: of the browser's key and what the form is about."""
    said = "\n".join(map(str, about))
    return hmac.new(key.encode(), said.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def check_token(given: str, key: str, *about: object) -> None:
    """Refuse a form whose token is not that of this browser and this form.

    Raises:
        Refused: With 403.
    """
    if not hmac.compare_digest(given.encode("utf-8", "replace"), form_token(key, *about).encode()):
        raise Refused(403, "this form is not from the page you have open; load the page again and answer there")


def check_same_origin(headers: Mapping[str, str], scheme: str) -> None:
    """Refuse a form that a page of another origin sent: browsers say so in `Origin`, or at least in `Referer`.

    Args:
        headers: Of the request.
        scheme: By which it came, `http` or `https`; behind a proxy with TLS, as `X-Forwarded-Proto` says.

    Raises:
        Refused: With 403.
    """
    source = headers.get("origin") or headers.get("referer") or ""
    try:
        split = urlsplit(source)
    except ValueError:
        split = urlsplit("")
    if split.scheme != scheme or split.netloc.lower() != headers.get("host", "").lower():
        raise Refused(403, "this form was not sent from a page of this server; open the page here and answer there")


def fields_of(body: bytes, content_type: str) -> dict[str, str]:
    """The fields of a form, each once.

    Raises:
        BadInput: It is no form, or has a field twice.
    """
    if media_type(content_type) != FORM:
        raise BadInput(f"content type {content_type[:60]!r}; send a form, {FORM}")
    try:
        found = parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=FIELDS, errors="strict")
    except ValueError:
        raise BadInput("the form cannot be read; load the page again and answer there") from None
    twice = next((name for name, values in found.items() if len(values) > 1), None)
    if twice is not None:
        raise BadInput(f"the form has {twice[:60]!r} twice; load the page again")
    return {name: values[0] for name, values in found.items()}


def object_of(body: bytes, content_type: str) -> dict[str, Any]:
    """A JSON object.

    Raises:
        BadInput: It is none.
    """
    if media_type(content_type) != JSON:
        raise BadInput(f"content type {content_type[:60]!r}; send {JSON}")
    try:
        found = json.loads(body.decode("utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise BadInput("the answer is no JSON; load the page again and answer there") from None
    if not isinstance(found, dict):
        raise BadInput(f"the answer is a JSON object, got {type(found).__name__}")
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")
