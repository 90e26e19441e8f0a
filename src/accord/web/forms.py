"""Forms and JSON from browsers: strict parsing, form tokens, and checks of the origin."""

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
MAX_FIELDS = 400
TOKEN = "form"
"""Form field with the token; scripts send it in the header `X-Accord-Form`."""
_KEY = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


def new_key() -> str:
    """Return a random key of 256 bits, for a session or a personal link."""
    return secrets.token_urlsafe(32)


def parse_key(text: str) -> str | None:
    """Return the text if it has the format of a key."""
    return text if _KEY.fullmatch(text) else None


def digest_of(key: str) -> str:
    """Return the digest of a key; only the digest is stored."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


def form_token(key: str, *purpose: object) -> str:
    """Return the token of a form, which other sites cannot compute: an HMAC of its purpose with the session key."""
    message = "\n".join(map(str, purpose))
    return hmac.new(key.encode(), message.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def check_token(token: str, key: str, *purpose: object) -> None:
    """Check the token of a form.

    Raises:
        Refused: 403 for a wrong token.
    """
    if not hmac.compare_digest(token.encode("utf-8", "replace"), form_token(key, *purpose).encode()):
        raise Refused(403, "the form does not belong to your current session; reload the page and submit it again")


def check_same_origin(headers: Mapping[str, str], scheme: str) -> None:
    """Check that a form comes from a page of this server, by the headers `Origin` or `Referer`.

    Args:
        headers: Headers of the request.
        scheme: `http` or `https`; behind a TLS proxy the value of `X-Forwarded-Proto`.

    Raises:
        Refused: 403 for another origin.
    """
    source = headers.get("origin") or headers.get("referer") or ""
    try:
        split = urlsplit(source)
    except ValueError:
        split = urlsplit("")
    if split.scheme != scheme or split.netloc.lower() != headers.get("host", "").lower():
        raise Refused(
            403, "the form was not sent from a page of this server; open the page on this server and submit it again"
        )


def parse_form(body: bytes, content_type: str) -> dict[str, str]:
    """Return the fields of a form.

    Raises:
        BadInput: The body is not a form, or a field occurs twice.
    """
    if media_type(content_type) != FORM:
        raise BadInput(f"content type: got {content_type[:60]!r}, allowed: {FORM}")
    try:
        fields = parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError:
        raise BadInput("the form cannot be parsed; reload the page and submit it again") from None
    duplicate = next((name for name, values in fields.items() if len(values) > 1), None)
    if duplicate is not None:
        raise BadInput(f"the form has the field {duplicate[:60]!r} twice; reload the page")
    return {name: values[0] for name, values in fields.items()}


def parse_json(body: bytes, content_type: str) -> dict[str, Any]:
    """Return a JSON object.

    Raises:
        BadInput: The body is not a JSON object.
    """
    if media_type(content_type) != JSON:
        raise BadInput(f"content type: got {content_type[:60]!r}, allowed: {JSON}")
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        raise BadInput("the body is not valid JSON; reload the page and submit it again") from None
    if not isinstance(value, dict):
        raise BadInput(f"the body must be a JSON object, got {type(value).__name__}")
    return value


def _reject_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number")
