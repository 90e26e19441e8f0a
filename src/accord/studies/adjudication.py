"""Adjudication of a study: disputed items by size, the decisions of leads, and the clauses of the rubric to clarify.

A decision is stored as an answer of the annotator `adjudicated`. It is not a rating: agreement, habits and learning
leave it out, because a lead saw everybody's answers before.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from accord.edges import BadInput
from accord.results import Figure
from accord.store import ADJUDICATED, Conflict, Item
from accord.studies.agreement.annotators import Unit, disputed_units, most_disputed
from accord.studies.study_progress import StudyProgress
from accord.studies.submitted_answer import parse_value, text_field
from accord.values import ISSUE, Annotation, Question, Value, canonical_json, content_hash

REASONS = {
    "guideline": "guideline unclear",
    "slip": "slip",
    "taste": "matter of taste",
    "broken": "conversation broken",
}
"""Reasons of a dispute by their names in forms and exports."""
Ratings = Mapping[str, Value | None]


@dataclass(frozen=True)
class Decision:
    """Decision of a lead on one question of an item; `value` is `None` if no answer fits.

    `ratings` are the answers of people that the lead saw.
    """

    question: str
    value: Value | None
    reason: str
    note: str
    lead: str
    time: str
    ratings: Ratings


@dataclass(frozen=True)
class Dispute:
    """Item on which people gave different answers: a disputed one, or one with smaller differences.

    Attributes:
        item: The item.
        sizes: Questions with different answers and the size of the difference, the largest first: the mean squared
            difference of two people as a share of the largest possible one, 0 to 1.
        ratings: Answers by question and person.
        decisions: Decisions by question.
        last: By question, the ID of the last stored decision, also of a withdrawn one.
        disputed: Questions on which two people are at least `smallest_dispute` apart; empty for smaller differences.
    """

    item: Item
    sizes: Mapping[str, float]
    ratings: Mapping[str, Ratings]
    decisions: Mapping[str, Decision]
    last: Mapping[str, str]
    disputed: frozenset[str] = frozenset()

    @property
    def size(self) -> float:
        """Size of the largest dispute; 0 if people have come to agree since a decision."""
        return max(self.sizes.values(), default=0.0)

    @property
    def digest(self) -> str:
        """Digest of the answers of people, which a form compares with those that its page showed."""
        return content_hash({name: dict(given) for name, given in self.ratings.items()}, length=16)

    @property
    def state(self) -> str:
        """State of the item: `open`, `adjudicated`, or `changed` if ratings changed after the decision."""
        if any(each.ratings != self.ratings.get(name, {}) for name, each in self.decisions.items()):
            return "changed"
        return "adjudicated" if self.decisions.keys() >= (self.disputed or self.sizes.keys()) else "open"


class Adjudication:
    """Disputed items of a study, those with smaller differences, and the decisions on them."""

    reasons: ClassVar[Mapping[str, str]] = REASONS

    def __init__(self, progress: StudyProgress) -> None:
        self.progress = progress

    @property
    def disputes(self) -> list[Dispute]:
        """Disputed items, the largest difference first: the queue of a lead."""
        return [each for each in self.differences if each.disputed]

    @property
    def smaller(self) -> list[Dispute]:
        """Other items with different answers or with a decision, the largest difference first."""
        return [each for each in self.differences if not each.disputed]

    def figure(self) -> Figure:
        """Return the number of disputed items."""
        count, study = self.progress.item_count, self.progress.study
        return Figure("disputed", len(self.disputes), n=count, about=f"items of the study {study.title}", by="people",
                      part=study.name, source="accord.studies.Adjudication")  # fmt: skip

    @cached_property
    def differences(self) -> list[Dispute]:
        """Items with different answers, the largest difference first, and items with a decision."""
        progress = self.progress
        sizes: dict[Unit, dict[str, float]] = {}
        disputed: dict[Unit, set[str]] = {}
        for question in progress.questions:
            matrix = progress.matrices[question.id]
            scale = question.scale.length**2
            for unit, size in most_disputed(matrix, len(matrix.units)):
                sizes.setdefault(unit, {})[question.id] = min(size / scale, 1.0)
            for unit in disputed_units(matrix):
                disputed.setdefault(unit, set()).add(question.id)
        decisions, last = self._decisions()
        ratings: dict[Unit, dict[str, dict[str, Value | None]]] = {}
        for each in progress.first:
            if not each.question.startswith(ISSUE):
                ratings.setdefault((each.target, each.against), {}).setdefault(each.question, {})[each.by] = each.value
        found = []
        for unit, item in self._items.items():
            if unit in sizes or decisions.get(unit):
                ordered = dict(sorted(sizes.get(unit, {}).items(), key=lambda pair: -pair[1]))
                parts = ratings.get(unit, {}), decisions.get(unit, {}), last.get(unit, {})
                found.append(Dispute(item, ordered, *parts, frozenset(disputed.get(unit, ()))))
        return sorted(found, key=lambda each: (-each.size, -sum(each.sizes.values()), each.item.place))

    @cached_property
    def _items(self) -> dict[Unit, Item]:
        items = [item for item in self.progress.items if item.round == 1 and item.kind != "repeat"]
        return {(item.target, item.against): item for item in reversed(items)}

    def _decisions(self) -> tuple[dict[Unit, dict[str, Decision]], dict[Unit, dict[str, str]]]:
        """Return the decisions by item and question, and the IDs of the last stored ones."""
        decisions: dict[Unit, dict[str, Decision]] = {}
        last: dict[Unit, dict[str, str]] = {}
        for each in self.progress.annotations_in(ADJUDICATED):
            if each.by == ADJUDICATED:
                unit = each.target, each.against
                last.setdefault(unit, {})[each.question] = each.answer
                if (decision := _decision(each)) is not None:
                    decisions.setdefault(unit, {})[each.question] = decision
        return decisions, last

    @property
    def done(self) -> int:
        """Number of adjudicated items among the disputed ones."""
        return sum(each.state == "adjudicated" for each in self.disputes)

    def dispute(self, key: str) -> Dispute | None:
        """Return the different answers about an item, or None."""
        return next((each for each in self.differences if each.item.key == key), None)

    def next(self, after: str = "") -> Dispute | None:
        """Return the next disputed item after `after` or else from the start, or `None` if all items are decided."""
        queue = self.disputes
        keys = [each.item.key for each in queue]
        start = keys.index(after) + 1 if after in keys else 0
        return next((each for each in [*queue[start:], *queue[:start]] if each.state != "adjudicated"), None)

    def annotations(self, key: str, fields: Mapping[str, Any], lead: str) -> list[Annotation]:
        """Return the annotations of a form that decides an item, or withdraws the decisions on it.

        Raises:
            BadInput: A field is missing or not allowed.
            Conflict: A person rated the item after the page was made.
        """
        dispute = self.dispute(key)
        if dispute is None:
            raise BadInput("people agree on this item, or it is not part of this study; open the list of items again")
        if fields.get("seen") != dispute.digest:
            raise Conflict("somebody has rated this item since you opened it, so nothing was saved. Open it again")
        is_withdrawal = fields.get("do") == "withdraw"
        reason = "" if is_withdrawal else text_field(fields, "reason", 40)
        if reason and reason not in REASONS:
            raise BadInput(f"reason: got {reason!r}, allowed: {', '.join(REASONS)}")
        note = "" if is_withdrawal else text_field(fields, "note")
        names = dispute.decisions if is_withdrawal else {**dispute.sizes, **dispute.decisions}
        rows = []
        for question in self.progress.questions:
            if question.id in names:
                value = None if is_withdrawal else _chosen(question, fields, reason)
                rows.append(self._annotation(dispute, question, value, reason, note, lead, fields))
        return rows

    def _annotation(
        self, dispute: Dispute, question: Question, value: Value | None, reason: str, note: str, lead: str,
        fields: Mapping[str, Any],
    ) -> Annotation:  # fmt: skip
        id = text_field(fields, f"id.{question.id}", 64)
        if len(id) < 16:
            raise BadInput("the answer has no id; load the page again")
        shown = {"lead": lead, "reason": reason, "ratings": dict(dispute.ratings.get(question.id, {}))}
        return Annotation(
            dispute.item.target, question.id, ADJUDICATED, "person", value, comment=note, wording=question.wording,
            against=dispute.item.against, answer=id, replaces=text_field(fields, f"last.{question.id}", 64),
            study=f"{self.progress.study.name}/{ADJUDICATED}", stage=ADJUDICATED,
            rubric=self.progress.study.rubric.hash, shown=canonical_json(shown),
        )  # fmt: skip

    def clauses(self) -> list[dict[str, Any]]:
        """Return the clauses of the rubric to clarify: for each question the reasons of its disputes, and examples.

        Questions with the most unclear guidelines come first.
        """
        rows = []
        for question in self.progress.questions:
            decided = [
                (each, each.decisions[question.id]) for each in self.differences if question.id in each.decisions
            ]
            reasons = Counter(decision.reason for _, decision in decided if decision.reason)
            if decided:
                examples = [self._example(dispute, decision) for dispute, decision in decided]
                counts = {name: reasons[name] for name in REASONS}
                rows.append({
                    "question": question.id, "name": question.shown, "text": question.text, "items": len(decided),
                    "reasons": counts, "examples": examples,
                })  # fmt: skip
        return sorted(rows, key=lambda row: (-row["reasons"]["guideline"], -row["items"]))

    def clause_rows(self) -> list[dict[str, Any]]:
        """Return the examples of clauses as flat rows, for a table."""
        return [
            {
                "question": clause["question"], "name": clause["name"], "conversation": each["conversation"],
                "turn": each["turn"], "adjudicated": each["adjudicated"], "note": each["note"],
                "ratings": ", ".join(f"{name}: {value}" for name, value in each["ratings"].items()),
                "reason": REASONS.get(each["reason"], each["reason"]), "lead": each["lead"], "time": each["time"],
                "comments": "\n".join(f"{e['person']}: {e['text']}" for e in each["comments"]),
            }
            for clause in self.clauses() for each in clause["examples"]
        ]  # fmt: skip

    def _example(self, dispute: Dispute, decision: Decision) -> dict[str, Any]:
        target, question = dispute.item.target, decision.question
        comments = [
            {"person": each.by, "text": each.comment}
            for each in self.progress.first
            if each.comment and each.question == question
            and (each.target, each.against) == (dispute.item.target, dispute.item.against)
        ]  # fmt: skip
        return {
            "item": dispute.item.key, "conversation": target.conversation, "turn": target.turn,
            "ratings": dict(decision.ratings), "adjudicated": decision.value, "reason": decision.reason,
            "note": decision.note, "comments": comments, "lead": decision.lead, "time": decision.time,
        }  # fmt: skip


def _chosen(question: Question, fields: Mapping[str, Any], reason: str) -> Value | None:
    """Return the typed or chosen answer, or `None` if only a reason is given."""
    value = fields.get(f"other.{question.id}") or fields.get(f"value.{question.id}")
    if value in (None, ""):
        if not reason:
            raise BadInput(f"{question.shown}: no answer chosen. Choose one, or give the reason why none fits")
        return None
    return parse_value(question, value)


def _decision(annotation: Annotation) -> Decision | None:
    """Return the decision that an annotation stores, or `None` if it withdraws a decision."""
    try:
        shown = json.loads(annotation.shown or "{}")
    except (ValueError, RecursionError):
        shown = {}
    shown = shown if isinstance(shown, dict) else {}
    reason, ratings = str(shown.get("reason", "")), shown.get("ratings")
    if annotation.value is None and not reason:
        return None
    return Decision(
        annotation.question, annotation.value, reason, annotation.comment, str(shown.get("lead", "")),
        annotation.time or "", ratings if isinstance(ratings, dict) else {},
    )  # fmt: skip
