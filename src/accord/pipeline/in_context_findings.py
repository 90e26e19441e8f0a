"""What learning to score in context would cost: the study itself, with models that count in place of asking.

Replies that the store holds are used as they are; for the others something of the expected form stands in, so that what
follows from them is counted too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from accord.config import Config
from accord.methods import NUMBER, SELECTORS, Private, TaskPrompt
from accord.models import Budget, ChatModel, Prompt, Reply, answer_labels
from accord.pipeline.in_context_study import InContextStudy, learn_in_context
from accord.pipeline.models import InContextModels
from accord.pipeline.planning import Counting, Plan
from accord.store import Store
from accord.validation import is_better
from accord.values import Question


@dataclass
class _Counted(InContextModels):
    """Models that ask nobody."""

    plan: Plan | None = None

    def scorer(self, question: Question, store: Store) -> ChatModel:
        """Answers from the store, or with scores of the scale in turn."""
        assert self.plan is not None
        labels = cycle(answer_labels(question.scale) if self.about.mode != NUMBER else question.scale.options or ("",))
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
    plan.samples = len(study.sides.train) + len(study.sides.test)
    plan.questions = sum(counts.asked for counts in study.counts_by_stage.values())
    plan.answered = plan.questions - plan.requests
    plan.price(Budget(models.budget.caps, models.budget.prices))
    return plan


COMMAND = "fit in-context"
SURE = 0.05
MANY = 0.1
"""From this share on, what went wrong is worth a sentence."""


def findings(study: InContextStudy, spent: Mapping[str, Any]) -> dict[str, Any]:
    """Everything a command prints, and what it should be cautious about."""
    sides, recipe = study.sides, study.recipe
    kept = {task.hash for task in recipe.tasks}
    lost = Counter[str]()
    for counts in study.counts_by_stage.values():
        lost.update(counts.failures)
    asked = sum(counts.asked for counts in study.counts_by_stage.values())
    characters = sum(counts.characters for counts in study.counts_by_stage.values())
    return {
        "dimension": sides.question.id,
        "level": sides.wording.level,
        "trained": len(sides.train),
        "tested": len(sides.test),
        "ratings": study.figures.results[0].n + study.figures.results[0].unscored,
        "left_out": dict(sides.left_out),
        "kept": len(kept),
        "prompts": [
            {**task.to_json(), "kept": task.hash in kept, "unreadable": unreadable}
            for task, unreadable in zip(study.prompt_search.prompts, study.prompt_search.unreadable, strict=True)
        ],
        "pairs": study.pairs,
        "selectors": list(study.selectors),
        "selector": recipe.selector.name,
        "rows": [result.to_json() for result in study.figures.results],
        "differences": [difference.to_json() for difference in study.figures.differences],
        "people": None if study.figures.people is None else study.figures.people.to_json(),
        "asked": asked,
        "failures": dict(lost),
        "again": sum(counts.again for counts in study.counts_by_stage.values()),
        "stages": {name: {"asked": t.asked, "failures": dict(t.failures)} for name, t in study.counts_by_stage.items()},
        "prefix_shared": sum(t.repeated for t in study.counts_by_stage.values()) / characters if characters else 0.0,
        "spent": dict(spent),
        "recipe": recipe.hash,
        "evaluator": study.evaluator.describe(),
        "cautions": cautions(study, asked),
    }  # fmt: skip


def cautions(study: InContextStudy, asked: int) -> list[str]:
    """Sentences on what a user should know before scores are trusted."""
    found = [f"{count} rated examples were left out: {reason}" for reason, count in study.sides.left_out.items()]
    written = study.counts_by_stage.get("prompts written")
    if written is not None and sum(written.failures.values()) > MANY * max(written.asked, 1):
        reason, count = written.failures.most_common(1)[0]
        found.append(f"{sum(written.failures.values())} of {written.asked} replies were no prompt: {reason} ({count})")
    unreadable = sum(counts.unreadable for name, counts in study.counts_by_stage.items() if name != "prompts written")
    if unreadable > MANY * max(asked, 1):
        found.append(f"{unreadable} of {asked} replies held no score on the scale")
    dropped = sum(counts.dropped for counts in study.counts_by_stage.values())
    if dropped:
        found.append(f"{dropped} demonstrations did not fit beside an input and were not shown")
    best = [task for task in study.recipe.tasks if task.by.startswith("by hand")]
    if len(best) == len(study.recipe.tasks):
        found.append("no written prompt did better than those by hand")
    worse = [
        d.against for d in study.figures.differences if d.statistic == "rmse" and d.p_holm < 0.05 and not is_better(d)
    ]
    found += [f"{name} does better on new examples, beyond chance" for name in worse]
    return found


def latest_in_context(store: Store) -> dict[str, Any] | None:
    """What the last finished `accord fit in-context` found; `None` where there was none."""
    done = [run for run in store.runs() if run["status"] == "done" and run["command"] == COMMAND]
    return dict(done[-1]["results"]) if done else None
