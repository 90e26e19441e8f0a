"""Assertions as a rubric: questions on a scale of agreement that a judge answers, with the main question of people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from accord.edges import BadInput
from accord.evidence import Training
from accord.methods.learned_rubric.assertion_writer import Assertion
from accord.values import Question, Rubric, Scale, Side

AGREEMENT = {
    "1": "Strongly disagree",
    "2": "Disagree",
    "3": "Neither agree nor disagree, or it does not apply here",
    "4": "Agree",
    "5": "Strongly agree",
}
LIKERT = Scale(options=tuple(map(int, AGREEMENT)))
SOURCE = "Learned from conversations (Biyani et al., RUBICON, AIware 2024)."


def questions_of(assertions: Iterable[Assertion], main: str = "") -> list[Question]:
    """Assertions as questions with an id each, `sat-01`, `dsat-01` and so on; none is called like the main question."""
    counts: Counter[Side] = Counter()
    found = []
    for each in assertions:
        counts[each.side] += 1
        counts[each.side] += f"{each.side}-{counts[each.side]:02d}" == main
        name = f"{each.side}-{counts[each.side]:02d}"
        question = Question(id=name, text=each.text, scale=LIKERT, meanings=AGREEMENT)
        found.append(question.model_copy(update={"side": each.side, "reasons": each.reasons}))
    return found


def rubric_of(
    questions: Sequence[Question], main: Question, name: str, instructions: str, learned_on: Iterable[str]
) -> Rubric:
    """Assertions and the main question, which people answer, as a rubric."""
    return Rubric(
        name=name, main=main.id, questions=(*questions, main), instructions=instructions, source=SOURCE,
        learned_on=tuple(sorted(set(learned_on))),
    )  # fmt: skip


def only(rubric: Rubric, questions: Iterable[str]) -> Rubric:
    """The selected assertions of a pool, in its order, and the main question."""
    wanted = set(questions)
    kept = [question for question in rubric.assertions if question.id in wanted]
    return rubric_of(kept, rubric.main_question, "learned", rubric.instructions, rubric.learned_on)


def asking(rubric: Rubric, questions: Iterable[str]) -> Rubric:
    """Some of a rubric's questions, whatever people are asked, as a judge is asked them."""
    wanted = set(questions)
    chosen = tuple(question for question in rubric.questions if question.id in wanted)
    return rubric.model_copy(update={"questions": chosen, "main": chosen[0].id})


def seen_in(train: Training) -> list[str]:
    """The conversations whose labels may be looked at."""
    return [sample.conversation.id for sample in train.samples]


def checked_pool(pool: Rubric, train: Training) -> Rubric:
    """A pool that a user gives, with the main question; `BadInput` where its assertions cannot be judged."""
    if not pool.assertions:
        raise BadInput(
            f"rubric {pool.name!r} has no question with a class; give those that speak for a conversation `class: sat` "
            "and those that speak against it `class: dsat`"
        )
    main = train.question
    for question in pool.assertions:
        if not (question.can_be_judged and question.scale.is_ordered):
            raise BadInput(
                f"assertion {question.id!r} of {pool.name!r} has no ordered options that a judge can choose from"
            )
        if question.id == main.id:
            raise BadInput(f"assertion {question.id!r} of {pool.name!r} is called like the main question; rename it")
    return rubric_of(pool.assertions, main, pool.name, pool.instructions, [*pool.learned_on, *seen_in(train)])


def checked_given(name: str, given: Rubric, main: Question) -> Rubric:
    """What can be summed of a rubric to compare with: its ordered questions that a judge can answer."""
    left_out = (main.id, given.main if given.main_question.side is None else "")
    asked = [question for question in given.judged if question.scale.is_ordered and question.id not in left_out]
    if not asked:
        raise BadInput(
            f"given: {name}: it has no question beside its main one that a judge can answer on an ordered scale"
        )
    return rubric_of(asked, main, name, given.instructions, given.learned_on)
