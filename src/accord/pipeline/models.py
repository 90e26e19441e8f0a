"""The models a project names, opened: its judge, the model whose likelihoods it wants, and what they may spend."""

from __future__ import annotations

from dataclasses import dataclass

from accord.config import Config, JudgeConfig, LikelihoodConfig
from accord.errors import BadInput
from accord.llm.budget import Budget, Caps, load_prices
from accord.llm.likelihood import LikelihoodModel
from accord.llm.model import ChatModel, Judge
from accord.llm.recorded import RecordedJudge
from accord.llm.waiting import wait
from accord.pipeline.in_context_models import InContextModels, make_in_context
from accord.rubric import Rubric
from accord.store import Store
from accord.taxonomy import load_taxonomy


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
    if config.way == "recorded":
        if not config.paths:
            raise BadInput("a recorded judge needs the paths of its judgements: judge: {way: recorded, paths: [...]}")
        return RecordedJudge.read(config.paths, config.model)
    from accord.llm.stack import Terms, open_judge

    if not config.model:
        raise BadInput(f"a judge by {config.way} needs a model: judge: {{way: {config.way}, model: NAME}}")
    terms = Terms(config.at_once, config.attempts, config.timeout, budget or Budget(Caps(), {}))
    return open_judge(config.way, config.model, config.base_url, rubric.instructions, terms, config.samples)


def make_issue_judge(config: Config, budget: Budget | None = None) -> Judge | None:
    """The project's judge, told to look for issues; `None` where it is not the one that finds them.

    Raises:
        BadInput: The project names no judge, or a taxonomy that cannot be read.
        ModelError: There is no key for its endpoint.
    """
    if config.issues is None or config.issues.by != "judge":
        return None
    if config.judge is None:
        raise BadInput("issues: {by: judge} needs a judge; name one: judge: {way: decisions, model: NAME}")
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
    from accord.llm.stack import Terms, open_uncached

    terms = Terms(about.at_once, about.attempts, about.timeout, budget or Budget(Caps(), {}))
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
                "judge: {way: decisions, model: NAME}"
            )
        self._judge, self._writer, self._budget = config.judge, config.writer, budget
        self._judges: dict[str, Judge] = {}
        self.writer: ChatModel | None = None
        if config.writer is not None and writes:
            from accord.llm.stack import Terms, open_chat

            about = config.writer
            terms = Terms(about.at_once, about.attempts, about.timeout, budget)
            self.writer = open_chat(about.model, about.base_url, store, terms)

    @property
    def endpoint(self) -> str:
        """Where the writer answers, as its kept replies are keyed; empty without one."""
        from accord.llm.stack import endpoint_of

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
    from accord.llm.stack import Terms, open_likelihood

    return open_likelihood(config.model, config.base_url, Terms(budget=budget or Budget(Caps(), {})))
