"""Auditing the project's judge on what the store holds; the findings are kept as a run, for the report."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from itertools import islice
from typing import Any

from accord.config import Config
from accord.models import (
    AGAIN,
    Batch,
    Batched,
    BatchEndpoint,
    Budget,
    Judge,
    LikelihoodModel,
    Prompt,
    batch_files,
    estimated_usage,
    open_batched,
    wait,
)
from accord.pipeline.collecting import context_of, judge_stored, samples_of
from accord.pipeline.models import Models
from accord.pipeline.planning import Plan
from accord.store import Store
from accord.validation import Probe, audit, audit_requests, injections, ways_to_ask
from accord.values import BadInput, BudgetReached, Rubric, Target

AUDIT = "audit"


def probes_of(judge: Judge, rubric: Rubric) -> list[Probe]:
    """Everything that is tried: other ways to ask, and hostile transcripts on the main question."""
    return [*ways_to_ask(judge, rubric), *injections(rubric.main_question)]


def plan_audit(store: Store, rubric: Rubric, judge: Judge, budget: Budget, limit: int) -> Plan:
    """What `audit_stored` would cost with the same arguments."""
    samples = samples_of(store, map(Target, islice(store.conversation_ids(), limit)))
    requests = audit_requests(judge, rubric, samples, probes_of(judge, rubric))
    plan = Plan(samples=len(samples))
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
    samples = samples_of(store, map(Target, islice(store.conversation_ids(), limit)))
    settings = {"judge": judge.name, "mode": judge.mode, "rubric": rubric.hash, "limit": limit, "seed": seed}
    with store.run(AUDIT, settings) as run:
        findings = wait(audit(judge, rubric, samples, probes_of(judge, rubric), seed, context))
        run.results.update(judge=judge.name, mode=judge.mode, conversations=len(samples))
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
    done = [run for run in store.runs() if run["command"] == AUDIT and run["status"] == "done"]
    return dict(done[-1]["results"]) if done else None


BATCHES = "batch"


def judge_in_batches(
    store: Store,
    config: Config,
    rubric: Rubric,
    budget: Budget,
    likelihood: LikelihoodModel | None = None,
    everything: bool = False,
    limit: int | None = None,
) -> dict[str, Any]:
    """One step of judging by batches; the same call again goes on from there, until nothing is waited for.

    A likelihood model has no batches: it is asked at once.

    Returns:
        The counts of `judge_stored`, the state of each batch, how many prompts were handed in now, and why requests
        failed. Those that may succeed another time are handed in again; the others stay unanswered with their reason.

    Raises:
        BadInput: The project's judge cannot be asked in batches, or the provider refused a batch as a whole.
        CallFailed: The provider did not answer; what was fetched before is kept.
        ModelError: No call can succeed.
        BudgetReached: What is still to be asked would pass the budget; nothing was handed in.
    """
    if config.judge is None or not config.judge.model:
        raise BadInput("batches need a judge; name one in accord.yaml: judge: {mode: logprobs, model: NAME}")
    about = config.judge
    judge, model, endpoint = open_batched(
        about.mode, config.judge.model, about.base_url, rubric.instructions, store, about.samples, about.timeout
    )
    try:
        states, waited_for, lost = _fetched(store, model, endpoint)
        counts = judge_stored(store, config, rubric, Models(judge, likelihood), everything, limit)
        fresh = {key: prompt for key, prompt in model.pending.items() if key not in waited_for}
        states += _handed_in(store, model, endpoint, fresh, budget)
        return {**counts, "handed_in": len(fresh), "lost": dict(lost), "batches": [state.to_json() for state in states]}
    finally:
        wait(judge.close())


def _fetched(store: Store, model: Batched, endpoint: BatchEndpoint) -> tuple[list[Batch], set[str], Counter[str]]:
    """Bring in what finished batches hold: the states, the keys that are still waited for, the reasons of losses."""
    states: list[Batch] = []
    waited_for: set[str] = set()
    lost: Counter[str] = Counter()
    for run in store.runs():
        about = run["settings"]
        if run["command"] != BATCHES or about["endpoint"] != model.endpoint or about["model"] != model.name:
            continue
        if run["status"] != "running":
            model.failed |= (run["results"] or {}).get("for_good", {})
            continue
        found = wait(endpoint.look(about["batch"]) if about["batch"] else endpoint.marked(run["id"]))
        if found is None:  # it never came to the provider
            store.finish_run(run["id"], "failed", {})
            continue
        state = found
        store.change_run(run["id"], {**about, "batch": state.id})
        states.append(state)
        if state.is_running:
            waited_for.update(about["keys"])
            continue
        lost.update(_finished(store, model, endpoint, run, state))
        if state.status == "failed":
            raise BadInput(f"the provider refused {state.id}: {state.says or 'it says no reason'}")
    return states, waited_for, lost


def _finished(store: Store, model: Batched, endpoint: BatchEndpoint, run: dict[str, Any], state: Batch) -> Counter[str]:
    """Keep a finished batch's replies, and note its losses; returns their reasons."""
    replies, failed = wait(endpoint.results(state))
    wanted = set(run["settings"]["keys"])
    for key, reply in replies.items():
        if key in wanted:  # a line under another key answers nothing that was asked here
            store.add_reply(key, model.name, json.dumps(asdict(reply)))
    for_good = {key: reason for key, reason in failed.items() if key in wanted and not AGAIN.fullmatch(reason)}
    model.failed |= for_good
    store.finish_run(run["id"], "done", {**state.to_json(), "for_good": for_good})
    silent = len(wanted - replies.keys() - failed.keys())
    return Counter(failed.values()) + Counter({state.status: silent})


def _handed_in(
    store: Store, model: Batched, endpoint: BatchEndpoint, pending: dict[str, Prompt], budget: Budget
) -> list[Batch]:
    """Hand in prompts, within the budget; a batch is noted before it is started, and found by its mark if need be."""
    for prompt in pending.values():
        budget.reserve(model.name, estimated_usage(prompt))
    states = []
    for keys, lines in batch_files(pending, model.name):
        about = {"batch": "", "endpoint": model.endpoint, "model": model.name, "keys": keys}
        run = store.start_run(BATCHES, about)
        state = wait(endpoint.submit(lines, mark=run))
        store.change_run(run, {**about, "batch": state.id})
        states.append(state)
    return states
