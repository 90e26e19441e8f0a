"""Labels of people. Sparse and contradictory labels are kept as they are and never merged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from accord.edges import BadInput
from accord.values.conversation import Target
from accord.values.rubric import Question, Rubric
from accord.values.scale import Value


@dataclass(frozen=True, slots=True)
class Label:
    """One rating by one person.

    Attributes:
        target: The rated conversation or turn.
        question: ID of the question.
        annotator: ID of the annotator.
        value: The answer; None if the question does not apply.
        time: Time of the rating, if known.
        wording: Key of the question's wording (`Question.key`), if known.
        against: The other conversation of a comparison.
    """

    target: Target
    question: str
    annotator: str
    value: Value | None
    time: str | None = None
    wording: str | None = None
    against: Target | None = None


class Labels(Sequence[Label]):
    """Labels in the order they were read. Repeated ratings by the same person are separate labels.

    `groups` maps targets to the groups that splits keep together; the default group is the conversation.
    """

    def __init__(self, labels: Iterable[Label] = (), groups: Mapping[Target, str] | None = None) -> None:
        self._labels = tuple(labels)
        self.groups = {} if groups is None else groups

    def group_of(self, target: Target) -> str:
        """Return the group of a target, which splits and resampling keep together."""
        return self.groups.get(target) or target.conversation

    def grouped(self, groups: Mapping[Target, str]) -> Labels:
        """Return the same labels with other groups."""
        return Labels(self._labels, groups)

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int | slice) -> Label | Labels:  # type: ignore[override]
        return Labels(self._labels[index], self.groups) if isinstance(index, slice) else self._labels[index]

    def __iter__(self) -> Iterator[Label]:
        return iter(self._labels)

    def on(self, question: str) -> Labels:
        """Return the labels of one question, without "does not apply"."""
        return Labels((label for label in self if label.question == question and label.value is not None), self.groups)

    def filter(self, groups: Iterable[str]) -> Labels:
        """Return the labels of some groups (by default, conversations)."""
        names = frozenset(groups)
        return Labels((label for label in self if self.group_of(label.target) in names), self.groups)

    @property
    def annotators(self) -> list[str]:
        """All annotators, sorted."""
        return sorted({label.annotator for label in self})

    @property
    def targets(self) -> list[Target]:
        """All rated or compared targets, in the order of their first label."""
        sides = (side for label in self for side in (label.target, label.against))
        return list(dict.fromkeys(side for side in sides if side is not None))


def check_label(label: Label, rubric: Rubric) -> None:
    """Refuse a label with a value outside the scale of its question.

    Labels of questions outside the rubric are valid: they may belong to another rubric.

    Raises:
        BadInput: The value is not on the question's scale, or one side of a comparison is missing.
    """
    question = rubric.get(label.question)
    if question is None:
        return
    where = f"label of {label.annotator!r} on {label.target}"
    if question.compares != (label.against is not None):
        kind = "compares two conversations; name the other one in a column `against`" if question.compares else (
            "is about one conversation; give it `applies: pairs` in the rubric, or leave `against` out"
        )  # fmt: skip
        raise BadInput(f"{where}: question {question.id!r} {kind}")
    if label.value is not None:
        check_value(label.value, question, where)


def check_value(value: Value, question: Question, where: str) -> None:
    """Refuse a value outside a question's scale.

    Raises:
        BadInput: The value is not on the scale; the message names the place, the value and the scale.
    """
    if not question.scale.holds(value):
        raise BadInput(
            f"{where}, question {question.id!r}: got {value!r}, allowed: {question.scale}. "
            "Correct the label, or the question's scale in the rubric."
        )
