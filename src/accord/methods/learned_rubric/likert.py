"""A judge's answers as points (RUBICON, section 3.1): the lowest option is 0, the highest 10, what does not apply 5."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.evidence import EvidenceTable, counted_stems, pieces
from accord.methods.learned_rubric.sharpness import POINT, TOP, Flags, Whole
from accord.methods.learned_rubric.writing import Assertion
from accord.models import NOT_APPLICABLE
from accord.values import Conversation, Question, Rubric, Scale, Side, Turn

EXPECTED, LIKELIEST = "expected", "likeliest"
READINGS = (EXPECTED, LIKELIEST)


@dataclass(frozen=True)
class Points:
    """What was answered about n conversations to P assertions.

    Attributes:
        values: (P, n) whole thousandths of a point from 0 to 10,000; 5,000 where there is no answer.
        missing: (P, n) which have none although they apply.
    """

    values: Whole
    missing: Flags


def points(evidence: EvidenceTable, questions: Sequence[str], reading: str) -> Points:
    """Answers as points: the expectation of each distribution, or its likeliest option.

    Raises:
        BadInput: A question was not answered in this evidence.
    """
    values = np.full((len(questions), len(evidence)), TOP // 2, dtype=np.int32)
    missing = np.zeros(values.shape, dtype=bool)
    for row, name in enumerate(questions):
        options, shares, known = evidence.distribution(name)
        place = (np.array(options) - options[0]) / (options[-1] - options[0])
        read = shares @ place if reading == EXPECTED else place[shares.argmax(axis=1)]
        values[row, known] = np.rint(read[known] * 10 * POINT)
        silent = [evidence.absences.get((target, name)) == NOT_APPLICABLE for target in evidence.targets]
        missing[row] = ~known & ~np.array(silent, dtype=bool)
    return Points(values, missing)


def signed(values: Whole, sat: Flags, weights: Sequence[float]) -> Whole:
    """(P, n) what each answer adds to NetSAT: negated for DSAT, times the assertion's weight."""
    factors = np.where(sat, 1.0, -1.0) * np.array(weights, dtype=float)
    return np.asarray(np.rint(values * factors[:, None]), dtype=np.int32)


def answered(evidence: EvidenceTable, main: str) -> list[str]:
    """The questions that a judge answered on an ordered scale, without the main one, in the order of their columns."""
    names: Mapping[str, None] = dict.fromkeys(
        c.question for c in evidence.columns if c.question and c.option is not None
    )
    return [name for name in names if name != main]


def sides(values: Whole, good: NDArray[np.bool_]) -> Flags:
    """(P,) which questions speak for a conversation, where nobody says so: those answered higher about good ones."""
    return np.asarray(values[:, good].mean(axis=1) >= values[:, ~good].mean(axis=1))


AGREEMENT = {
    "1": "Strongly disagree",
    "2": "Disagree",
    "3": "Neither agree nor disagree, or it does not apply here",
    "4": "Agree",
    "5": "Strongly agree",
}
LIKERT = Scale(options=tuple(map(int, AGREEMENT)))
NUMBERS = Scale(options=(0, 2, 4, 6, 8, 10))
"""SPUR's scale from 0 to 10, in as many steps as a judge is asked to choose from."""
AMOUNT = {"0": "not at all", "10": "fully"}
SOURCE = "Learned from conversations (Biyani et al., RUBICON, AIware 2024)."


def questions_of(
    assertions: Iterable[Assertion], scale: Scale = LIKERT, meanings: Mapping[str, str] = AGREEMENT, main: str = ""
) -> list[Question]:
    """Assertions as questions with an id each, `sat-01`, `dsat-01` and so on; none is called like the main question."""
    counts: Counter[Side] = Counter()
    found = []
    for each in assertions:
        counts[each.side] += 1
        counts[each.side] += f"{each.side}-{counts[each.side]:02d}" == main
        name = f"{each.side}-{counts[each.side]:02d}"
        about: Any = {"scale": scale, "meanings": meanings, "side": each.side, "reasons": each.reasons}
        found.append(Question(id=name, text=each.text, **about))
    return found


def rubric_of(
    questions: Sequence[Question], main: Question, name: str, instructions: str, learned_on: Iterable[str]
) -> Rubric:
    """Assertions and the main question, which people answer, as a rubric."""
    return Rubric(
        name=name, main=main.id, questions=(*questions, main), instructions=instructions, source=SOURCE,
        learned_on=tuple(sorted(set(learned_on))),
    )  # fmt: skip


def only(rubric: Rubric, questions: Iterable[str], name: str = "learned") -> Rubric:
    """A rubric of some of another's assertions, in its order, and the main question."""
    wanted = set(questions)
    kept = [question for question in rubric.assertions if question.id in wanted]
    return rubric_of(kept, rubric.main_question, name, rubric.instructions, rubric.learned_on)


def asking(rubric: Rubric, questions: Iterable[str]) -> Rubric:
    """Some of a rubric's questions, whatever people are asked, as a judge is asked them."""
    wanted = set(questions)
    chosen = tuple(question for question in rubric.questions if question.id in wanted)
    return rubric.model_copy(update={"questions": chosen, "main": chosen[0].id})


def classes_of(rubric: Rubric) -> dict[str, dict[str, Any]]:
    """The arguments of `AssertionSelector` that follow from a rubric: its assertions' classes and weights."""
    found = rubric.assertions
    weights = {question.id: question.weight for question in found if question.weight != 1.0}
    return {"classes": {question.id: str(question.side) for question in found}, "weights": weights}


LONGEST = 300
"""Characters of a passage."""
ROLES = frozenset({"user", "assistant"})
"""Words that assertions use of the speakers: they tell no turn from another."""


def passage(conversation: Conversation, question: Question) -> str | None:
    """The passage of a conversation that bears on an assertion; `None` where no turn shares a word with it."""
    quote = next((r.quote for r in question.reasons if r.conversation == conversation.id and r.quote), None)
    if quote is not None:
        return quote
    stems = counted_stems(pieces(question.text)).keys() - ROLES
    shared = [len(stems & counted_stems(pieces(turn.content)).keys()) for turn in conversation.turns]
    if not shared or not max(shared):
        return None
    return _shown(conversation.turns[shared.index(max(shared))])


def _shown(turn: Turn) -> str:
    text = " ".join(turn.content.split())
    return f"{turn.role}: {text[:LONGEST]}{' …' if len(text) > LONGEST else ''}"
