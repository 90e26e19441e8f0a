"""Conversations and labels that assertions get, with their scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accord.edges import BadInput, BadRow, count_of, one_line
from accord.formats import read, read_labels, sniff, source_of
from accord.hosts.shared.scores import HostScorer
from accord.values import Conversation, Label, Rubric, Sample, ScoreRow, Target, Unscored

_WORDS = 60


@dataclass(frozen=True)
class Scored:
    """A score with the conversation's first words, and a rating for comparison if there is one."""

    row: ScoreRow
    words: str = ""
    rating: float | None = None

    def __str__(self) -> str:
        value, low, high = self.row["value"], self.row["low"], self.row["high"]
        score = (
            f"no score: {self.row['unscored']}" if value is None else f"{value:.2f} (80% interval {low:g} to {high:g})"
        )
        people = "" if self.rating is None else f", people {self.rating:g}"
        text = f"  {one_line(self.row['conversation'], _WORDS)}: {score}{people}"
        return f"{text}: {self.words}" if self.words else text


def _samples(scorer: HostScorer, given: Any) -> list[tuple[Sample | Unscored, Sequence[Label]]]:
    """Return the conversations of an argument with the labels in their rows."""
    if not isinstance(given, list | tuple):
        return _samples_of_table(scorer, given)
    rows = [{"messages": each} if isinstance(each, list | tuple) else each for each in given]
    return [(scorer.sample(row, f"row-{place}"), ()) for place, row in enumerate(rows, 1)]


def _samples_of_table(scorer: HostScorer, given: Any) -> list[tuple[Sample | Unscored, Sequence[Label]]]:
    bad: list[BadInput] = []
    records = list(read(source_of(given), on_bad_row=bad.append))
    found: list[tuple[Sample | Unscored, Sequence[Label]]] = [
        (scorer.sample(record.conversation, record.conversation.id), record.labels) for record in records
    ]
    for error in bad:
        name = f"row-{error.line}" if isinstance(error, BadRow) else "row"
        found.append((scorer.unscored(Target(name), str(error)), ()))
    return found


def scored_conversations(scorer: HostScorer, given: Any) -> list[Scored]:
    """Return the score of each conversation, or the reason of a missing one."""
    samples = [sample for sample, _ in _samples(scorer, given)]
    return [Scored(row, _first_words(sample)) for row, sample in zip(scorer.rows(samples), samples, strict=True)]


def _first_words(sample: Sample | Unscored) -> str:
    turns: Iterable[Any] = sample.conversation.turns if isinstance(sample, Sample) else ()
    text = next((turn.content for turn in turns if turn.role == "user"), "")
    return one_line(text[:_WORDS]) + ("…" if len(text) > _WORDS else "")


def labeled(scorer: HostScorer, given: Any, labels: Any) -> list[Scored]:
    """Return a score with each rating of the conversations.

    Raises:
        BadInput: The conversations have no labels, or the labels cannot be read.
    """
    chats, rated = _chats_and_labels(scorer, given, labels)
    usable = [each for each in rated if each.question == scorer.question.id and each.value is not None]
    known = [each for each in usable if each.target.conversation in chats]
    if not known:
        raise BadInput(
            f"no labels on {scorer.question.id!r} for {count_of(len(chats), 'conversation')} ({len(usable)} labels in "
            "all). Give a table of them: labels='labels.csv', with the columns conversation, annotator, question, value"
        )
    targets = list(dict.fromkeys(label.target for label in known))
    samples = [Sample(chats[target.conversation], target.turn) for target in targets]
    rows = dict(zip(targets, scorer.rows(samples), strict=True))
    words = {target: _first_words(sample) for target, sample in zip(targets, samples, strict=True)}
    return [Scored(rows[label.target], words[label.target], float(label.value or 0)) for label in known]


def _chats_and_labels(
    scorer: HostScorer, given: Any, labels: Any
) -> tuple[Mapping[str, Conversation], Sequence[Label]]:
    """Return conversations by id, and labels from their rows, from a table of labels, or from the project."""
    question, project = scorer.question, scorer.project
    rubric = Rubric(name=question.id, main=question.id, questions=(question,)) if project is None else project.rubric
    if labels is None and _is_label_table(given):
        if project is None:
            raise BadInput("labels alone need the project with their conversations; name the project as evaluator")
        rated = list(read_labels(source_of(given), rubric))
        names = {label.target.conversation for label in rated}
        return {each.id: each for each in project.store.conversations(names)}, rated
    found = _samples(scorer, given)
    chats = {sample.conversation.id: sample.conversation for sample, _ in found if isinstance(sample, Sample)}
    rated = [label for _, own in found for label in own]
    if labels is not None:
        rated += read_labels(source_of(labels), rubric)
    elif not rated and project is not None:
        rated += project.rated(question.id)
    return chats, rated


def _is_label_table(given: Any) -> bool:
    is_table = not isinstance(given, list | tuple) or all(isinstance(each, Mapping) for each in given)
    return is_table and sniff(source_of(given)).content == "labels"
