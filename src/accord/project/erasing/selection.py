"""Conversations to erase: by ID, by the person who wrote them, or by age."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from accord.edges import AccordError, BadInput, UnknownName, count_of
from accord.formats import find_files, is_remote, read, sniff
from accord.project.erasing.files import project_files
from accord.scoring import SCORING_COMMANDS, conversation_time, scored_in
from accord.store import Erasures
from accord.values import Conversation

if TYPE_CHECKING:
    from accord.project.workspace import Workspace


@dataclass(frozen=True)
class Selection:
    """Selected conversations and annotators; conversations are the union of all criteria.

    Attributes:
        conversations: IDs.
        users: Values of the metadata entries `privacy.user`, which name the person who wrote a conversation.
        annotators: Names of annotators, whose ratings and account are erased.
        before: Time (UTC); conversations are erased whose last message, or import, is earlier.
        rated_before: The same for conversations with ratings; by default `before`.
        keep_scores: True keeps scores of erased conversations under pseudonyms, without texts.
        keep_labels: True keeps labels of erased annotators under pseudonyms, without comments and quotes.
    """

    conversations: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    annotators: tuple[str, ...] = ()
    before: datetime | None = None
    rated_before: datetime | None = None
    keep_scores: bool = False
    keep_labels: bool = False

    @property
    def is_empty(self) -> bool:
        """True if nothing is selected."""
        return not (self.conversations or self.users or self.annotators or self.before or self.rated_before)

    @staticmethod
    def read_time(text: str) -> datetime:
        """Return the time of `--before`: a day, or an ISO time, in UTC unless it has a zone.

        Raises:
            BadInput: The text is not a time.

        >>> Selection.read_time("2026-01-31").isoformat()
        '2026-01-31T00:00:00+00:00'
        """
        try:
            time = datetime.fromisoformat(text.strip())
        except ValueError:
            example = f"for example {date.today()}"
            raise BadInput(f"--before is a day or an ISO time, got {text[:60]!r}; {example}") from None
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)

    def to_json(self) -> dict[str, Any]:
        """Return the kinds of selection without names."""
        counts = {name: len(getattr(self, name)) for name in ("conversations", "users", "annotators")}
        times = {name: str(time) for name in ("before", "rated_before") if (time := getattr(self, name)) is not None}
        kept = {name: True for name in ("keep_scores", "keep_labels") if getattr(self, name)}
        return {name: count for name, count in counts.items() if count} | times | kept


class Selected(NamedTuple):
    """IDs of selected conversations, and the number of scored ones whose user is unknown when users are selected."""

    ids: list[str]
    unknown: int = 0


def selected(project: Workspace, selection: Selection) -> Selected:
    """Return the selected conversations.

    Raises:
        BadInput: No stored or scored conversation has a given ID, or none is by a given user.
        UnknownName: No annotator has a given name.
    """
    found, unknown = set[str](), 0
    if selection.conversations:
        found |= _known_ids(project, selection.conversations)
    if selection.users:
        by_users, unknown = _by_users(project, set(selection.users))
        found |= by_users
    if selection.before is not None or selection.rated_before is not None:
        found |= set(_by_age(project, selection))
    for name in selection.annotators:
        people = {label.annotator for label in project.store.labels()} | _accounts(project)
        if name not in people:
            raise UnknownName("annotator", name, sorted(people))
    return Selected(sorted(found), unknown)


def _accounts(project: Workspace) -> set[str]:
    from accord.store import Studies

    studies = Studies(project.store)
    try:
        return {account.name for account in studies.accounts.list_users()}
    finally:
        studies.close()


def _known_ids(project: Workspace, ids: Collection[str]) -> set[str]:
    """Return the IDs; each must occur in the store, in answers of models or in scores."""
    known = {each.id for each in project.store.conversations(ids)}
    known |= {each.target.conversation for each in project.store.annotations(conversations=ids)}
    if unknown := set(ids) - known:
        known |= scored_names(project).keys() & unknown
    if unknown := set(ids) - known:
        known |= {name for place in _places(project) for name in unknown & scored_in(place)}
    if missing := sorted(set(ids) - known):
        raise BadInput(
            f"no conversation {missing[0]!r} in the store or among the scores; nothing was erased. Its ID is in the "
            "log that was imported, and on its page"
        )
    return known


def _places(project: Workspace) -> list[Path]:
    """Return the files of the project's folder, and the folders that Accord wrote as a whole."""
    return [place.path for place in project_files(project) if place.is_searched]


def scored_names(project: Workspace) -> dict[str, datetime]:
    """Return the time of each conversation on the board: its own, or the time of its last score."""
    import polars as pl

    if not project.mart.folder.is_dir():
        return {}
    time = pl.coalesce("time", "scored").max().alias("last")
    rows, _ = project.mart.read(lambda rows: rows.group_by("conversation").agg(time).collect())
    return {name: last.replace(tzinfo=UTC) for name, last in rows.iter_rows() if last is not None}


def _by_users(project: Workspace, users: set[str]) -> tuple[set[str], int]:
    """Return the conversations by some users, and the number of scored ones whose user is unknown.

    Scores name no user. The users of conversations that were scored but not imported are looked for in the scored files
    and in all files of the project's folder.
    """
    keys, found, unused = project.config.privacy.user, set[str](), set(users)
    for row in Erasures(project.store).facts(users):
        if by := users.intersection(_users(row.metadata, keys)):
            found.add(row.id)
            unused -= by
    places = _places(project)
    scored = {name for place in places for name in scored_in(place)}.union(scored_names(project))
    scored -= Erasures(project.store).named_conversations()
    for file in dict.fromkeys([*places, *_scored_files(project)]) if scored else ():
        for each in _conversations_in(file):
            by = users.intersection(_users(each.metadata, keys)) if each.id in scored else set()
            if by:
                found.add(each.id)
                unused -= by
            scored.discard(each.id)
    if unused:
        also = f" {_UNKNOWN.format(count_of(len(scored), 'scored conversation'))}" if scored else ""
        raise BadInput(
            f"no conversation by user {sorted(unused)[0]!r}; nothing was erased. Users are looked for in the metadata "
            f"{', '.join(keys)}; name others in accord.yaml: privacy: {{user: [NAME]}}{also}"
        )
    return found, len(scored)


_UNKNOWN = "{} outside the store are in no file here, so their users are unknown; erase them by ID: --conversation"


def _scored_files(project: Workspace) -> Iterator[Path]:
    """Yield the local files that `accord score` read, as far as they still exist."""
    for run in project.store.runs(*SCORING_COMMANDS):
        named = run["settings"].get("source") or ()
        for source in [named] if isinstance(named, str) else named:
            for place in {Path(source), project.config.folder / source}:
                with suppress(AccordError, OSError, ValueError):
                    yield from () if is_remote(source) else (Path(file.url) for file in find_files(str(place)))


def _conversations_in(path: Path) -> Iterator[Conversation]:
    """Yield the conversations of a file; a file that holds something else or cannot be read has none."""
    with suppress(AccordError, OSError, ValueError):
        if path.is_file() and sniff(path).content == "conversations":
            yield from (record.conversation for record in read(path, on_bad_row=lambda _: None))


def _by_age(project: Workspace, selection: Selection) -> Iterator[str]:
    """Yield the IDs of conversations that are older than a time, of which those outside the store have scores only."""
    rated = set(_rated(project)) if selection.rated_before is not None else set[str]()
    for row in Erasures(project.store).facts():
        before = selection.rated_before if row.id in rated else selection.before
        if before is not None and (conversation_time(row.turns, row.metadata) or row.added) < before:
            yield row.id
    if selection.before is not None:
        stored = Erasures(project.store).named_conversations()
        yield from (name for name, last in scored_names(project).items()
                    if last < selection.before and name not in stored)  # fmt: skip


def _rated(project: Workspace) -> Iterable[str]:
    for label in project.store.labels():
        yield label.target.conversation
        if label.against is not None:
            yield label.against.conversation


def _users(metadata: Mapping[str, Any], keys: Iterable[str]) -> set[str]:
    """Return the names of users in metadata, also inside an entry such as `user: {id: ...}`."""
    names: set[str] = set()
    for key in keys:
        value: Any = metadata.get(key)
        if value is None and "." in key:
            first, _, rest = key.partition(".")
            inner = metadata.get(first)
            value = inner.get(rest) if isinstance(inner, Mapping) else None
        if isinstance(value, str | int):
            names.add(str(value))
    return names
