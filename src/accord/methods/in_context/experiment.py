"""Findings of scoring in context, as values: what learned, what it cost, what a user should know before trusting it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import TypeAdapter

from accord.edges import BadInput
from accord.methods.in_context.prompt_assembly import Recipe, Sizes
from accord.methods.in_context.prompt_inversion import (
    BY_HAND,
    EXAMPLES,
    PromptSearch,
    TaskPrompt,
    distinct,
    invert,
    prompt_search,
)
from accord.methods.in_context.scoring_requests import UNREADABLE, Asked, Counts, Ensemble, ask_ensembles, to_scorer
from accord.methods.in_context.selectors import (
    AUTO,
    CHANCE,
    Indices,
    Library,
    Pairs,
    Query,
    Selector,
    SelectorFigures,
    Tried,
    Vectors,
    by_cost,
    make_selector,
    pair_draws,
    selector_figures,
    simplest,
    try_pairs,
    try_selector,
)
from accord.methods.in_context.template import Examples, PromptTemplate, prompt_text
from accord.models import EMBEDDER, WRITER, Failure, Flow, ModelInfo, Prompt, Reply, Request, to_role
from accord.models import EmbeddingText as EmbeddedText
from accord.statistics import INNER_FOLDS, fold_of
from accord.values import Estimate, Findings, Fold, Registry, Sample, Section, Table, Text, number

WRITTEN, TRIED, SETS = "prompts written", "prompts tried", "sets tried"
TRAIN_SIDE, TEST_SIDE = "training side asked", "held-out side asked"
"""Stages, as progress and counts call them."""
MANY = 0.1
"""The share from which on failures are worth a sentence."""


@dataclass(frozen=True)
class PromptFigures:
    """A task prompt that was tried: its error on [0, 1] (eq. 1), and how many replies held no score on the scale."""

    hash: str
    by: str
    error: float
    examples: tuple[str, ...]
    text: str
    kept: bool
    unreadable: int

    def fold(self, is_open: bool) -> Fold:
        """Its part of the report."""
        lost = f", {self.unreadable} replies without a score" if self.unreadable else ""
        summary = f"{self.hash}, {self.by}: mean squared error {number(self.error, 4)}{lost}"
        return Fold(summary, [Text(self.text, "quote")], is_open=is_open)


@dataclass(frozen=True, kw_only=True)
class InContextFindings(Findings):
    """Findings of learning, and of the held-out side where it was asked about.

    Attributes:
        level: `turn` or `dialogue`.
        left_out: Reasons why rated samples are no examples, counted.
        kept: How many prompts are in use.
        prompts: All prompts that were tried, the best first.
        pairs: How many observations the selectors learned from.
        failures: Reasons of requests that gave nothing, counted; `again` of these may succeed another time.
        cautions: Sentences on what a user should know before scores are trusted.
    """

    dimension: str
    level: str
    trained: int
    tested: int
    left_out: Mapping[str, int]
    kept: int
    prompts: tuple[PromptFigures, ...]
    pairs: int
    selectors: tuple[SelectorFigures, ...]
    selector: str
    asked: int
    failures: Mapping[str, int]
    again: int
    recipe: str
    cautions: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The findings as plain JSON values."""
        return dict(_FINDINGS.dump_python(self, mode="json"))

    def section(self) -> Section:
        """How it was learned, who picks the examples, and the prompts that are used."""
        lead = (
            f"A model was shown {self.trained} rated examples, a few per request, and tested on {self.tested} others. "
            f"{len(self.prompts)} prompts were tried, {self.kept} are used; the selector {self.selector} picks the "
            "examples."
        )
        enough = (
            "Next step: where the first line of the table of agreement is no better than the prompt by hand in it, a "
            "prompt by hand is enough. That table is over conversations that were neither learned from nor shown."
        )
        edited = f"{self.asked} requests. To try an edited prompts.yaml: sources: {{in-context: {{prompts: FILE}}}}."
        rows: list[list[str | Estimate]] = [[one.selector, one.target, one.gain] for one in self.selectors]
        own = frozenset(place for place, one in enumerate(self.selectors) if one.chosen)
        kept = [one for one in self.prompts if one.kept]
        return Section(f"Scoring in context: {self.dimension}", lead, [
            Text(enough, "soft"), Text("Selection of examples", "heading"),
            Table(["", "exp(-error) of what it picks", "gain over random"], rows, 3, own),
            Text("Prompts", "heading"), *(one.fold(place == 0) for place, one in enumerate(kept)), Text(edited, "soft"),
        ])  # fmt: skip

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> InContextFindings:
        """The inverse of `to_json`.

        Raises:
            ValueError: The row is none of its rows.
        """
        return _FINDINGS.validate_python(dict(row))


_FINDINGS = TypeAdapter(InContextFindings)


def cautions(recipe: Recipe, counts: Mapping[str, Counts], left_out: Mapping[str, int]) -> Sequence[str]:
    """Sentences on what a user should know before scores are trusted."""
    found = [f"{count} rated examples were left out: {reason}" for reason, count in left_out.items()]
    whole, written = Counts.total(counts.values()), counts.get(WRITTEN, Counts())
    if written.failed > MANY * written.asked:
        [(reason, count)] = written.failures.most_common(1)
        found.append(f"{written.failed} of {written.asked} replies were no prompt: {reason} ({count})")
    unreadable = whole.unreadable - written.unreadable
    if unreadable > MANY * whole.asked:
        found.append(f"{unreadable} of {whole.asked} replies held no score on the scale")
    if whole.dropped:
        found.append(f"{whole.dropped} demonstrations did not fit beside an input and were not shown")
    if all(task.by.startswith(BY_HAND) for task in recipe.tasks):
        found.append("no written prompt did better than those by hand")
    return found


if TYPE_CHECKING:
    from accord.methods.in_context.source import InContextSettings

FEWEST_EXAMPLES = 10
"""Rated examples without which nothing is learned."""


def vectors_of(texts: Sequence[str], embedder: str, width: int | None = None) -> Flow[Vectors]:
    """(n, h) the texts' vectors; `width` is h, where it is known."""
    found = yield [Request(EMBEDDER, EmbeddedText(embedder, text, width)) for text in texts]
    return np.stack(found) if found else np.zeros((0, 0), dtype=np.float32)


@dataclass
class Experiment:
    """The inputs that all stages of learning share: (n,) groups of the examples, who scores, counts by stage."""

    settings: InContextSettings
    wording: PromptTemplate
    train: Examples
    groups: Sequence[str]
    seed: int
    model: str
    counts: dict[str, Counts] = field(default_factory=dict)

    def learn(
        self, prompts: Sequence[TaskPrompt], writer: ModelInfo | None, inversion: str | None
    ) -> Flow[ExperimentResult]:
        """Write prompts, try them and sets of examples, and learn what to show for an input.

        `prompts` by hand enter the contest; `inversion` replaces the text which asks for others.
        """
        about = self.settings
        texts = tuple(prompt_text(example.sample) for example in self.train.all)
        yield from vectors_of(texts[:1], about.embedder)  # before anything is paid for
        candidates = [TaskPrompt(self.wording.by_hand()), *prompts]
        if writer is not None:
            candidates += yield from self._written(writer, inversion)
        candidates = distinct(candidates)
        search = yield from self._searched(candidates)
        tasks = list(search.prompts[: about.kept])
        pairs = yield from self._pairs(tasks, texts)
        told = yield from vectors_of([task.text for task in tasks], about.embedder)
        library = Library(pairs.queries, self.train.unit, texts, told)
        tried = [try_selector(name, self.made, library, pairs, self.folds) for name in self._contest()]
        chosen = simplest(tried, self.groups) if about.selector == AUTO else tried[-1]
        sizes = Sizes(about.demonstrations, about.ranked, about.ensemble, self.seed)
        selector = self.made(chosen.name).fit(library, pairs)
        recipe = Recipe(self.wording, self.train.all, tasks, library, selector, sizes, about.embedder, self.model)
        return ExperimentResult(self, recipe, search, candidates, tried, chosen, pairs)

    # --- prompts --------------------------------------------------------------------------------------------------

    def _written(self, writer: ModelInfo, inversion: str | None) -> Flow[list[TaskPrompt]]:
        rng, counts = self._rng(1), self.counts_of(WRITTEN)
        draws = [rng.permutation(len(self.train))[:EXAMPLES].tolist() for _ in range(self.settings.candidates)]
        flow = invert(self.wording, writer.name, self.train.all, draws, counts, inversion, writer.context)
        return (yield from to_role(WRITER, flow, WRITTEN, stand_in=_prompt_writer(), fewest=lambda prompt: Reply("")))

    def _searched(self, candidates: Sequence[TaskPrompt]) -> Flow[PromptSearch]:
        """Every prompt on the whole training side (eq. 1)."""
        rng, counts = self._rng(2), self.counts_of(TRIED)
        draws = [rng.permutation(len(self.train)).tolist() for _ in candidates]
        k = self.settings.demonstrations
        flow = prompt_search(self.wording, candidates, self.train, self.groups, draws, k, counts)
        found = yield from to_scorer(self.wording, flow, TRIED)
        _check_scores(counts)
        return found

    # --- which examples help --------------------------------------------------------------------------------------

    def _pairs(self, tasks: Sequence[TaskPrompt], texts: tuple[str, ...]) -> Flow[Pairs]:
        """Algorithm 1 on the training side; inputs are the examples themselves."""
        about, counts = self.settings, self.counts_of(SETS)
        query, nodes = pair_draws(
            self._rng(3), self.groups, len(tasks), about.demonstrations, about.sets, about.together
        )
        flow = try_pairs(self.wording, self.train, tasks, query, nodes, counts)
        rows, targets = yield from to_scorer(self.wording, flow, SETS)
        _check_scores(counts)
        vectors = yield from vectors_of(texts, about.embedder)
        return Pairs(vectors, texts, query[rows], nodes.take(rows), targets)

    def _contest(self) -> list[str]:
        """The selectors that are tried, chance first; where learning is only priced, whoever picks changes no count."""
        if self._is_priced:
            return [CHANCE]
        return by_cost() if self.settings.selector == AUTO else list(dict.fromkeys((CHANCE, self.settings.selector)))

    def made(self, name: str) -> Selector:
        """A selector with the settings; where learning is only priced, nothing is learned in earnest."""
        towers = dict(self.settings.towers) | ({"epochs": 1} if self._is_priced else {})
        return make_selector(name, self.seed, **towers)

    @property
    def _is_priced(self) -> bool:
        return any(counts.assumed for counts in self.counts.values())

    @cached_property
    def folds(self) -> Indices:
        """(n,) the fold of each training example, by groups."""
        place = fold_of(self.groups, min(INNER_FOLDS, len(set(self.groups))), self.seed)
        return np.array([place[name] for name in self.groups], dtype=np.intp)

    def counts_of(self, stage: str) -> Counts:
        """The counts of a stage."""
        return self.counts.setdefault(stage, Counts())

    def _rng(self, stage: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, stage])


@dataclass(frozen=True)
class ExperimentResult:
    """A way to score in context, and how it was found.

    Attributes:
        experiment: What it was learned from, and with.
        recipe: What is asked for an input.
        search: Results of every prompt on the training side.
        candidates: The prompts that were tried.
        tried: Results of every selector without each fold.
        chosen: The one that is used.
        pairs: What selectors learn from.
    """

    experiment: Experiment
    recipe: Recipe
    search: PromptSearch
    candidates: Sequence[TaskPrompt]
    tried: Sequence[Tried]
    chosen: Tried
    pairs: Pairs

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
            asked.append(without[folds[place]].requests(example.sample, query, of_group[groups[place]]))
        return (yield from ask_ensembles(recipe.wording, asked, self.experiment.counts_of(TRAIN_SIDE), TRAIN_SIDE))

    @property
    def by_hand(self) -> TaskPrompt:
        """The best prompt by hand."""
        found = (task for task in self.search.prompts if task.by.startswith(BY_HAND))
        return next(found, TaskPrompt(self.recipe.wording.by_hand()))

    def findings(self, counts: Mapping[str, Counts], left_out: Mapping[str, int], tested: int = 0) -> InContextFindings:
        """Findings of learning and of `tested` held-out examples."""
        recipe, search, whole = self.recipe, self.search, Counts.total(counts.values())
        kept = {task.hash for task in recipe.tasks}
        return InContextFindings(
            dimension=recipe.wording.question.id,
            level=recipe.wording.level,
            trained=len(recipe.examples),
            tested=tested,
            left_out=dict(left_out),
            kept=len(kept),
            prompts=tuple(
                PromptFigures(task.hash, task.by, task.error or 0.0, task.examples, task.text, task.hash in kept, lost)
                for task, lost in zip(search.prompts, search.unreadable, strict=True)
            ),
            pairs=len(self.pairs),
            selectors=tuple(
                selector_figures(self.tried, self.chosen.name, self.experiment.groups, self.experiment.seed)
            ),
            selector=recipe.selector.name,
            asked=whole.asked,
            failures=dict(whole.failures),
            again=whole.again,
            recipe=recipe.hash,
            cautions=tuple(cautions(recipe, counts, left_out)),
        )


# --- systems to compare it with -------------------------------------------------------------------------------------

Choose = Callable[[Sample, Query, Collection[int]], Sequence[Asked]]
"""A system's requests about an input, without the examples at the given places; the score is their mean."""

rivals: Registry[Callable[[ExperimentResult], Choose | None]] = Registry("rival")
"""Systems to compare with on the held-out side, by name; `None` from one that needs what was not learned."""

ZERO_SHOT, FEW_SHOT = "by hand, no examples", "by hand, random examples"


@rivals.register(ZERO_SHOT)
def _zero_shot(result: ExperimentResult) -> Choose:
    """The best prompt by hand, without examples."""
    return lambda sample, query, left_out: [Asked((), result.by_hand.text, sample)]


@rivals.register(FEW_SHOT)
def _few_shot(result: ExperimentResult) -> Choose:
    """The best prompt by hand, with random examples."""
    return at_random(result.recipe, [result.by_hand])


def at_random(recipe: Recipe, tasks: Sequence[TaskPrompt]) -> Choose:
    """Each prompt with random demonstrations, drawn by the seed and the input: the same ones whatever the prompt."""

    def choose(sample: Sample, query: Query, left_out: Collection[int]) -> list[Asked]:
        digest = int.from_bytes(str(sample.target).encode()[-8:], "big")
        order = np.random.default_rng([recipe.sizes.seed, digest]).permutation(len(recipe.examples)).tolist()
        shown = [place for place in order if place not in set(left_out)][: recipe.sizes.k]
        return [Asked(tuple(recipe.examples[place] for place in shown), task.text, sample) for task in tasks]

    return choose


# --- refusals -------------------------------------------------------------------------------------------------------


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
    """Refuse to go on where a model gave no score at all."""
    if counts.asked and counts.failed == counts.asked:
        reason, count = counts.failures.most_common(1)[0]
        advice = "Run the command again once the endpoint answers" if reason not in UNREADABLE else (
            "Another model may do better, or another way to read it: models: {scorer: {mode: logprobs}}"
        )  # fmt: skip
        raise BadInput(
            f"none of {counts.asked} requests gave a score: {reason} ({count}); for example: "
            f"{counts.example[reason].rstrip('.')}. {advice}"
        )


def _prompt_writer() -> Callable[[Prompt], Reply]:
    """A stand-in for the writer: prompts of the expected length, each another one."""
    numbers = iter(range(1_000_000))
    return lambda prompt: Reply(f"Prompt number {next(numbers)}. " + " ".join(["Say how good it is."] * 20))
