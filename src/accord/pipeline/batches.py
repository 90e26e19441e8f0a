"""Judging overnight: fetch what batches have brought, judge with it, and hand in what is still to be asked."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import Any

from accord.config import Config
from accord.errors import BadInput
from accord.llm.batching import Batch, Batched, BatchEndpoint, batch_files
from accord.llm.budget import Budget
from accord.llm.model import Prompt, estimated_usage
from accord.llm.stack import open_batched
from accord.llm.waiting import wait
from accord.pipeline.collecting import judge_stored
from accord.pipeline.models import Models
from accord.rubric import Rubric
from accord.store import Store

COMMAND = "batch"


def judge_in_batches(
    store: Store, config: Config, rubric: Rubric, budget: Budget, everything: bool = False, limit: int | None = None
) -> dict[str, Any]:
    """One step of judging by batches; the same call again goes on from there, until nothing is waited for.

    Returns:
        The counts of `judge_stored`, the state of each batch, how many prompts were handed in now, and why requests
        failed; those that failed are handed in again by the next call.

    Raises:
        BadInput: The project's judge cannot be asked in batches.
        CallFailed: The provider did not answer; what was fetched before is kept.
        ModelError: No call can succeed.
        BudgetReached: What is still to be asked would pass the budget; nothing was handed in.
    """
    if config.judge is None or not config.judge.model:
        raise BadInput(
            "batches need a judge with a model; name one in accord.yaml: judge: {way: logprobs, model: NAME}"
        )
    about = config.judge
    judge, model, endpoint = open_batched(
        about.way, config.judge.model, about.base_url, rubric.instructions, store, about.samples
    )
    try:
        states, waited_for, lost = _fetched(store, model, endpoint)
        counts = judge_stored(store, config, rubric, Models(judge), everything, limit)
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
        if run["command"] != COMMAND or run["status"] != "running" or about["endpoint"] != model.endpoint:
            continue
        state = wait(endpoint.look(about["batch"]))
        states.append(state)
        if state.is_running:
            waited_for.update(about["keys"])
            continue
        replies, failed = wait(endpoint.results(state))
        wanted = set(about["keys"])
        for key, reply in replies.items():
            if key in wanted:  # a line under another key answers nothing that was asked here
                store.add_reply(key, model.name, json.dumps(asdict(reply)))
        lost.update(failed.values())
        silent = len(wanted - replies.keys() - failed.keys())
        lost.update({state.status: silent} if silent else {})
        store.finish_run(run["id"], "done", state.to_json())
    return states, waited_for, lost


def _handed_in(
    store: Store, model: Batched, endpoint: BatchEndpoint, pending: dict[str, Prompt], budget: Budget
) -> list[Batch]:
    """Hand in prompts, within the budget; a batch is noted before anything else can go wrong."""
    for prompt in pending.values():
        budget.reserve(model.name, estimated_usage(prompt))
    states = []
    for keys, lines in batch_files(pending, model.name):
        state = wait(endpoint.submit(lines))
        store.start_run(COMMAND, {"batch": state.id, "endpoint": model.endpoint, "model": model.name, "keys": keys})
        states.append(state)
    return states
