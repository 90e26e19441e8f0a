"""What learning a rubric would cost: the run itself, with a writer that counts in place of asking.

Replies that the store holds are used as they are; for the others something of the expected form and length stands in,
so that what follows from them is counted too. What a judge will be asked depends on what will be written: it is an
upper bound.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

from accord.config import Config
from accord.errors import BadInput
from accord.evaluators.learned_rubric.as_rubric import questions_of, rubric_of
from accord.evaluators.learned_rubric.summarising import MOST_A_BATCH
from accord.llm.budget import Budget
from accord.llm.model import Judge, Prompt, Reply
from accord.pipeline.collecting import judging_terms
from accord.pipeline.models import Models
from accord.pipeline.planning import Counting, Plan, plan_asking
from accord.pipeline.rubric_pool import guidance_of, write_pool
from accord.pipeline.rubric_study import ABLATIONS, NO_WRITER, checked_given, tried_on
from accord.rubric import Rubric
from accord.store import Store

REASON = "the {} replies to what the other one has asked before and gives enough of an answer to go on with the task"
ASSERTION = "The assistant gives the {} kind of answer that is asked for."


class _StandIn:
    """Lists of the form and length that a writer is asked for."""

    def __init__(self, reasons: int) -> None:
        self._reasons, self._written = reasons, 0

    def __call__(self, prompt: Prompt) -> Reply:
        """What stands in for a reply."""
        return Reply(self._list(prompt))

    def _list(self, prompt: Prompt) -> str:
        keys = prompt.schema["properties"] if prompt.schema else {"reasons": None}
        if "reasons" in keys:
            return "\n".join(f"- {REASON.format(self._next())}" for _ in range(self._reasons))
        if "assertions" in keys:
            return "\n".join(f"- {ASSERTION.format(self._next())}" for _ in range(MOST_A_BATCH))
        return json.dumps({"repeats": []})

    def _next(self) -> str:
        """A word that was not used before."""
        self._written += 1
        return "".join(chr(ord("a") + int(digit)) for digit in str(self._written))


def plan_rubric(
    store: Store,
    config: Config,
    rubric: Rubric,
    endpoint: str,
    judge_for: Callable[[Rubric], Judge],
    budget: Budget,
    given: Mapping[str, Rubric] | None = None,
    pool: Rubric | None = None,
    tables: bool = False,
) -> Plan:
    """What `learn_rubric` would cost with the same arguments; more only where models have to be asked again.

    Raises:
        BadInput: As `learn_rubric`.
    """
    named = {name: checked_given(name, other, rubric) for name, other in (given or {}).items()}
    writes = tables or pool is None
    if config.writer is None and writes:
        raise BadInput(NO_WRITER)
    sides, plan = tried_on(store, config, rubric, pool, named), Plan()
    subjects = [*(subject for subject, _ in (*sides.train, *sides.test)), *sides.between]
    asked = [*named.values()] + ([] if pool is None else [pool])
    if config.writer is not None and writes:
        told = config.writer.model_copy(update={"deduplicate": "model"})
        guidance, model = guidance_of(told), Counting(told.model, endpoint, store, plan, _StandIn(told.reasons))
        versions = [] if pool is not None else [guidance]
        versions += [replace(guidance, **less) for less in ABLATIONS.values()] if tables else []
        for each in versions:
            written = questions_of(write_pool(model, sides.train, each, told).assertions, main=rubric.main)
            asked.append(rubric_of(written, rubric.main_question, "pool", each.instructions(), ()))
        if tables:
            written = questions_of(
                write_pool(model, sides.train, guidance, told, as_spur=True).assertions, main=rubric.main
            )
            asked.append(rubric_of(written, rubric.main_question, "spur", "", ()))
    for one in asked:
        plan.plus(plan_asking(Models(judge_for(one)), one, subjects, store, budget, judging_terms(config)[1]))
    plan.subjects = len(subjects)
    plan.price(budget)
    return plan
