"""The one record of a judgement: somebody said something about a target.

A person's rating, a mark of an issue, a judge's answer, an issue that a model found with the words that show it, and
the overall score of a turn are all an `Annotation`. `Label` and `IssueAnnotation` are the views that learning uses;
the conversions stand here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from accord.values.conversation import Target, content_hash
from accord.values.issue_annotation import Issue, IssueAnnotation, Span
from accord.values.json_types import Json
from accord.values.labels import Label
from accord.values.scale import Value
from accord.values.taxonomy import ISSUE

AnnotatorKind = Literal["person", "model", "metric"]
ANNOTATOR_KINDS: tuple[AnnotatorKind, ...] = get_args(AnnotatorKind)

OVERALL = "overall"
"""The question that the overall score of a turn answers, given beside its issues."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """One thing that a person, a model or a metric said of a target.

    Attributes:
        target: The conversation or turn.
        question: The question that is answered; `issue:KIND` for an issue, `overall` for the score beside issues.
        by: The annotator's id, or the name of the model or metric.
        kind: Whether `by` is a person, a model or a metric.
        value: The answer. `None` where a person said that the question does not apply, and where a model answered
            with a `distribution`.
        distribution: The probability of each option.
        outside: The probability that the model gave to anything but the options.
        quote: Words of the target that show it; may be empty.
        span: Where in the turn the quote stands, from a character up to another; `None` where it does not.
        comment: The reason, in words; may be empty.
        signature: How it was made, where it is the work of a pipeline (`Signature`).
        mode: How a judge's distribution was obtained.
        made_from: All that could change a judge's answer; its hash is the answer's key.
        version: What the endpoint said answered; may be empty.
        time: When it was said.
        wording: The key of the question as it was asked (`Question.key`), where that is known.
        against: What a comparison held the target against.
        called: What an issue was called before it was mapped to the taxonomy; `None` where it was called so.
        losses: What else the model wrote about the turn and nobody could read, by reason.
        seen: A digest of what was said up to the turn (`digests`); empty where that is not known.
        group: A digest that the overall score of a turn shares with the issues found with it; else empty.
        part: Which issue of its group it is, from 1; 0 for the overall score and for all else.
        answer: Where it was given on a page, the id that the page made for it; else empty.
        replaces: The `answer` that its author changed by it; a mark (`issue:KIND`) without a value takes that one back.
        study: The study and the round it was given in, as `NAME` or `NAME/2`; may be empty.
        stage: The stage of the study.
        seconds: How long the page was looked at for it.
        rubric: The hash of the rubric, or taxonomy, as it was asked.
        shown: What was shown beside the conversation, in words.
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

    def to_json(self) -> dict[str, Any]:
        """The annotation as plain JSON values; apart from the first five, what is not there is left out."""
        row: dict[str, Any] = {"conversation": self.target.conversation}
        if self.target.turn is not None:
            row["turn"] = self.target.turn
        row |= {"question": self.question, "by": self.by, "kind": self.kind, "value": self.value}
        row |= self.details()
        for name in ("distribution", "signature", "time", "wording"):
            if getattr(self, name) is not None:
                row[name] = getattr(self, name)
        if self.distribution is not None:
            row["distribution"] = dict(self.distribution)
        if self.against is not None:
            row["against"] = self.against.conversation
            if self.against.turn is not None:
                row["against_turn"] = self.against.turn
        return row

    def details(self) -> dict[str, Json]:
        """The fields that only some annotations have, as JSON values: those that differ from their default."""
        found = {name: getattr(self, name) for name, default in _DETAILS.items() if getattr(self, name) != default}
        for name in ("span", "losses"):
            if name in found:
                found[name] = list(found[name])
        if "made_from" in found:
            found["made_from"] = dict(found["made_from"])
        return found

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Annotation:
        """The inverse of `to_json`."""
        known = {name: row[name] for name in _PLAIN if name in row}
        against = None if row.get("against") is None else Target(row["against"], row.get("against_turn"))
        target = Target(row["conversation"], row.get("turn"))
        known |= cls.details_from(row)
        return cls(target, row["question"], row["by"], row["kind"], row["value"], against=against, **known)

    @staticmethod
    def details_from(row: Mapping[str, Any]) -> dict[str, Any]:
        """The inverse of `details`, by the names of the fields; what else the row holds is left out."""
        known = {name: value for name, value in row.items() if name in _DETAILS}
        if known.get("span") is not None:
            known["span"] = (known["span"][0], known["span"][1])
        if "losses" in known:
            known["losses"] = tuple(known["losses"])
        return known

    @property
    def is_answer(self) -> bool:
        """Whether it is a judge's answer: a distribution, and all that it was made from."""
        return self.kind == "model" and self.distribution is not None and bool(self.made_from)

    @property
    def is_of_issues(self) -> bool:
        """Whether it belongs to what a model found wrong with a turn: the overall score, or one of the issues."""
        return self.kind == "model" and bool(self.group)

    # --- labels -------------------------------------------------------------------------------------------------

    @classmethod
    def from_label(cls, label: Label) -> Annotation:
        """A person's label as an annotation."""
        return cls(
            label.target, label.question, label.annotator, "person", label.value,
            time=label.time, wording=label.wording, against=label.against,
        )  # fmt: skip

    def to_label(self) -> Label:
        """The label that learning sees; a quote and a comment are no part of it."""
        return Label(self.target, self.question, self.by, self.value, self.time, self.wording, self.against)

    # --- a judge's answers --------------------------------------------------------------------------------------

    @classmethod
    def from_answer(cls, target: Target, question: str, judge: str, answer: Mapping[str, Any]) -> Annotation:
        """A judge's answer, given its `mode`, `probabilities`, mass `outside`, `made_from` and `version`."""
        return cls(
            target, question, judge, "model",
            distribution=answer["probabilities"], outside=answer["outside"], mode=answer["mode"],
            made_from=answer["made_from"], version=answer.get("version") or "",
        )  # fmt: skip

    # --- issues -------------------------------------------------------------------------------------------------

    @classmethod
    def from_issues(cls, found: IssueAnnotation) -> list[Annotation]:
        """What a model found wrong with a turn: the overall score, then the issues in their order."""
        by = model_of(found.signature)
        group = content_hash([*found.target, found.signature, found.to_json()], length=16)
        same: dict[str, Any] = {"signature": found.signature, "seen": found.said, "group": group}
        overall = cls(
            found.target, OVERALL, by, "model", found.score, comment=found.comment, losses=found.losses, **same
        )
        issues = [
            cls(
                found.target, ISSUE + issue.type, by, "model", 1,
                quote=issue.quote, span=issue.span, comment=issue.comment, called=issue.said, part=part, **same,
            )
            for part, issue in enumerate(found.issues, 1)
        ]  # fmt: skip
        return [overall, *issues]


_DETAILS: Mapping[str, Any] = {
    each.name: each.default
    for each in fields(Annotation)
    if each.name in {
        "outside", "quote", "span", "comment", "mode", "made_from", "version", "called", "losses", "seen", "group",
        "part", "answer", "replaces", "study", "stage", "seconds", "rubric", "shown",
    }
}  # fmt: skip
_PLAIN = {"distribution", "signature", "time", "wording"}


def issues_from(annotations: Iterable[Annotation]) -> list[IssueAnnotation]:
    """The inverse of `Annotation.from_issues`: overall scores, each with the issues of its group, in their order."""
    overall: dict[tuple[Target, str], Annotation] = {}
    issues: dict[tuple[Target, str], list[Annotation]] = {}
    for each in annotations:
        key = each.target, each.group
        if each.part:
            issues.setdefault(key, []).append(each)
        else:
            overall[key] = each
    return [_issues(each, sorted(issues.get(key, ()), key=lambda one: one.part)) for key, each in overall.items()]


def _issues(overall: Annotation, issues: Sequence[Annotation]) -> IssueAnnotation:
    assert isinstance(overall.value, int), "an overall score is a whole number"
    found = tuple(
        Issue(each.question.removeprefix(ISSUE), each.comment, each.quote, each.span, each.called) for each in issues
    )
    maker = overall.signature or ""
    return IssueAnnotation(overall.target, found, overall.value, overall.comment, maker, overall.losses, overall.seen)


def model_of(signature: str) -> str:
    """The model that a signature names; the whole signature where it names none.

    >>> model_of("issues|model:small|taxonomy:s256:1f3c")
    'small'
    """
    parts = (part.partition(":") for part in signature.split("|"))
    return next((value for name, _, value in parts if name == "model" and value), signature)
