"""Webhook of alarms: one POST with JSON to the URL of the user.

Redirects are not followed, and messages never contain the URL, which may hold a secret.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from threading import Thread
from typing import Any

from accord.edges import AccordError, BadInput, is_web_address, one_line
from accord.version import __version__

TIMEOUT_SECONDS, ATTEMPTS = 10.0, 3


class WebhookError(AccordError):
    """A webhook did not accept alarms; they are sent again at the next check."""


def post_alarms(
    url: str, alarms: Sequence[Mapping[str, Any]], wait: float = 1.0, seconds: float = TIMEOUT_SECONDS
) -> None:
    """Post alarms as `{"text": MESSAGES, "alarms": [...]}`, the format of chat webhooks.

    Args:
        url: Address of the webhook.
        alarms: Rows of alarms.
        wait: Seconds before the second attempt; doubled for each further attempt.
        seconds: Timeout of each attempt.

    Raises:
        BadInput: The URL is invalid.
        WebhookError: All attempts failed.
    """
    if not is_web_address(url):
        raise BadInput("a webhook is an address that begins with http:// or https://")
    text = "\n".join(one_line(str(alarm["message"])) for alarm in alarms)
    body = json.dumps({"text": text, "alarms": list(alarms)}).encode()
    error = ""
    for attempt in range(ATTEMPTS):
        error = _post_within(url, body, seconds)
        if not error:
            return
        if error.startswith("it answered 4") and not error.endswith("429"):
            break
        if attempt + 1 < ATTEMPTS:
            time.sleep(wait * 2**attempt)
    raise WebhookError(f"the webhook did not accept the alarms ({error}); they are sent again at the next check")


def _post_within(url: str, body: bytes, seconds: float) -> str:
    """Post within a time limit, which a slow server cannot extend; return the error, or an empty text."""
    errors: list[str] = []
    thread = Thread(target=lambda: errors.append(_post(url, body, seconds)), daemon=True)
    thread.start()
    thread.join(seconds)
    return errors[0] if errors else f"no answer within {seconds:g} s"


def _post(url: str, body: bytes, seconds: float) -> str:
    headers = {"Content-Type": "application/json", "User-Agent": f"accord/{__version__}"}
    try:
        request = urllib.request.Request(url, body, headers, method="POST")
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=seconds):
            return ""
    except urllib.error.HTTPError as error:
        return f"it answered {error.code}"
    except (OSError, ValueError, HTTPException) as error:  # their messages may contain the URL
        return type(getattr(error, "reason", error)).__name__


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Handler that treats a redirect as an error."""

    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect."""
