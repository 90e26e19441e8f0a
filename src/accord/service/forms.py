"""Forms of pages without a script: read strictly, and only taken from pages that this server itself has given."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

from accord.errors import BadInput
from accord.service.guard import Refused
from accord.service.otlp import media_type

FORM = "application/x-www-form-urlencoded"
FIELDS = 8
"""The most fields that a form may have."""
_KEY = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_WHOLE = re.compile(r"-?[0-9]{1,6}", re.ASCII)


def new_key() -> str:
    """A random key for a cookie, of 256 bits."""
    return secrets.token_urlsafe(32)


def key_of(cookies: Mapping[str, str], name: str) -> str | None:
    """The key in a cookie; `None` where there is none of the right form."""
    found = cookies.get(name, "")
    return found if _KEY.fullmatch(found) else None


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


def check_same_origin(headers: Mapping[str, str]) -> None:
    """Refuse a form that a page of another origin sent: browsers say so in `Origin`, or at least in `Referer`.

    Raises:
        Refused: With 403.
    """
    source = headers.get("origin") or headers.get("referer") or ""
    try:
        split = urlsplit(source)
    except ValueError:
        split = urlsplit("")
    if split.scheme not in {"http", "https"} or split.netloc.lower() != headers.get("host", "").lower():
        raise Refused(403, "this form was not sent from a page of this server; open the page here and answer there")


def fields_of(body: bytes, content_type: str, *names: str) -> dict[str, str]:
    """The named fields of a form, each once; those that are missing are empty.

    Raises:
        BadInput: It is no form, has other fields, or a field twice.
    """
    if media_type(content_type) != FORM:
        raise BadInput(f"content type {content_type[:60]!r}; send a form, {FORM}")
    try:
        found = parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=FIELDS, errors="strict")
    except ValueError:
        raise BadInput("the form cannot be read; load the page again and answer there") from None
    if set(found) - set(names) or any(len(values) > 1 for values in found.values()):
        raise BadInput(f"the form has other fields than {', '.join(names)}, or one twice; load the page again")
    return {name: found.get(name, [""])[0] for name in names}


def whole(text: str) -> int:
    """A whole number.

    Raises:
        BadInput: It is none.
    """
    if not _WHOLE.fullmatch(text):
        raise BadInput(f"no answer is chosen (got {text[:20]!r}); go back and choose one")
    return int(text)
