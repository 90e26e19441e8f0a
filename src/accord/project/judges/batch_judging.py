"""Judge by a provider's batch files: submit requests, and fetch their replies hours later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from accord.edges import AccordError, BadInput, ModelError, ModelSetting
from accord.evidence import Readable
from accord.models import (
    GRACE,
    JUDGE,
    RETRYABLE,
    UNCONFIRMED,
    Batch,
    BatchChat,
    BatchEndpoint,
    CallFailed,
    Prompt,
    RequestLedger,
    batch_files,
    estimated_usage,
    is_unsent,
    may_have_started,
    reply_row,
    usage_row,
    wait,
)
from accord.project.judges.judging import JudgeSelection, judge
from accord.project.results import JudgeRun
from accord.store import Claims, Store, add_paid_rows, utc_now

if TYPE_CHECKING:
    from accord.project.workspace import Workspace

BATCHES = "batch"
"""Command of the runs that submit batches."""


@dataclass(frozen=True, repr=False)
class BatchRun(Readable):
    """One step of judging by batches.

    Attributes:
        judged: Answers so far.
        submitted: Number of requests submitted by this step.
        failed: Failed requests of finished batches, by reason.
        batches: State of every batch.
    """

    judged: JudgeRun
    submitted: int
    failed: Mapping[str, int]
    batches: Sequence[Batch]

    def summary(self) -> dict[str, Any]:
        """Return the counts of answers and of submitted requests."""
        return {**self.judged.summary(), "submitted": self.submitted, "batches": len(self.batches)}

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return the state of each batch."""
        return [state.to_json() for state in self.batches]

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        states = [state.to_json() for state in self.batches]
        counts = {"submitted": self.submitted, "failed_requests": dict(self.failed)}
        return {**self.judged.to_json(), **counts, "batches": states}


def judge_in_batches(project: Workspace, selection: JudgeSelection = JudgeSelection()) -> BatchRun:
    """Fetch the results of finished batches and submit new requests; call again until no batch is pending.

    A likelihood model has no batches and is asked immediately. Requests that may succeed later are submitted again;
    others stay unanswered with their reason.

    Raises:
        BadInput: The project's judge has no batch mode, or the provider refused a batch as a whole.
        CallFailed: The provider did not answer; results fetched before are stored.
        ModelError: No request can succeed.
        BudgetReached: The open requests would exceed the budget; none was submitted.
    """
    if JUDGE not in project.config.models:
        setting = ModelSetting(JUDGE, mode="logprobs", model="NAME")
        raise BadInput(f"batches need a judge. {setting}", setting)
    names = [name for name in ("rubric", "likelihood") if name in project.evidence]
    models = project.open_models(asks=True, in_batches=True)
    for role in project.source("rubric").roles:
        models.role(role).judge(project.rubric)
    states: list[Batch] = []
    failed: Counter[str] = Counter()
    pending_keys: set[str] = set()
    for model, endpoint in models.batches:
        fetched, keys, failures = _fetch(project.store, model, endpoint)
        states, pending_keys, failed = [*states, *fetched], pending_keys | keys, failed + failures
    judged = judge(project, names, selection, models=models)
    submitted = 0
    for model, endpoint in models.batches:
        prompts = {key: prompt for key, prompt in model.pending.items() if key not in pending_keys}
        started, count = wait(_submit(project, model, endpoint, prompts))
        states, submitted = [*states, *started], submitted + count
    judged = replace(judged, requests=dict(+project.budget.requests_by_model), spent=project.budget.to_json())
    return BatchRun(judged, submitted, dict(failed), states)


def _fetch(store: Store, model: BatchChat, endpoint: BatchEndpoint) -> tuple[list[Batch], set[str], Counter[str]]:
    """Fetch the results of finished batches: returns the states, the pending keys, and failed requests by reason."""
    states: list[Batch] = []
    pending_keys: set[str] = set()
    failed: Counter[str] = Counter()
    runs = _batch_runs(store, model)
    listed = wait(endpoint.marked({record["id"] for record in runs if _is_unanswered(store, record)}))
    for record in runs:
        settings, batch = record["settings"], listed.get(record["id"])
        if not _is_open(record) and batch is None:
            model.failed |= (record["results"] or {}).get("for_good", {})
            continue
        if not settings["batch"] and batch is None:
            if (unlisted := _unlisted(store, record)) is not None:
                pending_keys.update(settings["keys"])
                states += unlisted
            continue
        state = batch or wait(endpoint.look(settings["batch"]))
        store.change_run(record["id"], {**settings, "batch": state.id})
        failures = None
        if not state.is_running:
            state, failures = _store_results(store, model, endpoint, record, state)
        states.append(state)
        if failures is None:
            pending_keys.update(settings["keys"])
            continue
        failed.update(failures)
        if state.status == "failed":
            raise BadInput(f"the provider refused {state.id}: {state.says or 'without a reason'}")
    return states, pending_keys, failed


def _is_open(run: Mapping[str, Any]) -> bool:
    """Return True until the results of a batch are fetched; a batch that was given up reopens once it is listed."""
    return run["status"] == "running" or (run["status"] == "failed" and bool(run["settings"]["batch"]))


def _is_unanswered(store: Store, run: Mapping[str, Any]) -> bool:
    """Return True for a batch that may have started although its submission got no answer, and has no replies yet."""
    settings = run["settings"]
    if settings["batch"] or not _submitted(run) or (run["results"] or {}).get("reason"):
        return False
    return run["status"] == "running" or len(store.replies(settings["keys"])) < len(settings["keys"])


def _submitted(run: Mapping[str, Any]) -> str:
    """Return the time at which a batch was submitted; empty if its file was only being uploaded."""
    return str(run["settings"].get("submitted", run["started"]))


def _unlisted(store: Store, run: Mapping[str, Any]) -> list[Batch] | None:
    """Return the states to show while a batch without an id is pending; None once its prompts can be submitted again.

    After a submission without an answer the provider may list the batch minutes later. Its prompts stay claimed for
    `GRACE`; a submission time further ahead than that comes from a wrong clock and counts as long ago.
    """
    keys, submitted = run["settings"]["keys"], _submitted(run)
    if Claims(store).held(keys):  # another process is submitting it
        return []
    if submitted and abs(utc_now() - datetime.fromisoformat(submitted)) <= GRACE:
        until = datetime.fromisoformat(submitted) + GRACE
        says = f"no answer to its submission; submitted again after {until:%Y-%m-%d %H:%M} UTC unless it is listed"
        return [Batch(run["id"], UNCONFIRMED, 0, 0, len(keys), None, None, says)]
    store.finish_run(run["id"], "failed", {} if submitted else {"reason": "never submitted"})
    return None


def _store_results(
    store: Store, model: BatchChat, endpoint: BatchEndpoint, run: dict[str, Any], state: Batch
) -> tuple[Batch, Counter[str] | None]:
    """Store the replies of a finished batch; returns its state, and its failed requests by reason.

    If a result file cannot be read and replies are missing, the run stays open: the state gives the cause, and None
    stands for the reasons.
    """
    keys = set(run["settings"]["keys"])
    results = wait(endpoint.results(state, keys))
    sources = _sources(run["settings"])
    rows = [reply_row(key, model.name, reply, sources.get(key)) for key, reply in results.replies.items()]
    rows += [
        usage_row("judge", model.name, [row], [results.replies[row["key"]].usage])
        for row in rows
        if results.replies[row["key"]].usage.total
    ]
    add_paid_rows(store, rows)
    if results.unreadable and state.status != "failed" and len(store.replies(keys)) < len(keys):
        hint = "the same command downloads it again; `accord judge` without --batch sends its prompts again instead"
        return replace(state, says=f"{results.unreadable}; {hint}"), None
    for_good = {key: reason for key, reason in results.failed.items() if not RETRYABLE.fullmatch(reason)}
    model.failed |= for_good
    store.finish_run(run["id"], "done", {**state.to_json(), "for_good": for_good})
    silent = len(keys) - len(results.replies) - len(results.failed)
    return state, Counter(results.failed.values()) + Counter({results.no_line: silent})


def _sources(settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the conversations of each key of a batch; a batch of an earlier version names none."""
    sources: dict[str, list[str]] = {}
    for name, keys in settings.get("conversations", {}).items():
        for key in keys:
            sources.setdefault(key, []).append(name)
    return sources


def _batch_runs(store: Store, model: BatchChat) -> list[dict[str, Any]]:
    """Return the runs that submitted batches of a model."""
    runs = [run for run in store.runs() if run["command"] == BATCHES]
    place = (model.endpoint, model.name)
    return [run for run in runs if (run["settings"]["endpoint"], run["settings"]["model"]) == place]


async def _submit(
    project: Workspace, model: BatchChat, endpoint: BatchEndpoint, prompts: Mapping[str, Prompt]
) -> tuple[list[Batch], int]:
    """Submit prompts that no other process submits, within the budget; returns the batches and the number of prompts.

    A batch is recorded as a run before it is started; the run's id is the mark by which `marked` finds it.
    """
    store, budget, states = project.store, project.budget, list[Batch]()
    ledger = RequestLedger(store, store.replies, budget)
    async with ledger.closing(), ledger.claimed(prompts) as claims:
        # Read the runs again after claiming, because the previous holder of the claims may have recorded a batch.
        elsewhere = {key for run in _batch_runs(store, model) if _is_open(run) for key in run["settings"]["keys"]}
        new = {key: prompt for key, prompt in prompts.items() if key in claims.keys.difference(elsewhere)}
        for prompt in new.values():
            await budget.afford(model.name, estimated_usage(prompt))
            budget.reserve(model.name, estimated_usage(prompt))
        for keys, lines in batch_files(new, model.name):
            try:
                states.append(await _start(store, model, endpoint, keys, lines, _named(new, keys)))
            except AccordError as error:
                for prompt in new.values() if is_unsent(error) and not states else ():
                    budget.settle(model.name, estimated_usage(prompt), None)
                raise
    return states, len(new)


def _named(prompts: Mapping[str, Prompt], keys: Sequence[str]) -> dict[str, list[str]]:
    """Return the keys of the prompts about each conversation; erasing a conversation removes its keys from the run."""
    named: dict[str, list[str]] = {}
    for key in keys:
        for name in prompts[key].conversations or ():
            named.setdefault(name, []).append(key)
    return named


async def _start(
    store: Store,
    model: BatchChat,
    endpoint: BatchEndpoint,
    keys: list[str],
    lines: bytes,
    conversations: dict[str, list[str]],
) -> Batch:
    """Upload and start one batch, recorded as a run that stays open while an answer may still be found."""
    settings = {"batch": "", "submitted": "", "endpoint": model.endpoint, "model": model.name, "keys": keys,
                "conversations": conversations}  # fmt: skip
    run = store.start_run(BATCHES, settings)
    try:
        file = await endpoint.upload(lines)
        settings["submitted"] = utc_now().isoformat(timespec="seconds")
        store.change_run(run, settings)
        state = await endpoint.start(file, mark=run)
    except (CallFailed, ModelError) as error:
        if not (settings["submitted"] and isinstance(error, CallFailed) and may_have_started(error)):
            store.finish_run(run, "failed", {"reason": str(error)})
            raise
        detail = (
            f"{error.failure.detail}. The batch may have started; the same command looks for it, and submits its "
            f"{len(keys)} prompts again if it is not listed within {GRACE.seconds // 60} minutes"
        )
        raise CallFailed(error.failure.reason, detail) from None
    store.change_run(run, {**settings, "batch": state.id})
    return state
