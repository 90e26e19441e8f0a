"""Asking in context: the requests of a recipe for some inputs, and their answers as evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from accord.errors import BadInput
from accord.evaluators.in_context.asking import Asked, Tally, score_each
from accord.evaluators.in_context.ensemble import Ensemble, as_evidence, together
from accord.evaluators.in_context.examples import TURN, told_of
from accord.evaluators.in_context.nodes import Query
from accord.evaluators.in_context.recipe import Recipe
from accord.evaluators.in_context.template import Wording
from accord.evidence import EvidenceTable
from accord.evidence.embedders import open_embedder
from accord.evidence.kept_embeddings import embedded
from accord.llm.flow import run_flow
from accord.llm.model import ChatModel, Failure, Subject
from accord.pipeline.in_context_models import NO_MODEL
from accord.score import Signature
from accord.store import Store

if TYPE_CHECKING:
    from accord.pipeline.models import Models

Step = Callable[[], None]


def ask_ensembles(
    wording: Wording, model: ChatModel, asked: Sequence[Sequence[Asked]], tally: Tally, on_step: Step = lambda: None
) -> list[Ensemble | Failure]:
    """What several requests about each input say together.

    Raises:
        BudgetReached: The budget is spent; the same call goes on from there.
        ModelError: No call can succeed.
    """
    flat = [one for each in asked for one in each]
    readings = iter(run_flow(score_each(wording, flat, tally, on_step), model))
    return [together(list(islice(readings, len(each)))) for each in asked]


def queries_of(subjects: Sequence[Subject], embedder: str, store: Store) -> list[Query]:
    """Inputs as a selector sees them; each text is embedded once and kept."""
    texts = [told_of(subject) for subject in subjects]
    vectors = embedded_texts(texts, embedder, store)
    return [Query(vector, text) for vector, text in zip(vectors, texts, strict=True)]


def signature_of(recipe: Recipe) -> Signature:
    """How a recipe's answers are made."""
    model, _, _ = recipe.model.partition(" ")
    return Signature.of(
        "in-context", model=model, via=recipe.wording.way, selector=recipe.selector.name, prompts=len(recipe.tasks),
        examples=len(recipe.examples), k=recipe.sizes.k, asked=recipe.sizes.ensemble, recipe=recipe.hash,
    )  # fmt: skip


def at_level(subjects: Sequence[Subject], level: str) -> list[Subject]:
    """What is scored of conversations: of a turn-level dimension, their last reply; a turn stays what it is."""
    if level != TURN:
        return list(subjects)
    return [subject if subject.turn is not None else _last_reply(subject) for subject in subjects]


def _last_reply(subject: Subject) -> Subject:
    turns, replies = subject.conversation.turns, subject.conversation.replies
    last = next((place for place in range(len(turns) - 1, -1, -1) if replies and turns[place] is replies[-1]), None)
    return subject if last is None else Subject(subject.conversation, last)


def ask_recipe(
    recipe: Recipe, model: ChatModel, store: Store, subjects: Sequence[Subject], tally: Tally
) -> EvidenceTable:
    """The evidence of conversations that nobody has rated.

    An example that is the input itself is not shown beside it.

    Raises:
        BudgetReached: The budget is spent; the same call goes on from there.
        ModelError: No call can succeed.
    """
    wanted = at_level(subjects, recipe.wording.level)
    queries = queries_of(wanted, recipe.embedder, store)
    asked: list[list[Asked] | Failure] = []
    for subject, query in zip(wanted, queries, strict=True):
        why = _unasked(recipe, subject)
        asked.append(why or recipe.asked(recipe.choose(query, recipe.left_out_of(subject)), subject))
    wanted_of = [each for each in asked if not isinstance(each, Failure)]
    answers = iter(ask_ensembles(recipe.wording, model, wanted_of, tally))
    said = [each if isinstance(each, Failure) else next(answers) for each in asked]
    found = list(zip((subject.target for subject in wanted), said, strict=True))
    return as_evidence(recipe.wording.question, str(signature_of(recipe)), found)


def _unasked(recipe: Recipe, subject: Subject) -> Failure | None:
    """Why an input cannot be asked about; `None` where it can."""
    if not any(turn.content.strip() for turn in subject.conversation.up_to(subject.turn)):
        return Failure("nothing was said", "no turn has words")
    if not recipe.wording.question.applies_to(subject.conversation):
        return Failure("does not apply", "the question is not for such conversations")
    if len(recipe.examples) - len(recipe.left_out_of(subject)) < recipe.sizes.k:
        return Failure("too few examples", "nearly all of them are the input itself")
    return None


def in_context_evidence(
    store: Store, models: Models, recipe: Recipe, subjects: Sequence[Subject], asked: Tally
) -> EvidenceTable:
    """The same with the project's model, which has to be the one that the recipe was learned with.

    Raises:
        BadInput: The project names none, or another one.
    """
    if models.in_context is None:
        raise BadInput(NO_MODEL)
    question, about = recipe.wording.question, models.in_context.about
    if about.way != recipe.wording.way:
        raise BadInput(
            f"the prompts were tried by way of {recipe.wording.way}, in_context: way is {about.way}; fit again"
        )
    scorer = models.in_context.scorer(question, store)
    here = models.in_context.where(scorer, question)
    if here != recipe.model:
        raise BadInput(
            f"the prompts were tried with {recipe.model}, the project names {here}: what helps one model may mislead "
            "another; fit again: accord fit in-context"
        )
    return ask_recipe(recipe, scorer, store, subjects, asked)


def embedded_texts(texts: Sequence[str], embedder: str, store: Store) -> np.ndarray:
    """(n, h) the texts' vectors, kept in the store."""
    return embedded(list(texts), open_embedder(embedder), store)
