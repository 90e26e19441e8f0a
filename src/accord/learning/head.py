"""The contract of a head: evidence and ratings in, one distribution per sample and annotator out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from typing import Any, ClassVar, Self

from accord.edges import BadInput, NotFitted, UnknownName
from accord.evidence import Arrays, Column, EvidenceTable
from accord.values import Json, Labels, Question, Registry, Score, Signature, Unscored


class Head(ABC):
    """Learns from evidence and labels how people answer one question, and predicts how they would.

    Constructor arguments beyond the question are settings, stored untouched; learned attributes end in `_`. A head that
    `takes_every_sheet` learns from answers to other questions about samples that nobody rated on its own.
    """

    method: ClassVar[str]
    needs_labels: ClassVar[bool] = True

    def __init__(self, question: Question) -> None:
        self.question = question

    @abstractmethod
    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Learn from every label on the question whose target has evidence.

        Labels on other questions come along (multi-task learning), and the groups that inner folds keep together.

        Raises:
            BadInput: There is too little to learn from; says what is missing.
        """

    @abstractmethod
    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """One score per row, each for that row's annotator; an unknown one counts as a person nobody has met."""

    @property
    def takes_every_sheet(self) -> bool:
        """True if answers to other questions are used for targets without a main rating."""
        return False

    def settings(self) -> dict[str, Json]:
        """The constructor's arguments beyond the question, as JSON: each is an attribute of its name."""
        names = (name for name in signature(type(self)).parameters if name != "question")
        return {name: _plain(getattr(self, name)) for name in names}

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What was learned, as JSON that a report can show."""

    def remarks(self) -> list[str]:
        """Sentences on what was learned that whoever reads the scores should know."""
        return []

    def choices(self) -> list[str]:
        """Return the names of what `fit` chose from the labels; `compare` counts them over the folds."""
        return []

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], Arrays]:
        """What was learned, as JSON and as arrays: all that `restore` needs."""

    @abstractmethod
    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`, on a head with the same settings."""

    @property
    @abstractmethod
    def annotators(self) -> list[str]:
        """The people this head has learned to imitate, sorted; empty before `fit`."""

    @property
    @abstractmethod
    def is_fitted(self) -> bool:
        """Whether `fit` or `restore` has run."""

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The evidence that was learned from; `None` where whatever there is will do."""
        return None

    def signature(self) -> Signature:
        """How this head's scores are made."""
        return Signature.of(self.method, question=self.question.id)

    def predict(self, evidence: EvidenceTable, annotator: str | None = None) -> list[Score | Unscored]:
        """One score per row: what `annotator` would say, or, without one, what a person nobody has met would say.

        Raises:
            NotFitted: Nothing was learned yet.
            UnknownName: The annotator gave no label that was learned from.
        """
        self.check_fitted()
        return self.predict_each(evidence, [self.speaker(annotator)] * len(evidence))

    def speaker(self, annotator: str | None) -> str | None:
        """Under whose name the answers of `annotator` were learned; `None` for a person nobody has met.

        Raises:
            UnknownName: The annotator gave no label that was learned from.
        """
        if annotator is not None and annotator not in self.annotators:
            raise UnknownName("annotator", annotator, self.annotators)
        return annotator

    def in_new_domain(self) -> Head:
        """This head for conversations from another place; one that trusts no habits is the same there."""
        return self

    def seen(self, evidence: EvidenceTable) -> tuple[EvidenceTable, EvidenceTable] | None:
        """The evidence that was learned from, and some more as this head reads it, to tell a drift; `None` without."""
        return None

    def chosen(self) -> dict[str, Json]:
        """Settings with which the same is learned again: what was chosen stays chosen."""
        return self.settings()

    def check_fitted(self) -> None:
        """Raise `NotFitted` unless something was learned."""
        if not self.is_fitted:
            raise NotFitted(f"this {self.method} head has learned nothing yet; fit it, or load a fitted evaluator")


def _plain(value: Any) -> Json:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, list | tuple) else value


HeadFactory = Callable[..., Head]
heads: Registry[HeadFactory] = Registry(
    "head",
    *(f"accord.learning.{name}" for name in ("baselines", "calibration", "issue_labels", "unsupervised_baseline")),
)


RENAMED = {
    "core": "answer_model", "even_by": "shift_groups", "groups": "pooled_annotators", "seconds": "max_seconds",
    "flat": "curves: {flat: ...}", "smooth": "curves: {smooth: ...}", "form": "curves: {form: ...}",
    "loss": "curves: {loss: ...}",
}  # fmt: skip
"""Present names of settings that had other names before."""


def make_head(name: str, question: Question, settings: Mapping[str, Any]) -> Head:
    """A head by its registered name.

    Raises:
        UnknownName: No head is called so, or it has no such setting.
        BadInput: A setting has a value that cannot be.
    """
    kind = heads.get(name)
    try:
        return kind(question, **settings)
    except TypeError:
        check_settings(name, settings, settings_of(kind, question))
        raise BadInput(
            f"the settings of the head {name!r} are of another kind than it takes: {dict(settings)}"
        ) from None


def settings_of(kind: HeadFactory, question: Question) -> list[str]:
    """The names of a head's settings."""
    own = [name for name in signature(kind).parameters if name not in {"question", "settings"}]
    return own or [name for name in signature(type(kind(question))).parameters if name != "question"]


def check_settings(head: str, names: Iterable[str], allowed: Sequence[str]) -> None:
    """Refuse a setting that a head does not have.

    Raises:
        UnknownName: Names it, and those that there are.
    """
    for name in names:
        if name not in allowed and name in RENAMED:
            raise BadInput(f"the setting {name!r} of the head {head!r} is now called {RENAMED[name]!r}")
        if name not in allowed:
            raise UnknownName(f"setting of the head {head!r}", name, allowed)
