"""Contract of a head: evidence and labels in, one distribution per sample and annotator out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from typing import Any, ClassVar, Self

from accord.edges import BadInput, NotFitted, PluginError, UnknownName, one_line
from accord.evidence import Arrays, Column, EvidenceTable
from accord.values import Contract, Json, Labels, Question, Registry, Score, Signature, Unscored, plugin_error


class Head(ABC):
    """Learns from evidence and labels how annotators answer one question, and predicts their answers.

    Constructor arguments beyond the question are settings, stored unchanged; learned attributes end in `_`.

    Args:
        question: Question whose answers are learned.

    >>> from accord.testing import planted
    >>> corpus = planted(conversations=60, annotators=3)
    >>> head = heads.get("ridge")(corpus.question).fit(corpus.evidence, corpus.labels)
    >>> scores = head.predict(corpus.evidence, annotator="p0")
    >>> len(scores), all(1 <= score.value <= 4 for score in scores)
    (60, True)
    """

    method: ClassVar[str]
    needs_labels: ClassVar[bool] = True

    def __init__(self, question: Question) -> None:
        self.question = question

    @abstractmethod
    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Learn from all labels on the question whose target has evidence.

        Labels on other questions are included for multi-task learning; groups of labels are kept together in inner
        folds.

        Raises:
            BadInput: The training data are too small; the message names the missing data.
        """

    @abstractmethod
    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """Return one score per row for that row's annotator; an unknown one counts as a new annotator."""

    @property
    def starts_without_labels(self) -> bool:
        """True if the head can be fitted on a judge's answers without any label, uncalibrated."""
        return False

    @property
    def takes_every_sheet(self) -> bool:
        """True if answers to other questions are used for targets without a main rating."""
        return False

    @property
    def metadata_names(self) -> tuple[str, ...]:
        """Entries of a conversation's metadata that change its score, such as `system`."""
        return ()

    def settings(self) -> dict[str, Json]:
        """Return the constructor's arguments beyond the question, as JSON."""
        names = (name for name in signature(type(self)).parameters if name != "question")
        return {name: _plain(getattr(self, name)) for name in names}

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the learned state as JSON for reports."""

    def remarks(self) -> list[str]:
        """Return sentences on the learned state that readers of the scores should know."""
        return []

    def choices(self) -> list[str]:
        """Return the names of choices that `fit` made from the labels; `compare` counts them over the folds."""
        return []

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return everything that `restore` needs, as JSON and arrays."""

    @abstractmethod
    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore the learned state from `state`, on a head with the same settings."""

    @property
    @abstractmethod
    def annotators(self) -> list[str]:
        """Sorted names of the annotators that the head learned from; empty before `fit`."""

    @property
    @abstractmethod
    def is_fitted(self) -> bool:
        """True after `fit` or `restore`."""

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """Evidence columns that were learned from, or `None` if any evidence will do."""
        return None

    def signature(self) -> Signature:
        """Return the signature of this head's scores."""
        return Signature.of(self.method, question=self.question.id)

    def predict(self, evidence: EvidenceTable, annotator: str | None = None) -> list[Score | Unscored]:
        """Return one score per row, for one annotator or for a new annotator (None).

        Raises:
            NotFitted: The head is not fitted.
            UnknownName: No label of the annotator was learned from.
        """
        self.check_fitted()
        return self.predict_each(evidence, [self.speaker(annotator)] * len(evidence))

    def speaker(self, annotator: str | None) -> str | None:
        """Return the name under which an annotator's answers were learned, or `None` for a new annotator.

        Raises:
            UnknownName: No label of the annotator was learned from.
        """
        if annotator is not None and annotator not in self.annotators:
            raise UnknownName("annotator", annotator, self.annotators)
        return annotator

    def in_new_domain(self) -> Head:
        """Return this head for conversations from another domain; a head without annotator habits returns itself."""
        return self

    def seen(self, evidence: EvidenceTable) -> tuple[EvidenceTable, EvidenceTable] | None:
        """Return the training evidence, and the given evidence as this head reads it, to detect drift; or `None`."""
        return None

    def chosen(self) -> dict[str, Json]:
        """Return settings that repeat the choices made during `fit`."""
        return self.settings()

    def check_fitted(self) -> None:
        """Raise `NotFitted` unless the head is fitted."""
        if not self.is_fitted:
            raise NotFitted(f"this {self.method} head is not fitted; fit it, or load a fitted evaluator")


def _plain(value: Any) -> Json:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, list | tuple) else value


HeadFactory = Callable[..., Head]
heads: Registry[HeadFactory] = Registry(
    "head",
    "accord.learning.baselines",
    "accord.learning.judge_panel",
    "accord.learning.calibration.heads",
    extras=dict.fromkeys(("svr", "gated", "concat", "label-free"), "papers"),
    contract=Contract.maker(
        Head,
        "a subclass of accord.learning.Head, or a function of a question and settings that makes one",
        "check_head",
    ),
)
"""Heads: functions or subclasses of `Head` that make a head from a question and settings."""


RENAMED = {
    "core": "answer_model", "even_by": "shift_groups", "groups": "pooled_annotators", "seconds": "max_seconds",
    "flat": "curves: {flat: ...}", "smooth": "curves: {smooth: ...}", "form": "curves: {form: ...}",
    "loss": "curves: {loss: ...}",
}  # fmt: skip
"""New names of renamed settings."""


def make_head(name: str, question: Question, settings: Mapping[str, Any]) -> Head:
    """Return an unfitted head by its registered name.

    Raises:
        UnknownName: There is no such head or setting.
        BadInput: A setting has an invalid value.
    """
    kind = heads.get(name)
    try:
        made = kind(question, **settings)
    except TypeError as error:
        if (fault := plugin_error(error)) is not None:
            raise fault from error
        check_settings(name, settings, settings_of(kind, question))
        raise BadInput(f"settings of the head {name!r} have a wrong type: {dict(settings)}") from None
    if not isinstance(made, Head):
        raise PluginError(
            f"the head {name!r} returned {one_line(repr(made), 60)}; a head is a subclass of accord.learning.Head, or "
            "a function of a question that returns one. Check it with accord.testing.check_head"
        )
    return made


def settings_of(kind: HeadFactory, question: Question) -> list[str]:
    """Return the names of a head's settings."""
    own = [name for name in signature(kind).parameters if name not in {"question", "settings"}]
    return own or [name for name in signature(type(kind(question))).parameters if name != "question"]


def check_settings(head: str, names: Iterable[str], allowed: Sequence[str]) -> None:
    """Reject settings that a head does not have.

    Raises:
        UnknownName: Names the setting and the allowed ones.
        BadInput: The setting has a new name.
    """
    for name in names:
        if name not in allowed and name in RENAMED:
            raise BadInput(f"the setting {name!r} of the head {head!r} is now called {RENAMED[name]!r}")
        if name not in allowed:
            raise UnknownName(f"setting of the head {head!r}", name, allowed)
