"""Source `in-context` (Pu et al., *ADOROR*, EMNLP 2023): a model scores an input given a few rated examples.

It learns task prompts and a selector of examples. Measuring sends several diverse requests; the mean distribution and
the spread of their answers are the evidence. A head learns how ratings follow from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from accord.edges import BadInput, NotFitted
from accord.evidence import (
    EvidenceTable,
    LearnedEvidence,
    LearnedSource,
    Note,
    SourceState,
    Training,
    sources,
)
from accord.methods.in_context.experiment import (
    TEST_SIDE,
    Choose,
    InContextFindings,
    InContextSettings,
    InContextTraining,
    check_examples,
    rivals,
    vectors_of,
)
from accord.methods.in_context.prompt_assembly import FIT_AGAIN, Recipe, at_level, recipe_from
from accord.methods.in_context.prompt_inversion import TaskPrompt, load_tasks
from accord.methods.in_context.scoring_requests import Ensemble, RequestCounts, ScoreRequest, as_evidence, ask_ensembles
from accord.methods.in_context.selectors import AUTO, Query, make_selector, selectors
from accord.methods.in_context.template import (
    LOGPROBS,
    NUMBER,
    PromptTemplate,
    RatedExamples,
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


@sources.register(IN_CONTEXT)
class InContext(LearnedSource[Recipe]):
    """Scores by a model that is shown rated examples, with several diverse requests per input (ADOROR).

    Attributes:
        held_out_: After `examine`, evidence of the held-out side.
    """

    settings_type = InContextSettings
    settings: InContextSettings

    def __init__(self, settings: Any, context: Any) -> None:
        super().__init__(settings, context)
        self.held_out_: EvidenceTable | None = None
        self._rivals: Mapping[str, EvidenceTable] = {}
        self._training: InContextTraining | None = None

    @property
    def roles(self) -> tuple[str, ...]:
        """The scorer; learning also asks the writer."""
        return (SCORER,)

    # --- learning -------------------------------------------------------------------------------------------------

    def hold_out(self, train: Training) -> Split:
        """Return a share of the examples' groups to test on, at least one, and all others to learn from.

        Groups whose examples share a context are on one side.
        """
        rated = self._rated(train)
        groups = contexts_of(rated.all, train.group_of)
        order = fold_of(groups, max(len(set(groups)), 1), train.seed)
        held_out = max(1, round(self.settings.held_out * len(order)))
        test = {
            train.group_of(example.target)
            for example, name in zip(rated.all, groups, strict=True)
            if order[name] < held_out
        }
        return Split(frozenset(map(train.group_of, train.targets)) - test, frozenset(test))

    def learn(self, train: Training) -> Flow[LearnedEvidence]:
        """Learn prompts and a selector, with out-of-sample answers about the examples.

        `BadInput` for too few examples, all with one score, no prompt, or no score in any reply.
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
        training = InContextTraining(settings, wording, examples, groups, train.seed, scorer.where)
        recipe = yield from training.learn(prompts, writer, inversion)
        answers: Sequence[Ensemble | Failure] = [Failure("not asked")] * len(examples)
        if settings.calibrate:
            answers = yield from training.train_side()
        known = dict(zip((example.target for example in examples.all), answers, strict=True))
        others = {target: Failure(examples.reasons.get(target, "not rated")) for target in train.targets}
        learned = self._with(recipe, training.findings(training.counts, examples.left_out), training)
        rows = list({**others, **known}.items())
        return LearnedEvidence(learned, as_evidence(train.question, str(recipe.signature), rows))

    def examine(self, test: Training) -> Flow[Self]:
        """Return this source with its own and the baselines' answers about the held-out side.

        `NotFitted` if the source was not learned in this process.
        """
        training, recipe = self._training, self.learned_
        if training is None or recipe is None:
            raise NotFitted(f"source {self.name or IN_CONTEXT!r} can be tested only in the process that fitted it")
        test_examples = _fitting(self._rated(test, recipe.wording.level), recipe.wording)
        samples = [example.sample for example in test_examples.all]
        queries = yield from self._queries(samples)
        counts = {**training.counts, TEST_SIDE: RequestCounts()}

        def asked(choose: Choose, signature: str) -> Flow[EvidenceTable]:
            requests = [choose(s, query, recipe.left_out_of(s)) for s, query in zip(samples, queries, strict=True)]
            answers = yield from ask_ensembles(recipe.wording, requests, counts[TEST_SIDE], TEST_SIDE)
            rows = list(zip((sample.target for sample in samples), answers, strict=True))
            return as_evidence(recipe.wording.question, signature, rows)

        left_out = training.train.left_out + test_examples.left_out
        own_answers = yield from asked(recipe.requests, str(recipe.signature))
        others = {}
        for name in self.settings.rivals:
            choose = rivals.get(name)(training)
            if choose is not None:
                others[name] = yield from asked(choose, name)
        examined = self._with(recipe, training.findings(counts, left_out, len(samples)), training)
        examined.held_out_, examined._rivals = own_answers, others
        return examined

    def rivals(self) -> Mapping[str, EvidenceTable]:
        """Return the answers of the baselines."""
        return self._rivals

    def _with(self, recipe: Recipe, findings: InContextFindings | None, training: InContextTraining | None) -> Self:
        source = self.having(recipe, findings)
        source._training, source.held_out_, source._rivals = training, None, {}
        return source

    def _rated(self, part: Training, level: str | None = None) -> RatedExamples:
        """Return the rated examples, including those that are too long."""
        private = private_by(self.settings.private_patterns, self.settings.private_key)
        return examples_of(part.question, part.samples, part.labels, level or self.settings.level, private)

    def _shown(self, train: Training, scorer: ModelInfo) -> tuple[PromptTemplate, RatedExamples]:
        """Return the prompt template, and the examples that fit."""
        mode = scorer.mode or NUMBER
        if mode not in SCORING:
            raise BadInput(f"unknown mode {mode!r} of the scorer; allowed: {', '.join(SCORING)}")
        rated, settings = self._rated(train), self.settings
        top = IN_PROCESS_LOGPROBS if in_process(scorer.name) else TOP_LOGPROBS
        wording = PromptTemplate(
            train.question, rated.level, mode, settings.background, scorer.context, settings.demonstrations, top
        )
        return wording, _fitting(rated, wording)

    # --- measuring ------------------------------------------------------------------------------------------------

    def measure(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """Return the scorer's answers: for turns, about the last reply of a whole conversation.

        An example that equals the input is not shown. A note lists the targets of the demonstrations, starting with the
        heaviest set, and the prompt of that set. `BadInput` if the prompts were learned with another model or mode.
        """
        recipe = self.learned
        [scorer] = yield [Request(SCORER, ModelQuery(), about=recipe.wording.question)]
        _check_scorer(recipe, scorer)
        by_target = {sample.target: sample for sample in at_level(samples, recipe.wording.level)}
        answers: dict[Target, Ensemble | Failure | None] = {
            each: recipe.unasked(sample) for each, sample in by_target.items()
        }
        to_ask = [sample for target, sample in by_target.items() if answers[target] is None]
        queries = yield from self._queries(to_ask)
        requests = [
            recipe.requests(sample, query, recipe.left_out_of(sample))
            for sample, query in zip(to_ask, queries, strict=True)
        ]
        ensembles = yield from ask_ensembles(recipe.wording, requests, RequestCounts(), "scored in context")
        answers |= {sample.target: each for sample, each in zip(to_ask, ensembles, strict=True)}
        rows = [(target, each) for target, each in answers.items() if each is not None]
        notes = {
            sample.target: _note(requests)
            for sample, requests, each in zip(to_ask, requests, ensembles, strict=True)
            if isinstance(each, Ensemble)
        }
        return replace(as_evidence(recipe.wording.question, str(recipe.signature), rows), notes=notes)

    def _queries(self, samples: Sequence[Sample]) -> Flow[list[Query]]:
        texts = [prompt_text(sample) for sample in samples]
        sources = [(sample.conversation.id,) for sample in samples]
        width = self.learned.library.vectors.shape[1]
        vectors = yield from vectors_of(texts, sources, self.learned.embedder, width)
        return [Query(vector, text) for vector, text in zip(vectors, texts, strict=True)]

    # --- saving -----------------------------------------------------------------------------------------

    def state(self) -> SourceState:
        """Return the recipe, with prompts and demonstrations as files, and the findings."""
        recipe_state = self.learned.state()
        return replace(recipe_state, card={**recipe_state.card, "findings": self.describe()})

    def restored(self, state: SourceState) -> Self:
        """Return this source with a saved state; `BadInput` if it is damaged, or was edited."""
        recipe, findings = recipe_from(state), state.card.get("findings")
        return self._with(recipe, InContextFindings.from_json(findings) if findings else None, None)


def _note(requests: Sequence[ScoreRequest]) -> Note:
    """Return the targets of the demonstrations and the hash of the first request's prompt."""
    targets = dict.fromkeys(str(example.target) for request in requests for example in request.demonstrations)
    return Note({"demonstrations": list(targets), "prompt": TaskPrompt(requests[0].task).hash})


def _writer() -> Flow[ModelInfo]:
    """Return the model that writes prompts."""
    [writer] = yield [Request(WRITER, ModelQuery())]
    if writer.mode in DECIDED:
        raise BadInput(
            "a decisions endpoint cannot write prompts. Use a chat model: models: {writer: {model: NAME}}, or prompts "
            "by hand only: in-context: {prompts: FILE, candidates: 0}"
        )
    return writer  # type: ignore[no-any-return]


def _check_scorer(recipe: Recipe, scorer: ModelInfo) -> None:
    """Raise an error if the scorer is not the one of training."""
    if (scorer.mode or NUMBER) != recipe.wording.mode:
        raise BadInput(
            f"the prompts were learned with mode {recipe.wording.mode}, but the scorer's mode is "
            f"{scorer.mode or NUMBER}; {FIT_AGAIN}"
        )
    if scorer.where != recipe.model:
        raise BadInput(
            f"the prompts were learned with {recipe.model}, but the project uses {scorer.where}; {FIT_AGAIN}"
        )


def _fitting(rated: RatedExamples, wording: PromptTemplate) -> RatedExamples:
    """Return the examples that fit."""
    fitting = [example for example in rated.all if wording.fits(example)]
    too_long = {example.target: "too long to be shown" for example in rated.all if not wording.fits(example)}
    return RatedExamples(rated.question, rated.level, fitting, {**rated.reasons, **too_long})


def _text_of(path: Path) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read the inversion prompt {path}: {error}") from None
