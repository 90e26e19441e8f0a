"""The source `in-context` (Pu et al., *ADOROR*, EMNLP 2023): a model scores an input beside a few rated examples.

It learns task prompts and which examples to show for which input; it measures by several diverse requests, whose mean
distribution and spread are the evidence. How people's ratings follow from that is the head's to learn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Literal, Self

from pydantic import Field

from accord.evidence import EvidenceTable, Learned, Note, Settings, Source, State, Training, sources
from accord.methods.in_context.asking import Asked, Counts, Ensemble, as_evidence, ask_ensembles
from accord.methods.in_context.examples import Examples, contexts_of, examples_of, private_by, prompt_text
from accord.methods.in_context.experiment import (
    TEST_SIDE,
    Experiment,
    ExperimentResult,
    check_examples,
    findings,
    vectors_of,
)
from accord.methods.in_context.inversion import TaskPrompt, load_tasks
from accord.methods.in_context.nodes import Edges, Query
from accord.methods.in_context.recipe import FIT_AGAIN, Recipe, at_level, recipe_from
from accord.methods.in_context.selectors import check_towers
from accord.methods.in_context.systems import FEW_SHOT
from accord.methods.in_context.template import LOGPROBS, NUMBER, PromptTemplate
from accord.models import (
    IN_PROCESS_LOGPROBS,
    SCORER,
    TOP_LOGPROBS,
    WRITER,
    Failure,
    Flow,
    Known,
    Request,
    Who,
    in_process,
)
from accord.statistics import Split, fold_of
from accord.values import BadInput, NotFitted, Sample, Target

IN_CONTEXT = "in-context"
"""The source's own name among the systems that its held-out side is asked about for."""
DECIDED = ("decisions", "systemone")
SCORING = (NUMBER, LOGPROBS, *DECIDED)
"""Modes of a scorer."""


class InContextSettings(Settings):
    """Settings of what is shown, asked and tried; the models are the roles `scorer` and `writer`."""

    level: Literal["turn", "dialogue"] | None = Field(
        default=None, description="What is scored, where people rated both turns and whole conversations."
    )
    background: str = Field(default="documents", description="What a conversation's documents are: fact, persona, ...")
    prompts: str | None = Field(default=None, description="A YAML file of prompts by hand that enter the contest.")
    inversion: str | None = Field(default=None, description="A file that replaces the text which asks for prompts.")
    private: list[str] = Field(
        default_factory=list, description="Regular expressions; conversations that fit one are shown beside no other."
    )
    marked: str | None = Field(default=None, description="The metadata key of conversations that are private too.")
    demonstrations: int = Field(default=5, ge=1, le=50, description="Examples per request (k).")
    candidates: int = Field(default=80, ge=0, le=1000, description="Prompts to be written (m).")
    kept: int = Field(default=4, ge=1, le=20, description="Prompts that stay (ℓ).")
    sets: int = Field(default=4, ge=1, le=64, description="Sets of examples that are tried with each prompt (γ).")
    together: int = Field(
        default=4, ge=1, le=64, description="Inputs before which one set is tried; 1 as in the paper."
    )
    ranked: int = Field(default=512, ge=1, le=100_000, description="Random sets per prompt that are ranked (ζ).")
    ensemble: int = Field(default=5, ge=1, le=50, description="Requests of which a score is the mean.")
    edges: Edges = Field(
        default="sum", description="How far sets differ, summed as in eq. 8, or the mean of the authors' own code."
    )
    selector: str = Field(default="auto", description="Who picks examples; `auto`: the simplest that is not worse.")
    towers: dict[str, Any] = Field(
        default_factory=dict, description="Settings of the selectors that learn: width, epochs, relative, ..."
    )
    embedder: str = Field(default="minilm-l6", description="What places examples and inputs, as for metrics.")
    calibrate: bool = Field(
        default=True,
        description="Ask about the training side too, by selectors that have not learned from it: what a head learns "
        "from. Without it only answers as they are can be used.",
    )
    held_out: float = Field(default=0.3, gt=0, le=0.5, description="The share of examples that the table is made on.")
    tables: bool = Field(
        default=False, description="Ask about the held-out side for every system of table 1, not the baseline alone."
    )


@sources.register(IN_CONTEXT)
class InContext(Source):
    """Scores by a model that is shown rated examples: several diverse requests per input (ADOROR).

    Attributes:
        tables: After `examine`, by system the evidence of the held-out side; the method's own is the first.
    """

    settings_type = InContextSettings
    settings: InContextSettings

    def __init__(self, settings: Any, context: Any) -> None:
        super().__init__(settings, context)
        self.tables: Mapping[str, EvidenceTable] = {}
        self.recipe_: Recipe | None = None
        self.result_: ExperimentResult | None = None
        self.findings_: Mapping[str, Any] = {}

    @property
    def roles(self) -> tuple[str, ...]:
        """The scorer; learning also asks the writer."""
        return (SCORER,)

    @property
    def recipe(self) -> Recipe:
        """The learned prompts, demonstrations and selector.

        Raises:
            NotFitted: Nothing was learned yet.
        """
        if self.recipe_ is None:
            raise NotFitted(f"{self.name or IN_CONTEXT} has no prompts and demonstrations yet: accord fit")
        return self.recipe_

    # --- learning -------------------------------------------------------------------------------------------------

    def hold_out(self, train: Training) -> Split:
        """A share of the examples' groups to try it on, by the seed, one at least; all others to learn from.

        Groups whose examples share a context go to one side.

        Raises:
            BadInput: Turns and whole conversations were rated and no level is named.
        """
        found = self._rated(train)
        groups = contexts_of(found.all, train.group_of)
        place = fold_of(groups, max(len(set(groups)), 1), train.seed)
        out = max(1, round(self.settings.held_out * len(place)))
        test = {
            train.group_of(example.target) for example, name in zip(found.all, groups, strict=True) if place[name] < out
        }
        return Split(frozenset(map(train.group_of, train.targets)) - test, frozenset(test))

    def learn(self, train: Training) -> Flow[Learned]:
        """Prompts, and which examples to show for which input; with answers about the examples as if they were new.

        Raises:
            BadInput: Too few examples, all with one score, no prompt, or a model that gives no score.
            BudgetReached: The budget is spent; the same call goes on from there.
        """
        settings = self.settings
        check_towers(settings.selector, settings.towers)
        prompts: Sequence[TaskPrompt] = load_tasks(settings.prompts) if settings.prompts else ()
        inversion = _text_of(settings.inversion) if settings.inversion else None
        [scorer] = yield [Request(SCORER, Who(), about=train.question)]
        wording, examples = self._shown(train, scorer)
        groups = contexts_of(examples.all, train.group_of)
        check_examples(examples, groups, settings.demonstrations)
        writer = (yield from _writer()) if settings.candidates else None
        experiment = Experiment(settings, wording, examples, groups, train.seed, scorer.where)
        result = yield from experiment.learn(prompts, writer, inversion)
        said: Sequence[Ensemble | Failure] = [Failure("not asked")] * len(examples)
        if settings.calibrate:
            said = yield from result.train_side()
        known = dict(zip((example.target for example in examples.all), said, strict=True))
        others = {target: Failure(examples.reasons.get(target, "not rated")) for target in train.targets}
        learned = copy(self)
        learned.tables, learned.recipe_, learned.result_ = {}, result.recipe, result
        learned.findings_ = findings(result, result.experiment.counts, examples.left_out)
        rows = list({**others, **known}.items())
        return Learned(learned, as_evidence(train.question, str(result.recipe.signature), rows))

    def examine(self, test: Training) -> Flow[Self]:
        """The same with `tables`: its own answers about the held-out side, and those of other systems of table 1.

        Raises:
            NotFitted: It has not just learned.
            BudgetReached: The budget is spent; the same call goes on from there.
        """
        result = self._result()
        names = list(result.systems()) if self.settings.tables else [FEW_SHOT]
        return (yield from self.examine_beside(test, names))

    def examine_beside(self, test: Training, names: Collection[str]) -> Flow[Self]:
        """`examine`, beside some of the other systems (`ExperimentResult.systems`)."""
        result, recipe = self._result(), self.recipe
        found = _fitting(self._rated(test, recipe.wording.level), recipe.wording)
        samples = [example.sample for example in found.all]
        inputs = list(zip(samples, (yield from self._queries(samples)), strict=True))
        asked = {IN_CONTEXT: [recipe.asked(recipe.choose(query, self._out(s)), s) for s, query in inputs]}
        for name, choose in result.systems().items():
            if name in names:
                asked[name] = [choose(sample, query, self._out(sample)) for sample, query in inputs]
        counts = {**result.experiment.counts, TEST_SIDE: Counts()}
        tables = {}
        for name, requests in asked.items():
            said = yield from ask_ensembles(recipe.wording, requests, counts[TEST_SIDE], TEST_SIDE)
            signature = str(recipe.signature) if name == IN_CONTEXT else name
            rows = list(zip((sample.target for sample in samples), said, strict=True))
            tables[name] = as_evidence(recipe.wording.question, signature, rows)
        examined = copy(self)
        examined.tables = tables
        left_out = Counter(result.experiment.train.left_out) + Counter(found.left_out)
        examined.findings_ = findings(result, counts, left_out, len(samples))
        return examined

    def rivals(self) -> Mapping[str, EvidenceTable]:
        """The answers of the other systems."""
        return {name: table for name, table in self.tables.items() if name != IN_CONTEXT}

    def _result(self) -> ExperimentResult:
        if self.result_ is None:
            raise NotFitted(f"{self.name or IN_CONTEXT} can be tried on a held-out side only right after it learned")
        return self.result_

    def _rated(self, part: Training, level: str | None = None) -> Examples:
        """The rated examples, whether or not there is room for them.

        Raises:
            BadInput: Turns and whole conversations were rated and no level is named.
        """
        private = private_by(self.settings.private, self.settings.marked)
        return examples_of(part.question, part.samples, part.labels, level or self.settings.level, private)

    def _shown(self, train: Training, scorer: Known) -> tuple[PromptTemplate, Examples]:
        """The prompt template, and the examples that there is room for.

        Raises:
            BadInput: The scale cannot be asked for in the scorer's mode.
        """
        mode = scorer.mode or NUMBER
        if mode not in SCORING:
            raise BadInput(f"a scorer cannot be asked by {mode}; allowed: {', '.join(SCORING)}")
        found, settings = self._rated(train), self.settings
        top = IN_PROCESS_LOGPROBS if in_process(scorer.name) else TOP_LOGPROBS
        wording = PromptTemplate(
            train.question, found.level, mode, settings.background, scorer.context, settings.demonstrations, top
        )
        return wording, _fitting(found, wording)

    # --- measuring ------------------------------------------------------------------------------------------------

    def measure(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """The scorer's answers: where turns are scored, about the last reply of a whole conversation.

        An example that is the input itself is not shown beside it. A note says which examples were shown, those of
        the heaviest set first, and names the prompt of that set.

        Raises:
            BadInput: The prompts were tried with another model, or in another mode.
            NotFitted: Nothing was learned yet.
        """
        recipe = self.recipe
        [scorer] = yield [Request(SCORER, Who(), about=recipe.wording.question)]
        _check_scorer(recipe, scorer)
        wanted = {sample.target: sample for sample in at_level(samples, recipe.wording.level)}
        found: dict[Target, Ensemble | Failure | None] = {each: recipe.unasked(s) for each, s in wanted.items()}
        asking = [sample for target, sample in wanted.items() if found[target] is None]
        queries = yield from self._queries(asking)
        asked: list[list[Asked]] = []
        notes: dict[Target, Note] = {}
        for sample, query in zip(asking, queries, strict=True):
            nodes = recipe.choose(query, self._out(sample))
            asked.append(recipe.asked(nodes, sample))
            shown = dict.fromkeys(str(example.target) for one in asked[-1] for example in one.demonstrations)
            prompt = recipe.tasks[int(nodes.prompt[0])].hash
            notes[sample.target] = Note({"demonstrations": list(shown), "prompt": prompt})
        said = yield from ask_ensembles(recipe.wording, asked, Counts(), "scored in context")
        found |= {sample.target: each for sample, each in zip(asking, said, strict=True)}
        rows = [(target, each) for target, each in found.items() if each is not None]
        kept = {target: notes[target] for target, each in rows if isinstance(each, Ensemble)}
        return replace(as_evidence(recipe.wording.question, str(recipe.signature), rows), notes=kept)

    def _queries(self, samples: Sequence[Sample]) -> Flow[list[Query]]:
        """Inputs as a selector sees them."""
        texts = [prompt_text(sample) for sample in samples]
        vectors = yield from vectors_of(texts, self.recipe.embedder)
        return [Query(vector, text) for vector, text in zip(vectors, texts, strict=True)]

    def _out(self, sample: Sample) -> list[int]:
        """The examples that are not shown beside an input: the input itself."""
        return self.recipe.left_out_of(sample)

    # --- what was learned -----------------------------------------------------------------------------------------

    def describe(self) -> Mapping[str, Any]:
        """Results of every prompt and selector, counts of requests, and cautions."""
        return self.findings_

    def state(self) -> State:
        """The recipe, with its prompts and demonstrations as files, and how it was found."""
        kept = self.recipe.state()
        return replace(kept, card={**kept.card, "findings": dict(self.findings_)})

    def restored(self, state: State) -> Self:
        """This source with what `state` gave.

        Raises:
            BadInput: The state is damaged, or was edited.
        """
        found = copy(self)
        found.recipe_, found.result_, found.tables = recipe_from(state), None, {}
        found.findings_ = state.card.get("findings", {})
        return found


def _writer() -> Flow[Known]:
    """The model that writes prompts.

    Raises:
        BadInput: A decisions endpoint would.
    """
    [writer] = yield [Request(WRITER, Who())]
    if writer.mode in DECIDED:
        raise BadInput(
            "a decisions endpoint writes no prompts; name a chat model that does: models: {writer: {model: NAME}}, or "
            "enter prompts by hand alone: in-context: {prompts: FILE, candidates: 0}"
        )
    return writer  # type: ignore[no-any-return]


def _check_scorer(recipe: Recipe, scorer: Known) -> None:
    """Refuse another scorer than the one that the prompts were tried with.

    Raises:
        BadInput: Says which one that was.
    """
    if (scorer.mode or NUMBER) != recipe.wording.mode:
        raise BadInput(
            f"the prompts were tried by way of {recipe.wording.mode}, models: scorer: mode is "
            f"{scorer.mode or NUMBER}; {FIT_AGAIN}"
        )
    if scorer.where != recipe.model:
        raise BadInput(
            f"the prompts were tried with {recipe.model}, the project names {scorer.where}: what helps one model may "
            f"mislead another; {FIT_AGAIN}"
        )


def _fitting(found: Examples, wording: PromptTemplate) -> Examples:
    """The examples that there is room for."""
    kept = [example for example in found.all if wording.fits(example)]
    shown = {example.target for example in kept}
    long = {each.target: "too long to be shown" for each in found.all if each.target not in shown}
    return Examples(found.question, found.level, kept, {**found.reasons, **long})


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"the inversion prompt {path} cannot be read: {error}") from None
