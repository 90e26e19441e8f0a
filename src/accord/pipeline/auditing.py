"""Auditing the project's judge on what the store holds; the findings are kept as a run, for the report."""

from __future__ import annotations

from itertools import islice
from typing import Any

from accord.config import Config
from accord.conversation import Target
from accord.errors import BudgetReached
from accord.evidence.auditing import Probe, audit, audit_requests, injections, ways_to_ask
from accord.llm.budget import Budget
from accord.llm.model import Judge
from accord.llm.waiting import wait
from accord.pipeline.collecting import context_of, subjects_of
from accord.pipeline.planning import Plan
from accord.rubric import Rubric
from accord.store import Store

COMMAND = "audit"


def probes_of(judge: Judge, rubric: Rubric) -> list[Probe]:
    """Everything that is tried: other ways to ask, and hostile transcripts on the main question."""
    return [*ways_to_ask(judge, rubric), *injections(rubric.main_question)]


def plan_audit(store: Store, rubric: Rubric, judge: Judge, budget: Budget, limit: int) -> Plan:
    """What `audit_stored` would cost with the same arguments."""
    subjects = subjects_of(store, map(Target, islice(store.conversation_ids(), limit)))
    requests = audit_requests(judge, rubric, subjects, probes_of(judge, rubric))
    plan = Plan(subjects=len(subjects))
    plan.add(judge.name, requests)
    plan.price(budget)
    return plan


def audit_stored(
    store: Store, config: Config, rubric: Rubric, judge: Judge, budget: Budget, limit: int
) -> dict[str, Any]:
    """Audit the judge on the store's first conversations; returns the findings as rows.

    Raises:
        BadInput: The store holds no conversation, or the judge is a recording.
        ModelError: No call can succeed.
        BudgetReached: The audit would pass the budget; nothing was asked, since half an audit says nothing.
    """
    _check_budget(plan_audit(store, rubric, judge, budget, limit), budget)
    seed, context = config.seed, None if config.judge is None else context_of(config.judge)
    subjects = subjects_of(store, map(Target, islice(store.conversation_ids(), limit)))
    settings = {"judge": judge.name, "way": judge.way, "rubric": rubric.hash, "limit": limit, "seed": seed}
    with store.run(COMMAND, settings) as run:
        findings = wait(audit(judge, rubric, subjects, probes_of(judge, rubric), seed, context))
        run.results.update(judge=judge.name, way=judge.way, conversations=len(subjects))
        run.results.update(findings=[finding.to_json() for finding in findings])
    return run.results


def _check_budget(plan: Plan, budget: Budget) -> None:
    """Refuse an audit that would not be finished."""
    tokens = plan.input_tokens + plan.output_tokens
    needs: dict[str, tuple[float, float | None]] = {
        "requests": (plan.requests, budget.caps.requests),
        "tokens": (tokens, budget.caps.tokens),
        "money": (plan.money or 0.0, budget.caps.money),
    }
    for what, (amount, cap) in needs.items():
        if cap is not None and amount > cap:
            raise BudgetReached(
                f"the audit needs {amount:g} {what}, the budget is {cap:g}; nothing was asked. --limit less"
            )


def latest_audit(store: Store) -> dict[str, Any] | None:
    """The findings of the last finished audit; nothing where none was made."""
    done = [run for run in store.runs() if run["command"] == COMMAND and run["status"] == "done"]
    return dict(done[-1]["results"]) if done else None
