"""Numbers of ratings of the main question: by wording, and learned or new for the evaluator in use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from accord.edges import count_of, parse_time
from accord.formats import UNNAMED, LabelWordings
from accord.learning import CARD
from accord.project.importing.raters import raters_text
from accord.project.label_scales import comparable_labels, wordings_text
from accord.project.workspace import Workspace
from accord.results import Figure, Ledger, counts
from accord.store import LabelCounts, Store
from accord.values import Label

SOURCE = "accord.project.rating_counts"
"""Function behind the figures."""


def modified_at(folder: Path) -> str:
    """Return the time at which an evaluator was saved, in ISO format (UTC)."""
    modified = (folder / CARD).stat().st_mtime
    return datetime.fromtimestamp(modified, UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class RatingCounts:
    """Numbers of ratings of the main question on its present scale, the last one of each person and text.

    Attributes:
        conversations: Number of conversations in the project.
        rated: Number of conversations with a rating.
        ratings: Number of ratings.
        people: Number of people who gave them.
        wordings: Numbers by wording; `other_scales` are not among the ratings if they are left out.
        treatment: Treatment of labels on another scale.
        learned: Number of unchanged ratings that the evaluator learned from, or `None` if no evaluator is in use.
        replaced: Number of other ratings that replace a learned one of the same person and text.
    """

    conversations: int
    rated: int
    ratings: int
    people: int
    wordings: LabelWordings
    treatment: str
    learned: int | None = None
    replaced: int = 0

    @property
    def new(self) -> int | None:
        """Number of ratings that were given or changed since the evaluator was fitted."""
        return None if self.learned is None else self.ratings - self.learned

    @property
    def about(self) -> str:
        """Set of ratings in words."""
        conversations, people = count_of(self.rated, "conversation"), count_of(self.people, "person", "people")
        return f"{count_of(self.ratings, 'rating')} of {conversations} by {people}"

    @property
    def text(self) -> str:
        """Sentence with all numbers, without a full stop."""
        return counts(self.conversations, self.ratings, self.people, self.learned, self.rated, self.replaced)

    @property
    def wordings_text(self) -> str:
        """Sentence with the numbers by wording, without a full stop; empty if there is one wording."""
        return wordings_text(self.wordings, self.treatment)

    def ledger(self) -> Ledger:
        """Return the numbers as figures; numbers by wording only if there are several."""
        parts = [("rated", self.rated, self.conversations)]
        found = self.wordings
        if found.is_mixed:
            earlier = self.ratings - found.present - found.unknown
            parts += [("present_wording", found.present, self.ratings), ("earlier_wording", earlier, self.ratings)]
            parts += [("unknown_wording", found.unknown, self.ratings)] if found.unknown else []
        if self.learned is not None and (new := self.new) is not None:
            parts += [("learned", self.learned, self.ratings), ("new_ratings", new, self.ratings)]
            parts += [("replaced_ratings", self.replaced, new)]
        totals = {"conversations": self.conversations, "ratings": self.ratings, "people": self.people}
        return Ledger([
            *(Figure(name, value, about=self.about, source=SOURCE) for name, value in totals.items()),
            *(Figure(name, value, n=n, about=self.about, source=SOURCE) for name, value, n in parts),
        ])  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Return the numbers, the text and the figures."""
        return {
            "conversations": self.conversations, "rated": self.rated, "ratings": self.ratings, "people": self.people,
            "learned": self.learned, "new": self.new, "replaced": self.replaced, "text": self.text,
            "wordings": self.wordings_text, "figures": self.ledger().to_json(),
        }  # fmt: skip


def rating_counts(project: Workspace, evaluator: Path | None = None, recorded: int | None = None) -> RatingCounts:
    """Count the ratings of the main question, and those that are new for an evaluator.

    Args:
        project: The project.
        evaluator: Folder of a fitted evaluator; None counts no learned ratings.
        recorded: Number of ratings that its fit recorded, for labels that were stored after it and have no later time:
            if the store was made again from its files, the evaluator learned from these.
    """
    store, question = project.store, project.question
    labels = comparable_labels(store, question.id)
    learned, replaced = None, 0
    if evaluator is not None:
        learned, replaced = map(len, labels_at(store, labels, modified_at(evaluator), recorded))
    return RatingCounts(
        store.count_conversations(), len({label.target.conversation for label in labels}), len(labels),
        len(labels.annotators), LabelCounts(store).wordings(question), store.other_scales, learned, replaced,
    )  # fmt: skip


def has_learned_all(project: Workspace, evaluator: Path, recorded: int | None) -> bool:
    """Return True if no rating was given or changed since an evaluator was fitted; arguments as in `rating_counts`."""
    return (evaluator / CARD).is_file() and not rating_counts(project, evaluator, recorded).new


def labels_at(
    store: Store, labels: Iterable[Label], fitted: str, recorded: int | None = None
) -> tuple[list[Label], list[Label]]:
    """Return the labels of a question that existed at the time of a fit: unchanged ones, and those replaced since.

    A label existed if it was stored and given before the fit. Of labels that were stored later and have no later time,
    as many existed as are missing from the number that the fit recorded.
    """
    present = list(labels)
    if not present or store.labels_version()[1] <= fitted:
        return present, []
    time = parse_time(fitted)
    stored: dict[tuple[Any, ...], list[str]] = {}
    early: dict[tuple[Any, ...], Label] = {}
    for label, added in LabelCounts(store).stored(present[0].question):
        stored.setdefault((*_key(label), label.time), []).append(added)
        if added <= fitted and not _is_after(label, time):
            early[_key(label)] = label
    existed, replaced, unsure = list[Label](), list[Label](), list[Label]()
    for label in present:
        times, key = stored.get((*_key(label), label.time)), _key(label)
        added = times.pop() if times else ""
        if added <= fitted and not _is_after(label, time):
            existed.append(label)
        elif key in early and label.annotator != UNNAMED:
            replaced.append(early[key])
        elif not _is_after(label, time):
            unsure.append(label)
    gone = early.keys() - set(map(_key, existed))
    room = max((recorded or 0) - len(existed) - len(gone), 0)
    return existed + unsure[:room], replaced


def _key(label: Label) -> tuple[Any, ...]:
    """Return the text, the person and the repeat, of which the last label counts."""
    return label.target, label.against, label.annotator, label.repeat


def _is_after(label: Label, time: datetime | None) -> bool:
    given = None if label.time is None else parse_time(label.time)
    return given is not None and time is not None and given > time


def raters_of(project: Workspace) -> str:
    """Return the people and judges who answered the project's question, or any question if it has no answers."""
    labels = project.rated(project.question.id)
    people = Counter(label.annotator for label in labels or project.store.labels())
    judges = LabelCounts(project.store).judges(project.question.id)
    for name, recording in project.recordings.items():
        on_question = recording.answered(project.question.id)
        judges[name] = max(judges.get(name, 0), len(on_question or recording.answered()))
    return raters_text(people, judges)
