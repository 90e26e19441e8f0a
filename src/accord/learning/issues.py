"""The issues evaluator (SODA-EVAL): which issues people would mark in a turn, and how they would rate it.

A model's findings are calibrated per kind of issue against people's marks (`marks`), and a linear mixed model over what
was found in the turns says what each annotator would answer to the main question. Either can be learned alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, replace
from typing import Any, Self

import numpy as np

from accord.evidence import Column, EvidenceTable
from accord.learning.base import Arrays, Evaluator, evaluators
from accord.learning.calibration import FEWEST_LABELS, Calibration
from accord.learning.marks import Marked, Marking, kinds_of
from accord.methods import LOWEST_SCORE, SCORE, WHY, WORST
from accord.values import ISSUE, POPULATION, BadInput, Labels, Question, Score, Signature, Unscored
from accord.version import __version__


@evaluators.register("issues")
class Issues(Evaluator):
    """Learns from what was found wrong in turns which issues people mark, and what they answer (SODA-EVAL).

    Args:
        question: The main question, of a turn or of a whole dialogue.
        coverage: Share of new ratings that the conformal band of a score should hold.
        seed: Of the folds by which the calibration of marks is chosen.
    """

    method = "issues"

    def __init__(self, question: Question, coverage: float = 0.9, seed: int = 0) -> None:
        super().__init__(question)
        self.coverage, self.seed = coverage, seed
        self._calibration()
        self.link_: Calibration | None = None
        self.marking_: Marking | None = None

    def _calibration(self) -> Calibration:
        return Calibration(self.question, core="mixed", coverage=self.coverage)

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments beyond the question."""
        return {"coverage": self.coverage, "seed": self.seed}

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` or `restore` has run."""
        return self.marking_ is not None

    @property
    def annotators(self) -> list[str]:
        """Everyone whose ratings of the main question were learned from."""
        return [] if self.link_ is None else self.link_.annotators

    # --- learning -----------------------------------------------------------------------------------------------

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Learn from ratings of the main question, and from people's marks of single kinds of issues.

        A mark is a label of 0 or 1 on a question called like the kind.

        Raises:
            BadInput: Nothing was found in any turn yet, or there are too few ratings and no marks.
        """
        kinds = kinds_of(evidence)
        if not kinds:
            raise BadInput("the evidence holds no issues; name who finds them in accord.yaml: issues: {model: NAME}")
        self.kinds_ = kinds
        self.columns_ = tuple(c for c in evidence.columns if _is_finding(c.name, kinds))
        if not evidence.align(self.columns_).present.any():
            raise BadInput("no turn that is rated or marked was assessed yet; run: accord judge --issues")
        self.marking_ = Marking.fit(evidence, labels, self.seed)
        rows = evidence.rows_of(label.target for label in labels.on(self.question.id))
        enough = int((rows >= 0).sum()) >= FEWEST_LABELS
        if not enough and not self.marking_.marks:
            raise BadInput(
                f"{int((rows >= 0).sum())} ratings of {self.question.id!r} have evidence, and no kind of issue has "
                f"enough marks; rate {FEWEST_LABELS} or more, or mark issues: labels of 0 or 1 on "
                f"{', '.join(map(repr, kinds[:3]))}"
            )
        self.link_ = self._calibration().fit(evidence.align(self.columns_), labels) if enough else None
        return self

    # --- predicting ---------------------------------------------------------------------------------------------

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """One score a row, with what the issues that were found added to it."""
        self.check_fitted()
        signature = self.signature()
        if self.link_ is None:
            reason = f"nobody's rating of {self.question.id!r} was learned from"
            return [Unscored(target, POPULATION, reason, signature) for target in evidence.targets]
        shown = evidence.align(self.columns_)
        scores = self.link_.predict_each(shown, annotators)
        added = self._because(shown, scores, annotators)
        return [
            replace(score, signature=signature, attributions=added[row])
            if isinstance(score, Score)
            else replace(score, reason=self._reason(evidence, score), signature=signature)
            for row, score in enumerate(scores)
        ]

    def in_new_domain(self) -> Issues:
        """This evaluator for conversations from another place, where habits are trusted less."""
        self.check_fitted()
        other = copy(self)
        other.link_ = None if self.link_ is None else self.link_.in_new_domain()
        return other

    def find(self, evidence: EvidenceTable) -> list[list[Marked]]:
        """For each row the kinds that people's marks were learned of, the likeliest first; none without a finding."""
        return self._marking.find(evidence)

    def _because(
        self, shown: EvidenceTable, scores: Sequence[Score | Unscored], annotators: Sequence[str | None]
    ) -> list[tuple[tuple[str, float], ...]]:
        """For each row what each kind added: the score less the score without any issue of that kind."""
        assert self.link_ is not None
        added: list[dict[str, float]] = [{} for _ in scores]
        for kind in self.kinds_:
            places = [place for place, column in enumerate(self.columns_) if _is_of(column.name, kind)]
            rows = np.flatnonzero((shown.values[:, places] != 0).any(axis=1)).tolist()
            if not rows:
                continue
            without = shown.take(rows)
            values = without.values.copy()
            values[:, places] = 0.0
            others = self.link_.predict_each(replace(without, values=values), [annotators[row] for row in rows])
            for row, other in zip(rows, others, strict=True):
                score = scores[row]
                if isinstance(score, Score) and isinstance(other, Score):
                    added[row][kind] = score.value - other.value
        return [tuple(sorted(each.items(), key=lambda one: -abs(one[1]))) for each in added]

    def _reason(self, evidence: EvidenceTable, score: Unscored) -> str:
        told = sorted(r for r in evidence.reasons().get(score.target, ()) if r.startswith(WHY))
        return told[0] if told else score.reason

    # --- telling and keeping ------------------------------------------------------------------------------------

    def signature(self) -> Signature:
        """How this evaluator's scores are made."""
        makers = dict.fromkeys(column.made_by for column in self.columns_)
        domain = None if self.link_ is None else self.link_.domain_
        return Signature.of(
            self.method, question=self.question.id, kinds=len(self.kinds_), marks=len(self._marking.marks),
            annotators=len(self.annotators), domain=domain, found_by="+".join(makers).replace("|", ","),
            coverage=self.coverage, seed=self.seed, version=__version__,
        )  # fmt: skip

    def describe(self) -> dict[str, Any]:
        """How each kind's marks were calibrated, and what the main question was learned from."""
        marks = {
            kind: {"mode": each.mode, "threshold": each.threshold, "marked": each.marked, "losses": dict(each.losses)}
            for kind, each in self._marking.marks.items()
        }
        link = None if self.link_ is None else self.link_.describe()
        return {"method": self.method, "signature": str(self.signature()), "marks": marks, "rating": link}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """What was learned, as JSON and arrays."""
        link, arrays = (None, {}) if self.link_ is None else self.link_.state()
        columns = [asdict(column) for column in self.columns_]
        card = {"kinds": self.kinds_, "columns": columns, **self._marking.to_json(), "link": link}
        return card, {**self._marking.design.arrays(), **{f"link.{name}": array for name, array in arrays.items()}}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`."""
        self.kinds_ = list(card["kinds"])
        self.columns_ = tuple(Column(**column) for column in card["columns"])
        self.marking_ = Marking.restore(card, arrays)
        own = {name.removeprefix("link."): array for name, array in arrays.items() if name.startswith("link.")}
        self.link_ = None if card["link"] is None else self._calibration().restore(card["link"], own)
        return self

    @property
    def _marking(self) -> Marking:
        self.check_fitted()
        assert self.marking_ is not None
        return self.marking_


def _is_finding(name: str, kinds: Sequence[str]) -> bool:
    """Whether a column tells of one kind in the target itself, or is its overall score; sums of kinds say no more."""
    return name in {SCORE, LOWEST_SCORE} or any(_is_of(name, kind) for kind in kinds)


def _is_of(name: str, kind: str) -> bool:
    return name in {ISSUE + kind, f"{ISSUE}{kind}{WORST}"}
