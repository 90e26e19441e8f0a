"""The models a project names, opened: its judge, the model whose likelihoods it wants, and what they may spend."""

from __future__ import annotations

from dataclasses import dataclass

from accord.config import Config, JudgeConfig, LikelihoodConfig
from accord.errors import BadInput
from accord.llm.budget import Budget, Caps, load_prices
from accord.llm.likelihood import LikelihoodModel
from accord.llm.model import Judge
from accord.llm.recorded import RecordedJudge
from accord.llm.waiting import wait
from accord.rubric import Rubric


@dataclass(frozen=True)
class Models:
    """Whom a run asks for evidence; without either, metrics are all there is."""

    judge: Judge | None = None
    likelihood: LikelihoodModel | None = None

    def close(self) -> None:
        """Let go of connections."""
        for model in (self.judge, self.likelihood):
            if model is not None:
                wait(model.close())


def make_models(config: Config, rubric: Rubric, budget: Budget | None = None) -> Models:
    """The models a project names, asked within one budget.

    Raises:
        BadInput: What a way needs is not named, or an embedded model is not on this machine.
        ModelError: There is no key for an endpoint.
    """
    return Models(
        None if config.judge is None else make_judge(config.judge, rubric, budget),
        None if config.likelihood is None else make_likelihood(config.likelihood, budget),
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


def make_likelihood(config: LikelihoodConfig, budget: Budget | None = None) -> LikelihoodModel:
    """The model whose likelihoods are evidence, asked within a budget.

    Raises:
        BadInput: The embedded model is not on this machine.
        ModelError: There is no key for its endpoint.
    """
    from accord.llm.stack import Terms, open_likelihood

    return open_likelihood(config.model, config.base_url, Terms(budget=budget or Budget(Caps(), {})))
