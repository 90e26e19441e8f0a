"""What every evaluator is: fit, predict, describe itself, and be saved and loaded as plain files."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from accord.evidence import EvidenceTable
from accord.values import (
    BadInput,
    Labels,
    NotFitted,
    Question,
    Registry,
    Rubric,
    Score,
    UnknownName,
    Unscored,
    content_hash,
)
from accord.version import __version__

FOLDER_FORMAT = 1
_CARD, _ARRAYS = "evaluator.json", "arrays.safetensors"

Arrays = Mapping[str, NDArray[Any]]

evaluators: Registry[type[Evaluator]] = Registry("evaluator")


class Evaluator(ABC):
    """Learns from evidence and labels how people answer one question, and predicts how they would.

    Constructor arguments beyond the question are settings, stored untouched; learned attributes end in `_`.
    """

    method: ClassVar[str]
    needs_labels: ClassVar[bool] = True

    def __init__(self, question: Question) -> None:
        self.question = question

    @classmethod
    def settings_of(cls, rubric: Rubric) -> dict[str, Any]:
        """The settings that follow from the rubric whose answers are learned from; none for most evaluators."""
        return {}

    def check_rubric(self, rubric: Rubric) -> None:  # noqa: B027 - most evaluators know the rubric by its evidence alone
        """Refuse a rubric that says otherwise than the one that was learned from, beyond what its evidence shows."""

    @abstractmethod
    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Learn from every label on the question whose target has evidence.

        Raises:
            BadInput: There is too little to learn from; says what is missing.
        """

    @abstractmethod
    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """One score a row, each for that row's annotator; an unknown annotator counts as one nobody has met."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments beyond the question, as JSON."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What was learned, as JSON that a report can show."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], Arrays]:
        """What was learned, as JSON and as arrays: all that `restore` needs."""

    @abstractmethod
    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`, on an evaluator with the same settings."""

    @property
    @abstractmethod
    def annotators(self) -> list[str]:
        """The people this evaluator has learned to imitate, sorted; empty before `fit`."""

    @property
    @abstractmethod
    def is_fitted(self) -> bool:
        """Whether `fit` or `restore` has run."""

    def predict(self, evidence: EvidenceTable, annotator: str | None = None) -> list[Score | Unscored]:
        """One score a row: what `annotator` would say, or, without one, what a person nobody has met would say.

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

    def in_new_domain(self) -> Evaluator:
        """This evaluator for conversations from another place; one that trusts no habits is the same there."""
        return self

    def check_fitted(self) -> None:
        """Raise `NotFitted` unless something was learned."""
        if not self.is_fitted:
            raise NotFitted(f"this {self.method} evaluator has learned nothing yet; fit it, or load a fitted one")

    def save(self, folder: str | Path) -> None:
        """Write `evaluator.json` and `arrays.safetensors` into the folder, made if need be."""
        from safetensors.numpy import save

        self.check_fitted()
        card, arrays = self.state()
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        about = {
            "format": FOLDER_FORMAT,
            "accord_version": __version__,
            "method": self.method,
            "question": self.question.model_dump(mode="json"),
            "settings": self.settings(),
            "learned": card,
        }
        contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        (target / _ARRAYS).write_bytes(save(contiguous))
        (target / _CARD).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def load_evaluator(folder: str | Path) -> Evaluator:
    """Read an evaluator that `save` wrote.

    Raises:
        BadInput: The folder holds none, is damaged, or was written by a newer Accord.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    source = Path(folder)
    try:
        about = json.loads((source / _CARD).read_text(encoding="utf-8"))
        if about["format"] > FOLDER_FORMAT:
            raise BadInput(
                f"{folder} was written by Accord {about['accord_version']} in folder format {about['format']}; "
                f"this Accord ({__version__}) reads up to {FOLDER_FORMAT}. Upgrade Accord."
            )
        kind = evaluators.get(about["method"])
        question = Question.model_validate(about["question"])
        arrays = load((source / _ARRAYS).read_bytes())
        return kind(question, **about["settings"]).restore(about["learned"], arrays)
    except FileNotFoundError as error:
        raise BadInput(f"{folder} holds no evaluator: {Path(str(error.filename)).name} is missing") from None
    except (KeyError, TypeError, ValueError, SafetensorError) as error:
        raise BadInput(f"{folder} holds a damaged evaluator ({type(error).__name__}); fit it again") from None


def method_of(folder: str | Path) -> str | None:
    """The method of a saved evaluator; `None` where the folder holds none."""
    try:
        about = json.loads((Path(folder) / _CARD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return about.get("method") if isinstance(about, dict) else None


def learned_digest(folder: str | Path) -> str:
    """A short digest of a saved evaluator: another one wherever anything that was learned, or set, is another."""
    parts = [hashlib.sha256((Path(folder) / name).read_bytes()).hexdigest() for name in (_CARD, _ARRAYS)]
    return content_hash(parts, length=12)
