"""Every question of the rubric in one fit: each gets its own calibrated prediction from evidence that is gathered once.

LLM-RUBRIC's dashboards (appendix A) show what people are expected to answer to each question, and not to the main one
alone. Each question has a head of its own, which learns from the labels on it and is cross-validated on folds of them;
what is measured of a conversation is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from accord.edges import BadInput
from accord.evidence import Source
from accord.learning import Evaluator, learns, make_head
from accord.project.results import Fitted
from accord.store import Store
from accord.values import Question, Rubric

OnQuestion = Callable[[Evaluator], Fitted]


def with_every_question(rubric: Rubric, store: Store, evaluator: Evaluator, fit: OnQuestion) -> Fitted:
    """What `fit` learns of an evaluator's own question, with what it learns of each other one that people answered.

    The main question's head is what it is without the others. A question that cannot be learned is a caution.

    Raises:
        BadInput: One of the sources learns for a single question, or the own question cannot be learned.
    """
    learning = next((source.name for source in evaluator.sources if learns(source)), None)
    if learning is not None:
        raise BadInput(
            f"the source {learning!r} learns for one question, so its evidence is not the same for all; fit another "
            "evaluator (accord fit calibration --every-question), or each question with --question"
        )
    own = fit(evaluator)
    others, cautions = [], list(own.cautions)
    answered = store.labels()
    for question in rubric.questions:
        if question.id == evaluator.question.id or question.compares:
            continue
        try:
            if not len(answered.on(question.id)):
                raise BadInput("nobody has answered it")
            found = fit(_of(evaluator, question))
            if found.evaluator.level != own.evaluator.level:
                raise BadInput(f"it was answered about a {found.evaluator.level}")
            others.append(found)
        except BadInput as error:
            cautions.append(f"{question.id} is not learned: {error}")
    return _together(evaluator, own, others, cautions)


def _of(evaluator: Evaluator, question: Question) -> Evaluator:
    """The same before it learns, for another question; the gate stays with the main one."""
    head = make_head(evaluator.head_name, question, evaluator.head.settings())
    return replace(evaluator, question=question, head=head, checks_plausibility=False)


def _together(evaluator: Evaluator, own: Fitted, others: list[Fitted], cautions: list[str]) -> Fitted:
    """One evaluator whose sources measure all that any of the heads learned from."""
    learned = [own.evaluator, *(each.evaluator for each in others)]
    shared = tuple(_shared(source, learned) for source in evaluator.sources if _is_used(source, learned))
    questions = tuple(replace(each, sources=shared, also=(), models=own.evaluator.models) for each in learned[1:])
    whole = replace(own.evaluator, sources=shared, questions=questions)
    return replace(own, evaluator=whole, questions=tuple(others), cautions=cautions)


def _is_used(source: Source, learned: list[Evaluator]) -> bool:
    return any(part.name == source.name for each in learned for part in each.sources)


def _shared(source: Source, learned: list[Evaluator]) -> Source:
    """What all kept of a source where that is the same; else all of it."""
    kept = [part for each in learned for part in each.sources if part.name == source.name]
    first = kept[0].state().card
    return kept[0] if len(kept) == len(learned) and all(each.state().card == first for each in kept) else source
