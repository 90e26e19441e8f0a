"""Scores for tracing platforms: one value about a session, a trace or a span, and the requests that send them.

A host (`langfuse.py`, `phoenix.py`, `langsmith.py`) states paths, headers and bodies. This module sends them: it limits
the rate, repeats requests that failed for a while, and finds the refused scores of a batch. All hosts accept a score
again under the same id, so a repeated request changes nothing.

The public clients of the hosts are not used. They send in background threads, or trace themselves, and decide about
retries; each needs one request with a body of ten fields.
"""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from threading import Event, Lock
from typing import Any, Literal, NamedTuple, Protocol

from accord.edges import BadInput, check_address, is_web_page, register_secret, strip_url_secrets
from accord.models import CallFailed, send_request
from accord.project import config_sections
from accord.values import POPULATION, Signature, canonical_json, text_hash
from accord.version import __version__

Kind = Literal["session", "trace", "span"]
"""Kind of the object that a score is about."""
ATTEMPTS, FIRST_WAIT, LONGEST_WAIT = 6, 1.0, 60.0
"""Attempts per request, and seconds before the second and before any attempt."""
TIMEOUT_SECONDS, MAX_REPLY = 30.0, 2**20
_LATER = frozenset({408, 425, 429})
"""Statuses below 500 after which the same request may succeed."""
_DENIED = frozenset({401, 403, 407})
_REASONS = {
    400: "invalid there", 404: "no such session, trace or path", 409: "a conflict", 413: "too large",
    422: "invalid there",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class HostScore:
    """A score as a host stores it. It holds no text of the conversation.

    Attributes:
        id: UUID of the object, the name, the annotator and the turn; a later score with the same UUID replaces it.
        kind: Kind of the object.
        target: Id of the object at the host.
        name: Name of the score.
        value: Value, in units of the scale.
        comment: Value, band and evaluator in one sentence.
        details: JSON values: band with its level (0.9: it holds 90% of ratings), interval, annotator, turn, signature,
            version.
        time: Time of the conversation, ISO 8601 with a time zone, or `None` if unknown.
        trace: Id of the trace that holds the object, or `None` if unknown.
        project: Id of the host's project that holds the object, or `None` if unknown.
    """

    id: str
    kind: Kind
    target: str
    name: str
    value: float
    comment: str
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)
    time: str | None = None
    trace: str | None = None
    project: str | None = None

    def digest(self, url: str) -> str:
        """Return a digest of the score at a host's address: a sent score with the same digest is not sent again."""
        return text_hash(canonical_json([url, {**asdict(self), "time": None}]), 16)


class Host(Protocol):
    """Module of a host.

    Attributes:
        BATCH: Maximum number of scores in a request.
        KINDS: Kinds of objects that scores can be about.
    """

    BATCH: int
    KINDS: frozenset[Kind]

    def headers(self, settings: config_sections.HostConfig) -> dict[str, str]:
        """Return the headers that authorize a request; raises `BadInput` if a setting is missing."""
        ...

    def path(self, kind: Kind) -> str:
        """Return the path, with the query, of requests about one kind of object."""
        ...

    def bodies(self, scores: Sequence[HostScore]) -> Sequence[Any]:
        """Return the JSON body of a request; further bodies suit servers of other versions."""
        ...

    def is_accepted(self, status: int, reply: Any, scores: Sequence[HostScore]) -> bool | None:
        """Return True if a reply with a status of success confirms all scores, and False if it rejects one.

        None stands for a reply that the host does not give, such as the login page of a proxy.
        """
        ...

    def problem(self, score: HostScore) -> str | None:
        """Return the reason why the host cannot take a score, or None."""
        ...

    def update(self, score: HostScore) -> tuple[str, Any] | None:
        """Return path and body of a PATCH request for a score whose id the host knows, or `None` if POST updates it."""
        ...


def host_named(name: str) -> Host:
    """Return the module of a host of `HOSTS`."""
    module: Any = import_module(f"accord.hosts.{name}")
    return module  # type: ignore[no-any-return]


def host_score(row: Mapping[str, Any], place: Place, name: str) -> HostScore | str:
    """Return the score of a row for a host, or the reason why there is none to send.

    Args:
        row: Row of scores, as `ScoreRow`; numbers may be texts.
        place: Object that the score is about.
        name: Name of the score.
    """
    if row.get("unscored") or row.get("value") in (None, ""):
        return f"unscored: {row.get('unscored') or 'no value'}"
    numbers = {key: number_of(row.get(key)) for key in ("value", "band_low", "band_high", "low", "high")}
    value = numbers.pop("value")
    if value is None:
        return "a value that is no finite number"
    turn, annotator = row.get("turn"), str(row.get("annotator") or POPULATION)
    turn = None if turn in (None, "") else int(turn)
    signature = str(row.get("signature") or "")
    evaluator = signature.partition("|")[0] or "unknown evaluator"
    band = [numbers.get("band_low"), numbers.get("band_high")]
    text = f"Predicted rating {value:.4g}" + ("" if annotator == POPULATION else f" of {annotator}")
    level = Signature.coverage_of(signature)
    if None not in band:
        text += f", {'' if level is None else f'{level:.0%} '}band {band[0]:.4g} to {band[1]:.4g}"
        numbers["band_level"] = level
    details = {
        **{key: number for key, number in numbers.items() if number is not None}, "annotator": annotator,
        **({} if turn is None else {"turn": turn}), "conversation": str(row["conversation"]), "evaluator": evaluator,
        "signature": signature, "has_warning": bool(row.get("warning")), "accord_version": __version__,
    }  # fmt: skip
    identity = canonical_json([place.kind, place.target, name, annotator, turn])
    id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"https://github.com/accord-eval/accord#{identity}"))
    comment = f"{text} ({evaluator}, Accord {__version__})"
    return HostScore(
        id, place.kind, place.target, name, value, comment, details, place.time, place.trace, place.project
    )


class Place(NamedTuple):
    """Object at a host that a score is about, as in `HostScore`."""

    kind: Kind
    target: str
    time: str | None = None
    trace: str | None = None
    project: str | None = None


def number_of(value: Any) -> float | None:
    """Return a finite number, also from its text, or `None` for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


# --- requests ---------------------------------------------------------------------------------------------------------


@dataclass
class Sent:
    """Outcome of sending scores: confirmed ones, refused ones with the reason, and those to send later."""

    confirmed: list[HostScore] = field(default_factory=list)
    refused: list[tuple[HostScore, str]] = field(default_factory=list)
    left: list[HostScore] = field(default_factory=list)

    def add(self, other: Sent) -> None:
        """Add the scores of another outcome."""
        self.confirmed += other.confirmed
        self.refused += other.refused
        self.left += other.left


class _Unreachable(Exception):
    """A host did not answer, or asked to come back later, at every attempt; or it denied access or is not the host."""


class HostSender:
    """Sends scores to one host; thread-safe.

    Args:
        name: Name of the host.
        settings: Its address and credentials.
        stop: Ends waits before the next attempt.
        attempts: Attempts per request.
        first_wait: Seconds before the second attempt, doubled before each further one; by default `FIRST_WAIT`. A
            longer `Retry-After` of the host replaces them.

    Attributes:
        problem: Reason why the host is not asked any more; None while it answers.

    Raises:
        BadInput: A setting is missing.
        NotSent: A project names the address, and the user has not confirmed it.
    """

    def __init__(
        self, name: str, settings: config_sections.HostConfig, stop: Event | None = None, attempts: int = ATTEMPTS,
        first_wait: float | None = None,
    ) -> None:  # fmt: skip
        self.name, self.host = name, host_named(name)
        self.url = (settings.url or config_sections.HOSTS[name]).rstrip("/")
        self.problem: str | None = None
        self._stop, self._attempts = stop or Event(), attempts
        self._first_wait = FIRST_WAIT if first_wait is None else first_wait
        for secret in (settings.api_key, settings.secret_key):
            register_secret(secret)
        self._headers = {"Content-Type": "application/json", **self.host.headers(settings)}
        check_address(self.url)
        self._form, self._resume_at, self._lock = 0, 0.0, Lock()

    @property
    def batch_size(self) -> int:
        """Number of scores of one request."""
        return self.host.BATCH if self._form == 0 else 1

    def send(self, scores: Sequence[HostScore]) -> Sent:
        """Send at most `Host.BATCH` scores of one kind; a refused batch is divided to find its refused scores."""
        if self.problem is not None or self._stop.is_set():
            return Sent(left=list(scores))
        try:
            reason = self._refusal(scores)
        except _Unreachable as error:
            self.problem = str(error)
            return Sent(left=list(scores))
        if reason is None:
            return Sent(confirmed=list(scores))
        if len(scores) == 1:
            return Sent(refused=[(scores[0], reason)])
        middle, sent = len(scores) // 2, Sent()
        for part in (scores[:middle], scores[middle:]):
            sent.add(self.send(part))
        return sent

    def _refusal(self, scores: Sequence[HostScore]) -> str | None:
        """Post scores; return the reason why the host refused the request, or None."""
        path, bodies = self.host.path(scores[0].kind), list(self.host.bodies(scores))
        if len(scores) > 1 and self._form:
            return "this server takes single scores"
        forms = sorted(range(len(bodies)), key=lambda form: form != self._form)
        reason: str | None = None
        for form in forms:
            status, reply = self._ask("POST", path, bodies[form])
            if status == 409 and (update := self.host.update(scores[0])) is not None:
                status, reply = self._ask("PATCH", *update)
            is_accepted = self.host.is_accepted(status, reply, scores) if 200 <= status < 300 else False
            if is_accepted is None or reply is _WEB_PAGE:
                raise _Unreachable(
                    f"{strip_url_secrets(self.url)} answered with status {status} and no confirmation of the scores, "
                    f"so it may not be {self.name}, or a login page is in front of it; check push.{self.name}.url"
                )
            if 200 <= status < 300:
                self._form = form if is_accepted else self._form
                return None if is_accepted else "not among the scores that it took"
            reason = f"refused with status {status} ({_REASONS.get(status, 'see its log')})"
            if status not in (400, 422):
                break
        return reason

    def _ask(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Return status and JSON of a reply, after repeating failed attempts.

        Raises:
            _Unreachable: No attempt got a reply other than one to repeat, or access was denied.
        """
        content, error = json.dumps(body).encode(), ""
        for attempt in range(self._attempts):
            self._pause(0.0 if attempt == 0 else self._first_wait * 2 ** (attempt - 1))
            if self._stop.is_set():
                break
            status, reply, after = _exchange(method, f"{self.url}/{path}", content, self._headers)
            if status in _DENIED:
                raise _Unreachable(
                    f"{self.name} denied access with status {status}; check the keys under push.{self.name}"
                )
            if 300 <= status < 400:
                raise _Unreachable(
                    f"{self.name} redirects (status {status}); set push.{self.name}.url to the final address"
                )
            if status and status < 500 and status not in _LATER:
                return status, reply
            error = f"status {status}" if status else str(reply)
            if after is not None:
                with self._lock:  # the limit holds for all threads
                    self._resume_at = max(self._resume_at, time.monotonic() + min(after, LONGEST_WAIT))
        where = strip_url_secrets(self.url)
        raise _Unreachable(f"{self.name} at {where} did not take scores ({error or 'stopped'})")

    def _pause(self, seconds: float) -> None:
        with self._lock:
            wait = max(min(seconds, LONGEST_WAIT), self._resume_at - time.monotonic())
        if wait > 0:
            self._stop.wait(wait)


_WEB_PAGE = object()
"""Reply that is a web page with a status of failure."""


def _exchange(method: str, url: str, content: bytes, headers: Mapping[str, str]) -> tuple[int, Any, float | None]:
    """Send a request; return the status, the JSON of the reply and the seconds of `Retry-After`.

    Without a whole reply the status is 0, and the second value is the reason. Texts of the host are not passed on.
    """
    try:
        reply = send_request(method, url, content, headers, seconds=TIMEOUT_SECONDS, most_bytes=MAX_REPLY)
    except CallFailed as error:
        return 0, error.failure.detail, None
    if not 200 <= reply.status < 300:
        body = _WEB_PAGE if is_web_page(reply.content[:512]) else None
        return reply.status, body, number_of(reply.headers.get("Retry-After"))
    if not reply.is_whole:
        return 0, f"a reply that does not end within {TIMEOUT_SECONDS:g} s and {MAX_REPLY // 2**20} MB", None
    try:
        return reply.status, json.loads(reply.content), None
    except (ValueError, RecursionError):
        return reply.status, None, None


def missing_setting(host: str, *names: str) -> BadInput:
    """Return the error about settings that a host needs."""
    lines = ", ".join(f'{name}: "${{{host.upper()}_{name.upper()}}}"' for name in names)
    return BadInput(
        f"push.{host} has no {' and no '.join(names)}: set the environment variables, or add them to .env and to "
        f"accord.yaml: push: {{{host}: {{{lines}}}}}"
    )
