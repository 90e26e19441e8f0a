"""What in-context scoring learns from, and what it is tried on: whole conversations and contexts go to one side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from accord.config import InContextConfig
from accord.evidence import EvidenceTable
from accord.methods import (
    TURN,
    Asked,
    Counts,
    Ensemble,
    Example,
    Examples,
    Private,
    PromptTemplate,
    Query,
    Recipe,
    as_evidence,
    examples_of,
    groups_of,
    private_by,
    prompt_text,
    score_each,
    together,
)
from accord.models import ChatModel, Failure, embedded, open_embedder, run_flow
from accord.pipeline.collecting import samples_of
from accord.pipeline.models import NO_MODEL, InContextModels
from accord.statistics import INNER_FOLDS, Split, fold_of
from accord.store import Store
from accord.values import BadInput, Labels, Question, Rubric, Sample, Signature, UnknownName

if TYPE_CHECKING:
    from accord.pipeline.models import Models


FEWEST_EXAMPLES = 10
"""Rated examples without which nothing is learned."""

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class ContextSides:
    """The examples of a dimension on two sides.

    Attributes:
        wording: How scores are asked for.
        labels: What people said of the dimension.
        train: Examples to learn from, and to show.
        test: Examples that the table is made on.
        seed: Of the folds inside the training side.
        left_out: Why other rated targets are no examples, counted.
    """

    wording: PromptTemplate
    labels: Labels
    train: Examples
    test: Examples
    seed: int
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def question(self) -> Question:
        """The dimension."""
        return self.wording.question

    @cached_property
    def groups(self) -> list[str]:
        """(n,) which training examples belong together."""
        return groups_of(self.train.all)

    @cached_property
    def folds(self) -> Indices:
        """(n,) the fold of each training example, by groups."""
        place = fold_of(self.groups, min(INNER_FOLDS, len(set(self.groups))), self.seed)
        return np.array([place[name] for name in self.groups], dtype=np.intp)

    @property
    def split(self) -> Split:
        """The two sides as conversations."""
        train, test = (frozenset(e.target.conversation for e in side.all) for side in (self.train, self.test))
        return Split(train, test)


def dimension_of(rubric: Rubric, name: str | None, labels: Labels) -> Question:
    """The question that is scored: the named one, or the rubric's main one.

    Raises:
        BadInput: Nobody rated it, or the rubric does not say what its scale is.
    """
    wanted = name or rubric.main
    rated = Counter(label.question for label in labels if label.value is not None)
    question = rubric.get(wanted)
    if question is None and wanted in rated:
        raise BadInput(
            f"people rated {wanted!r} {rated[wanted]} times, and the rubric {rubric.name!r} does not say on which "
            f"scale; add the question: questions: [{{id: {wanted}, text: ..., options: [1, 2, 3, 4, 5]}}]"
        )
    if question is None:
        raise UnknownName("dimension", wanted, sorted({*(q.id for q in rubric.questions), *rated}))
    if not rated[wanted]:
        others = ", ".join(f"{each} ({count})" for each, count in rated.most_common(5)) or "nothing"
        raise BadInput(
            f"nobody has rated the dimension {wanted!r}; rated are: {others}. Import labels: accord import FILE, or "
            "collect some: accord label"
        )
    return question


def context_sides(
    store: Store,
    about: InContextConfig,
    models: InContextModels,
    question: Question,
    seed: int,
    private: Private | None,
) -> ContextSides:
    """The rated examples, a share of their groups held out by the seed.

    Raises:
        BadInput: There are too few, all have one score, or the scale cannot be asked for in the configured way.
    """
    labels = store.labels().on(question.id)
    hidden = private or private_by(about.private, about.marked)
    found = examples_of(question, samples_of(store, labels.targets), labels, about.level, hidden)
    wording = PromptTemplate(
        question, found.level, about.mode, about.background, models.context, about.demonstrations, models.top
    )
    left_out = Counter(found.left_out)
    kept: list[Example] = []
    for example in found.all:
        if wording.fits(example):
            kept.append(example)
        else:
            left_out["too long to be shown"] += 1
    train, test = _parted(kept, about.held_out, seed)
    sides = ContextSides(
        wording, labels, Examples(question, found.level, train), Examples(question, found.level, test), seed, left_out
    )
    _check(sides, about.demonstrations)
    return sides


def _parted(examples: Sequence[Example], share: float, seed: int) -> tuple[list[Example], list[Example]]:
    """The examples to learn from and those held out: about a share of the groups, one at least."""
    groups = groups_of(examples)
    place = fold_of(groups, max(len(set(groups)), 1), seed)
    out = max(1, round(share * len(place)))
    train = [e for e, name in zip(examples, groups, strict=True) if place[name] >= out]
    return train, [e for e, name in zip(examples, groups, strict=True) if place[name] < out]


def _check(sides: ContextSides, k: int) -> None:
    count, needed = len(sides.train), max(FEWEST_EXAMPLES, k + 2)
    if count < needed:
        left = ", ".join(f"{number} {reason}" for reason, number in sides.left_out.items())
        why = f" ({left}, which are left out)" if left else ""
        raise BadInput(
            f"{count} rated examples of {sides.question.id!r} are left to learn from beside {len(sides.test)} held out"
            f"{why}; {needed} are needed to show {k} of them. Rate more, or show fewer: "
            f"in_context: {{demonstrations: {max(1, min(k, count - 2))}}}"
        )
    largest = Counter(sides.groups).most_common(1)[0][1]
    if count - largest < k:
        raise BadInput(
            f"{largest} of {count} examples to learn from are of one conversation or reply to the same turns; beside "
            f"one of them only {count - largest} others can be shown, {k} are wanted. Rate other conversations, or "
            f"show fewer: in_context: {{demonstrations: {max(1, count - largest)}}}"
        )
    if len({example.score for example in sides.train.all}) == 1:
        raise BadInput(
            f"all {count} examples of {sides.question.id!r} have the score {sides.train.all[0].score:g}, from which "
            "nothing can be learned; rate some that are better or worse"
        )


Step = Callable[[], None]


def ask_ensembles(
    wording: PromptTemplate,
    model: ChatModel,
    asked: Sequence[Sequence[Asked]],
    counts: Counts,
    on_step: Step = lambda: None,
) -> list[Ensemble | Failure]:
    """What several requests about each input say together.

    Raises:
        BudgetReached: The budget is spent; the same call goes on from there.
        ModelError: No call can succeed.
    """
    flat = [one for each in asked for one in each]
    readings = iter(run_flow(score_each(wording, flat, counts, on_step), model))
    return [together(list(islice(readings, len(each)))) for each in asked]


def queries_of(samples: Sequence[Sample], embedder: str, store: Store) -> list[Query]:
    """Inputs as a selector sees them; each text is embedded once and kept."""
    texts = [prompt_text(sample) for sample in samples]
    vectors = embedded_texts(texts, embedder, store)
    return [Query(vector, text) for vector, text in zip(vectors, texts, strict=True)]


def signature_of(recipe: Recipe) -> Signature:
    """How a recipe's answers are made."""
    model, _, _ = recipe.model.partition(" ")
    return Signature.of(
        "in-context", model=model, via=recipe.wording.mode, selector=recipe.selector.name, prompts=len(recipe.tasks),
        examples=len(recipe.examples), k=recipe.sizes.k, asked=recipe.sizes.ensemble, recipe=recipe.hash,
    )  # fmt: skip


def at_level(samples: Sequence[Sample], level: str) -> list[Sample]:
    """What is scored of conversations: of a turn-level dimension, their last reply; a turn stays what it is."""
    if level != TURN:
        return list(samples)
    return [sample if sample.turn is not None else _last_reply(sample) for sample in samples]


def _last_reply(sample: Sample) -> Sample:
    turns, replies = sample.conversation.turns, sample.conversation.replies
    last = next((place for place in range(len(turns) - 1, -1, -1) if replies and turns[place] is replies[-1]), None)
    return sample if last is None else Sample(sample.conversation, last)


def ask_recipe(
    recipe: Recipe, model: ChatModel, store: Store, samples: Sequence[Sample], counts: Counts
) -> EvidenceTable:
    """The evidence of conversations that nobody has rated.

    An example that is the input itself is not shown beside it.

    Raises:
        BudgetReached: The budget is spent; the same call goes on from there.
        ModelError: No call can succeed.
    """
    wanted = at_level(samples, recipe.wording.level)
    queries = queries_of(wanted, recipe.embedder, store)
    asked: list[list[Asked] | Failure] = []
    for sample, query in zip(wanted, queries, strict=True):
        why = _unasked(recipe, sample)
        asked.append(why or recipe.asked(recipe.choose(query, recipe.left_out_of(sample)), sample))
    wanted_of = [each for each in asked if not isinstance(each, Failure)]
    answers = iter(ask_ensembles(recipe.wording, model, wanted_of, counts))
    said = [each if isinstance(each, Failure) else next(answers) for each in asked]
    found = list(zip((sample.target for sample in wanted), said, strict=True))
    return as_evidence(recipe.wording.question, str(signature_of(recipe)), found)


def _unasked(recipe: Recipe, sample: Sample) -> Failure | None:
    """Why an input cannot be asked about; `None` where it can."""
    if not any(turn.content.strip() for turn in sample.conversation.up_to(sample.turn)):
        return Failure("nothing was said", "no turn has words")
    if not recipe.wording.question.applies_to(sample.conversation):
        return Failure("does not apply", "the question is not for such conversations")
    if len(recipe.examples) - len(recipe.left_out_of(sample)) < recipe.sizes.k:
        return Failure("too few examples", "nearly all of them are the input itself")
    return None


def in_context_evidence(
    store: Store, models: Models, recipe: Recipe, samples: Sequence[Sample], asked: Counts
) -> EvidenceTable:
    """The same with the project's model, which has to be the one that the recipe was learned with.

    Raises:
        BadInput: The project names none, or another one.
    """
    if models.in_context is None:
        raise BadInput(NO_MODEL)
    question, about = recipe.wording.question, models.in_context.about
    if about.mode != recipe.wording.mode:
        raise BadInput(
            f"the prompts were tried by way of {recipe.wording.mode}, in_context: way is {about.mode}; fit again"
        )
    scorer = models.in_context.scorer(question, store)
    here = models.in_context.where(scorer, question)
    if here != recipe.model:
        raise BadInput(
            f"the prompts were tried with {recipe.model}, the project names {here}: what helps one model may mislead "
            "another; fit again: accord fit in-context"
        )
    return ask_recipe(recipe, scorer, store, samples, asked)


def embedded_texts(texts: Sequence[str], embedder: str, store: Store) -> np.ndarray:
    """(n, h) the texts' vectors, kept in the store."""
    return embedded(list(texts), open_embedder(embedder), store)
