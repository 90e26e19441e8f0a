"""Teaching a small model what a large one found: annotations in, a folder that serves like any model out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from shutil import rmtree
from typing import Any

from accord.edges import BadInput
from accord.evidence import Relatedness, pairs_of
from accord.finetune import (
    MetricLine,
    Parts,
    TrainingSettings,
    evaluate,
    examples_of,
    export,
    predict,
    split_by_dialogue,
    train,
)
from accord.methods import IssuePromptBuilder, Issues, issues_source, shots_of
from accord.models import HF, ChatModel, drive, run, wait
from accord.project.project import Project
from accord.store import Store
from accord.values import Conversation, IssueAnnotation, Unannotated

TRAINING, MODEL = "training", "model"
"""Folders in the evaluator's folder: what a training keeps to go on, and the model that comes out."""

Pair = tuple[Conversation, IssueAnnotation]
OnStage = Callable[[str], None]


@dataclass
class FineTuned:
    """A model that was taught, and how well it does on dialogues that it has not seen.

    Attributes:
        model: Its folder.
        parts: How many turns and dialogues each part has, with their scores and kinds.
        validation: The validation loss after each epoch.
        rows: A row a statistic of each system: `taught`, and the base with so many examples in its prompt.
    """

    model: Path
    parts: Sequence[Mapping[str, Any]]
    validation: Sequence[float]
    rows: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Everything a command prints."""
        return {
            "model": str(self.model), "parts": list(self.parts), "validation": list(self.validation), "rows": self.rows,
        }  # fmt: skip


def annotated_pairs(project: Project) -> list[Pair]:
    """The project's annotations of issues with their dialogues.

    Raises:
        BadInput: Nobody writes annotations in this project, or no turn has one yet.
    """
    source = issues_of(project)
    if source.settings.by == "judge":
        raise BadInput(
            "a judge writes no annotations to learn from; name a finder (models: {finder: {model: NAME}}), or recorded "
            "annotations (sources: {issues: {by: recorded, model: NAME}})"
        )
    known = {each.id: each for each in project.store.conversations() if each.turns}
    found = run(source.detect(list(known.values())), project.kept).annotations
    pairs = [(known[name], each) for name, mine in found.items() for each in mine]
    if not pairs:
        raise BadInput("no turn was annotated yet; run: accord judge --source issues, or import annotations")
    return pairs


def issues_of(project: Project) -> Issues:
    """The project's source of issues."""
    return issues_source(project.config.settings_of("issues"), project.context)


def finetune(
    project: Project,
    base: str,
    folder: Path,
    settings: TrainingSettings,
    style: str,
    shots: Sequence[int] = (),
    resume: bool = False,
    tested: int | None = None,
    on_stage: OnStage = lambda _: None,
    on_step: Callable[[int, int], None] | None = None,
) -> FineTuned:
    """Train a model on most dialogues, keep it, and try it on those that are left; the base beside it.

    Args:
        project: Holds the annotations.
        base: A Hugging Face folder.
        folder: Where the training and the model are kept.
        settings: Of the training.
        style: How the model is asked, `full` or `compact`.
        shots: With how many examples the base is asked, for comparison.
        resume: Whether to go on with a training that was stopped.
        tested: At most so many turns are tried.
        on_stage: Called with what is being done.
        on_step: Called after each step of the training.

    Raises:
        BadInput: Nothing to learn from, too few dialogues, or a folder that cannot be used.
        MissingExtra: `accord[finetune]` is not installed.
    """
    pairs, seed = annotated_pairs(project), project.config.seed
    guidance = IssuePromptBuilder(issues_of(project).taxonomy, by_schema=False, style=style)
    parts = split_by_dialogue(examples_of(pairs, guidance), seed=seed)
    model = folder / MODEL
    if model.exists() and not resume:
        raise BadInput(f"{model} holds a model already; name another folder with --out, or --resume to try it again")
    on_stage("training")
    trained = train(
        base, parts.train, parts.validation, guidance, folder / TRAINING, settings, resume=resume, on_step=on_step
    )
    if not model.exists():
        beside = folder / f".{MODEL}.partial"
        rmtree(beside, ignore_errors=True)
        export(folder / TRAINING, beside, base).rename(model)
    taught = FineTuned(model, parts.counts(), trained.validation)
    for name, each, place in _systems(pairs, parts, guidance, model, base, shots, seed):
        on_stage(f"trying {name}")
        taught.rows += [{"system": name, **row} for row in _tried(each, place, parts, pairs, tested)]
    return taught


def _systems(
    pairs: Sequence[Pair],
    parts: Parts,
    guidance: IssuePromptBuilder,
    model: Path,
    base: str,
    shots: Sequence[int],
    seed: int,
) -> list[tuple[str, IssuePromptBuilder, str]]:
    """What is tried: the taught model as it was taught, and the base with examples of the training side."""
    learned = {example.target for example in parts.train}
    shown = [pair for pair in pairs if pair[1].target in learned]
    prompted = [
        (f"base, {count} examples", IssuePromptBuilder(guidance.taxonomy, False, shots_of(shown, count, seed)), base)
        for count in shots
    ]
    return [("taught", guidance, str(model)), *prompted]


def _tried(
    guidance: IssuePromptBuilder, place: str, parts: Parts, pairs: Sequence[Pair], tested: int | None
) -> list[MetricLine]:
    """The figures of one model on the turns that were held out."""
    from accord.models import ClientOptions, open_uncached

    examples = parts.test[:tested]
    held_out = {example.target for example in examples}
    model = open_uncached(HF + place, None, ClientOptions())
    try:
        found = wait(_predicted(model, examples, guidance))
    finally:
        wait(model.close())
    return evaluate(found, [each for _, each in pairs if each.target in held_out])


async def _predicted(
    model: ChatModel, examples: Sequence[Any], guidance: IssuePromptBuilder
) -> list[IssueAnnotation | Unannotated]:
    return await drive(predict([example.sample for example in examples], guidance, model.name), model)


CHANCE = 0.55
"""Of two, how often the right one is found by hardly more than chance."""
MOST = 5000
"""The most conversations that are read."""


def train_ruber(store: Store, embedder: str, folder: Path, seed: int = 0) -> Relatedness:
    """Learn how related replies are to what they answer, and keep it in a folder.

    Raises:
        BadInput: The store holds too few contexts, or replies that have nothing to do with them, or there is no such
            embedder.
    """
    names = list(islice(store.conversation_ids(), MOST))
    learned = Relatedness.learn(pairs_of(list(store.conversations(names))), embedder, seed)
    if learned.accuracy <= CHANCE:
        raise BadInput(
            f"{learned.accuracy:.0%} of held-out replies are nearer to their own context than to another, which is "
            "chance: nothing was learned from these conversations"
        )
    learned.save(folder)
    return learned
