"""Who said what, on which question, of which conversation or turn. Sparse, contradictory, never collapsed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from accord.edges import BadInput
from accord.values.conversation import Target
from accord.values.rubric import Question, Rubric
from accord.values.scale import Value


@dataclass(frozen=True, slots=True)
class Label:
    """One answer of one person. `value` is `None` where the person said the question does not apply.

    `wording` is the key of the question as it was asked (`Question.key`), where that is known. A comparison says
    `against` what the target was held.
    """

    target: Target
    question: str
    annotator: str
    value: Value | None
    time: str | None = None
    wording: str | None = None
    against: Target | None = None


class Labels(Sequence[Label]):
    """Labels in the order they were read. The same person may rate twice; both ratings stay.

    `groups` says of targets what splits keep together; a target that it does not name belongs to its conversation.
    """

    def __init__(self, labels: Iterable[Label] = (), groups: Mapping[Target, str] | None = None) -> None:
        self._labels = tuple(labels)
        self.groups = {} if groups is None else groups

    def group_of(self, target: Target) -> str:
        """The group of a target: what splits and resampling keep together."""
        return self.groups.get(target) or target.conversation

    def grouped(self, groups: Mapping[Target, str]) -> Labels:
        """The same labels, in other groups."""
        return Labels(self._labels, groups)

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int | slice) -> Label | Labels:  # type: ignore[override]
        return Labels(self._labels[index], self.groups) if isinstance(index, slice) else self._labels[index]

    def __iter__(self) -> Iterator[Label]:
        return iter(self._labels)

    def on(self, question: str) -> Labels:
        """The labels that answer one question; those that say "does not apply" are left out."""
        return Labels((each for each in self if each.question == question and each.value is not None), self.groups)

    def filter(self, groups: Iterable[str]) -> Labels:
        """The labels of some groups; of some conversations, where nothing else is grouped."""
        wanted = frozenset(groups)
        return Labels((label for label in self if self.group_of(label.target) in wanted), self.groups)

    @property
    def annotators(self) -> list[str]:
        """Everyone who rated something, sorted."""
        return sorted({label.annotator for label in self})

    @property
    def targets(self) -> list[Target]:
        """Everything that was rated or compared, in the order of the first time."""
        sides = (side for label in self for side in (label.target, label.against))
        return list(dict.fromkeys(side for side in sides if side is not None))


def check_label(label: Label, rubric: Rubric) -> None:
    """Refuse a label whose question is in the rubric but whose value is outside its scale.

    Labels of questions that the rubric does not ask are kept: they may belong to another rubric.

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
    """Refuse a value that the question's scale does not hold.

    Raises:
        BadInput: Says what was got, what is allowed, and where.
    """
    if not question.scale.holds(value):
        raise BadInput(
            f"{where}, question {question.id!r}: got {value!r}, allowed: {question.scale}. "
            "Correct the label, or the question's scale in the rubric."
        )
