"""The source `in-context` (Pu et al., *ADOROR*, EMNLP 2023): a model scores an input beside a few rated examples.

It learns task prompts and which examples to show for which input; it measures by several diverse requests, whose mean
distribution and spread are the evidence. How people's ratings follow from that is the head's to learn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from accord.edges import BadInput, NotFitted
from accord.evidence import EvidenceTable, Learned, LearnedSource, Note, Settings, State, Training, sources
from accord.methods.in_context.experiment import (
    FEW_SHOT,
    TEST_SIDE,
    Choose,
    Experiment,
    ExperimentResult,
    InContextFindings,
    check_examples,
    rivals,
    vectors_of,
)
from accord.methods.in_context.prompt_assembly import FIT_AGAIN, Recipe, at_level, recipe_from
from accord.methods.in_context.prompt_inversion import TaskPrompt, load_tasks
from accord.methods.in_context.scoring_requests import Asked, Counts, Ensemble, as_evidence, ask_ensembles
from accord.methods.in_context.selectors import AUTO, Query, TowerSettings, make_selector, selectors
from accord.methods.in_context.template import (
    LOGPROBS,
    NUMBER,
    Examples,
    PromptTemplate,
    contexts_of,
    examples_of,
    private_by,
    prompt_text,
)
from accord.models import (
    IN_PROCESS_LOGPROBS,
    SCORER,
    TOP_LOGPROBS,
    WRITER,
    Failure,
    Flow,
    ModelInfo,
    ModelQuery,
    Request,
    in_process,
)
from accord.statistics import Split, fold_of
from accord.values import Sample, Target

IN_CONTEXT = "in-context"
DECIDED = ("decisions", "systemone")
SCORING = (NUMBER, LOGPROBS, *DECIDED)
"""Modes of a scorer."""


class InContextSettings(Settings):
    """Settings of what is shown, asked and tried; the models are the roles `scorer` and `writer`."""

    level: Literal["turn", "dialogue"] | None = Field(
        default=None, description="Score turns or whole conversations; needed where people rated both."
    )
    background: str = Field(
        default="documents", description="Name of a conversation's documents in requests: fact, persona, ..."
    )
    prompts: str | None = Field(default=None, description="YAML file of prompts by hand that enter the contest.")
    inversion: str | None = Field(default=None, description="File that replaces the request for a task prompt.")
    private: list[str] = Field(
        default_factory=list, description="Regular expressions; a conversation that matches one is never shown."
    )
    marked: str | None = Field(default=None, description="Metadata key; conversations that have it are never shown.")
    demonstrations: int = Field(default=5, ge=1, le=50, description="Examples per request (k).")
    candidates: int = Field(default=80, ge=0, le=1000, description="Prompts that the writer writes (m).")
    kept: int = Field(default=4, ge=1, le=20, description="Prompts that are used (ℓ).")
    sets: int = Field(default=4, ge=1, le=64, description="Sets of examples tried with each prompt per input (γ).")
    together: int = Field(
        default=1, ge=1, le=64, description="Inputs that share a tried set; 1 as published, more read less anew."
    )
    ranked: int = Field(default=512, ge=1, le=100_000, description="Random sets per prompt that are ranked (ζ).")
    ensemble: int = Field(default=5, ge=1, le=50, description="Requests per input; the score is their mean.")
    selector: str = Field(
        default=AUTO, description="Selector of examples; `auto` takes the simplest that is not worse than the best."
    )
    towers: TowerSettings = Field(
        default_factory=TowerSettings, description="Settings of the selectors that learn: width, epochs, ..."
    )
    embedder: str = Field(default="minilm-l6", description="Embedder of examples and inputs, as for metrics.")
    calibrate: bool = Field(
        default=True,
        description="Ask about the training examples as well, so that a head can learn from the answers.",
    )
    held_out: float = Field(
        default=0.3, gt=0, le=0.5, description="Share of the examples that is held out for the table."
    )
    rivals: list[str] = Field(
        default=[FEW_SHOT], description="Systems to ask about the held-out examples too, for comparison."
    )


@sources.register(IN_CONTEXT)
class InContext(LearnedSource[Recipe]):
    """Scores by a model that is shown rated examples: several diverse requests per input (ADOROR).

    Attributes:
        held_out_: After `examine`, the evidence of the held-out side.
    """

    settings_type = InContextSettings
    settings: InContextSettings

    def __init__(self, settings: Any, context: Any) -> None:
        super().__init__(settings, context)
        self.held_out_: EvidenceTable | None = None
        self._rivals: Mapping[str, EvidenceTable] = {}
        self._result: ExperimentResult | None = None

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
        return self.learned

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
        for name in selectors.names() if settings.selector == AUTO else [settings.selector]:
            make_selector(name).check()
        for name in settings.rivals:
            rivals.get(name)
        prompts = load_tasks(self.context.folder / settings.prompts) if settings.prompts else []
        inversion = _text_of(self.context.folder / settings.inversion) if settings.inversion else None
        [scorer] = yield [Request(SCORER, ModelQuery(), about=train.question)]
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
        learned = self._with(result.recipe, result.findings(experiment.counts, examples.left_out), result)
        rows = list({**others, **known}.items())
        return Learned(learned, as_evidence(train.question, str(result.recipe.signature), rows))

    def examine(self, test: Training) -> Flow[Self]:
        """Answers about the held-out side: its own, and those of the rivals.

        Raises:
            NotFitted: It has not just learned.
            BudgetReached: The budget is spent; the same call goes on from there.
        """
        result, recipe = self._result, self.learned_
        if result is None or recipe is None:
            raise NotFitted(f"{self.name or IN_CONTEXT} can be tried on a held-out side only right after it learned")
        found = _fitting(self._rated(test, recipe.wording.level), recipe.wording)
        samples = [example.sample for example in found.all]
        queries = yield from self._queries(samples)
        counts = {**result.experiment.counts, TEST_SIDE: Counts()}

        def asked(choose: Choose, signature: str) -> Flow[EvidenceTable]:
            requests = [choose(s, query, recipe.left_out_of(s)) for s, query in zip(samples, queries, strict=True)]
            said = yield from ask_ensembles(recipe.wording, requests, counts[TEST_SIDE], TEST_SIDE)
            rows = list(zip((sample.target for sample in samples), said, strict=True))
            return as_evidence(recipe.wording.question, signature, rows)

        left_out = Counter(result.experiment.train.left_out) + Counter(found.left_out)
        own = yield from asked(recipe.requests, str(recipe.signature))
        others = {}
        for name in self.settings.rivals:
            choose = rivals.get(name)(result)
            if choose is not None:
                others[name] = yield from asked(choose, name)
        examined = self._with(recipe, result.findings(counts, left_out, len(samples)), result)
        examined.held_out_, examined._rivals = own, others
        return examined

    def rivals(self) -> Mapping[str, EvidenceTable]:
        """The answers of the other systems."""
        return self._rivals

    def _with(self, recipe: Recipe, findings: InContextFindings | None, result: ExperimentResult | None) -> Self:
        found = self.having(recipe, findings)
        found._result, found.held_out_, found._rivals = result, None, {}
        return found

    def _rated(self, part: Training, level: str | None = None) -> Examples:
        """The rated examples, whether or not there is room for them."""
        private = private_by(self.settings.private, self.settings.marked)
        return examples_of(part.question, part.samples, part.labels, level or self.settings.level, private)

    def _shown(self, train: Training, scorer: ModelInfo) -> tuple[PromptTemplate, Examples]:
        """The prompt template, and the examples that there is room for."""
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
        [scorer] = yield [Request(SCORER, ModelQuery(), about=recipe.wording.question)]
        _check_scorer(recipe, scorer)
        wanted = {sample.target: sample for sample in at_level(samples, recipe.wording.level)}
        found: dict[Target, Ensemble | Failure | None] = {each: recipe.unasked(s) for each, s in wanted.items()}
        asking = [sample for target, sample in wanted.items() if found[target] is None]
        queries = yield from self._queries(asking)
        asked = [recipe.requests(s, q, recipe.left_out_of(s)) for s, q in zip(asking, queries, strict=True)]
        said = yield from ask_ensembles(recipe.wording, asked, Counts(), "scored in context")
        found |= {sample.target: each for sample, each in zip(asking, said, strict=True)}
        rows = [(target, each) for target, each in found.items() if each is not None]
        notes = {
            sample.target: _note(requests)
            for sample, requests, each in zip(asking, asked, said, strict=True)
            if isinstance(each, Ensemble)
        }
        return replace(as_evidence(recipe.wording.question, str(recipe.signature), rows), notes=notes)

    def _queries(self, samples: Sequence[Sample]) -> Flow[list[Query]]:
        texts = [prompt_text(sample) for sample in samples]
        vectors = yield from vectors_of(texts, self.recipe.embedder, self.recipe.library.vectors.shape[1])
        return [Query(vector, text) for vector, text in zip(vectors, texts, strict=True)]

    # --- what was learned -----------------------------------------------------------------------------------------

    def state(self) -> State:
        """The recipe, with its prompts and demonstrations as files, and how it was found."""
        kept = self.recipe.state()
        return replace(kept, card={**kept.card, "findings": self.describe()})

    def restored(self, state: State) -> Self:
        """This source with what `state` gave.

        Raises:
            BadInput: The state is damaged, or was edited.
        """
        recipe, said = recipe_from(state), state.card.get("findings")
        return self._with(recipe, InContextFindings.from_json(said) if said else None, None)


def _note(requests: Sequence[Asked]) -> Note:
    """Targets of the demonstrations shown, and the hash of the first request's prompt."""
    shown = dict.fromkeys(str(example.target) for one in requests for example in one.demonstrations)
    return Note({"demonstrations": list(shown), "prompt": TaskPrompt(requests[0].task).hash})


def _writer() -> Flow[ModelInfo]:
    """The model that writes prompts."""
    [writer] = yield [Request(WRITER, ModelQuery())]
    if writer.mode in DECIDED:
        raise BadInput(
            "a decisions endpoint writes no prompts; name a chat model that does: models: {writer: {model: NAME}}, or "
            "enter prompts by hand alone: in-context: {prompts: FILE, candidates: 0}"
        )
    return writer  # type: ignore[no-any-return]


def _check_scorer(recipe: Recipe, scorer: ModelInfo) -> None:
    """Refuse another scorer than the one that the prompts were tried with."""
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


def _text_of(path: Path) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"the inversion prompt {path} cannot be read: {error}") from None
