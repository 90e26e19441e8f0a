"""Who writes prompts and who scores with them, opened when they are first asked; their replies are kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from accord.config import Config, InContextConfig, JudgeConfig, LikelihoodConfig
from accord.models import (
    IN_PROCESS_LOGPROBS,
    TOP_LOGPROBS,
    Budget,
    Caps,
    ChatModel,
    Judge,
    LikelihoodModel,
    RecordedJudge,
    in_process,
    load_prices,
    own_context,
    wait,
)
from accord.store import Store
from accord.values import BadInput, Question, Rubric, load_taxonomy

if TYPE_CHECKING:
    from accord.models import ClientOptions


NO_MODEL = (
    "the project names no model that scores in context; add one to accord.yaml: in_context: {model: NAME}, with "
    "mode: logprobs or decisions where it gives distributions"
)


@dataclass
class InContextModels:
    """The models of in-context scoring, asked within one budget.

    Attributes:
        about: The project's settings.
        budget: What may be spent.
    """

    about: InContextConfig
    budget: Budget
    _open: list[ChatModel] = field(default_factory=list)
    _scorers: dict[str, ChatModel] = field(default_factory=dict)

    @cached_property
    def _terms(self) -> ClientOptions:
        from accord.models import ClientOptions

        return ClientOptions(self.about.at_once, self.about.attempts, self.about.timeout, self.budget)

    @property
    def writer_model(self) -> str:
        """Who writes prompts."""
        return self.about.writer or self.about.model

    @property
    def writer_base_url(self) -> str | None:
        """Where they are asked."""
        return self.about.writer_base_url or self.about.base_url

    @property
    def decides(self) -> bool:
        """Whether the scoring model is a decisions endpoint, which writes no text."""
        return self.about.mode in {"decisions", "systemone"}

    @property
    def context(self) -> int | None:
        """Tokens of one request: as configured, or what a model in this process is known to read."""
        return self.about.context or own_context(self.about.model)

    @property
    def writing_context(self) -> int | None:
        """The same of the writer."""
        return min(filter(None, (own_context(self.writer_model), self.about.context)), default=None)

    @property
    def top(self) -> int:
        """The likeliest tokens that are asked for."""
        return IN_PROCESS_LOGPROBS if in_process(self.about.model) else TOP_LOGPROBS

    def scorer(self, question: Question, store: Store) -> ChatModel:
        """The model that scores a question; replies are kept in the store.

        Raises:
            BadInput: It is not on this machine, or cannot be asked that way.
            ModelError: There is no key for its endpoint.
        """
        from accord.models import open_chat, open_decided

        if question.key not in self._scorers:
            about = self.about
            if self.decides:
                model = open_decided(about.mode, about.model, about.base_url, question, store, self._terms)
            else:
                model = open_chat(about.model, about.base_url, store, self._terms)
            self._scorers[question.key] = model
            self._open.append(model)
        return self._scorers[question.key]

    def writer(self, store: Store) -> ChatModel:
        """The model that writes prompts.

        Raises:
            BadInput: It is not on this machine, or is a decisions endpoint.
            ModelError: There is no key for its endpoint.
        """
        from accord.models import open_chat

        if self.decides and self.about.writer is None:
            raise BadInput(
                "a decisions endpoint writes no prompts; name a chat model that does: in_context: {writer: NAME}, or "
                "enter prompts by hand alone: in_context: {prompts: FILE, candidates: 0}"
            )
        model = open_chat(self.writer_model, self.writer_base_url, store, self._terms)
        self._open.append(model)
        return model

    def scorer_endpoint(self, question: Question) -> str:
        """Where the scoring model answers, as its kept replies are keyed."""
        from accord.models import decided_endpoint_of, endpoint_of

        about = self.about
        if self.decides:
            return decided_endpoint_of(about.mode, about.model, about.base_url, question)
        return endpoint_of(about.model, about.base_url)

    def where(self, scorer: ChatModel, question: Question) -> str:
        """Who scores a question and where: another model, or the same name elsewhere, needs prompts of its own."""
        return f"{scorer.name} {self.scorer_endpoint(question)}"

    def writer_endpoint(self) -> str:
        """Where the writer answers, as its kept replies are keyed."""
        from accord.models import endpoint_of

        return endpoint_of(self.writer_model, self.writer_base_url)

    def close(self) -> None:
        """Let go of connections."""
        for model in self._open:
            wait(model.close())


def make_in_context(config: Config, budget: Budget) -> InContextModels:
    """The models that a project names for in-context scoring; nothing is opened yet.

    Raises:
        BadInput: It names none.
    """
    if config.in_context is None:
        raise BadInput(NO_MODEL)
    return InContextModels(config.in_context, budget)


@dataclass(frozen=True)
class Models:
    """Whom a run asks for evidence; without either, metrics are all there is."""

    judge: Judge | None = None
    likelihood: LikelihoodModel | None = None
    issue_judge: Judge | None = None
    finder: ChatModel | None = None
    in_context: InContextModels | None = None

    def close(self) -> None:
        """Let go of connections."""
        for model in (self.judge, self.likelihood, self.issue_judge, self.finder):
            if model is not None:
                wait(model.close())
        if self.in_context is not None:
            self.in_context.close()


def make_models(config: Config, rubric: Rubric, budget: Budget | None = None) -> Models:
    """The models a project names, asked within one budget.

    Raises:
        BadInput: What a way needs is not named, or an embedded model is not on this machine.
        ModelError: There is no key for an endpoint.
    """
    return Models(
        None if config.judge is None else make_judge(config.judge, rubric, budget),
        None if config.likelihood is None else make_likelihood(config.likelihood, budget),
        make_issue_judge(config, budget),
        make_finder(config, budget),
        None if config.in_context is None else make_in_context(config, budget or Budget(Caps(), {})),
    )


def make_budget(config: Config) -> Budget:
    """The project's budget, with the prices of `prices.yaml` in the working folder.

    Raises:
        BadInput: The price file cannot be read.
    """
    return Budget(Caps(**config.budget.model_dump()), load_prices())


def make_judge(config: JudgeConfig, rubric: Rubric, budget: Budget | None = None) -> Judge:
    """The judge a project names, asked within a budget.

    Raises:
        BadInput: What its way needs is not named.
        ModelError: There is no key for its endpoint.
    """
    if config.mode == "recorded":
        if not config.paths:
            raise BadInput("a recorded judge needs the paths of its judgements: judge: {mode: recorded, paths: [...]}")
        return RecordedJudge.read(config.paths, config.model)
    from accord.models import ClientOptions, open_judge

    if not config.model:
        raise BadInput(f"a judge by {config.mode} needs a model: judge: {{mode: {config.mode}, model: NAME}}")
    terms = ClientOptions(config.at_once, config.attempts, config.timeout, budget or Budget(Caps(), {}))
    return open_judge(config.mode, config.model, config.base_url, rubric.instructions, terms, config.samples)


def make_issue_judge(config: Config, budget: Budget | None = None) -> Judge | None:
    """The project's judge, told to look for issues; `None` where it is not the one that finds them.

    Raises:
        BadInput: The project names no judge, or a taxonomy that cannot be read.
        ModelError: There is no key for its endpoint.
    """
    if config.issues is None or config.issues.by != "judge":
        return None
    if config.judge is None:
        raise BadInput("issues: {by: judge} needs a judge; name one: judge: {mode: decisions, model: NAME}")
    return make_judge(config.judge, load_taxonomy(config.issues.taxonomy).rubric, budget)


def make_finder(config: Config, budget: Budget | None = None) -> ChatModel | None:
    """The chat model that finds issues; `None` where no chat model does.

    Raises:
        BadInput: An embedded model is not on this machine.
        ModelError: There is no key for its endpoint.
    """
    about = config.issues
    if about is None or about.by != "chat" or not about.model:
        return None
    from accord.models import ClientOptions, open_uncached

    terms = ClientOptions(about.at_once, about.attempts, about.timeout, budget or Budget(Caps(), {}))
    return open_uncached(about.model, about.base_url, terms)


class RubricModels:
    """Who writes a rubric, and who answers the rubrics that are tried; opened when they are first needed.

    Judges of different instructions are different judges, within one budget.
    """

    def __init__(self, config: Config, store: Store, budget: Budget, writes: bool = True) -> None:
        """Open the writer, where one is named and something is to be written.

        Raises:
            BadInput: The project names no judge, or a model that is not on this machine.
            ModelError: There is no key for an endpoint.
        """
        if config.judge is None:
            raise BadInput(
                "a rubric is selected by a judge's answers; name one in accord.yaml: "
                "judge: {mode: decisions, model: NAME}"
            )
        self._judge, self._writer, self._budget = config.judge, config.writer, budget
        self._judges: dict[str, Judge] = {}
        self.writer: ChatModel | None = None
        if config.writer is not None and writes:
            from accord.models import ClientOptions, open_chat

            about = config.writer
            terms = ClientOptions(about.at_once, about.attempts, about.timeout, budget)
            self.writer = open_chat(about.model, about.base_url, store, terms)

    @property
    def endpoint(self) -> str:
        """Where the writer answers, as its kept replies are keyed; empty without one."""
        from accord.models import endpoint_of

        return (
            ""
            if self.writer is None or self._writer is None
            else endpoint_of(self._writer.model, self._writer.base_url)
        )

    def judge_for(self, rubric: Rubric) -> Judge:
        """The judge, told a rubric's instructions."""
        told = rubric.instructions
        if told not in self._judges:
            self._judges[told] = make_judge(self._judge, rubric, self._budget)
        return self._judges[told]

    def close(self) -> None:
        """Let go of connections."""
        for model in (self.writer, *self._judges.values()):
            if model is not None:
                wait(model.close())


def make_likelihood(config: LikelihoodConfig, budget: Budget | None = None) -> LikelihoodModel:
    """The model whose likelihoods are evidence, asked within a budget.

    Raises:
        BadInput: The embedded model is not on this machine.
        ModelError: There is no key for its endpoint.
    """
    from accord.models import ClientOptions, open_likelihood

    return open_likelihood(config.model, config.base_url, ClientOptions(budget=budget or Budget(Caps(), {})))
