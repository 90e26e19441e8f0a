"""A thread that keeps what was scored, looks at it again and again, and tells of alarms.

Whoever is to be told gets one POST of JSON at the address that the user named (`post`); it is asked for nothing, no
redirect is followed, and the address, which may hold a secret, stands in no message.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http.client import HTTPException
from threading import Event, Thread
from typing import Any, Self

from accord.edges import AccordError, BadInput, is_web_address, one_line
from accord.evidence import EvidenceTable
from accord.live.monitoring.alarms import LEVEL, Alarm
from accord.live.monitoring.monitor import Watch, see_to, tell
from accord.store import Store
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
    text = "\n".join(one_line(str(alarm["said"])) for alarm in alarms)
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


FLUSH, LOOK, LAST = 10.0, 300.0, 15.0
"""Seconds between keeping what was scored, between looks at it, and for a look under way at the end."""


class Scheduler:
    """A thread that keeps and looks; a context manager that keeps a last time when it ends.

    Args:
        watch: What is scored.
        store: Where it is kept.
        webhook: Who is told of alarms; without one they are kept.
        level: The chance of a false alarm a system and day.
        learned: The evidence that the evaluator learned from.
        on_alarm: Called with each new alarm.
        on_trouble: Called with what could not be done; it is tried again the next time.
        flush, look: Seconds between rounds.
    """

    def __init__(
        self,
        watch: Watch,
        store: Store,
        webhook: str | None = None,
        level: float = LEVEL,
        learned: EvidenceTable | None = None,
        on_alarm: Callable[[Alarm], None] = lambda alarm: None,
        on_trouble: Callable[[str], None] = lambda reason: None,
        flush: float = FLUSH,
        look: float = LOOK,
    ) -> None:
        self.watch, self.store, self.webhook, self.level, self.learned = watch, store, webhook, level, learned
        self.on_alarm, self.on_trouble = on_alarm, on_trouble
        self.flush, self.look = flush, look
        self._looked: dict[tuple[str, str, str], int] = {}
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        last = time.monotonic()
        while not self._stop.wait(self.flush):
            self._tried(lambda: self.watch.flush(self.store))
            if time.monotonic() - last >= self.look:
                last = time.monotonic()
                self._tried(self._see)

    def _see(self) -> None:
        for alarm in see_to(self.store, self.level, self._looked, self.learned):
            self.on_alarm(alarm)
        if self.webhook is not None:
            tell(self.store, partial(post, self.webhook))

    def _tried(self, work: Callable[[], None]) -> None:
        """Do it; whatever goes wrong is said, and tried again the next time: a watch does not end by itself."""
        try:
            work()
        except AccordError as error:
            self.on_trouble(str(error))
        except Exception as error:
            self.on_trouble(f"{type(error).__name__}, which is a bug; please report it")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(LAST)
        self._tried(lambda: self.watch.flush(self.store))
