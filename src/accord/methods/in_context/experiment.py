"""Learning to score in context, stage by stage (ADOROR, sections 4.2 to 4.4), and what is told of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from accord.methods.in_context.asking import (
    UNREADABLE,
    Counts,
    Ensemble,
    ask_ensembles,
    to_scorer,
)
from accord.methods.in_context.examples import Examples, prompt_text
from accord.methods.in_context.inversion import (
    BY_HAND,
    PromptSearch,
    TaskPrompt,
    distinct,
    drawn,
    invert,
    prompt_search,
)
from accord.methods.in_context.nodes import Indices, Pairs, Query, Selector, Vectors
from accord.methods.in_context.pairs import pair_draws, pairs_of, try_pairs
from accord.methods.in_context.recipe import Recipe, Sizes, library_of
from accord.methods.in_context.selectors import AUTO, SELECTORS, Tried, make_selector, rows_of, simplest, try_selectors
from accord.methods.in_context.systems import Baselines, Choose
from accord.methods.in_context.template import PromptTemplate
from accord.methods.in_context.towers import TOWERS
from accord.models import EMBEDDER, WRITER, Failure, Flow, Known, Prompt, Reply, Request, Text, to
from accord.statistics import INNER_FOLDS, fold_of
from accord.values import BadInput

if TYPE_CHECKING:
    from accord.methods.in_context.source import InContextSettings

MANY = 0.1
"""From this share on, what went wrong is worth a sentence."""
FEWEST_EXAMPLES = 10
"""Rated examples without which nothing is learned."""
WRITTEN, TRIED, SETS = "prompts written", "prompts tried", "sets tried"
TRAIN_SIDE, TEST_SIDE = "training side asked", "held-out side asked"
"""Stages, as progress and counts call them."""


def vectors_of(texts: Sequence[str], embedder: str) -> Flow[Vectors]:
    """(n, h) the texts' vectors."""
    found = yield [Request(EMBEDDER, Text(embedder, text)) for text in texts]
    return np.stack(found) if found else np.zeros((0, 0), dtype=np.float32)


@dataclass
class Experiment:
    """The inputs that all stages of learning share.

    Attributes:
        settings: Of the source.
        wording: How scores are asked for.
        train: The examples to learn from, and to show.
        groups: (n,) which of them belong together.
        seed: Of every draw.
        model: Who scores, and where.
        counts: What asking came to, by stage.
    """

    settings: InContextSettings
    wording: PromptTemplate
    train: Examples
    groups: Sequence[str]
    seed: int
    model: str
    counts: dict[str, Counts] = field(default_factory=dict)

    def learn(
        self, prompts: Sequence[TaskPrompt], writer: Known | None, inversion: str | None
    ) -> Flow[ExperimentResult]:
        """Write prompts, try them and sets of examples, and learn what to show for an input.

        Args:
            prompts: Written by hand; they enter the contest.
            writer: Who writes others; without one nobody does.
            inversion: A text that replaces the one which asks for prompts.

        Raises:
            BadInput: No prompt or no set gave a score.
            BudgetReached: The budget is spent; the same call goes on from there.
        """
        texts = [prompt_text(example.sample) for example in self.train.all]
        yield from vectors_of(texts[:1], self.settings.embedder)  # before anything is paid for
        candidates = [TaskPrompt(self.wording.by_hand()), *prompts]
        if writer is not None:
            candidates += yield from self._written(writer, inversion)
        candidates = distinct(candidates)
        search = yield from self._searched(candidates)
        tasks = list(search.prompts[: self.settings.kept])
        pairs = yield from self._pairs(tasks, texts)
        told = yield from vectors_of([task.text for task in tasks], self.settings.embedder)
        return self._fitted(search, candidates, tasks, pairs, told)

    # --- prompts --------------------------------------------------------------------------------------------------

    def _written(self, writer: Known, inversion: str | None) -> Flow[list[TaskPrompt]]:
        draws = drawn(self._rng(1), len(self.train), self.settings.candidates)
        counts = self._counts(WRITTEN)
        flow = invert(self.wording, writer.name, self.train.all, draws, counts, inversion, writer.context)
        return (yield from to(WRITER, flow, WRITTEN, stand_in=_prompt_writer()))

    def _searched(self, candidates: Sequence[TaskPrompt]) -> Flow[PromptSearch]:
        """Every prompt on the whole training side (eq. 1)."""
        rng, counts = self._rng(2), self._counts(TRIED)
        draws = [rng.permutation(len(self.train)).tolist() for _ in candidates]
        flow = prompt_search(
            self.wording, candidates, self.train, self.groups, draws, self.settings.demonstrations, counts
        )
        found = yield from to_scorer(self.wording, flow, TRIED)
        _check_scores(counts)
        return found

    # --- which examples help --------------------------------------------------------------------------------------

    def _pairs(self, tasks: Sequence[TaskPrompt], texts: Sequence[str]) -> Flow[Pairs]:
        """Algorithm 1 on the training side."""
        about, counts = self.settings, self._counts(SETS)
        query, nodes = pair_draws(
            self._rng(3), self.groups, range(len(self.train)), len(tasks), about.demonstrations, about.sets,
            about.together,
        )  # fmt: skip
        flow = try_pairs(self.wording, self.train, tasks, query, nodes, counts)
        rows, targets = yield from to_scorer(self.wording, flow, SETS)
        _check_scores(counts)
        vectors = yield from vectors_of(texts, about.embedder)
        return pairs_of(vectors, texts, query[rows], nodes.take(rows), targets)

    def _fitted(
        self,
        search: PromptSearch,
        candidates: Sequence[TaskPrompt],
        tasks: Sequence[TaskPrompt],
        pairs: Pairs,
        told: Vectors,
    ) -> ExperimentResult:
        """Every selector fitted without each fold and on all pairs, and the one that earns its cost."""
        about, examples = self.settings, self.train.all
        library = library_of(
            self.train.question, [example.score for example in examples], pairs.texts, pairs.queries, told
        )
        names = self._names()
        tried = try_selectors(library, pairs, self.folds, self._made, names)
        chosen = simplest(tried, self.groups) if about.selector == AUTO else tried[-1]
        plain = [name for name in SELECTORS if name not in TOWERS]
        fitted = {name: self._made(name).fit(library, pairs) for name in dict.fromkeys((*plain, *names))}
        sizes = Sizes(about.demonstrations, about.ranked, about.ensemble, about.edges, self.seed)
        recipe = Recipe(self.wording, examples, tasks, library, fitted[chosen.name], sizes, about.embedder, self.model)
        return ExperimentResult(self, recipe, search, candidates, tried, chosen, fitted, len(pairs))

    def _names(self) -> tuple[str, ...]:
        """The selectors that are tried; where learning is only priced, whoever picks changes no count."""
        if self._is_priced and not self.settings.tables:
            return SELECTORS[:1]
        if self.settings.selector == AUTO:
            return SELECTORS
        return tuple(dict.fromkeys((SELECTORS[0], self.settings.selector)))

    def _made(self, name: str) -> Selector:
        """A selector with the settings; where learning is only priced, nothing is learned in earnest."""
        towers = {**self.settings.towers, **({"epochs": 1} if self._is_priced else {})}
        return make_selector(name, self.seed, **(towers if name in TOWERS else {}))

    @property
    def _is_priced(self) -> bool:
        return any(counts.assumed for counts in self.counts.values())

    @cached_property
    def folds(self) -> Indices:
        """(n,) the fold of each training example, by groups."""
        place = fold_of(self.groups, min(INNER_FOLDS, len(set(self.groups))), self.seed)
        return np.array([place[name] for name in self.groups], dtype=np.intp)

    def _counts(self, stage: str) -> Counts:
        return self.counts.setdefault(stage, Counts())

    def _rng(self, stage: int) -> np.random.Generator:
        """The draws of a stage."""
        return np.random.default_rng([self.seed, stage])


@dataclass(frozen=True)
class ExperimentResult:
    """A way to score in context, and how it was found.

    Attributes:
        experiment: What it was learned from, and with.
        recipe: What is asked for an input.
        search: How every prompt did on the training side.
        candidates: The prompts that were tried.
        tried: How every selector did without each fold.
        chosen: The one that is used.
        fitted: Every selector, fitted on all pairs.
        pairs: How many pairs they learned from.
    """

    experiment: Experiment
    recipe: Recipe
    search: PromptSearch
    candidates: Sequence[TaskPrompt]
    tried: Sequence[Tried]
    chosen: Tried
    fitted: Mapping[str, Selector]
    pairs: int

    def train_side(self) -> Flow[list[Ensemble | Failure]]:
        """Ensembles about training examples, by selectors that have not learned from them, without their own groups."""
        recipe, groups, folds = self.recipe, self.experiment.groups, self.experiment.folds
        of_group: dict[str, list[int]] = {}
        for place, name in enumerate(groups):
            of_group.setdefault(name, []).append(place)
        without = [replace(recipe, selector=selector) for selector in self.chosen.folds]
        asked = []
        for place, example in enumerate(recipe.examples):
            query = Query(recipe.library.vectors[place], recipe.library.texts[place])
            nodes = without[folds[place]].choose(query, of_group[groups[place]])
            asked.append(recipe.asked(nodes, example.sample))
        counts = self.experiment.counts.setdefault(TRAIN_SIDE, Counts())
        return (yield from ask_ensembles(recipe.wording, asked, counts, TRAIN_SIDE))

    def selector_rows(self) -> list[dict[str, Any]]:
        """One row per selector: what its picks among the tried sets are worth (`rows_of`)."""
        return rows_of(self.tried, self.chosen.name, self.experiment.groups, self.experiment.seed)

    def systems(self) -> dict[str, Choose]:
        """Every other system of table 1 by name; the selector that is used is the method itself."""
        by_hand = (task for task in self.search.prompts if task.by.startswith(BY_HAND))
        hand = next(by_hand, TaskPrompt(self.recipe.wording.by_hand()))
        written = [task for task in self.candidates if not task.by.startswith(BY_HAND)]
        rng = np.random.default_rng([self.experiment.seed, 4])
        anyone = written[int(rng.integers(len(written)))] if written else None
        found = Baselines(self.recipe, hand, anyone, self.fitted, self.experiment.seed).systems()
        return {name: choose for name, choose in found.items() if name != self.recipe.selector.name}


def check_examples(train: Examples, groups: Sequence[str], k: int) -> None:
    """Refuse, before anything is paid for, examples from which nothing can be learned.

    Raises:
        BadInput: There are too few, most are of one context, or all have one score.
    """
    count, needed = len(train), max(FEWEST_EXAMPLES, k + 2)
    if count < needed:
        left = ", ".join(f"{number} {reason}" for reason, number in train.left_out.items())
        why = f" ({left}, which are left out)" if left else ""
        raise BadInput(
            f"{count} rated examples of {train.question.id!r} are left to learn from{why}; {needed} are needed to show "
            f"{k} of them. Rate more, or show fewer: in-context: {{demonstrations: {max(1, min(k, count - 2))}}}"
        )
    largest = Counter(groups).most_common(1)[0][1]
    if count - largest < k:
        raise BadInput(
            f"{largest} of {count} examples to learn from are of one conversation or reply to the same turns; beside "
            f"one of them only {count - largest} others can be shown, {k} are wanted. Rate other conversations, or "
            f"show fewer: in-context: {{demonstrations: {max(1, count - largest)}}}"
        )
    if len({example.score for example in train.all}) == 1:
        raise BadInput(
            f"all {count} examples of {train.question.id!r} have the score {train.all[0].score:g}, from which "
            "nothing can be learned; rate some that are better or worse"
        )


def _check_scores(counts: Counts) -> None:
    """Refuse to go on where a model gave no score at all.

    Raises:
        BadInput: Says what it gave.
    """
    lost = sum(counts.failures.values())
    if counts.asked and lost == counts.asked:
        reason, count = counts.failures.most_common(1)[0]
        advice = "Run the command again once the endpoint answers" if reason not in UNREADABLE else (
            "Another model may do better, or another way to read it: models: {scorer: {mode: logprobs}}"
        )  # fmt: skip
        raise BadInput(
            f"none of {counts.asked} requests gave a score: {reason} ({count}); for example: "
            f"{counts.example[reason].rstrip('.')}. {advice}"
        )


def _prompt_writer() -> Callable[[Prompt], Reply]:
    """Stands in for a writer: prompts of the expected length, each another one."""
    numbers = iter(range(1_000_000))

    def stand_in(prompt: Prompt) -> Reply:
        return Reply(" ".join([f"Prompt number {next(numbers)}.", *["Say how good it is."] * 20]))

    return stand_in


# --- what is told of it ---------------------------------------------------------------------------------------------


def findings(
    result: ExperimentResult, counts: Mapping[str, Counts], left_out: Mapping[str, int], tested: int = 0
) -> dict[str, Any]:
    """Findings of learning and of `tested` held-out examples, as JSON."""
    recipe = result.recipe
    kept = {task.hash for task in recipe.tasks}
    lost = Counter[str]()
    for each in counts.values():
        lost.update(each.failures)
    characters = sum(each.characters for each in counts.values())
    return {
        "dimension": recipe.wording.question.id,
        "level": recipe.wording.level,
        "trained": len(recipe.examples),
        "tested": tested,
        "left_out": dict(left_out),
        "kept": len(kept),
        "prompts": [
            {**task.to_json(), "kept": task.hash in kept, "unreadable": unreadable}
            for task, unreadable in zip(result.search.prompts, result.search.unreadable, strict=True)
        ],
        "pairs": result.pairs,
        "selectors": result.selector_rows(),
        "selector": recipe.selector.name,
        "asked": sum(each.asked for each in counts.values()),
        "failures": dict(lost),
        "again": sum(each.again for each in counts.values()),
        "stages": {name: {"asked": each.asked, "failures": dict(each.failures)} for name, each in counts.items()},
        "prefix_shared": sum(each.repeated for each in counts.values()) / characters if characters else 0.0,
        "recipe": recipe.hash,
        "cautions": cautions(recipe, counts, left_out),
    }


def cautions(recipe: Recipe, counts: Mapping[str, Counts], left_out: Mapping[str, int]) -> list[str]:
    """Sentences on what a user should know before scores are trusted."""
    asked = sum(each.asked for each in counts.values())
    found = [f"{count} rated examples were left out: {reason}" for reason, count in left_out.items()]
    written = counts.get(WRITTEN)
    if written is not None and sum(written.failures.values()) > MANY * max(written.asked, 1):
        reason, count = written.failures.most_common(1)[0]
        found.append(f"{sum(written.failures.values())} of {written.asked} replies were no prompt: {reason} ({count})")
    unreadable = sum(each.unreadable for name, each in counts.items() if name != WRITTEN)
    if unreadable > MANY * max(asked, 1):
        found.append(f"{unreadable} of {asked} replies held no score on the scale")
    dropped = sum(each.dropped for each in counts.values())
    if dropped:
        found.append(f"{dropped} demonstrations did not fit beside an input and were not shown")
    if all(task.by.startswith(BY_HAND) for task in recipe.tasks):
        found.append("no written prompt did better than those by hand")
    return found
