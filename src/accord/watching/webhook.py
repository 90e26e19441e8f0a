"""Alarms to whoever is to be told: one POST of JSON to an address that the user named."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from threading import Thread
from typing import Any

from accord.errors import AccordError, BadInput
from accord.urls import is_web_address
from accord.version import __version__

SECONDS, ATTEMPTS = 10.0, 3


class NotTold(AccordError):
    """A webhook took no alarm; it is sent again the next time."""


def checked(url: str) -> str:
    """The address, if it is one that can be posted to.

    Raises:
        BadInput: It is no http or https address; it is not repeated in the message, since it may hold a secret.
    """
    if not is_web_address(url):
        raise BadInput("a webhook is an address that begins with http:// or https://")
    return url


def post(url: str, alarms: Sequence[Mapping[str, Any]], wait: float = 1.0, seconds: float = SECONDS) -> None:
    """Post alarms as `{"text": SENTENCES, "alarms": [...]}`, which chat webhooks show as a message.

    Raises:
        BadInput: The address is none.
        NotTold: Nobody took them, after some attempts; the address is not named, since it may hold a secret.
    """
    text = "\n".join(str(alarm["said"]) for alarm in alarms)
    body = json.dumps({"text": text, "alarms": list(alarms)}).encode()
    reason = ""
    for attempt in range(ATTEMPTS):
        reason = _sent(checked(url), body, seconds)
        if not reason:
            return
        if reason.startswith("it answered 4") and not reason.endswith("429"):
            break
        if attempt + 1 < ATTEMPTS:
            time.sleep(wait * 2**attempt)
    raise NotTold(f"the webhook took no alarm ({reason}); it is told again at the next look")


def _sent(url: str, body: bytes, seconds: float) -> str:
    """Why a request was not taken; empty where it was. It is given up after some seconds, however it dawdles."""
    reason: list[str] = []
    thread = Thread(target=lambda: reason.append(_asked(url, body, seconds)), daemon=True)
    thread.start()
    thread.join(seconds)
    return reason[0] if reason else f"no answer within {seconds:g} s"


def _asked(url: str, body: bytes, seconds: float) -> str:
    headers = {"Content-Type": "application/json", "User-Agent": f"accord/{__version__}"}
    try:
        request = urllib.request.Request(url, body, headers, method="POST")
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=seconds):
            return ""
    except urllib.error.HTTPError as error:
        return f"it answered {error.code}"
    except (OSError, ValueError, HTTPException) as error:  # whose texts may repeat the address
        return type(getattr(error, "reason", error)).__name__


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is no answer: followed, it would be another request than the one that was to be made."""

    def redirect_request(self, *_: Any) -> None:
        """Follow none."""
