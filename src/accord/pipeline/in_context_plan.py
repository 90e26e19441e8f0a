"""What learning to score in context would cost: the study itself, with models that count in place of asking.

Replies that the store holds are used as they are; for the others something of the expected form stands in, so that what
follows from them is counted too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import cycle

from accord.config import Config
from accord.evaluators.in_context.examples import Private
from accord.evaluators.in_context.selectors import SELECTORS
from accord.evaluators.in_context.tasks import TaskPrompt
from accord.evaluators.in_context.template import NUMBER
from accord.llm.budget import Budget
from accord.llm.model import ChatModel, Prompt, Reply
from accord.llm.render import answer_labels
from accord.pipeline.in_context_models import InContextModels
from accord.pipeline.in_context_study import learn_in_context
from accord.pipeline.planning import Counting, Plan
from accord.rubric import Question
from accord.store import Store


@dataclass
class _Counted(InContextModels):
    """Models that ask nobody."""

    plan: Plan | None = None

    def scorer(self, question: Question, store: Store) -> ChatModel:
        """Answers from the store, or with scores of the scale in turn."""
        assert self.plan is not None
        labels = cycle(answer_labels(question.scale) if self.about.way != NUMBER else question.scale.options or ("",))
        low = question.scale.numbers[0]

        def stand_in(prompt: Prompt) -> Reply:
            said = str(next(labels)) or f"{low:g}"
            return Reply(said, self.about.model, {said: 1.0})

        return Counting(self.about.model, self.scorer_endpoint(question), store, self.plan, stand_in)

    def writer(self, store: Store) -> ChatModel:
        """Writes prompts of the expected length, each another one."""
        assert self.plan is not None
        numbers = iter(range(10_000))

        def stand_in(prompt: Prompt) -> Reply:
            return Reply(" ".join([f"Prompt number {next(numbers)}.", *["Say how good it is."] * 20]))

        return Counting(self.writer_model, self.writer_endpoint(), store, self.plan, stand_in)


def plan_in_context(
    store: Store,
    config: Config,
    models: InContextModels,
    question: Question,
    prompts: Sequence[TaskPrompt] = (),
    beside: Collection[str] = (),
    private: Private | None = None,
) -> Plan:
    """What `learn_in_context` would cost with the same arguments; more only where models have to be asked again.

    Raises:
        BadInput: As `learn_in_context`.
    """
    plan = Plan()
    # Who picks the sets changes no count: nothing is learned in earnest.
    least = {"towers": {**models.about.towers, "epochs": 1}} if beside else {"selector": SELECTORS[0]}
    counted = _Counted(models.about.model_copy(update=least), models.budget, plan=plan)
    study = learn_in_context(store, config, counted, question, prompts, beside, private, draws=2)
    plan.subjects = len(study.sides.train) + len(study.sides.test)
    plan.questions = sum(tally.asked for tally in study.tallies.values())
    plan.answered = plan.questions - plan.requests
    plan.price(Budget(models.budget.caps, models.budget.prices))
    return plan
