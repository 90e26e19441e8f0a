"""Asking the sources that need a model about what is rated, or everything; by batch files; and auditing the judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from accord.edges import AccordError, BadInput, BudgetReached, ModelError
from accord.evidence import GatheredEvidence, Readable, Source, measure_all
from accord.methods import has_only_people, largest
from accord.models import (
    GRACE,
    JUDGE,
    RETRYABLE,
    UNCONFIRMED,
    Batch,
    BatchChat,
    BatchEndpoint,
    CallFailed,
    Judge,
    Models,
    Plan,
    Prompt,
    RequestLedger,
    batch_files,
    estimated_usage,
    is_unsent,
    may_have_started,
    plan_range,
    reply_row,
    run,
    wait,
)
from accord.project.results import JudgeRun
from accord.store import Claims, Store, add_paid, batches, utc
from accord.validation import Finding, Probe, audit, audit_requests, injections, ways_to_ask
from accord.values import Conversation, Rubric, Sample, Target

if TYPE_CHECKING:
    from accord.project.project import Project

NOT_PEOPLE = "a speaker that is no person"
DIALOGUES_AT_ONCE = 100
OnStep = Callable[[], None]
OnStop = Callable[[JudgeRun], None]


class Selected(NamedTuple):
    """Which samples are judged, and in which order.

    Attributes:
        everything: All of them, not the rated ones alone.
        limit: At most so many.
        longest: The dialogues with the most turns first.
        people: Without dialogues in which an animal or a thing speaks.
    """

    everything: bool = False
    limit: int | None = None
    longest: bool = False
    people: bool = False


def asking_sources(project: Project, names: Sequence[str] = ()) -> list[Source]:
    """The sources that ask somebody, or those that are named.

    Raises:
        BadInput: There is none.
        UnknownName: No source is called so.
    """
    found = [source for name in names or project.evidence if (source := project.source(name)).roles]
    if not found:
        raise BadInput(
            "no source of the project asks a model; name one in accord.yaml: models: {judge: {mode: logprobs, model: "
            "NAME}}, {likelihood: {model: embedded:smollm2-135m}} or {finder: {model: NAME}}"
        )
    return found


def judge(
    project: Project,
    names: Sequence[str] = (),
    selected: Selected = Selected(),
    on_step: OnStep = lambda: None,
    models: Models | None = None,
    on_stop: OnStop = lambda _: None,
) -> JudgeRun:
    """Ask the sources that need a model; every answer is stored as it arrives, and none is requested twice.

    `on_stop` gets the counts so far before BudgetReached or ModelError is raised.

    Raises:
        BadInput: No source asks a model.
        BudgetReached: The budget is spent; answers so far are stored.
        ModelError: No request can succeed.
    """
    sources, asked = asking_sources(project, names), models or project.models
    came = {source.name: GatheredEvidence() for source in sources}
    passed_over = Counter[str]()
    samples = 0
    rejection: str | None = None

    def counts(stopped: str | None = None) -> JudgeRun:
        return JudgeRun(
            samples,
            {name: each.known for name, each in came.items()},
            sum(each.answered for each in came.values()),
            dict(+project.budget.requests_by_model),
            dict(sum((each.unanswered for each in came.values()), Counter())),
            dict(passed_over),
            {name: each.counts for name, each in came.items() if each.counts is not None},
            project.budget.to_json(),
            stopped,
            rejection,
        )

    with asked.recorded_failures() as failures:
        for batch in _batches(project, selected, passed_over):
            samples += len(batch)
            for place, source in enumerate(sources):
                failures.clear()
                try:
                    came[source.name].plus(run(source.gather(batch), asked, lambda _: on_step()))
                    rejection = rejection or next((e.detail for e in failures.values() if e.reason == "rejected"), None)
                except (BudgetReached, ModelError) as error:
                    for left in sources[place:]:
                        came[left.name].plus(run(left.gather(batch), asked.replayed()))
                        failures.clear()
                    on_stop(counts(str(error)))
                    raise
    return counts()


def _batches(project: Project, selected: Selected, passed_over: Counter[str]) -> Iterator[list[Sample]]:
    """What is judged, some hundreds at a time."""
    if not (selected.longest or selected.people):
        yield from project.wanted(selected.everything, selected.limit)
        return
    store = project.store
    labelled = {target.conversation for target in store.labels().targets}
    found: Iterable[Conversation] = store.conversations(None if selected.everything else labelled)
    if selected.people:
        found = _people(found, passed_over)
    ordered = largest(found) if selected.longest else found
    yield from batches((Sample(each) for each in islice(ordered, selected.limit)), DIALOGUES_AT_ONCE)


def _people(found: Iterable[Conversation], passed_over: Counter[str]) -> Iterator[Conversation]:
    for conversation in found:
        if has_only_people(conversation):
            yield conversation
        else:
            passed_over[NOT_PEOPLE] += 1


def plan_judge(project: Project, names: Sequence[str] = (), selected: Selected = Selected()) -> Plan:
    """Plan `judge` with the same arguments, without asking a model."""
    sources, whole = asking_sources(project, names), Plan()
    samples = 0
    for batch in _batches(project, selected, Counter()):
        samples += len(batch)
        whole.plus(plan_range(partial(measure_all, sources, batch), project.kept))
    whole.samples = samples
    whole.price(project.budget)
    return whole


# --- overnight ------------------------------------------------------------------------------------------------------

BATCHES = "batch"


@dataclass(frozen=True, repr=False)
class BatchRun(Readable):
    """One step of judging by batches: the answers so far, the requests submitted now, the state of every batch."""

    judged: JudgeRun
    handed_in: int
    dropped: Mapping[str, int]
    batches: Sequence[Batch]

    def summary(self) -> dict[str, Any]:
        """Return the counts of answers and of submitted requests."""
        return {**self.judged.summary(), "handed_in": self.handed_in, "batches": len(self.batches)}

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return the state of each batch."""
        return [state.to_json() for state in self.batches]

    def to_json(self) -> dict[str, Any]:
        """Everything."""
        states = [state.to_json() for state in self.batches]
        return {**self.judged.to_json(), "handed_in": self.handed_in, "dropped": dict(self.dropped), "batches": states}


def judge_in_batches(project: Project, selected: Selected = Selected()) -> BatchRun:
    """One step of judging by batches; the same call again goes on from there, until nothing is waited for.

    A likelihood model has no batches: it is asked at once. Requests that may succeed another time are handed in again;
    the others stay unanswered with their reason.

    Raises:
        BadInput: The project's judge cannot be asked in batches, or the provider refused a batch as a whole.
        CallFailed: The provider did not answer; what was fetched before is kept.
        ModelError: No call can succeed.
        BudgetReached: What is still to be asked would pass the budget; nothing was handed in.
    """
    if JUDGE not in project.config.models:
        raise BadInput("batches need a judge; name one in accord.yaml: models: {judge: {mode: logprobs, model: NAME}}")
    names = [name for name in ("rubric", "likelihood") if name in project.evidence]
    models = project.in_batches()
    models.role(JUDGE).judge(project.rubric)
    states: list[Batch] = []
    dropped: Counter[str] = Counter()
    waited: set[str] = set()
    for model, endpoint in models.batches:
        found, waits, losses = _fetched(project.store, model, endpoint)
        states, waited, dropped = [*states, *found], waited | waits, dropped + losses
    done = judge(project, names, selected, models=models)
    handed = 0
    for model, endpoint in models.batches:
        pending = {key: prompt for key, prompt in model.pending.items() if key not in waited}
        new, count = wait(_handed_in(project, model, endpoint, pending))
        states, handed = [*states, *new], handed + count
    done = replace(done, requests=dict(+project.budget.requests_by_model), spent=project.budget.to_json())
    return BatchRun(done, handed, dict(dropped), states)


def _fetched(store: Store, model: BatchChat, endpoint: BatchEndpoint) -> tuple[list[Batch], set[str], Counter[str]]:
    """Fetch the results of finished batches: returns the states, the keys still waited for, and reasons of losses."""
    states: list[Batch] = []
    waited_for: set[str] = set()
    dropped: Counter[str] = Counter()
    noted = _noted(store, model)
    listed = wait(endpoint.marked({each["id"] for each in noted if _is_unanswered(store, each)}))
    for earlier in noted:
        about, found = earlier["settings"], listed.get(earlier["id"])
        if not _is_open(earlier) and found is None:
            model.failed |= (earlier["results"] or {}).get("for_good", {})
            continue
        if not about["batch"] and found is None:
            if (waiting := _unlisted(store, earlier)) is not None:
                waited_for.update(about["keys"])
                states += waiting
            continue
        state = found or wait(endpoint.look(about["batch"]))
        store.change_run(earlier["id"], {**about, "batch": state.id})
        failures = None
        if not state.is_running:
            state, failures = _finished(store, model, endpoint, earlier, state)
        states.append(state)
        if failures is None:
            waited_for.update(about["keys"])
            continue
        dropped.update(failures)
        if state.status == "failed":
            raise BadInput(f"the provider refused {state.id}: {state.says or 'it says no reason'}")
    return states, waited_for, dropped


def _is_open(run: Mapping[str, Any]) -> bool:
    """Return True until the results of a batch are fetched; a batch that was given up reopens once it is listed."""
    return run["status"] == "running" or (run["status"] == "failed" and bool(run["settings"]["batch"]))


def _is_unanswered(store: Store, run: Mapping[str, Any]) -> bool:
    """Return True for a batch that may have been started although no answer came, and whose replies are missing."""
    about = run["settings"]
    if about["batch"] or not _submitted(run) or (run["results"] or {}).get("reason"):
        return False
    return run["status"] == "running" or len(store.replies(about["keys"])) < len(about["keys"])


def _submitted(run: Mapping[str, Any]) -> str:
    """Return the time at which a batch was submitted; empty if its file was only being uploaded."""
    return str(run["settings"].get("submitted", run["started"]))


def _unlisted(store: Store, run: Mapping[str, Any]) -> list[Batch] | None:
    """Return the states to show while a batch without an id has to be waited for; None once its prompts are free.

    After a submission without an answer the provider may list the batch minutes later. Its prompts stay claimed for
    `GRACE`; a submission time further ahead than that comes from a wrong clock and counts as long ago.
    """
    keys, submitted = run["settings"]["keys"], _submitted(run)
    if Claims(store).held(keys):  # another process is submitting it
        return []
    if submitted and abs(utc() - datetime.fromisoformat(submitted)) <= GRACE:
        until = datetime.fromisoformat(submitted) + GRACE
        says = f"no answer to its submission; submitted again after {until:%Y-%m-%d %H:%M} UTC unless it is listed"
        return [Batch(run["id"], UNCONFIRMED, 0, 0, len(keys), None, None, says)]
    store.finish_run(run["id"], "failed", {} if submitted else {"reason": "never submitted"})
    return None


def _finished(
    store: Store, model: BatchChat, endpoint: BatchEndpoint, run: dict[str, Any], state: Batch
) -> tuple[Batch, Counter[str] | None]:
    """Store the replies of a finished batch; returns its state, and its failed requests by reason.

    If a result file cannot be read and replies are missing, the run stays open: the state gives the cause, and None
    stands for the reasons.
    """
    keys = set(run["settings"]["keys"])
    results = wait(endpoint.results(state, keys))
    add_paid(store, [reply_row(key, model.name, reply) for key, reply in results.replies.items()])
    if results.unreadable and state.status != "failed" and len(store.replies(keys)) < len(keys):
        hint = "the same command downloads it again; `accord judge` without --batch sends its prompts again instead"
        return replace(state, says=f"{results.unreadable}; {hint}"), None
    for_good = {key: reason for key, reason in results.failed.items() if not RETRYABLE.fullmatch(reason)}
    model.failed |= for_good
    store.finish_run(run["id"], "done", {**state.to_json(), "for_good": for_good})
    silent = len(keys) - len(results.replies) - len(results.failed)
    return state, Counter(results.failed.values()) + Counter({results.no_line: silent})


def _noted(store: Store, model: BatchChat) -> list[dict[str, Any]]:
    """The runs that handed in batches of a model."""
    runs = [each for each in store.runs() if each["command"] == BATCHES]
    where = (model.endpoint, model.name)
    return [each for each in runs if (each["settings"]["endpoint"], each["settings"]["model"]) == where]


async def _handed_in(
    project: Project, model: BatchChat, endpoint: BatchEndpoint, pending: Mapping[str, Prompt]
) -> tuple[list[Batch], int]:
    """Submit prompts that no other process submits, within the budget; returns the batches and the number of prompts.

    A batch is recorded as a run before it is started; the run's id is the mark by which `marked` finds it.
    """
    store, budget, states = project.store, project.budget, list[Batch]()
    ledger = RequestLedger(store, store.replies, budget)
    async with ledger.closing(), ledger.claimed(pending) as got:
        # Looked for again now that they are claimed: whoever held the claims before has noted its batch by then.
        elsewhere = {key for each in _noted(store, model) if _is_open(each) for key in each["settings"]["keys"]}
        fresh = {key: prompt for key, prompt in pending.items() if key in got.keys.difference(elsewhere)}
        for prompt in fresh.values():
            await budget.afford(model.name, estimated_usage(prompt))
            budget.reserve(model.name, estimated_usage(prompt))
        for keys, lines in batch_files(fresh, model.name):
            try:
                states.append(await _started(store, model, endpoint, keys, lines))
            except AccordError as error:
                for prompt in fresh.values() if is_unsent(error) and not states else ():
                    budget.settle(model.name, estimated_usage(prompt), None)
                raise
    return states, len(fresh)


async def _started(store: Store, model: BatchChat, endpoint: BatchEndpoint, keys: list[str], lines: bytes) -> Batch:
    """Upload and start one batch, recorded as a run that stays open while an answer may still be found.

    Raises:
        CallFailed: The provider did not start it, or did not answer.
        ModelError: No call can succeed.
    """
    about = {"batch": "", "submitted": "", "endpoint": model.endpoint, "model": model.name, "keys": keys}
    run = store.start_run(BATCHES, about)
    try:
        file = await endpoint.upload(lines)
        about["submitted"] = utc().isoformat(timespec="seconds")
        store.change_run(run, about)
        state = await endpoint.start(file, mark=run)
    except (CallFailed, ModelError) as error:
        if not (about["submitted"] and isinstance(error, CallFailed) and may_have_started(error)):
            store.finish_run(run, "failed", {"reason": str(error)})
            raise
        said = f"{error.failure.detail}. The batch may have started; the same command looks for it, and submits its "
        said += f"{len(keys)} prompts again if it is not listed within {GRACE.seconds // 60} minutes"
        raise CallFailed(error.failure.reason, said) from None
    store.change_run(run, {**about, "batch": state.id})
    return state


# --- auditing -------------------------------------------------------------------------------------------------------

AUDIT = "audit"


@dataclass(frozen=True, repr=False)
class AuditRun(Readable):
    """Changes of a judge's answers under edits that should not matter."""

    judge: str
    mode: str
    conversations: int
    findings: Sequence[Finding]
    spent: Mapping[str, Any]

    def summary(self) -> dict[str, Any]:
        """Return the judge and the number of conversations and findings."""
        about = {"judge": self.judge, "mode": self.mode, "conversations": self.conversations}
        return {**about, "findings": len(self.findings)}

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return a flat row per finding."""
        return [finding.to_json() for finding in self.findings]

    def to_json(self) -> dict[str, Any]:
        """Everything."""
        return {**vars(self), "findings": [finding.to_json() for finding in self.findings]}


def probes_of(judge: Judge, rubric: Rubric) -> list[Probe]:
    """Everything that is tried: other ways to ask, and hostile transcripts on the main question."""
    return [*ways_to_ask(judge, rubric), *injections(rubric.main_question)]


def _audited(project: Project, limit: int) -> tuple[Judge, list[Sample]]:
    if not project.models.has(JUDGE):
        raise BadInput(
            "no judge to audit: the project names none; add one to accord.yaml: models: {judge: {model: NAME}}"
        )
    samples = project.samples(map(Target, islice(project.store.conversation_ids(), limit)))
    return project.models.role(JUDGE).judge(project.rubric, keeps=False), samples


def plan_audit(project: Project, limit: int) -> Plan:
    """What `audit_judge` would cost with the same arguments."""
    judge, samples = _audited(project, limit)
    found = Plan(samples=len(samples))
    requests = audit_requests(judge, project.rubric, samples, probes_of(judge, project.rubric))
    found.add(JUDGE, judge.name, requests, project.models.role(JUDGE).options.attempts)
    found.price(project.budget)
    return found


def audit_judge(project: Project, limit: int) -> AuditRun:
    """Audit the judge on the store's first conversations; the findings are kept as a run, for the report.

    Raises:
        BadInput: The store holds no conversation, there is no judge, or it is a recording.
        ModelError: No call can succeed.
        BudgetReached: The audit would pass the budget; nothing was asked, since half an audit says nothing.
    """
    judge, samples = _audited(project, limit)
    _check_budget(plan_audit(project, limit), project)
    rubric, seed, context = project.rubric, project.config.seed, project.models.role(JUDGE).context
    settings = {"judge": judge.name, "mode": judge.mode, "rubric": rubric.hash, "limit": limit, "seed": seed}
    with project.store.run(AUDIT, settings) as kept:
        findings = wait(audit(judge, rubric, samples, probes_of(judge, rubric), seed, context))
        done = AuditRun(judge.name, judge.mode, len(samples), findings, project.budget.to_json())
        kept.results.update(done.to_json())
    return done


def _check_budget(plan: Plan, project: Project) -> None:
    """Refuse an audit that would not be finished."""
    tokens, caps = plan.input_tokens + plan.output_tokens, project.budget.caps
    needs: dict[str, tuple[float, float | None]] = {
        "requests": (plan.requests, caps.requests),
        "tokens": (tokens, caps.tokens),
        "money": (plan.money or 0.0, caps.money),
    }
    for what, (amount, cap) in needs.items():
        if cap is not None and amount > cap:
            raise BudgetReached(
                f"the audit needs {amount:g} {what}, the budget is {cap:g}; nothing was asked. --limit less"
            )


def latest_audit(store: Store) -> dict[str, Any] | None:
    """The findings of the last finished audit; `None` where none was made."""
    done = [each for each in store.runs() if each["command"] == AUDIT and each["status"] == "done"]
    return dict(done[-1]["results"]) if done else None
