"""Sending a file of scores to a host: rows, ids at the host, a ledger of sent scores, and counts.

A ledger next to the scores (`SCORES.pushed-HOST.jsonl`) has a line per confirmed score, with its id and a digest. A run
that was stopped or killed continues where it was; a deleted ledger sends all scores again, which changes nothing at the
host.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from accord.edges import MB, BadInput, open_private, parse_time, read_text, unescape_formula
from accord.formats import Row, display_path, is_remote, locate, read, read_rows
from accord.hosts.shared.push import Host, HostScore, HostSender, Kind, Place, Sent, host_named, host_score
from accord.project import config_sections
from accord.scoring import parts
from accord.store import batches
from accord.values import Conversation
from accord.verbs import Project

CHUNK_ROWS, WORKERS = 2_000, 4
"""Rows that are looked up together, and requests at the same time."""
MAX_LEDGER = 1024 * MB
NO_IDS = (
    "the conversation has no session or trace of {host}: it was not imported from an export of traces (or see --ids)"
)
_NOT_A_SCORE = "not a row of scores"
_HOST_IDS = "host_ids"
"""Key of the metadata that `accord.formats.traces.host_ids_of` writes."""


@dataclass
class PushRun:
    """Counts of the rows of a file of scores that were sent to a host.

    Attributes:
        host: Name of the host.
        rows: Rows of the file.
        sent: Scores that the host confirmed in this run; with `--plan`, that would be sent.
        unchanged: Scores that an earlier run has sent.
        kinds: Scores sent by the kind of the object that they are about.
        skipped: Rows with nothing to send, by reason.
        refused: Scores that the host refused, by reason.
        left: Scores to send again with the same command.
        problem: Reason why scores are left, or `None` without a problem.
        is_plan: True if nothing was sent.
    """

    host: str
    rows: int = 0
    sent: int = 0
    unchanged: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    left: int = 0
    problem: str | None = None
    is_plan: bool = False

    @property
    def is_complete(self) -> bool:
        """True if every row with a score was sent, now or earlier."""
        return not (self.refused or self.left or any(not reason.startswith("unscored") for reason in self.skipped))

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {name: dict(value) if isinstance(value, Counter) else value for name, value in vars(self).items()}


def push_file(
    project: Project,
    host: str,
    scores: str,
    conversations: Sequence[Path] = (),
    ids: Kind | None = None,
    name: str | None = None,
    is_plan: bool = False,
    on_rows: Callable[[int], None] = lambda rows: None,
) -> PushRun:
    """Send the scores of a file, or of a folder of parts, to a host.

    Args:
        project: Project with the settings of the host; its store has the imported conversations.
        host: Name of the host.
        scores: File of `accord score` or `accord follow`, or folder of parts.
        conversations: Files of traces with the conversations that were scored, for those that the store lacks.
        ids: Kind of the ids of conversations that neither has; by default as in the settings.
        name: Name of the scores; by default as in the settings, then the question.
        is_plan: Count only.
        on_rows: Called with the number of rows read.

    Raises:
        BadInput: A setting is missing, or a file cannot be read or holds no scores.
        NotSent: A project names the address, and the user has not confirmed it.
    """
    settings = project.config.push.hosts.get(host)
    if settings is None:
        raise BadInput(f"accord.yaml has no push.{host}; see docs/push.md, for example: push: {{{host}: {{...}}}}")
    places = _Places(project, host_named(host), conversations, ids or settings.ids, settings.project)
    ledger = Ledger(ledger_path(scores, host), (settings.url or config_sections.HOSTS[host]).rstrip("/"))
    run = PushRun(host, is_plan=is_plan)
    sender = None if is_plan else HostSender(host, settings)
    label = name or settings.name or project.question.id
    rows = score_rows(scores)
    try:
        while chunk := list(islice(rows, CHUNK_ROWS)):
            found = _host_scores(chunk, places, label, host, run)
            new = ledger.changed(found)
            run.rows += len(chunk)
            run.unchanged += len(found) - len(new)
            if sender is None:
                _count(run, Sent(confirmed=new))
            elif new:
                ledger.open()
                for sent in _send(sender, new):
                    ledger.add(sent.confirmed)
                    _count(run, sent)
                run.problem = sender.problem
            on_rows(run.rows)
    finally:
        ledger.close()
    if run.rows == run.skipped[_NOT_A_SCORE]:
        raise BadInput(f"{scores} holds no scores of an evaluator; name a file of: accord score FILE --out {scores}")
    return run


def _count(run: PushRun, sent: Sent) -> None:
    run.sent += len(sent.confirmed)
    run.left += len(sent.left)
    run.kinds.update(score.kind for score in sent.confirmed)
    run.refused.update(reason for _, reason in sent.refused)


def _host_scores(
    rows: Sequence[Mapping[str, Any]], places: _Places, name: str, host: str, run: PushRun
) -> list[HostScore]:
    """Return the scores to send of some rows, the last one of each id; the others are counted."""
    known = [row for row in rows if {"conversation", "value", "signature"} <= row.keys()]  # labels have no signature
    run.skipped.update([_NOT_A_SCORE] * (len(rows) - len(known)))
    places.load({str(row["conversation"]) for row in known})
    found: dict[str, HostScore] = {}
    for row in known:
        score = _host_score(row, places, name, host)
        if isinstance(score, str):
            run.skipped[score] += 1
        else:
            if score.id in found:
                run.skipped["replaced by a later row about the same object"] += 1
            found[score.id] = score
    return list(found.values())


def _host_score(row: Mapping[str, Any], places: _Places, name: str, host: str) -> HostScore | str:
    """Return the score of a row, or the reason why there is none."""
    try:
        turn = None if row.get("turn") in (None, "") else int(row["turn"])
    except (TypeError, ValueError):
        return _NOT_A_SCORE
    place = places.place(str(row["conversation"]), turn)
    score = host_score(row, place or Place("session", ""), name)
    if isinstance(score, str):
        return score
    return NO_IDS.format(host=host) if place is None else places.host.problem(score) or score


def _send(sender: HostSender, scores: Sequence[HostScore]) -> Iterator[Sent]:
    """Yield the outcomes of requests of one kind of object each, as they are known."""
    requests = [
        batch
        for kind in sorted({score.kind for score in scores})
        for batch in batches([score for score in scores if score.kind == kind], sender.batch_size)
    ]
    with ThreadPoolExecutor(WORKERS) as pool:
        yield from pool.map(sender.send, requests)


# --- ids at a host ----------------------------------------------------------------------------------------------------


class _Places:
    """Objects at a host by conversation and turn, from files of traces, the store, or the kind that the user names."""

    def __init__(
        self, project: Project, host: Host, files: Sequence[Path], ids: Kind | None, host_project: str | None
    ) -> None:
        self.host, self._project, self._ids, self._host_project = host, project, ids, host_project
        self._from_files = {
            record.conversation.id: found
            for file in files
            for record in read(file)
            if (found := _ids_of(record.conversation))
        }
        self._known: dict[str, Mapping[str, Any]] = {}

    def load(self, conversations: set[str]) -> None:
        """Look up the ids of some conversations, in place of those before."""
        missing = conversations - self._from_files.keys()
        self._known = {name: self._from_files[name] for name in conversations - missing}
        for conversation in self._project.store.conversations(missing):
            self._known[conversation.id] = _ids_of(conversation)

    def place(self, conversation: str, turn: int | None) -> Place | None:
        """Return the most exact object of a host that a score is about, or `None` if no id is known."""
        ids = self._known.get(conversation) or {}
        known = _known_ids(ids, turn) or ({} if self._ids is None else {self._ids: conversation})
        order = ("session", "trace") if turn is None else ("span", "trace", "session")
        kind: Kind | None = next((kind for kind in order if kind in self.host.KINDS and known.get(kind)), None)
        if kind is None:
            return None
        time = _time_of(ids.get("time"))
        return Place(kind, known[kind], time, known.get("trace"), ids.get("project") or self._host_project)


def _ids_of(conversation: Conversation) -> Mapping[str, Any]:
    found = conversation.metadata.get(_HOST_IDS)
    return found if isinstance(found, Mapping) else {}


def _known_ids(ids: Mapping[str, Any], turn: int | None) -> dict[str, str]:
    """Return the ids of a conversation, or of one of its turns, by kind of object."""
    turns = ids.get("turns")
    of_turn = turns.get(str(turn)) if turn is not None and isinstance(turns, Mapping) else None
    found = {"session": ids.get("session"), "trace": ids.get("trace")}
    if isinstance(of_turn, Sequence) and not isinstance(of_turn, str):
        found |= dict(zip(("trace", "span"), of_turn, strict=False))
    return {kind: str(id) for kind, id in found.items() if id}


def _time_of(value: Any) -> str | None:
    """Return a time as ISO 8601 in UTC, or `None` if the value is not a time."""
    time = parse_time(value)
    return None if time is None else time.isoformat()


# --- rows -------------------------------------------------------------------------------------------------------------


def score_rows(scores: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a file of scores, or of a folder of parts.

    Raises:
        BadInput: It cannot be read, or the folder has no parts.
    """
    if is_remote(scores) or Path(scores).is_dir():
        keys = sorted(parts.finished(scores))
        if not keys:
            raise BadInput(f"{display_path(scores)} has no parts of scores; name a folder of parts of: accord score")
        for key in keys:
            yield from parts.part_rows(scores, key)
        return
    file, is_table = locate(scores), not scores.endswith(".jsonl")
    for row in read_rows(file):
        if not isinstance(row, Row):
            raise row
        yield _plain(row.fields) if is_table else row.fields


def _plain(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: unescape_formula(cell) if isinstance(cell, str) else cell for name, cell in fields.items()}


# --- the ledger -------------------------------------------------------------------------------------------------------


def ledger_path(scores: str, host: str) -> Path:
    """Return the path of the ledger: next to the scores, or in the working folder for an object store."""
    name = scores.rstrip("/")
    path = Path(name.rsplit("/", 1)[-1] if is_remote(scores) else name)
    return path.with_name(f"{path.name}.pushed-{host}.jsonl")


class Ledger:
    """Scores that a host has confirmed, in a file with a line per score; the file has no text of conversations.

    Its first line has the time of the first run, which also dates scores whose conversation has no time: a host may
    take a score with another time for another score.

    Args:
        path: The file; it is created before the first request.
        url: Address of the host.

    Raises:
        BadInput: The file is a link, or no ledger.
    """

    def __init__(self, path: Path, url: str) -> None:
        self.path, self.url = path, url
        self.time = datetime.now(UTC).isoformat(timespec="seconds")
        self._stream: Any = None
        self._sent: dict[str, str] = dict(self._read())

    def _read(self) -> Iterator[tuple[str, str]]:
        if self.path.is_symlink():
            raise BadInput(
                f"{self.path} is a link; a ledger is a file of its own. Remove the link to send all scores again"
            )
        if not self.path.exists():
            return
        lines = read_text(self.path, MAX_LEDGER).splitlines()
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
                if number > 1:
                    yield str(row["id"]), str(row["digest"])
                elif (time := _time_of(row["time"])) is not None:
                    self.time = time
                else:
                    raise ValueError
            except (ValueError, TypeError, KeyError, RecursionError):
                if number < len(lines):  # the last line may be torn
                    raise BadInput(
                        f"{self.path}, line {number}: no line of a ledger; remove the file to send all scores again"
                    ) from None

    def changed(self, scores: Iterable[HostScore]) -> list[HostScore]:
        """Return the scores that were not sent, or with another content, each with its time."""
        return [
            replace(score, time=score.time or self.time)
            for score in scores
            if self._sent.get(score.id) != score.digest(self.url)
        ]

    def open(self) -> None:
        """Open the file to add scores; again, it stays open."""
        if self._stream is not None:
            return
        old = self.path.read_bytes()[-1:] if self.path.exists() else b""
        self._stream = open_private(self.path, "ab", buffering=0)
        if not old:
            self._stream.write(json.dumps({"time": self.time}).encode() + b"\n")
        elif not old.endswith(b"\n"):
            self._stream.write(b"\n")

    def add(self, scores: Iterable[HostScore]) -> None:
        """Append confirmed scores."""
        rows = [{"id": score.id, "digest": score.digest(self.url)} for score in scores]
        self._stream.write("".join(json.dumps(row) + "\n" for row in rows).encode())

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()


def live_place(settings: config_sections.HostConfig, host: Host, conversation: str, time: str) -> Place:
    """Return the object that a live score is about: its conversation, as the kind of id in the settings."""
    kind: Kind = settings.ids or ("session" if "session" in host.KINDS else "trace")
    return Place(kind, conversation, time, conversation if kind == "trace" else None, settings.project)
