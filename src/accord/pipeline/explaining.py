"""Scores with the issues behind them: in which turn, which words show it, and how likely a person is to mark it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from accord.assessment import Assessment
from accord.config import Config
from accord.conversation import Target
from accord.evaluators import Evaluator
from accord.evaluators.issues import Issues, Marked
from accord.evidence import EvidenceTable
from accord.issues.selection import judged_turns
from accord.llm.model import Subject
from accord.pipeline.finding import issues_config, turns_of
from accord.pipeline.found import found_in
from accord.score import Score, Unscored
from accord.store import Store

PART = "assessed in part"

Gather = Callable[[Sequence[Subject]], EvidenceTable]
Predict = Callable[[EvidenceTable], list[Score | Unscored]]
MarksByTurn = Mapping[Target, Sequence[Marked]]


class Explained:
    """Gathers and predicts as it is told to, and says of each score what was found wrong with the turns."""

    def __init__(
        self, store: Store, config: Config, evaluator: Evaluator, gather: Gather, known: Gather, predict: Predict
    ) -> None:
        """`known` is the evidence that is there already, which asks nobody: of turns, for people's marks of issues."""
        self._store, self._config, self._gather, self._known = store, config, gather, known
        self._predict = predict
        self._evaluator = evaluator if isinstance(evaluator, Issues) and evaluator.describe()["marks"] else None
        self._subjects: Sequence[Subject] = ()

    def gather(self, subjects: Sequence[Subject]) -> EvidenceTable:
        """The evidence of some subjects, which the next scores are about."""
        self._subjects = subjects
        return self._gather(subjects)

    def predict(self, evidence: EvidenceTable) -> list[Score | Unscored]:
        """Their scores."""
        found = found_in(self._store, self._config, self._subjects)
        marked = self._marked()
        missing = self._missing(found)
        return [
            _cautioned(
                replace(score, issues=listed(score.target, found.get(score.target, []), marked)),
                missing.get(score.target),
            )
            for score in self._predict(evidence)
        ]

    def _missing(self, found: Mapping[Target, Sequence[Assessment]]) -> dict[Target, str]:
        """Of whole conversations, what to say of turns that should have been assessed and were not."""
        issues = issues_config(self._config)
        if issues.by == "judge":
            return {}
        cautions = {}
        for subject in self._subjects:
            wanted = set(judged_turns(subject.conversation, issues.everyone).turns)
            lost = wanted - {each.target.turn for each in found.get(subject.target, ())}
            if subject.turn is None and lost and len(lost) < len(wanted):
                cautions[subject.target] = f"{PART}: {len(lost)} of {len(wanted)} turns have no assessment"
        return cautions

    def _marked(self) -> MarksByTurn:
        """By turn the kinds that people would mark there."""
        if self._evaluator is None:
            return {}
        turns = turns_of(self._subjects, issues_config(self._config))
        evidence = self._known(turns)
        return dict(zip(evidence.targets, self._evaluator.find(evidence), strict=True))


def _cautioned(score: Score | Unscored, caution: str | None) -> Score | Unscored:
    if caution is None or not isinstance(score, Score):
        return score
    return replace(score, warning=caution if score.warning is None else f"{caution}; {score.warning}")


def listed(target: Target, found: Sequence[Assessment], marked: MarksByTurn) -> tuple[dict[str, Any], ...]:
    """Issues as JSON, turn by turn: what a model wrote, then kinds that people would mark although it did not."""
    rows = []
    written = {(each.target.turn, issue.type) for each in found for issue in each.issues}
    for each in found:
        chances = {one.type: one.probability for one in marked.get(each.target, ())}
        for issue in each.issues:
            known = {"probability": chances[issue.type]} if issue.type in chances else {}
            rows.append({"turn": each.target.turn, "score": each.score, **issue.to_json(), **known})
    for where, kinds in marked.items():
        if where == target or (target.turn is None and where.conversation == target.conversation):
            rows += [
                {"turn": where.turn, "type": one.type, "probability": one.probability}
                for one in kinds
                if one.is_called and (where.turn, one.type) not in written
            ]
    return tuple(sorted(rows, key=lambda row: row["turn"] or 0))
