"""Batch files of a provider: prompts are submitted together and their replies are fetched hours later.

To a judge, a batch is a chat model whose replies come later. A prompt without a reply yet fails with the reason
`in batch` and is recorded as pending. Asking again after the replies are in the store finds them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from accord.edges import redact
from accord.models.model import CallFailed, Prompt, Reply
from accord.models.requests.client import ChatCompletions, NotFound, chat_request_of
from accord.models.requests.flow import IN_BATCH
from accord.models.requests.reply_parsing import (
    MALFORMED,
    error_code,
    parse_json,
    read_chat_reply,
    require_object,
    shorten,
)
from accord.models.requests.wrappers import decode_reply, reply_key
from accord.store import Store

ENDPOINT: Final = "/v1/chat/completions"
WINDOW: Final = "24h"
MARK = "accord"
PAGE, PAGES = 100, 50
"""Batches per page of the provider's list, and maximum number of pages to search for lost batches."""
GRACE = timedelta(hours=1)
"""Time to search for a batch whose submission got no answer; after it, the prompts are submitted again."""
UNCONFIRMED = "unconfirmed"
"""Status of a batch whose submission got no answer and which the provider does not list yet."""
MOST_REQUESTS = 50_000
MOST_BYTES = 150_000_000
MOST_FILE_BYTES = 1_000_000_000
"""Maximum bytes of a file of replies, 20 kB per request."""
FILE_SECONDS = 900.0
"""Time limit for the transfer of a file, in seconds."""
GONE, COMPLETED = "gone", "completed"
NO_RESULT_LINE, RESULT_FILE_GONE = "no result line", "result file gone"
"""Reasons of requests of a finished batch without a line in its result files."""
RETRYABLE = re.compile(r"HTTP (408|409|429|5\d\d)|malformed|batch_expired|expired|cancelled|batch_cancelled|gone")
"""Reasons of failed requests that are submitted again; a refused or rejected request would fail again."""
_NAME = re.compile(r"[\w:-][\w.:-]{0,199}", re.ASCII)
RUNNING = frozenset({"validating", "in_progress", "finalizing", "cancelling"})
_REJECTED = frozenset({"rejected", "too long", "rate-limited"})
"""Reasons of failed submissions that prove that no batch was started."""


class BatchChat:
    """A chat model that answers from the store and collects the prompts without a reply."""

    def __init__(self, wire: ChatCompletions, store: Store) -> None:
        """`wire` is the endpoint of the batches.

        `failed` holds the reasons of requests that failed in a batch and are not submitted again, by key.
        """
        self.name = wire.name
        self.endpoint = wire.endpoint
        self.pending: dict[str, Prompt] = {}
        self.failed: dict[str, str] = {}
        self._wire, self._store = wire, store

    async def ask(self, prompt: Prompt, /) -> Reply:
        """Return the stored reply of a finished batch.

        Raises:
            CallFailed: `in batch` while the reply is pending, or the reason of a failed request.
        """
        key = self.key(prompt)
        stored = self._store.reply(key)
        if stored is None and key in self.failed:
            raise CallFailed(
                self.failed[key], "the request failed in a batch; `accord judge` without --batch repeats it"
            )
        if stored is None:
            self.pending[key] = prompt
            raise CallFailed(IN_BATCH, "the batch is not finished; run the command again later")
        return decode_reply(stored)

    def key(self, prompt: Prompt) -> str:
        """Return the key of a prompt's stored reply, the same as without batches."""
        return reply_key(self.endpoint, self.name, prompt)

    async def close(self) -> None:
        """Close the endpoint's connections."""
        await self._wire.close()


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch at the provider: id, status, counts of requests, and the ids of its result files."""

    id: str
    status: str
    completed: int
    failed: int
    total: int
    output: str | None
    errors: str | None
    says: str = ""

    @property
    def is_running(self) -> bool:
        """True if results may still arrive."""
        return self.status in RUNNING

    def to_json(self) -> dict[str, Any]:
        """Return all fields."""
        return asdict(self)


class BatchResults(NamedTuple):
    """Results of a finished batch.

    Attributes:
        replies: Replies by key.
        failed: Reason of each request that failed, by key.
        no_line: Failure reason of the requests that have no line in the result files.
        unreadable: Description of the result files that have to be downloaded again; empty if all were read.
    """

    replies: dict[str, Reply]
    failed: dict[str, str]
    no_line: str
    unreadable: str


def may_have_started(error: CallFailed) -> bool:
    """Return True if a batch may have started although its submission failed this way."""
    return error.failure.reason not in _REJECTED


class BatchEndpoint:
    """The batch files of an OpenAI-compatible endpoint."""

    def __init__(self, wire: ChatCompletions) -> None:
        self._wire = wire

    async def upload(self, lines: bytes) -> str:
        """Upload a batch file, which is free, and return its id; see `start` for errors."""
        file = await self._fetch("POST", "/files", data={"purpose": "batch"}, files={"file": ("accord.jsonl", lines)})
        name = _field(file, "id")
        if not _is_name(name):
            raise CallFailed(MALFORMED, "the endpoint answered 200 without a valid file")
        return str(name)

    async def start(self, file: str, mark: str) -> Batch:
        """Start a batch from an uploaded file. If the answer is lost, `marked` finds the batch by its mark.

        Raises:
            CallFailed: The provider did not start it, or its answer did not arrive (see `may_have_started`).
            ModelError: No call can succeed, or the provider has no batches.
        """
        made = {"input_file_id": file, "endpoint": ENDPOINT, "completion_window": WINDOW, "metadata": {MARK: mark}}
        return _batch(await self._fetch("POST", "/batches", json=made))

    async def _fetch(self, method: str, path: str, **request: Any) -> Any:
        """Return the JSON of a response; see `start` for errors."""
        return parse_json(await self._wire.send(method, path, FILE_SECONDS, **request))

    async def marked(self, marks: Collection[str]) -> dict[str, Batch]:
        """Return the batches in the provider's list that have one of these marks, by mark; see `start` for errors."""
        batches: dict[str, Batch] = {}
        after: dict[str, str] = {}
        for _ in range(PAGES if marks else 0):
            try:
                page = await self._fetch("GET", "/batches", params={"limit": PAGE, **after})
            except NotFound:
                break  # the provider has no list: nothing can be confirmed
            listed = _items(_field(page, "data"))
            for entry in listed:
                mark = _field(_field(entry, "metadata"), MARK)
                if isinstance(mark, str) and mark in marks and mark not in batches:
                    batches[mark] = _batch(entry)
            last = _field(listed[-1], "id") if listed else None
            is_last = len(listed) < PAGE and _field(page, "has_more") is not True
            if is_last or len(batches) == len(marks) or not _is_name(last) or after.get("after") == last:
                break
            after = {"after": str(last)}
        return batches

    async def look(self, batch: str) -> Batch:
        """Return the progress of a batch, `gone` if the provider does not know it; see `start` for errors."""
        try:
            return _batch(await self._fetch("GET", f"/batches/{quote(batch, safe='')}"))
        except NotFound:
            return Batch(batch, GONE, 0, 0, 0, None, None, "the provider does not know it")

    async def results(self, batch: Batch, keys: Collection[str]) -> BatchResults:
        """Download the results of a finished batch that was submitted with these keys; see `start` for errors."""
        results: dict[str, Reply | str] = {}
        unreadable: dict[str, bytes] = {}
        no_line = batch.status if batch.status != COMPLETED else NO_RESULT_LINE
        for file in filter(None, (batch.output, batch.errors)):
            try:
                content = await self._wire.send("GET", f"/files/{quote(file, safe='')}/content", FILE_SECONDS)
            except NotFound:
                no_line = RESULT_FILE_GONE  # the provider keeps files for some weeks
                continue
            rows = [(key, result) for key, result in read_batch(content, self._wire.name) if key in keys]
            if not rows:
                unreadable[file] = content.strip()
            for key, result in rows:  # the first of two lines with one key counts, and a reply before a failure
                if key not in results or (isinstance(result, Reply) and isinstance(results[key], str)):
                    results[key] = result
        reasons = _without_results(batch, unreadable, bool(results))
        replies = {key: result for key, result in results.items() if isinstance(result, Reply)}
        failed = {key: result for key, result in results.items() if not isinstance(result, Reply)}
        return BatchResults(replies, failed, no_line, "; ".join(reasons))


def _without_results(batch: Batch, unreadable: Mapping[str, bytes], has_results: bool) -> list[str]:
    """Return the reasons of missing results: files without a readable line, by name, or no file at all."""
    may_be_empty = has_results or (batch.status != COMPLETED and not batch.completed)
    reasons = [_unreadable(file, content) for file, content in unreadable.items() if content or not may_be_empty]
    if batch.status == COMPLETED and not (batch.output or batch.errors):
        reasons.append("no result file: the provider names none for this batch")
    return reasons


def _unreadable(file: str, content: bytes) -> str:
    start = f"it starts with {shorten(content[:60].decode(errors='replace'))!r}" if content else "it is empty"
    return f"result file {file}: no line is a JSON object with a custom_id of this batch; {start}"


def batch_files(pending: Mapping[str, Prompt], model: str) -> Iterator[tuple[list[str], bytes]]:
    """Yield batch files within a provider's limits, each with its keys. Each line is one prompt."""
    keys: list[str] = []
    lines: list[bytes] = []
    size = 0
    for key, prompt in pending.items():
        body = {"model": model, **chat_request_of(prompt)}
        line = json.dumps({"custom_id": key, "method": "POST", "url": ENDPOINT, "body": body}).encode() + b"\n"
        if lines and (len(lines) == MOST_REQUESTS or size + len(line) > MOST_BYTES):
            yield keys, b"".join(lines)
            keys, lines, size = [], [], 0
        keys.append(key)
        lines.append(line)
        size += len(line)
    if lines:
        yield keys, b"".join(lines)


def _batch(value: Any) -> Batch:
    """Return a provider's description of a batch with checked types."""
    name, status, output, errors = (
        _field(value, field) for field in ("id", "status", "output_file_id", "error_file_id")
    )
    if not all(map(_is_name, (name, status, output or status, errors or status))):
        raise CallFailed(MALFORMED, "the endpoint answered 200 without a valid batch")
    counts = _field(value, "request_counts")
    completed, failed, total = (_count(_field(counts, field)) for field in ("completed", "failed", "total"))
    messages = [_field(error, "message") for error in _items(_field(_field(value, "errors"), "data"))[:3]]
    says = "; ".join(shorten(message) for message in messages if message)
    return Batch(str(name), str(status), completed, failed, total, output or None, errors or None, says)


def _field(value: Any, name: str) -> Any:
    """Return a field of a JSON object, or `None` if it is missing or `value` is not an object."""
    return value.get(name) if isinstance(value, dict) else None


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value <= MOST_REQUESTS else 0


def _is_name(value: Any) -> bool:
    """Return True if an id or a status is safe in a URL and in one line, and contains no part of a secret."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None and redact(value) == value


def read_batch(content: bytes, model: str) -> Iterable[tuple[str, Reply | str]]:
    """Yield each line's key with its reply or the reason of its failure; invalid lines are skipped."""
    for line in content.splitlines():
        try:
            row = require_object(parse_json(line), "line")
        except CallFailed:
            continue
        key, response, error = row.get("custom_id"), row.get("response"), row.get("error")
        if not isinstance(key, str):
            continue
        response = response if isinstance(response, dict) else {}
        if response.get("status_code") != 200:
            code = error_code(error.get("code")) if isinstance(error, dict) else ""
            status = response.get("status_code")
            yield key, code or (f"HTTP {status}" if type(status) is int and 100 <= status < 600 else MALFORMED)
            continue
        try:
            yield key, read_chat_reply(response.get("body"), model)
        except CallFailed as error:
            yield key, error.failure.reason
