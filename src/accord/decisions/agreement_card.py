"""Agreement card: a document that states how far scores agree with people, bound to evaluator, rubric and data.

A card is JSON of a published schema with a digest of its content, so that a release gate can require it. It names no
annotator and holds no text of a conversation: people are counted, data are digests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from accord.edges import BadInput, Step, one_line, read_json_file
from accord.formats import is_machine
from accord.values import Estimate, FrozenModel, Label, content_hash

CARD_FORMAT = 1
DIGEST = "digest"
Maker = Literal["people", "models"]


class CardSubject(FrozenModel):
    """The evaluator or judge that the figures are about."""

    kind: Literal["evaluator", "judge"] = Field(description="A fitted evaluator, or the judge column of a table.")
    name: str
    digest: str = Field(description="Digest of all settings and learned state, or of the judge's column.")
    models: dict[str, str] = Field(default={}, description="Name of the model by role.")
    evidence: list[str] = Field(default=[], description="Signatures of the sources, with the judge model's name.")


class CardQuestion(FrozenModel):
    """The main question, and the rubric that it is part of."""

    id: str
    name: str
    text: str
    scale: str
    rubric: str
    rubric_hash: str = Field(description="Digest of everything that a judge sees of the rubric.")


class CardLabels(FrozenModel):
    """The ratings that the figures are measured on."""

    made_by: Maker = Field(description="`models` only if it was declared.")
    count: int
    conversations: int
    annotators: list[int] = Field(description="Number of ratings of each annotator, the most first.")
    systems: dict[str, int] = Field(default={}, description="Number of conversations by assistant version.")
    languages: list[str] = Field(default=[], description="Languages of the texts that the evaluator learned from.")
    synthetic: int = Field(default=0, description="Number of synthetic conversations.")
    digest: str = Field(description="Digest of targets, annotators and values.")


class CardTest(FrozenModel):
    """The way in which the evaluator was kept from the ratings that test it."""

    method: Literal["cross-validation", "split", "held-out set", "table"]
    folds: int = 1
    repeats: int = 1
    digest: str = Field(description="Digest of the ratings that test it.")
    uses: int = Field(default=1, description="Number of times that these ratings were used for a card or a comparison.")
    first_used: str = Field(default="", description="Date of the first use.")


class CardAgreement(FrozenModel):
    """Agreement on one question. Errors are in points of the scale, correlations from -1 to 1."""

    question: str
    name: str
    labels: int
    statistic: str = Field(default="r", description="Statistic of `pooled`: r, or that of a table, such as κ.")
    error: Estimate = Field(default=Estimate(), description="RMSE of the score for a new annotator.")
    within_one: Estimate = Field(
        default=Estimate(), description="Share of scores, rounded to an answer, at most one step from a rating."
    )
    pooled: Estimate = Field(description="Correlation with all ratings, of the prediction for their own annotators.")
    within_annotators: Estimate = Field(
        default=Estimate(), description="Correlation within annotators, of the score for a new annotator."
    )
    within_systems: Estimate = Estimate()
    people: Estimate = Field(default=Estimate(), description="RMSE of other people's mean rating.")
    people_within: Estimate = Field(default=Estimate(), description="Correlation of other people within annotators.")
    alpha: Estimate = Field(default=Estimate(), description="Krippendorff's α of the annotators.")


class CardBaseline(FrozenModel):
    """Error of a baseline on the same ratings, for the prediction that a new annotator gets."""

    name: str
    error: Estimate
    p: float | None = Field(default=None, description="Paired test of the evaluator's error against it.")


class CardBands(FrozenModel):
    """Bands of single scores: the promised and the measured coverage, and the mean width in points."""

    promised: float
    coverage: Estimate
    width: Estimate


class CardGroup(FrozenModel):
    """Bias of the scores in one group; positive if they are too high."""

    by: str
    group: str
    labels: int
    bias: Estimate
    p: float = Field(description="Test against all other groups, with Holm's correction.")


class CardStatistic(FrozenModel):
    """Statistic of a table: among people, and of the judge with people."""

    name: str
    people: Estimate
    judge: Estimate


class CardMean(FrozenModel):
    """Mean of all rows of a table: of the judge alone, corrected by labels, and the judge's bias."""

    judge: Estimate
    corrected: Estimate
    method: str
    bias: Estimate


class CardRule(FrozenModel):
    """A rule of the verdict; `is_met` is null if the data cannot test it."""

    state: str
    name: str
    value: str
    limit: str
    is_met: bool | None


class AgreementCard(FrozenModel):
    """Agreement of an evaluator or a judge with people, with its provenance."""

    format: Literal[1] = 1
    made: str = Field(description="Date, as YYYY-MM-DD.")
    accord_version: str
    project: str
    subject: CardSubject
    question: CardQuestion
    labels: CardLabels
    test: CardTest
    title: str = Field(description="The permitted use of the scores in words.")
    state: str = Field(description="State of the verdict: not yet, triage, systems or single.")
    sentence: str
    agreement: list[CardAgreement] = Field(min_length=1, description="The main question first.")
    baselines: list[CardBaseline] = []
    bands: CardBands | None = None
    decided: float | None = Field(default=None, description="Share of conversations that can be called good or bad.")
    decided_agreement: float | None = Field(default=None, description="Agreement with people that such a call has.")
    groups: list[CardGroup] = []
    statistics: list[CardStatistic] = Field(default=[], description="All statistics of a table.")
    mean: CardMean | None = Field(default=None, description="Mean of a table.")
    rules: list[CardRule] = []
    limits: list[str] = Field(default=[], description="Sentences on the limits of the data.")
    digest: str = Field(default="", description="Digest of all other fields.")

    def signed(self) -> dict[str, Any]:
        """Return the content as JSON values with its digest."""
        content = self.model_dump(mode="json", exclude={DIGEST})
        return content | {DIGEST: content_hash(content, length=32)}

    @classmethod
    def sealed(cls, content: Mapping[str, Any]) -> AgreementCard:
        """Return the card of a content with its digest."""
        return cls.model_validate(cls.model_validate(content).signed())

    @property
    def is_intact(self) -> bool:
        """True if the digest matches the content."""
        return bool(self.digest) and self.digest == self.signed()[DIGEST]

    @classmethod
    def read(cls, path: str | Path) -> AgreementCard:
        """Read a card and check that nothing was changed since it was written.

        Raises:
            BadInput: The file is not a card of this version, or its digest does not match its content.
        """
        try:
            content = read_json_file(Path(path))
        except FileNotFoundError:
            write = Step("card", out=str(path))
            raise BadInput(f"{path}: no such file; write a card: {write}", write) from None
        if isinstance(content, dict) and content.get("format") not in (None, CARD_FORMAT):
            found = one_line(str(content["format"]), 40)
            raise BadInput(
                f"{path} has card format {found}; this Accord reads {CARD_FORMAT}. Write a new one: accord card"
            )
        try:
            card = cls.model_validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            where = one_line(".".join(map(str, first["loc"])) or "content", 100)
            raise BadInput(f"{path} is no agreement card ({where}: {first['msg']}); write one: accord card") from None
        if not card.is_intact:
            raise BadInput(f"{path} was changed after it was written: its digest differs. Write a new one: accord card")
        return card

    @property
    def lower_bounds(self) -> dict[str, float | None]:
        """Lower bounds that a gate can require, by name: `agreement` (pooled) and `within` (annotators)."""
        first = self.agreement[0]
        return {"agreement": first.pooled.low, "within": first.within_annotators.low}

    def drift(self, now: AgreementCard) -> dict[str, str]:
        """Return the parts that differ from the card of the present project, each with the cause."""
        return {part: cause for part, cause in _causes(self, now) if cause}

    def differences(self, new: AgreementCard) -> list[tuple[str, str, str]]:
        """Return the fields that differ from a newer card with both values, in the order of the schema."""
        before, after = (dict(_flat(card.model_dump(mode="json", exclude={DIGEST}))) for card in (self, new))
        names = [*before, *(name for name in after if name not in before)]
        pairs = [(name, before.get(name, "–"), after.get(name, "–")) for name in names]
        return [(name, old, now) for name, old, now in pairs if old != now]


def _causes(card: AgreementCard, now: AgreementCard) -> Iterator[tuple[str, str]]:
    old, new = card.subject, now.subject
    yield (
        "evaluator",
        _changed(f"{old.name} {old.digest}", f"{new.name} {new.digest}", "the evaluator was fitted again"),
    )
    yield "question", _changed(card.question.id, now.question.id, "another question is predicted")
    yield "scale", _changed(card.question.scale, now.question.scale, "the scale of the question was changed")
    yield "rubric", _changed(card.question.rubric_hash, now.question.rubric_hash, "the rubric was changed")
    yield "judge model", _changed(_models(old), _models(new), "the judge or another model was changed")
    was, present = card.labels, now.labels
    counts = (f"{was.count:,} ratings {was.digest}", f"{present.count:,} ratings {present.digest}")
    yield "labels", _changed(*counts, "the ratings were changed")


def _models(subject: CardSubject) -> str:
    return "; ".join([*(f"{role}: {name}" for role, name in sorted(subject.models.items())), *sorted(subject.evidence)])


def _changed(before: str, now: str, reason: str) -> str:
    return "" if before == now else f"{reason}: {before or 'none'} on the card, {now or 'none'} now"


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the leaves of JSON values with their paths; intervals and lists of plain values are one leaf."""
    if isinstance(value, Mapping) and set(value) == {"value", "low", "high"}:
        yield name, "unknown" if value["value"] is None else str(Estimate(**value))
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _flat(each, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        for place, each in enumerate(value):
            yield from _flat(each, f"{name}.{_key(each, place)}")
    else:
        shown = ", ".join(map(str, value)) if isinstance(value, list) else "unknown" if value is None else str(value)
        yield name, one_line(shown, 200)


def _key(row: Mapping[str, Any], place: int) -> str:
    """Return a name for a row that is the same on both cards."""
    return next((str(row[key]) for key in ("question", "group", "name") if key in row), str(place))


def labels_digest(labels: Iterable[Label]) -> str:
    """Return a digest of the targets, annotators and values of ratings; their order makes no difference."""
    rows = ([str(each.target), str(each.annotator), str(each.value)] for each in labels)
    return content_hash(sorted(rows), length=16)


def check_makers(names: Iterable[str], made_by: str) -> None:
    """Refuse labels by models that are not declared.

    Args:
        names: Names of those who labeled.
        made_by: `people` or `models`.

    Raises:
        BadInput: `made_by` has another value, or an annotator has the name of a model and `made_by` is `people`.
    """
    if made_by not in ("people", "models"):
        raise BadInput(f"--labels-by {made_by}: allowed are people and models")
    machines = sorted(name for name in names if is_machine(name))
    if machines and made_by != "models":
        raise BadInput(
            f"ratings by {', '.join(machines[:3])} look like those of a model, and agreement with a model is no "
            "evidence of agreement with people. Leave them out, or declare them: --labels-by models"
        )
