"""Judging overnight: fetch what batches have brought, judge with it, and hand in what is still to be asked."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import Any

from accord.config import Config
from accord.errors import BadInput
from accord.llm.batching import AGAIN, Batch, Batched, BatchEndpoint, batch_files
from accord.llm.budget import Budget
from accord.llm.likelihood import LikelihoodModel
from accord.llm.model import Prompt, estimated_usage
from accord.llm.stack import open_batched
from accord.llm.waiting import wait
from accord.pipeline.collecting import judge_stored
from accord.pipeline.models import Models
from accord.rubric import Rubric
from accord.store import Store

COMMAND = "batch"


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
        raise BadInput("batches need a judge; name one in accord.yaml: judge: {way: logprobs, model: NAME}")
    about = config.judge
    judge, model, endpoint = open_batched(
        about.way, config.judge.model, about.base_url, rubric.instructions, store, about.samples, about.timeout
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
        if run["command"] != COMMAND or about["endpoint"] != model.endpoint or about["model"] != model.name:
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
        run = store.start_run(COMMAND, about)
        state = wait(endpoint.submit(lines, mark=run))
        store.change_run(run, {**about, "batch": state.id})
        states.append(state)
    return states
