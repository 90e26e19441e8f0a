"""Words and issues of conversations, by which lists show, find and filter texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any
from unicodedata import category

from accord.board.filters import BoardFilters
from accord.edges import count_of, sendable
from accord.project import Workspace, corrected, current_corrections
from accord.store import IssueAnnotations, TextSearch
from accord.values import ISSUE, Annotation, Conversation, issues_from

WORDS_LENGTH = 160
"""Maximum length of a user's words in a list, in characters."""
MAX_ISSUES = 3
"""Maximum number of kinds of issues that a row of a list names."""
_UNSURE, _JOINERS = ("So", "Sk", "Cs", "Co", "Cn"), "\N{ZERO WIDTH JOINER}\N{VARIATION SELECTOR-16}"
"""Categories of characters without a sign in many fonts, and characters that join them."""
Place = tuple[str, int | None]


def user_words(conversation: Conversation, turn: int | None = None, length: int = WORDS_LENGTH) -> str:
    """Return the last message of the user, before a turn if one is given, cut to a length.

    If the user wrote no message, it is the last message of any speaker.
    """
    turns = conversation.turns if turn is None else conversation.turns[: turn + 1]
    texts = [each.content for each in turns if each.role == "user" and each.content.strip()]
    texts = texts or [each.content for each in turns if each.content.strip()]
    return "" if not texts else opening_words(sendable(texts[-1]), length)


def opening_words(text: str, length: int = 90) -> str:
    """Return the first words of a text, without pictographs, for which a font may have no sign.

    >>> opening_words("no \N{SLIGHTLY FROWNING FACE}"), opening_words("\N{THUMBS UP SIGN}") == "\N{THUMBS UP SIGN}"
    ('no', True)
    """
    text = text[: 4 * length]
    plain = text if text.isascii() else "".join(
        char for char in text if category(char) not in _UNSURE and char not in _JOINERS
    )  # fmt: skip
    words = " ".join(plain.split()) or " ".join(text.split())
    return words if len(words) <= length else words[: length - 1].rstrip() + "…"


class ConversationTexts:
    """Words, issues and search of a project's conversations; safe for use from several threads."""

    def __init__(self, project: Workspace) -> None:
        self.store, self.search, self.issues = project.store, TextSearch(project.store), IssueAnnotations(project.store)
        self._kinds: tuple[Any, dict[str, frozenset[str]]] | None = None
        self._lock = Lock()

    def chosen(self, selection: BoardFilters) -> tuple[frozenset[str] | None, str]:
        """Return the conversations with the words and the issue of a selection, and a note about those not read.

        None stands for all conversations.
        """
        ids: frozenset[str] | None = None
        note = ""
        if selection.find is not None:
            found = self.search.find(selection.find)
            ids = found.ids
            if found.unread:
                note = f"the search did not read {count_of(found.unread, 'conversation')}, the last ones by ID"
        if selection.issue is not None:
            of_kind = self.by_issue().get(selection.issue, frozenset())
            ids = of_kind if ids is None else ids & of_kind
        return ids, note

    def by_issue(self) -> Mapping[str, frozenset[str]]:
        """Return the conversations with an issue, by its kind, the most frequent kind first."""
        with self._lock:
            version = self.issues.makers(), self.store.labels_version()
            if self._kinds is None or self._kinds[0] != version:
                names: dict[str, set[str]] = {}
                for (name, _), kinds in _kinds_by_place(self.issues.of_any_maker()).items():
                    for kind in kinds:
                        names.setdefault(kind, set()).add(name)
                ordered = sorted(names.items(), key=lambda pair: (-len(pair[1]), pair[0]))
                self._kinds = version, {kind: frozenset(ids) for kind, ids in ordered}
            return self._kinds[1]

    def of(self, places: Iterable[Place]) -> dict[Place, tuple[str, tuple[str, ...]]]:
        """Return the user's words and the kinds of issues of some conversations or turns.

        The words of a conversation that the store does not hold are empty.
        """
        places = list(places)
        names = {name for name, _ in places}
        conversations = {each.id: each for each in self.store.conversations(names)}
        kinds = _kinds_by_place(self.issues.of_any_maker(names)) if names else {}
        of_conversation: dict[str, Counter[str]] = {}
        for (name, _), counted in kinds.items():
            of_conversation.setdefault(name, Counter()).update(counted)
        found: dict[Place, tuple[str, tuple[str, ...]]] = {}
        for name, turn in places:
            words = user_words(conversations[name], turn) if name in conversations else ""
            counted = of_conversation.get(name, Counter()) if turn is None else kinds.get((name, turn), Counter())
            found[name, turn] = words, tuple(kind for kind, _ in counted.most_common(MAX_ISSUES))
        return found


def _kinds_by_place(annotations: Iterable[Annotation]) -> dict[Place, Counter[str]]:
    """Return the kinds of issues by turn: those found by models, as corrected by people, and those people marked."""
    annotations = list(annotations)
    people = [each for each in annotations if each.kind == "person"]
    corrections = current_corrections(people)
    kinds: dict[Place, Counter[str]] = {}
    for found in issues_from(each for each in annotations if each.is_of_issues):
        for issue in corrected(found, corrections).issues:
            kinds.setdefault((found.target.conversation, found.target.turn), Counter())[sendable(issue.type)] += 1
    replaced = {(mark.by, mark.replaces) for mark in people if mark.replaces}
    for mark in people:
        is_current = mark.question.startswith(ISSUE) and not (mark.answer and (mark.by, mark.answer) in replaced)
        if is_current and not mark.is_correction and mark.value not in (None, 0):
            place = mark.target.conversation, mark.target.turn
            kinds.setdefault(place, Counter())[sendable(mark.question.removeprefix(ISSUE))] += 1
    return kinds
