"""Ask the models of a project about samples, and plan the requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from accord.edges import BadInput, BudgetReached, ModelError, ModelSetting
from accord.evidence import GatheredEvidence, Source, measure_all
from accord.methods import has_only_people, largest
from accord.models import (
    Models,
    Plan,
    plan_range,
    run,
)
from accord.project.results import JudgeRun
from accord.store import batches
from accord.values import Conversation, Sample

if TYPE_CHECKING:
    from accord.project.workspace import Workspace

NOT_HUMAN = "a speaker that is not human"
_BATCH_SIZE = 100
OnStop = Callable[[JudgeRun], None]


class JudgeSelection(NamedTuple):
    """Samples to judge, and their order.

    Attributes:
        everything: All samples instead of only the rated ones.
        limit: Maximum number of samples; default: no limit.
        longest: Dialogues with the most turns first.
        people: Only dialogues between humans; excludes those in which an animal or a thing speaks.
    """

    everything: bool = False
    limit: int | None = None
    longest: bool = False
    people: bool = False


def model_sources(project: Workspace, names: Sequence[str] = ()) -> list[Source]:
    """Return the sources that ask a model, or those among the named ones.

    Raises:
        BadInput: There are none.
        UnknownName: A source is unknown.
    """
    sources = [source for name in names or project.evidence if (source := project.source(name)).roles]
    if not sources:
        setting = ModelSetting("judge", mode="logprobs", model="NAME")
        raise BadInput(
            f"no source of the project asks a model. {setting}, {{likelihood: {{model: embedded:smollm2-135m}}}} or "
            "{finder: {model: NAME}}", setting,
        )  # fmt: skip
    return sources


def judge(
    project: Workspace,
    names: Sequence[str] = (),
    selection: JudgeSelection = JudgeSelection(),
    on_step: Callable[[], None] = lambda: None,
    models: Models | None = None,
    on_stop: OnStop = lambda _: None,
) -> JudgeRun:
    """Ask the sources that need a model. Each answer is stored when it arrives and is never requested again.

    Args:
        project: The project.
        names: Names of sources; default: all sources of the project that ask a model.
        selection: Samples to judge.
        on_step: Called after each answer.
        models: Models to ask; by default the models of the project.
        on_stop: Called with the counts so far before BudgetReached or ModelError is raised.

    Raises:
        BadInput: No source asks a model.
        BudgetReached: The budget is spent; answers so far are stored.
        ModelError: No request can succeed.
    """
    sources, asked = model_sources(project, names), models or project.models
    gathered = {source.name: GatheredEvidence() for source in sources}
    excluded = Counter[str]()
    samples = 0
    rejection: str | None = None
    with asked.recorded_failures() as failures:
        for batch in _batches(project, selection, excluded):
            samples += len(batch)
            for position, source in enumerate(sources):
                failures.clear()
                try:
                    gathered[source.name].plus(run(source.gather(batch), asked, lambda _: on_step()))
                    rejection = rejection or next((e.detail for e in failures.values() if e.reason == "rejected"), None)
                except (BudgetReached, ModelError) as error:
                    for rest in sources[position:]:
                        gathered[rest.name].plus(run(rest.gather(batch), asked.replayed()))
                        failures.clear()
                    on_stop(_result(project, samples, gathered, excluded, rejection, str(error)))
                    raise
    return _result(project, samples, gathered, excluded, rejection)


def _result(
    project: Workspace,
    samples: int,
    gathered: Mapping[str, GatheredEvidence],
    excluded: Mapping[str, int],
    rejection: str | None,
    stopped: str | None = None,
) -> JudgeRun:
    return JudgeRun(
        samples=samples,
        known={name: source.known for name, source in gathered.items()},
        answered=sum(source.answered for source in gathered.values()),
        requests=dict(+project.budget.requests_by_model),
        unanswered=dict(sum((source.unanswered for source in gathered.values()), Counter())),
        excluded=dict(excluded),
        counts={name: source.counts for name, source in gathered.items() if source.counts is not None},
        spent=project.budget.to_json(),
        stopped=stopped,
        rejection=rejection,
    )


def _batches(project: Workspace, selection: JudgeSelection, excluded: Counter[str]) -> Iterator[list[Sample]]:
    if not (selection.longest or selection.people):
        yield from project.sample_batches(selection.everything, selection.limit)
        return
    store = project.store
    labeled = {target.conversation for target in store.labels().targets}
    conversations: Iterable[Conversation] = store.conversations(None if selection.everything else labeled)
    if selection.people:
        conversations = _between_people(conversations, excluded)
    ordered = largest(conversations) if selection.longest else conversations
    yield from batches((Sample(each) for each in islice(ordered, selection.limit)), _BATCH_SIZE)


def _between_people(conversations: Iterable[Conversation], excluded: Counter[str]) -> Iterator[Conversation]:
    for conversation in conversations:
        if has_only_people(conversation):
            yield conversation
        else:
            excluded[NOT_HUMAN] += 1


def plan_judge(project: Workspace, names: Sequence[str] = (), selection: JudgeSelection = JudgeSelection()) -> Plan:
    """Plan the requests and the cost of `judge` with the same arguments, without asking a model."""
    sources, plan = model_sources(project, names), Plan()
    seen: set[int] = set()
    for batch in _batches(project, selection, Counter()):
        plan.samples += len(batch)
        plan.plus(plan_range(partial(measure_all, sources, batch), project.stored_models, seen))
    plan.price(project.budget)
    return plan
