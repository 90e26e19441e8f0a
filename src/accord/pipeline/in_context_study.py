"""How well ways to score in context do on examples that were neither learned from nor shown, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from accord.config import Config, InContextConfig
from accord.evidence import EvidenceTable, ratings
from accord.learning import AnnotatorMean, Constant, Factory, InContext, held_out
from accord.methods import (
    AUTO,
    BY_HAND,
    SELECTORS,
    TOWERS,
    UNREADABLE,
    Asked,
    Baselines,
    Counts,
    Ensemble,
    Pairs,
    Private,
    PromptSearch,
    Query,
    Recipe,
    Selector,
    Sizes,
    TaskPrompt,
    as_evidence,
    check_towers,
    distinct,
    drawn,
    invert,
    library_of,
    make_selector,
    pair_draws,
    pairs_of,
    prompt_search,
    prompt_text,
    rows_of,
    simplest,
    try_pairs,
    try_selectors,
)
from accord.models import ChatModel, Failure, run_flow
from accord.pipeline.in_context_asking import (
    ContextSides,
    ask_ensembles,
    context_sides,
    embedded_texts,
    queries_of,
    signature_of,
)
from accord.pipeline.models import InContextModels
from accord.statistics import DRAWS, Clusters, Split
from accord.store import Store
from accord.validation import Difference, Result, differences_of, other_people, result_of
from accord.values import BadInput, Labels, Question, Sample

RAW = ", as answered"
"""What the name of the method's own answers, before they are calibrated, ends with."""


@dataclass(frozen=True)
class Figures:
    """How systems compare.

    Attributes:
        results: A line a system; the method itself first.
        differences: The first system against each other one.
        people: How well the other people predict each rating; `None` where nobody shares a target.
    """

    results: Sequence[Result]
    differences: Sequence[Difference]
    people: Result | None


def figures_of(
    question: Question,
    labels: Labels,
    split: Split,
    tables: Mapping[str, EvidenceTable],
    calibrate: bool,
    draws: int,
    seed: int,
) -> Figures:
    """Every system's figures on the ratings of one side.

    Args:
        question: The dimension.
        labels: What people said of it.
        split: The two sides.
        tables: Each system's answers about both sides, all with the same rows; the method's own are the first.
        calibrate: Whether the method's answers are calibrated on the one side.
        draws: Of the intervals.
        seed: Of the draws.
    """
    own = tables[InContext.method]
    everything = ratings(own, labels, question)
    rated = everything.take(np.flatnonzero([name in split.test for name in everything.conversation]))
    raw = partial(InContext, calibrate=False)
    tried: list[tuple[str, Factory, EvidenceTable]] = [
        (InContext.method, partial(InContext, calibrate=calibrate), own),
        (f"{InContext.method}{RAW}", raw, own),
        *((name, raw, table) for name, table in tables.items() if name != InContext.method),
        ("constant", Constant, own),
        ("annotator-mean", AnnotatorMean, own),
    ]
    systems = [held_out(name, make, question, table, labels, rated, [split]) for name, make, table in tried]
    clusters = Clusters(rated.conversation)
    results = [result_of(system, rated, clusters, draws, seed) for system in systems]
    differences = differences_of(systems, rated, clusters, draws, seed)
    return Figures(results, differences, other_people(rated, draws, seed))


OnStage = Callable[[str, int | None], Callable[[], None]]


@dataclass
class InContextStudy:
    """A way to score in context, with what was found out about it.

    Attributes:
        sides: What it was learned from and tried on.
        contest: How every prompt did on the training side.
        selectors: A row a selector: what its picks among the tried sets are worth (`choosing.rows_of`).
        recipe: What is asked for an input.
        evaluator: Calibrated on the training side.
        figures: How well it does on the other side, beside other systems.
        tallies: What asking came to, by stage.
        pairs: How many pairs the selectors learned from.
        tables: Each system's answers about both sides, the training side's being those of the method alone.
    """

    sides: ContextSides
    prompt_search: PromptSearch
    selectors: Sequence[Mapping[str, Any]]
    recipe: Recipe
    evaluator: InContext
    figures: Figures
    counts_by_stage: Mapping[str, Counts] = field(default_factory=dict)
    pairs: int = 0
    tables: Mapping[str, EvidenceTable] = field(default_factory=dict)


EVERY = frozenset({"*"})
"""All other systems."""


def learn_in_context(
    store: Store,
    config: Config,
    models: InContextModels,
    question: Question,
    prompts: Sequence[TaskPrompt] = (),
    beside: Collection[str] = (),
    private: Private | None = None,
    on_stage: OnStage = lambda name, total: lambda: None,
    draws: int = DRAWS,
) -> InContextStudy:
    """Write prompts, try them and sets of examples, learn what to show for an input, and try all that on new ones.

    Args:
        store: Holds conversations, labels, replies and vectors.
        config: Names the settings: `in_context`.
        models: Who writes and who scores.
        question: The dimension.
        prompts: Written by hand; they enter the contest.
        beside: Names of systems of table 1 for which the held-out side is asked about, too; `EVERY` of them.
        private: Which conversations may be shown beside no other; in place of the configured patterns.
        on_stage: Called with a stage's name and its length; returns what is called at each step.
        draws: Of the intervals.

    Raises:
        BadInput: Too few examples, all with one score, no prompt, or a model that gives no score.
        BudgetReached: The budget is spent; the same call goes on from there.
        ModelError: No call can succeed.
    """
    check_towers(models.about.selector, models.about.towers)
    sides = context_sides(store, models.about, models, question, config.seed, private)
    return learn_from(store, models, sides, prompts, beside, on_stage, draws)


def learn_from(
    store: Store,
    models: InContextModels,
    sides: ContextSides,
    prompts: Sequence[TaskPrompt] = (),
    beside: Collection[str] = (),
    on_stage: OnStage = lambda name, total: lambda: None,
    draws: int = DRAWS,
) -> InContextStudy:
    """The same from one side of a split of one's own, tried on the other; see `learn_in_context`."""
    bench = _Bench(store, models.about, sides.seed, models, sides, on_stage)
    embedded_texts(
        [prompt_text(sides.train.all[0].sample)], models.about.embedder, store
    )  # before anything is paid for
    candidates = bench.candidates(prompts)
    tried = bench.tried(candidates)
    pairs = bench.pairs(tried.prompts[: models.about.kept])
    bench.learn(list(tried.prompts[: models.about.kept]), pairs)
    return bench.study(tried, candidates, pairs, beside, draws)


@dataclass
class _Bench:
    """What every stage needs."""

    store: Store
    about: InContextConfig
    seed: int
    models: InContextModels
    sides: ContextSides
    on_stage: OnStage
    counts_by_stage: dict[str, Counts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.wording, self.train = self.sides.wording, self.sides.train
        self.scorer: ChatModel = self.models.scorer(self.sides.question, self.store)
        self.writer = self.models.writer(self.store) if self.about.candidates else None

    def counts(self, stage: str) -> Counts:
        """The tally of a stage."""
        return self.counts_by_stage.setdefault(stage, Counts())

    def rng(self, stage: int) -> np.random.Generator:
        """The draws of a stage."""
        return np.random.default_rng([self.seed, stage])

    # --- prompts --------------------------------------------------------------------------------------------------

    def candidates(self, given: Sequence[TaskPrompt]) -> list[TaskPrompt]:
        """The prompt that follows from the question, those by hand, and those that a model writes."""
        found = [TaskPrompt(self.wording.by_hand()), *given]
        if self.writer is not None:
            found += self._written(self.writer)
        return distinct(found)

    def _written(self, writer: ChatModel) -> list[TaskPrompt]:
        own = None if self.about.inversion is None else _text_of(self.about.inversion)
        draws = drawn(self.rng(1), len(self.train), self.about.candidates)
        counts = self.counts("prompts written")
        step = self.on_stage("prompts written", len(draws))
        flow = invert(self.wording, writer.name, self.train.all, draws, counts, own, self.models.writing_context, step)
        return run_flow(flow, writer)

    def tried(self, candidates: Sequence[TaskPrompt]) -> PromptSearch:
        """Every prompt on the whole training side (eq. 1)."""
        rng, counts = self.rng(2), self.counts("prompts tried")
        draws = [rng.permutation(len(self.train)).tolist() for _ in candidates]
        step = self.on_stage("prompts tried", len(candidates) * len(self.train))
        flow = prompt_search(
            self.wording, candidates, self.train, self.sides.groups, draws, self.about.demonstrations, counts, step
        )
        found = run_flow(flow, self.scorer)
        _check_scores(counts)
        return found

    # --- which examples help --------------------------------------------------------------------------------------

    def pairs(self, tasks: Sequence[TaskPrompt]) -> Pairs:
        """Algorithm 1 on the training side."""
        about, counts = self.about, self.counts("sets tried")
        query, nodes = pair_draws(
            self.rng(3), self.sides.groups, range(len(self.train)), len(tasks), about.demonstrations, about.sets,
            about.together,
        )  # fmt: skip
        step = self.on_stage("sets tried", len(query))
        flow = try_pairs(self.wording, self.train, tasks, query, nodes, counts, step)
        rows, targets = run_flow(flow, self.scorer)
        _check_scores(counts)
        texts = [prompt_text(example.sample) for example in self.train.all]
        vectors = embedded_texts(texts, about.embedder, self.store)
        return pairs_of(vectors, texts, query[rows], nodes.take(rows), targets)

    def learn(self, tasks: Sequence[TaskPrompt], pairs: Pairs) -> None:
        """Fit every selector without each fold and on all pairs, and keep the one that earns its cost."""
        about, examples = self.about, self.train.all
        told = embedded_texts([task.text for task in tasks], about.embedder, self.store)
        scores = np.array([example.score for example in examples])
        library = library_of(self.sides.question, scores, pairs.texts, pairs.queries, told)
        names = SELECTORS if about.selector == AUTO else tuple(dict.fromkeys((SELECTORS[0], about.selector)))
        self.on_stage("selectors learn", None)
        make = partial(self._made, seed=self.seed)
        self.selectors = try_selectors(library, pairs, self.sides.folds, make, names)
        self.chosen = simplest(self.selectors, self.sides.groups) if about.selector == AUTO else self.selectors[-1]
        plain = [name for name in SELECTORS if name not in TOWERS]
        self.fitted = {name: make(name).fit(library, pairs) for name in dict.fromkeys((*plain, *names))}
        sizes = Sizes(about.demonstrations, about.ranked, about.ensemble, about.edges, self.seed)
        where = self.models.where(self.scorer, self.sides.question)
        mine = self.fitted[self.chosen.name]
        self.recipe = Recipe(self.wording, examples, tasks, library, mine, sizes, about.embedder, where)

    def _made(self, name: str, seed: int) -> Selector:
        """A selector with the project's settings."""
        return make_selector(name, seed, **(self.about.towers if name in TOWERS else {}))

    # --- how well it does -----------------------------------------------------------------------------------------

    def study(
        self, tried: PromptSearch, candidates: Sequence[TaskPrompt], pairs: Pairs, beside: Collection[str], draws: int
    ) -> InContextStudy:
        """Ask about both sides, calibrate on the one, and say how well all systems do on the other."""
        recipe, split = self.recipe, self.sides.split
        asked = {InContext.method: self._test_side(), **self._others(tried, candidates, beside)}
        known = self._train_side() if self.about.calibrate else [Failure("not asked")] * len(self.train)
        tables = self._tables(asked, known)
        evaluator = InContext(self.sides.question, calibrate=self.about.calibrate)
        evaluator.fit(tables[InContext.method].filter(split.train), self.sides.labels)
        rows = rows_of(self.selectors, recipe.selector.name, self.sides.groups, self.seed)
        figures = figures_of(
            self.sides.question, self.sides.labels, split, tables, self.about.calibrate, draws, self.seed
        )
        return InContextStudy(
            self.sides, tried, rows, recipe, evaluator, figures, self.counts_by_stage, len(pairs), tables
        )

    def _tables(
        self, asked: Mapping[str, Sequence[Sequence[Asked]]], known: Sequence[Ensemble | Failure]
    ) -> dict[str, EvidenceTable]:
        """What each system's requests about the held-out side say, below what is known of the training side."""
        step = self.on_stage("held-out side asked", sum(len(one) for each in asked.values() for one in each))
        counts, question = self.counts("held-out side asked"), self.sides.question
        targets = [example.target for example in (*self.train.all, *self.sides.test.all)]
        nothing = [Failure("not asked")] * len(self.train)
        found = {}
        for name, requests in asked.items():
            own = name == InContext.method
            said = ask_ensembles(self.wording, self.scorer, requests, counts, step)
            rows = list(zip(targets, [*(known if own else nothing), *said], strict=True))
            found[name] = as_evidence(question, str(signature_of(self.recipe)) if own else name, rows)
        return found

    def _train_side(self) -> list[Ensemble | Failure]:
        """Ensembles about training examples, by selectors that have not learned from them, without their own groups."""
        recipe, groups = self.recipe, self.sides.groups
        of_group: dict[str, list[int]] = {}
        for place, name in enumerate(groups):
            of_group.setdefault(name, []).append(place)
        folds = [replace(recipe, selector=selector) for selector in self.chosen.folds]
        asked = []
        for place, example in enumerate(self.train.all):
            query = Query(recipe.library.vectors[place], recipe.library.texts[place])
            nodes = folds[self.sides.folds[place]].choose(query, of_group[groups[place]])
            asked.append(recipe.asked(nodes, example.sample))
        step = self.on_stage("training side asked", sum(map(len, asked)))
        return ask_ensembles(self.wording, self.scorer, asked, self.counts("training side asked"), step)

    @cached_property
    def _inputs(self) -> list[tuple[Sample, Query, list[int]]]:
        """The held-out side as a selector sees it, with the examples that are not shown beside each."""
        samples = [example.sample for example in self.sides.test.all]
        queries = queries_of(samples, self.recipe.embedder, self.store)
        return [(s, query, self.recipe.left_out_of(s)) for s, query in zip(samples, queries, strict=True)]

    def _test_side(self) -> list[list[Asked]]:
        recipe = self.recipe
        return [recipe.asked(recipe.choose(query, out), sample) for sample, query, out in self._inputs]

    def _others(
        self, tried: PromptSearch, candidates: Sequence[TaskPrompt], beside: Collection[str]
    ) -> dict[str, list[list[Asked]]]:
        """The requests of every other system that is wanted, by name."""
        if not beside:
            return {}
        by_hand = (task for task in tried.prompts if task.by.startswith(BY_HAND))
        hand = next(by_hand, TaskPrompt(self.wording.by_hand()))
        written = [task for task in candidates if not task.by.startswith(BY_HAND)]
        anyone = written[int(self.rng(4).integers(len(written)))] if written else None
        systems = Baselines(self.recipe, hand, anyone, self.fitted, self.seed).systems()
        return {
            name: [choose(*each) for each in self._inputs]
            for name, choose in systems.items()
            if (beside is EVERY and name != self.recipe.selector.name) or name in beside
        }


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"the inversion prompt {path} cannot be read: {error}") from None


def _check_scores(counts: Counts) -> None:
    """Refuse to go on where a model gave no score at all.

    Raises:
        BadInput: Says what it gave.
    """
    lost = sum(counts.failures.values())
    if counts.asked and lost == counts.asked:
        reason, count = counts.failures.most_common(1)[0]
        advice = "Run the command again once the endpoint answers" if reason not in UNREADABLE else (
            "Another model may do better, or another way to read it: in_context: {mode: logprobs}"
        )  # fmt: skip
        raise BadInput(
            f"none of {counts.asked} requests gave a score: {reason} ({count}); for example: "
            f"{counts.example[reason].rstrip('.')}. {advice}"
        )
