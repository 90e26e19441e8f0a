"""Labels and annotations: ratings, marks of issues, answers of judges, and issues found by models.

Sparse and contradictory labels are kept as they are and never merged. `Label` and `IssueAnnotation` are the views that
learning uses; `Annotation` is the common record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import compress
from typing import Any, Literal, get_args

from accord.edges import BadInput
from accord.values.conversation import Json, Target, content_hash
from accord.values.issues import ISSUE, Issue, IssueAnnotation, Span
from accord.values.rubric import Question, Rubric, Value


@dataclass(frozen=True, slots=True)
class Label:
    """One rating by one person.

    Attributes:
        target: The rated conversation or turn.
        question: ID of the question.
        annotator: ID of the annotator.
        value: The answer, or `None` if the question does not apply.
        time: Time of the rating, if known.
        wording: Wording and scale of the question at that time (`Question.wording`), if known.
        against: The other conversation of a comparison.
        repeat: Number of a deliberate repeat by the same person, from 1; 0 for every other rating.

    >>> label = Label(Target("c1"), "helpful", "ann", 4)
    >>> label.value, label.target.turn
    (4, None)
    """

    target: Target
    question: str
    annotator: str
    value: Value | None
    time: str | None = None
    wording: str | None = None
    against: Target | None = None
    repeat: int = 0


class Labels(Sequence[Label]):
    """Labels in the order they were read; repeated ratings by the same person are separate labels.

    Args:
        labels: The labels.
        groups: Targets and the groups that splits keep together; the default group is the conversation.

    >>> ratings = Labels([Label(Target("c1"), "helpful", "ann", 4), Label(Target("c1"), "polite", "bob", 5)])
    >>> ratings.annotators, len(ratings.on("helpful")), ratings[0].value
    (['ann', 'bob'], 1, 4)
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
        return self._by_question.get(question) or Labels((), self.groups)

    @cached_property
    def _by_question(self) -> dict[str, Labels]:
        """Labels of each question, without "does not apply"; learning asks for them many times."""
        answers: dict[str, list[Label]] = {}
        for label in self._labels:
            if label.value is not None:
                answers.setdefault(label.question, []).append(label)
        return {question: Labels(labels, self.groups) for question, labels in answers.items()}

    def filter(self, groups: Iterable[str]) -> Labels:
        """Return the labels of some groups (by default, conversations)."""
        names = frozenset(groups)
        return Labels(compress(self._labels, (group in names for group in self._group_of_each)), self.groups)

    @cached_property
    def _group_of_each(self) -> list[str]:
        """Group of each label; each fold filters by it."""
        return [self.group_of(label.target) for label in self._labels]

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
    """Refuse a label with a value outside the scale of its question, or without the side or the turn that it needs.

    Labels of questions outside the rubric are valid: they may belong to another rubric.

    Raises:
        BadInput: The value is not on the question's scale, one side of a comparison is missing, or the turn of a step.
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
    if question.is_about_steps and label.target.turn is None:
        raise BadInput(
            f"{where}: question {question.id!r} is about a single call of a tool; name the turn of its result in a "
            "column `turn`"
        )
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


AnnotatorKind = Literal["person", "model", "metric"]
ANNOTATOR_KINDS: tuple[AnnotatorKind, ...] = get_args(AnnotatorKind)

OVERALL = "overall"
"""Question of the overall score of a turn that a model gives with its issues."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """One judgment of a target by a person, a model or a metric.

    Attributes:
        target: The conversation or turn.
        question: The answered question; `issue:KIND` for an issue, `overall` for the score of a turn with issues.
        by: The annotator's ID, or the name of the model or metric.
        kind: Kind of annotator: person, model or metric.
        value: The answer, or `None` if the question does not apply or a model's answer has a `distribution`.
        distribution: The probability of each option.
        outside: Probability of all answers other than the options, 0 to 1.
        quote: Quoted words of the target as evidence; may be empty.
        span: Start and end of the quote in the turn, in characters, or `None` if the quote is not found.
        comment: The reason, as text; may be empty.
        signature: Signature of the pipeline that made it (`Signature`).
        mode: Method by which a judge's distribution was obtained.
        made_from: Inputs of a judge's answer; their hash is the answer's key.
        version: Model version reported by the endpoint; may be empty.
        time: Time of the annotation.
        wording: Wording and scale of the question at that time (`Question.wording`), if known.
        against: The other target of a comparison.
        called: Original name of an issue's kind before it was mapped to the taxonomy, or `None` if it is unchanged.
        losses: Reasons for parts of the model's reply that could not be parsed.
        seen: Digest of the dialogue up to the turn (`turn_digests`); empty if unknown.
        group: Digest shared by the overall score of a turn and its issues; else empty.
        part: Number of the issue in its group, from 1; 0 for the overall score and all other annotations. A person's
            annotation with a part corrects that issue of `signature` and `seen`.
        answer: ID that the page generated for an answer; else empty.
        replaces: The `answer` ID that it replaces; a mark (`issue:KIND`) without value withdraws that answer.
        study: The study and round, as `NAME` or `NAME/2`; may be empty.
        stage: The stage of the study.
        seconds: Viewing time of the page, in seconds.
        rubric: Hash of the rubric or taxonomy.
        shown: Other content shown on the page, as text.
        repeat: Number of a deliberate repeat by the same person, from 1; 0 for every other rating.
    """

    target: Target
    question: str
    by: str
    kind: AnnotatorKind
    value: Value | None = None
    distribution: Mapping[str, float] | None = field(default=None, hash=False)
    outside: float | None = None
    quote: str = ""
    span: Span | None = None
    comment: str = ""
    signature: str | None = None
    mode: str | None = None
    made_from: Mapping[str, Any] | None = field(default=None, hash=False)
    version: str = ""
    time: str | None = None
    wording: str | None = None
    against: Target | None = None
    called: str | None = None
    losses: tuple[str, ...] = ()
    seen: str = ""
    group: str = ""
    part: int = 0
    answer: str = ""
    replaces: str = ""
    study: str = ""
    stage: str = ""
    seconds: float | None = None
    rubric: str = ""
    shown: str = ""
    repeat: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; empty fields are left out, except the first five."""
        row: dict[str, Any] = {"conversation": self.target.conversation}
        if self.target.turn is not None:
            row["turn"] = self.target.turn
        row |= {"question": self.question, "by": self.by, "kind": self.kind, "value": self.value}
        row |= self.details()
        row |= {name: getattr(self, name) for name in _PLAIN if getattr(self, name) is not None}
        if self.distribution is not None:
            row["distribution"] = dict(self.distribution)
        if self.against is not None:
            row["against"] = self.against.conversation
            if self.against.turn is not None:
                row["against_turn"] = self.against.turn
        return row

    def details(self) -> dict[str, Json]:
        """Return JSON values of the optional fields that differ from their default."""
        details = {name: getattr(self, name) for name, default in _DETAILS.items() if getattr(self, name) != default}
        for name in ("span", "losses"):
            if name in details:
                details[name] = list(details[name])
        if "made_from" in details:
            details["made_from"] = dict(details["made_from"])
        return details

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Annotation:
        """Return the annotation of `to_json`."""
        known = {name: row[name] for name in _PLAIN if name in row}
        against = None if row.get("against") is None else Target(row["against"], row.get("against_turn"))
        target = Target(row["conversation"], row.get("turn"))
        known |= cls.details_from(row)
        return cls(target, row["question"], row["by"], row["kind"], row["value"], against=against, **known)

    @staticmethod
    def details_from(row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of `details` by name; other keys are ignored."""
        known = {name: value for name, value in row.items() if name in _DETAILS}
        if known.get("span") is not None:
            known["span"] = (known["span"][0], known["span"][1])
        if "losses" in known:
            known["losses"] = tuple(known["losses"])
        return known

    @property
    def is_answer(self) -> bool:
        """True for a judge's answer: it has a distribution and its inputs."""
        return self.kind == "model" and self.distribution is not None and bool(self.made_from)

    @property
    def is_of_issues(self) -> bool:
        """True for a model's overall score of a turn and its issues."""
        return self.kind == "model" and bool(self.group)

    @property
    def is_correction(self) -> bool:
        """True if a person gives another kind to an issue that a model found, or removes it."""
        return self.kind == "person" and bool(self.part)

    # --- labels -------------------------------------------------------------------------------------------------

    def to_label(self) -> Label:
        """Return the label without quote and comment."""
        return Label(
            self.target, self.question, self.by, self.value, self.time, self.wording, self.against, self.repeat
        )

    # --- a judge's answers --------------------------------------------------------------------------------------

    @classmethod
    def from_answer(cls, target: Target, question: str, judge: str, answer: Mapping[str, Any]) -> Annotation:
        """Return a judge's answer from its `mode`, `probabilities`, mass `outside`, `made_from` and `version`."""
        return cls(
            target, question, judge, "model",
            distribution=answer["probabilities"], outside=answer["outside"], mode=answer["mode"],
            made_from=answer["made_from"], version=answer.get("version") or "",
        )  # fmt: skip

    # --- issues -------------------------------------------------------------------------------------------------

    @classmethod
    def from_issues(cls, turn: IssueAnnotation) -> list[Annotation]:
        """Return the overall score of a turn, then its issues in order."""
        by = model_of(turn.signature)
        group = content_hash([*turn.target, turn.signature, turn.to_json()], length=16)
        same: dict[str, Any] = {"signature": turn.signature, "seen": turn.said, "group": group}
        overall = cls(turn.target, OVERALL, by, "model", turn.score, comment=turn.comment, losses=turn.losses, **same)
        issues = [
            cls(
                turn.target, ISSUE + issue.type, by, "model", 1,
                quote=issue.quote, span=issue.span, comment=issue.comment, called=issue.said, part=part, **same,
            )
            for part, issue in enumerate(turn.issues, 1)
        ]  # fmt: skip
        return [overall, *issues]


_DETAILS: Mapping[str, Any] = {
    each.name: each.default
    for each in fields(Annotation)
    if each.name in {
        "outside", "quote", "span", "comment", "mode", "made_from", "version", "called", "losses", "seen", "group",
        "part", "answer", "replaces", "study", "stage", "seconds", "rubric", "shown", "repeat",
    }
}  # fmt: skip
_PLAIN = ("distribution", "signature", "time", "wording")


def issues_from(annotations: Iterable[Annotation]) -> list[IssueAnnotation]:
    """Return issue annotations: overall scores, each with the issues of its group in order."""
    overall: dict[tuple[Target, str], Annotation] = {}
    issues: dict[tuple[Target, str], list[Annotation]] = {}
    for annotation in annotations:
        key = annotation.target, annotation.group
        if annotation.part:
            issues.setdefault(key, []).append(annotation)
        else:
            overall[key] = annotation
    return [_issues(score, sorted(issues.get(key, ()), key=lambda one: one.part)) for key, score in overall.items()]


def _issues(overall: Annotation, issues: Sequence[Annotation]) -> IssueAnnotation:
    assert isinstance(overall.value, int), "an overall score is a whole number"
    parsed = tuple(
        Issue(issue.question.removeprefix(ISSUE), issue.comment, issue.quote, issue.span, issue.called)
        for issue in issues
    )
    signature, losses = overall.signature or "", overall.losses
    return IssueAnnotation(overall.target, parsed, overall.value, overall.comment, signature, losses, overall.seen)


def model_of(signature: str) -> str:
    """Return the model in a signature, or the whole signature if it names no model.

    >>> model_of("issues|model:small|taxonomy:s256:1f3c")
    'small'
    """
    parts = (part.partition(":") for part in signature.split("|"))
    return next((value for name, _, value in parts if name == "model" and value), signature)
