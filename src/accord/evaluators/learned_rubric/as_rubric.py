"""Assertions as a rubric like any other: questions on a Likert scale, with their class and where they come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from accord.evaluators.learned_rubric.summarising import Assertion
from accord.rubric import Question, Rubric, Side
from accord.scale import Scale

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


def classes_of(rubric: Rubric) -> dict[str, dict[str, Any]]:
    """The settings of `LearnedRubric` that follow from a rubric: its assertions' classes and weights."""
    found = rubric.assertions
    weights = {question.id: question.weight for question in found if question.weight != 1.0}
    return {"classes": {question.id: str(question.side) for question in found}, "weights": weights}
