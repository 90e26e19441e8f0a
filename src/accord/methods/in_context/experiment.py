"""Learning to score in context, stage by stage (ADOROR, sections 4.2 to 4.4), its findings, and its baselines."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import Literal

import numpy as np
from pydantic import Field

from accord.edges import BadInput
from accord.evidence import SourceSettings
from accord.methods.in_context.prompt_assembly import EnsembleSizes, Recipe
from accord.methods.in_context.prompt_inversion import (
    BY_HAND,
    EXAMPLES,
    TaskPrompt,
    distinct,
    invert,
    prompt_search,
)
from accord.methods.in_context.score_parsing import UNREADABLE
from accord.methods.in_context.scoring_requests import (
    Ensemble,
    RequestCounts,
    ScoreRequest,
    ask_ensembles,
    to_scorer,
)
from accord.methods.in_context.selectors import (
    AUTO,
    CHANCE,
    ExampleLibrary,
    Indices,
    Pairs,
    Query,
    Selector,
    SelectorFigures,
    SelectorTrial,
    TowerSettings,
    Vectors,
    by_cost,
    make_selector,
    pair_draws,
    selector_figures,
    simplest,
    try_pairs,
    try_selector,
)
from accord.methods.in_context.template import PromptTemplate, RatedExamples, prompt_text
from accord.models import EMBEDDER, WRITER, EmbeddingText, Failure, Flow, ModelInfo, Prompt, Reply, Request, to_role
from accord.results import Findings, Fold, Section, Table, Text, number
from accord.statistics import INNER_FOLDS, fold_of
from accord.values import Contract, Estimate, Registry, Sample

WRITTEN, TRIED, SETS = "prompts written", "prompts tried", "sets tried"
TRAIN_SIDE, TEST_SIDE = "training side asked", "held-out side asked"
"""Stage names in progress messages and counts."""
ZERO_SHOT, FEW_SHOT = "by hand, no examples", "by hand, random examples"
"""Registered rivals."""
MANY = 0.1
"""Share of failures above which a caution is added."""


@dataclass(frozen=True)
class PromptFigures:
    """A tested task prompt: squared error on [0, 1] (eq. 1), and number of replies without a score."""

    hash: str
    by: str
    error: float
    examples: tuple[str, ...]
    text: str
    kept: bool
    unreadable: int

    def fold(self, is_open: bool) -> Fold:
        """Return its part of the report."""
        unscored = f", {self.unreadable} replies without a score" if self.unreadable else ""
        summary = f"{self.hash}, {self.by}: mean squared error {number(self.error, 4)}{unscored}"
        return Fold(summary, [Text(self.text, "quote")], is_open=is_open)


@dataclass(frozen=True, kw_only=True)
class InContextFindings(Findings):
    """Findings of learning, and of the held-out side if it was asked.

    Attributes:
        level: `turn` or `dialogue`.
        left_out: Excluded samples by reason.
        kept: Number of prompts in use.
        prompts: All tested prompts, best first.
        pairs: Number of observations for the selectors.
        again: Number of failed requests that may succeed later.
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

    def section(self) -> Section:
        """Return training data, selectors, and the prompts in use."""
        lead = (
            f"Learned from {self.trained} rated examples, a few per request, and tested on {self.tested} others. "
            f"{len(self.prompts)} prompts were tested, {self.kept} are used; the selector {self.selector} picks the "
            "examples."
        )
        enough = (
            "Next step: if the first row of the agreement table is no better than the prompt by hand, a prompt by hand "
            "is enough. That table covers conversations outside training and demonstrations."
        )
        edited = f"{self.asked} requests. To test an edited prompts.yaml: sources: {{in-context: {{prompts: FILE}}}}."
        rows: list[list[str | Estimate]] = [[row.selector, row.target, row.gain] for row in self.selectors]
        chosen_rows = frozenset(place for place, row in enumerate(self.selectors) if row.chosen)
        used = [row for row in self.prompts if row.kept]
        return Section(f"Scoring in context: {self.dimension}", lead, [
            Text(enough, "soft"), Text("Selection of examples", "heading"),
            Table(["", "exp(-error) of its picks", "gain over random"], rows, 3, chosen_rows),
            Text("Prompts", "heading"), *(row.fold(place == 0) for place, row in enumerate(used)), Text(edited, "soft"),
        ])  # fmt: skip


def cautions(recipe: Recipe, counts: Mapping[str, RequestCounts], left_out: Mapping[str, int]) -> Sequence[str]:
    """Return sentences to read before the scores are used."""
    sentences = [f"{count} rated examples were excluded: {reason}" for reason, count in left_out.items()]
    whole, written = RequestCounts.total(counts.values()), counts.get(WRITTEN, RequestCounts())
    if written.failed > MANY * written.asked:
        [(reason, count)] = written.failures.most_common(1)
        sentences.append(f"{written.failed} of {written.asked} replies were not a prompt: {reason} ({count})")
    unreadable = whole.unreadable - written.unreadable
    if unreadable > MANY * whole.asked:
        sentences.append(f"{unreadable} of {whole.asked} replies had no score on the scale")
    if whole.dropped:
        sentences.append(f"{whole.dropped} demonstrations did not fit into a request and were dropped")
    if all(task.by.startswith(BY_HAND) for task in recipe.tasks):
        sentences.append("no written prompt has a lower error than the prompts by hand")
    return sentences


class InContextSettings(SourceSettings):
    """Settings of the source `in-context`; the models have the roles `scorer` and `writer`."""

    level: Literal["turn", "dialogue"] | None = Field(
        default=None, description="Score turns or whole conversations; required if both have ratings."
    )
    background: str = Field(default="documents", description="Name of the documents in requests: fact, persona, ...")
    prompts: str | None = Field(default=None, description="YAML file of prompts by hand to test.")
    inversion: str | None = Field(default=None, description="File that replaces the request for a task prompt.")
    private_patterns: list[str] = Field(
        default_factory=list, description="Regular expressions; a matching conversation is never shown."
    )
    private_key: str | None = Field(
        default=None, description="Metadata key; conversations with a true value are never shown."
    )
    demonstrations: int = Field(default=5, ge=1, le=50, description="Rated examples per request (k).")
    candidates: int = Field(default=80, ge=0, le=1000, description="Number of prompts to write (m).")
    top_prompts: int = Field(default=4, ge=1, le=20, description="Number of prompts in use (ℓ).")
    sets: int = Field(default=4, ge=1, le=64, description="Sets of examples observed with each prompt per input (γ).")
    inputs_per_set: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Number of inputs that share an observed set: 1 as published; more save prompt tokens.",
    )
    candidate_sets: int = Field(default=512, ge=1, le=100_000, description="Random sets per prompt to rank (ζ).")
    ensemble: int = Field(default=5, ge=1, le=50, description="Requests per input; the score is their mean.")
    selector: str = Field(
        default=AUTO, description="Selector of examples; `auto` takes the simplest one that is not worse than the best."
    )
    towers: TowerSettings = Field(
        default_factory=TowerSettings, description="Settings of the selectors that learn: width, epochs, ..."
    )
    embedder: str = Field(default="minilm-l6", description="Embedder of examples; not used with `selector: random`.")
    calibrate: bool = Field(
        default=True,
        description="Ask about the training examples too, so that a head can learn from the answers.",
    )
    held_out: float = Field(
        default=0.3, gt=0, le=0.5, description="Share of the examples held out for the agreement table."
    )
    rivals: list[str] = Field(default=[FEW_SHOT], description="Other systems to compare on the held-out examples.")


FEWEST_EXAMPLES = 10
"""Minimum number of rated examples."""


def vectors_of(
    texts: Sequence[str], sources: Sequence[tuple[str, ...]], embedder: str, width: int | None = None
) -> Flow[Vectors]:
    """Return (n, h) vectors of n texts; `width` is h, if known. Nothing is embedded with `width` 0.

    `sources` has the conversations that each text comes from.
    """
    if width == 0:
        return np.zeros((len(texts), 0), dtype=np.float32)
    vectors = yield [
        Request(EMBEDDER, EmbeddingText(embedder, text, width, names))
        for text, names in zip(texts, sources, strict=True)
    ]
    return np.stack(vectors) if vectors else np.zeros((0, 0), dtype=np.float32)


@dataclass
class InContextTraining:
    """Learning to score in context; `learn` sets the attributes after `counts`.

    Attributes:
        groups: (n,) groups of the training examples.
        model: Scorer.
        counts: Request counts by stage.
        candidates: Tested prompts.
        search: Tested prompts with errors, best first, and the number of replies without a score to each.
        pairs: Observations for the selectors.
        tried: Results of every selector without each fold.
        chosen: Selector in use.
        recipe: Requests for an input.
    """

    settings: InContextSettings
    wording: PromptTemplate
    train: RatedExamples
    groups: Sequence[str]
    seed: int
    model: str
    counts: dict[str, RequestCounts] = field(default_factory=lambda: defaultdict(RequestCounts))
    candidates: Sequence[TaskPrompt] = field(init=False)
    search: Sequence[tuple[TaskPrompt, int]] = field(init=False)
    pairs: Pairs = field(init=False)
    tried: Sequence[SelectorTrial] = field(init=False)
    chosen: SelectorTrial = field(init=False)
    recipe: Recipe = field(init=False)

    def learn(self, prompts: Sequence[TaskPrompt], writer: ModelInfo | None, inversion: str | None) -> Flow[Recipe]:
        """Write prompts, test them and sets of examples, and learn which to show for an input.

        Args:
            prompts: Prompts by hand that are tested as well.
            writer: Model that writes prompts; `None` uses prompts by hand only.
            inversion: Text that replaces Accord's request for prompts.
        """
        settings = self.settings
        texts = tuple(prompt_text(example.sample) for example in self.train.all)
        names = {str(example.target): example.sample.conversation.id for example in self.train.all}
        yield from self._vectors(texts[:1], self._sources[:1])  # fails before any paid request
        candidates = [TaskPrompt(self.wording.by_hand()), *prompts]
        if writer is not None:
            candidates += yield from self._written(writer, inversion)
        self.candidates = distinct(candidates)
        self.search = yield from self._searched()
        tasks = [task for task, _ in self.search[: settings.top_prompts]]
        self.pairs = yield from self._observed(tasks, texts)
        shown = [tuple({names[name] for name in task.examples if name in names}) for task in tasks]
        prompt_vectors = yield from self._vectors([task.text for task in tasks], shown)
        library = ExampleLibrary(self.pairs.queries, self.train.unit, texts, prompt_vectors)
        self.tried = [try_selector(name, self.made, library, self.pairs, self.folds) for name in self._contest()]
        self.chosen = simplest(self.tried, self.groups) if settings.selector == AUTO else self.tried[-1]
        sizes = EnsembleSizes(settings.demonstrations, settings.candidate_sets, settings.ensemble, self.seed)
        selector = self.made(self.chosen.name).fit(library, self.pairs)
        self.recipe = Recipe(
            self.wording, self.train.all, tasks, library, selector, sizes, settings.embedder, self.model
        )
        return self.recipe

    # --- prompts --------------------------------------------------------------------------------------------------

    def _written(self, writer: ModelInfo, inversion: str | None) -> Flow[list[TaskPrompt]]:
        rng, counts = self._rng(1), self.counts[WRITTEN]
        draws = [rng.permutation(len(self.train))[:EXAMPLES].tolist() for _ in range(self.settings.candidates)]
        flow = invert(self.wording, writer.name, self.train.all, draws, counts, inversion, writer.context)
        return (yield from to_role(WRITER, flow, WRITTEN, stand_in=_prompt_writer(), fewest=lambda prompt: Reply("")))

    def _searched(self) -> Flow[list[tuple[TaskPrompt, int]]]:
        """Test every prompt on the whole training side (eq. 1)."""
        rng, counts = self._rng(2), self.counts[TRIED]
        draws = [rng.permutation(len(self.train)).tolist() for _ in self.candidates]
        k = self.settings.demonstrations
        flow = prompt_search(self.wording, self.candidates, self.train, self.groups, draws, k, counts)
        search = yield from to_scorer(self.wording, flow, TRIED)
        _check_scores(counts)
        return search

    # --- which examples help --------------------------------------------------------------------------------------

    def _observed(self, tasks: Sequence[TaskPrompt], texts: tuple[str, ...]) -> Flow[Pairs]:
        """Run algorithm 1 on the training side; inputs are the examples themselves."""
        settings, counts = self.settings, self.counts[SETS]
        query, nodes = pair_draws(
            self._rng(3), self.groups, len(tasks), settings.demonstrations, settings.sets, settings.inputs_per_set
        )
        flow = try_pairs(self.wording, self.train, tasks, query, nodes, counts)
        rows, targets = yield from to_scorer(self.wording, flow, SETS)
        _check_scores(counts)
        vectors = yield from self._vectors(texts, self._sources)
        return Pairs(vectors, texts, query[rows], nodes.take(rows), targets)

    def _vectors(self, texts: Sequence[str], sources: Sequence[tuple[str, ...]]) -> Flow[Vectors]:
        """Return (n, h) vectors of texts; h is 0 if no selector or rival compares them. See `vectors_of`."""
        needs_vectors = not {ZERO_SHOT, FEW_SHOT}.issuperset(self.settings.rivals) or any(
            make_selector(name).needs_vectors for name in self._configured
        )
        return (yield from vectors_of(texts, sources, self.settings.embedder, None if needs_vectors else 0))

    @property
    def _sources(self) -> list[tuple[str, ...]]:
        """Conversation of each example."""
        return [(example.sample.conversation.id,) for example in self.train.all]

    @property
    def _configured(self) -> list[str]:
        return by_cost() if self.settings.selector == AUTO else list(dict.fromkeys((CHANCE, self.settings.selector)))

    def _contest(self) -> list[str]:
        """Return the selectors to compare, the random one first; a plan needs that one only."""
        return [CHANCE] if self._is_priced else self._configured

    def made(self, name: str) -> Selector:
        """Return a selector with the settings; a plan trains for one epoch."""
        towers = dict(self.settings.towers) | ({"epochs": 1} if self._is_priced else {})
        return make_selector(name, self.seed, **towers)

    @property
    def _is_priced(self) -> bool:
        return any(counts.assumed for counts in self.counts.values())

    @cached_property
    def folds(self) -> Indices:
        """(n,) fold of each training example, by groups."""
        place = fold_of(self.groups, min(INNER_FOLDS, len(set(self.groups))), self.seed)
        return np.array([place[name] for name in self.groups], dtype=np.intp)

    def _rng(self, stage: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, stage])

    def train_side(self) -> Flow[list[Ensemble | Failure]]:
        """Return ensembles about training examples, from selectors and demonstrations of other groups."""
        recipe, groups = self.recipe, self.groups
        of_group = defaultdict(list)
        for place, name in enumerate(groups):
            of_group[name].append(place)
        without = [replace(recipe, selector=selector) for selector in self.chosen.folds]
        requests = []
        for place, example in enumerate(recipe.examples):
            query = Query(recipe.library.vectors[place], recipe.library.texts[place])
            requests.append(without[self.folds[place]].requests(example.sample, query, of_group[groups[place]]))
        return (yield from ask_ensembles(recipe.wording, requests, self.counts[TRAIN_SIDE], TRAIN_SIDE))

    @property
    def by_hand(self) -> TaskPrompt:
        """Best prompt by hand."""
        by_hand = (task for task, _ in self.search if task.by.startswith(BY_HAND))
        return next(by_hand, TaskPrompt(self.recipe.wording.by_hand()))

    def findings(
        self, counts: Mapping[str, RequestCounts], left_out: Mapping[str, int], tested: int = 0
    ) -> InContextFindings:
        """Return the findings of learning and of `tested` held-out examples."""
        recipe, whole = self.recipe, RequestCounts.total(counts.values())
        used = {task.hash for task in recipe.tasks}
        return InContextFindings(
            dimension=recipe.wording.question.id,
            level=recipe.wording.level,
            trained=len(recipe.examples),
            tested=tested,
            left_out=dict(left_out),
            kept=len(used),
            prompts=tuple(
                PromptFigures(task.hash, task.by, task.error or 0.0, task.examples, task.text, task.hash in used, lost)
                for task, lost in self.search
            ),
            pairs=len(self.pairs),
            selectors=tuple(selector_figures(self.tried, self.chosen.name, self.groups, self.seed)),
            selector=recipe.selector.name,
            asked=whole.asked,
            failures=dict(whole.failures),
            again=whole.again,
            recipe=recipe.hash,
            cautions=tuple(cautions(recipe, counts, left_out)),
        )


# --- systems to compare it with -------------------------------------------------------------------------------------

Choose = Callable[[Sample, Query, Collection[int]], Sequence[ScoreRequest]]
"""Function that returns requests about an input, without the examples at some indices; the score is their mean."""

rivals: Registry[Callable[[InContextTraining], Choose | None]] = Registry(
    "rival", contract=Contract.function(1, "a function of the learned result")
)
"""Systems to compare with on the held-out side, by name; `None` for a system whose learned parts are missing."""


@rivals.register(ZERO_SHOT)
def _zero_shot(result: InContextTraining) -> Choose:
    """Return requests with the best prompt by hand, without examples."""
    return lambda sample, query, left_out: [ScoreRequest((), result.by_hand.text, sample)]


@rivals.register(FEW_SHOT)
def _few_shot(result: InContextTraining) -> Choose:
    """Return requests with the best prompt by hand and random examples."""
    return at_random(result.recipe, [result.by_hand])


def at_random(recipe: Recipe, tasks: Sequence[TaskPrompt]) -> Choose:
    """Return requests with each prompt and random demonstrations, drawn by seed and input, equal for all prompts."""

    def choose(sample: Sample, query: Query, left_out: Collection[int]) -> list[ScoreRequest]:
        digest = int.from_bytes(str(sample.target).encode()[-8:], "big")
        order = np.random.default_rng([recipe.sizes.seed, digest]).permutation(len(recipe.examples)).tolist()
        demonstrations = [place for place in order if place not in set(left_out)][: recipe.sizes.k]
        return [
            ScoreRequest(tuple(recipe.examples[place] for place in demonstrations), task.text, sample) for task in tasks
        ]

    return choose


# --- refusals -------------------------------------------------------------------------------------------------------


def check_examples(train: RatedExamples, groups: Sequence[str], k: int) -> None:
    """Check that there are enough examples, of enough contexts and not all with one score; `BadInput` otherwise."""
    count, needed = len(train), max(FEWEST_EXAMPLES, k + 2)
    if count < needed:
        exclusions = ", ".join(f"{number} {reason}" for reason, number in train.left_out.items())
        note = f" ({exclusions}, which are excluded)" if exclusions else ""
        raise BadInput(
            f"{count} rated examples of {train.question.id!r} are left to learn from{note}; {needed} are needed. "
            f"Rate more, or show fewer: in-context: {{demonstrations: {max(1, min(k, count - 2))}}}"
        )
    largest = Counter(groups).most_common(1)[0][1]
    if count - largest < k:
        raise BadInput(
            f"{largest} of {count} examples share a conversation or the turns before the reply, so that only "
            f"{count - largest} others can be shown with one example; {k} are needed. Rate other conversations, or "
            f"show fewer: in-context: {{demonstrations: {max(1, count - largest)}}}"
        )
    if len({example.score for example in train.all}) == 1:
        raise BadInput(
            f"all {count} examples of {train.question.id!r} have the score {train.all[0].score:g}. Rate some better or "
            "worse ones"
        )


def _check_scores(counts: RequestCounts) -> None:
    """Raise an error if a model gave no score at all."""
    if counts.asked and counts.failed == counts.asked:
        reason, count = counts.failures.most_common(1)[0]
        advice = "Run the command again when the endpoint is up" if reason not in UNREADABLE else (
            "Try another model, or another mode: models: {scorer: {mode: logprobs}}"
        )  # fmt: skip
        raise BadInput(
            f"0 of {counts.asked} requests returned a score: {reason} ({count}); for example: "
            f"{counts.example[reason].rstrip('.')}. {advice}"
        )


def _prompt_writer() -> Callable[[Prompt], Reply]:
    """Return a stand-in for the writer: distinct prompts of the expected length."""
    numbers = count()
    return lambda prompt: Reply(f"Prompt number {next(numbers)}. " + " ".join(["Say how good it is."] * 20))
