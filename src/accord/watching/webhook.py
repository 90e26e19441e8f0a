"""Alarms to whoever is to be told: one POST of JSON to an address that the user named."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from accord.errors import AccordError, BadInput
from accord.version import __version__

SECONDS, ATTEMPTS = 10.0, 3


class NotTold(AccordError):
    """A webhook took no alarm; it is sent again the next time."""


def checked(url: str) -> str:
    """The address, if it is one that can be posted to.

    Raises:
        BadInput: It is no http or https address; it is not repeated in the message, since it may hold a secret.
    """
    if not url.startswith(("http://", "https://")):
        raise BadInput("a webhook is an address that begins with http:// or https://")
    return url


def post(url: str, alarms: Sequence[Mapping[str, Any]], wait: float = 1.0) -> None:
    """Post alarms as `{"text": SENTENCES, "alarms": [...]}`, which chat webhooks show as a message.

    Raises:
        NotTold: Nobody took them, after some attempts; the address is not named, since it may hold a secret.
    """
    text = "\n".join(str(alarm["said"]) for alarm in alarms)
    body = json.dumps({"text": text, "alarms": list(alarms)}).encode()
    headers = {"Content-Type": "application/json", "User-Agent": f"accord/{__version__}"}
    reason = ""
    for attempt in range(ATTEMPTS):
        try:
            request = urllib.request.Request(checked(url), body, headers, method="POST")
            with urllib.request.urlopen(request, timeout=SECONDS):
                return
        except urllib.error.HTTPError as error:
            reason = f"it answered {error.code}"
            if error.code < 500 and error.code != 429:
                break
        except (OSError, ValueError) as error:
            reason = type(getattr(error, "reason", error)).__name__
        if attempt + 1 < ATTEMPTS:
            time.sleep(wait * 2**attempt)
    raise NotTold(f"the webhook took no alarm ({reason}); it is told again at the next look")
