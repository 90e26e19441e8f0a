"""Conversations to erase: by ID, by the person who wrote them, or by age."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from accord.edges import BadInput, UnknownName
from accord.scoring import ConversationFacts, milliseconds, time_of
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
            BadInput: The text is no time.

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


def conversation_time(times: Iterable[str], metadata: Mapping[str, Any]) -> datetime | None:
    """Return the time of a conversation's last message, or of its metadata; None if it has none."""
    started = ConversationFacts.of(Conversation("", (), metadata=metadata)).time
    latest = max((time for each in times if (time := milliseconds(each)) is not None), default=started)
    return None if latest is None else time_of(latest)


def selected_ids(project: Workspace, selection: Selection) -> list[str]:
    """Return the IDs of the selected conversations, in order.

    Raises:
        BadInput: No stored or scored conversation has a given ID, or none is by a given user.
        UnknownName: There is no annotator with a given name.
    """
    found: set[str] = set()
    if selection.conversations:
        found |= _known_ids(project, selection.conversations)
    if selection.users or selection.before is not None or selection.rated_before is not None:
        found |= set(_by_content(project, selection))
    for name in selection.annotators:
        people = {label.annotator for label in project.store.labels()} | _accounts(project)
        if name not in people:
            raise UnknownName("annotator", name, sorted(people))
    return sorted(found)


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
    if missing := sorted(set(ids) - known):
        raise BadInput(
            f"no conversation {missing[0]!r} in the store or among the scores; nothing was erased. Its ID is in the "
            "log that was imported, and on its page"
        )
    return known


def scored_names(project: Workspace) -> dict[str, datetime]:
    """Return the time of the last score of each conversation among the scores of the board."""
    import polars as pl

    if not project.mart.folder.is_dir():
        return {}
    rows, _ = project.mart.read(
        lambda rows: rows.group_by("conversation").agg(pl.col("scored").max().alias("last")).collect()
    )
    return {name: last.replace(tzinfo=UTC) for name, last in rows.iter_rows() if last is not None}


def _by_content(project: Workspace, selection: Selection) -> Iterator[str]:
    """Yield the IDs of conversations by a user, or older than a time."""
    users, unused = set(selection.users), set(selection.users)
    keys = project.config.privacy.user
    rated = set(_rated(project)) if selection.rated_before is not None else set[str]()
    words = users if selection.before is None and selection.rated_before is None else ()
    for row in Erasures(project.store).facts(words):
        by = users.intersection(_users(row.metadata, keys))
        unused -= by
        before = selection.rated_before if row.id in rated else selection.before
        if by or (before is not None and (conversation_time(row.times, row.metadata) or row.added) < before):
            yield row.id
    if unused:
        raise BadInput(
            f"no conversation by user {sorted(unused)[0]!r}; nothing was erased. Users are looked for in the metadata "
            f"{', '.join(keys)}; name others in accord.yaml: privacy: {{user: [NAME]}}"
        )
    if selection.before is not None:
        stored = set(project.store.conversation_ids())
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
