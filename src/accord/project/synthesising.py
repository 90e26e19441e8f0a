"""`accord synth`: conversations that nobody held, made, kept as each is finished, and told from real ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accord.edges import validate
from accord.evidence import Readable, SourceContext, make_source
from accord.formats import ConversationWriter
from accord.models import OnAnswer, Plan, plan_range, run
from accord.project.results import Spent
from accord.statistics import TextIndex, groups_of
from accord.store import Store
from accord.synth import (
    SYNTH_METHODS,
    DocumentIndex,
    GenerationFailure,
    GenerationResult,
    SynthesisResult,
    SynthSettings,
    TwoSampleResult,
    generate_conversations,
    two_sample_test,
)
from accord.values import Conversation, Sample

if TYPE_CHECKING:
    from accord.project.project import Project

BANK = {"names": ["lexical", "bank"]}
"""The metrics by which synthetic conversations are told from real ones."""
TOPIC = "topic"


@dataclass(frozen=True, repr=False)
class SynthRun(Readable):
    """Counts of a run that makes synthetic conversations.

    Attributes:
        planned: How many there are to be.
        there: How many of them were made before.
        made: How many were made now.
        lost: Why others came to nothing, counted; and an example of each reason.
        duplicates: How many were equal or nearly equal to one of the same way that was there.
        systems: Conversations of the plan that are there by now, by how they were made.
        left_out: Ways that were not taken, since topics or documents do not allow them.
        topics: How many things they are about.
        personas: How many kinds of users there are.
        turns: Messages of the conversations that were made now.
        spent: Requests, tokens, money.
        out: The file of all that are there.
    """

    planned: int
    there: int
    made: int
    lost: Mapping[str, int]
    examples: Mapping[str, str]
    duplicates: int
    systems: Mapping[str, int]
    left_out: tuple[str, ...]
    topics: int
    personas: int
    turns: int
    spent: Spent = field(default_factory=dict)
    out: str | None = None

    def summary(self) -> dict[str, Any]:
        """Return the counts of conversations, lost ones by reason, and the file."""
        counts = {"planned": self.planned, "there": self.there, "made": self.made, "lost": self.lost or None}
        return {**counts, "systems": self.systems, "out": self.out}

    def to_json(self) -> dict[str, Any]:
        """Everything."""
        return {**vars(self), "left_out": list(self.left_out)}


def settings_of(project: Project, changes: Mapping[str, Any]) -> SynthSettings:
    """Return the project's settings with some changed; files of the project start from its folder.

    Raises:
        BadInput: A setting has a wrong value.
    """
    own = project.config.synth.model_dump(mode="json", exclude_unset=True)
    for name in ("topics", "personas", "documents"):
        if isinstance(own.get(name), str):
            own[name] = str(project.config.folder / own[name])
    given = {name: value for name, value in changes.items() if value is not None}
    return validate(SynthSettings, {**own, **given}, "synth")


def plan_synth(project: Project, settings: SynthSettings) -> Plan:
    """What making them would cost at the most: every conversation as long as it may be; nobody is asked."""
    kept = _Kept(project.store)
    make = partial(generate_conversations, settings, _library(settings), project.config.seed, kept.is_there)
    return plan_range(make, project.stored_models)


def synth(
    project: Project, settings: SynthSettings, out: str | Path | None = None, step: OnAnswer = lambda purpose: None
) -> SynthRun:
    """Make what is planned and not there yet; each conversation is kept as it is finished.

    Raises:
        BadInput: There is no topic, a way needs documents that are not named, or nobody plays the user.
        ModelError: No call can succeed.
    """
    writer = None if out is None else ConversationWriter(Path(out))
    kept = _Kept(project.store)
    about = {**project.config.shown(), "synth": settings.model_dump(mode="json")}
    with project.store.run("synth", about) as noted:
        try:
            flow = generate_conversations(settings, _library(settings), project.config.seed, kept.is_there, kept.keep)
            found = run(flow, project.models, step)
        finally:
            if writer is not None:
                with writer:
                    writer.write(project.store.conversations(kept.ids))
        done = _run_of(project, settings, found, kept, out)
        noted.results.update(done.to_json())
    return done


def _library(settings: SynthSettings) -> DocumentIndex | None:
    return None if settings.documents is None else DocumentIndex.read(settings.documents)


class _Kept:
    """What is there: conversations go to the store as they are made, each way's but once in nearly the same words.

    Attributes:
        there, ids: The ids of what was there before, and of all that is there by now.
        lost, duplicates: What came to nothing, and what was there in other words.
    """

    def __init__(self, store: Store) -> None:
        self.store, self.texts, self.known = store, defaultdict[str | None, TextIndex](TextIndex), set[str]()
        for each in store.conversations(synthetic="only"):
            self.texts[each.system].add(each.id, each.turns)
            self.known.add(each.id)
        self.there: list[str] = []
        self.ids: list[str] = []
        self.made: list[Conversation] = []
        self.lost: list[GenerationFailure] = []
        self.duplicates = 0

    def is_there(self, name: str) -> bool:
        """Whether a conversation was made before."""
        if name in self.known:
            self.there.append(name)
            self.ids.append(name)
        return name in self.known

    def keep(self, made: GenerationResult) -> None:
        """Keep a conversation, or why there is none."""
        if isinstance(made.found, GenerationFailure):
            self.lost.append(made.found)
        elif self.texts[made.found.system].add(made.id, made.found.turns) is not None:
            self.duplicates += 1
        else:
            self.store.add_conversations([made.found], on_changed=lambda name: None)
            self.made.append(made.found)
            self.ids.append(made.id)


def _run_of(
    project: Project, settings: SynthSettings, found: SynthesisResult, kept: _Kept, out: str | Path | None
) -> SynthRun:
    reasons = Counter(each.reason for each in kept.lost)
    examples = {each.reason: each.detail for each in reversed(kept.lost)}
    systems = Counter(each.system or "" for each in project.store.conversations(kept.ids))
    return SynthRun(
        len(found.ids), len(kept.there), len(kept.made), dict(reasons.most_common()), examples, kept.duplicates,
        {how: systems[how] for how in SYNTH_METHODS if systems[how]},
        tuple(how for how in SYNTH_METHODS if how not in found.hows),
        found.topics, found.personas, sum(len(each.turns) for each in kept.made), project.budget.to_json(),
        None if out is None else str(out),
    )  # fmt: skip


def check_synth(project: Project, how: str | None = None) -> TwoSampleResult:
    """How unlike the real conversations of the store its synthetic ones are, by the metric bank.

    Args:
        project: With both kinds.
        how: Only synthetic conversations made in this way, such as DS4.

    Raises:
        BadInput: There are too few of a kind.
    """
    samples = list(_both(project.store, how))
    source = make_source("metrics", BANK, SourceContext(project.rubric, project.config.seed))
    table = project.measure([source], samples)
    groups = groups_of(samples, dict.fromkeys((*project.config.group_by, TOPIC))).of
    made = {each.target: each.conversation.is_synthetic for each in samples}
    named = [groups.get(target, target.conversation) for target in table.targets]
    return two_sample_test(table, named, [made[target] for target in table.targets], project.config.seed)


def _both(store: Store, how: str | None) -> Iterator[Sample]:
    for each in store.conversations(synthetic="with"):
        if each.turns and (how is None or not each.is_synthetic or each.system == how):
            yield Sample(each)
