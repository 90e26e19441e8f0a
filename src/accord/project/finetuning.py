"""Fine-tuning of a small model on a project's issue annotations, and training of the RUBER metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from shutil import rmtree
from typing import Any, cast

from accord.edges import BadInput
from accord.evidence import Relatedness, make_source, pairs_of
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
from accord.methods import IssuePromptBuilder, Issues, shots_of
from accord.models import HF, ChatModel, drive, run, wait
from accord.project.judges.issue_corrections import corrected, current_corrections
from accord.project.workspace import Workspace
from accord.store import Store
from accord.values import Conversation, IssueAnnotation, Unannotated

TRAINING, MODEL = "training", "model"
"""Folders in the evaluator's folder: the training, and the exported model."""

Pair = tuple[Conversation, IssueAnnotation]
OnStage = Callable[[str], None]


@dataclass
class FineTuned:
    """A fine-tuned model and its results on held-out dialogues.

    Attributes:
        model: Its folder.
        parts: Counts of dialogues, turns, scores and kinds of issues of each part.
        validation: Validation loss after each epoch.
        rows: A row per statistic and system: `fine-tuned`, and the base with a number of examples in its prompt.
    """

    model: Path
    parts: Sequence[Mapping[str, Any]]
    validation: Sequence[float]
    rows: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return all fields."""
        return {
            "model": str(self.model), "parts": list(self.parts), "validation": list(self.validation), "rows": self.rows,
        }  # fmt: skip


def corrected_pairs(project: Workspace) -> list[Pair]:
    """Return the project's issue annotations with people's corrections; see `annotated_pairs`."""
    corrections = current_corrections(project.store.annotations({"person"}, synthetic="with"))
    return [(conversation, corrected(found, corrections)) for conversation, found in annotated_pairs(project)]


def annotated_pairs(project: Workspace) -> list[Pair]:
    """Return the project's issue annotations with their dialogues, as the model made them.

    Raises:
        BadInput: The project's source of issues has no annotations, or no turn has one yet.
    """
    source = issues_of(project)
    if source.settings.by == "judge":
        raise BadInput(
            "a judge writes no annotations to learn from. Configure a finder (models: {finder: {model: NAME}}), or "
            "recorded annotations (sources: {issues: {by: recorded, model: NAME}})"
        )
    conversations = {each.id: each for each in project.store.conversations() if each.turns}
    annotations = run(source.detect(list(conversations.values())), project.stored_models).annotations
    pairs = [(conversations[id_], annotation) for id_, some in annotations.items() for annotation in some]
    if not pairs:
        raise BadInput("no turn is annotated yet. Run accord judge --source issues, or import annotations")
    return pairs


def issues_of(project: Workspace) -> Issues:
    """Return the project's source of issues."""
    return cast(Issues, make_source("issues", project.config.settings_of("issues"), project.context))


def finetune(
    project: Workspace,
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
    """Fine-tune a model on most dialogues, and evaluate it and the base on the held-out ones.

    Args:
        project: Workspace with the annotations.
        base: A Hugging Face folder.
        folder: Folder of the training and the model.
        settings: Settings of the training.
        style: Style of the prompts, `full` or `compact`.
        shots: Numbers of examples in the prompts of the base.
        resume: True to continue a stopped training.
        tested: Most turns of the evaluation.
        on_stage: Called with a description of each step.
        on_step: Called after each step of the training.

    Raises:
        BadInput: Annotations are missing, the dialogues are too few, or the folder cannot be used.
        MissingExtra: `accord[finetune]` is not installed.
    """
    pairs, seed = corrected_pairs(project), project.config.seed
    guidance = IssuePromptBuilder(issues_of(project).taxonomy, by_schema=False, style=style)
    parts = split_by_dialogue(examples_of(pairs, guidance), seed=seed)
    model = folder / MODEL
    if model.exists() and not resume:
        raise BadInput(f"{model} has a model already. Use another folder with --out, or --resume to evaluate it again")
    on_stage("training")
    trained = train(
        base, parts.train, parts.validation, guidance, folder / TRAINING, settings, resume=resume, on_step=on_step
    )
    if not model.exists():
        partial = folder / f".{MODEL}.partial"
        rmtree(partial, ignore_errors=True)
        export(folder / TRAINING, partial, base).rename(model)
    tuned = FineTuned(model, parts.counts(), trained.validation)
    for name, prompts, path in _systems(pairs, parts, guidance, model, base, shots, seed):
        on_stage(f"evaluating {name}")
        tuned.rows += [{"system": name, **row} for row in _evaluate(prompts, path, parts, pairs, tested)]
    return tuned


def _systems(
    pairs: Sequence[Pair],
    parts: Parts,
    guidance: IssuePromptBuilder,
    model: Path,
    base: str,
    shots: Sequence[int],
    seed: int,
) -> list[tuple[str, IssuePromptBuilder, str]]:
    """Return name, prompts and path of the fine-tuned model and of the base with training examples."""
    training = {example.target for example in parts.train}
    shown = [pair for pair in pairs if pair[1].target in training]
    prompted = [
        (f"base, {count} examples", IssuePromptBuilder(guidance.taxonomy, False, shots_of(shown, count, seed)), base)
        for count in shots
    ]
    return [("fine-tuned", guidance, str(model)), *prompted]


def _evaluate(
    guidance: IssuePromptBuilder, path: str, parts: Parts, pairs: Sequence[Pair], tested: int | None
) -> list[MetricLine]:
    """Return the statistics of one model on held-out turns."""
    from accord.models import ClientOptions, open_uncached

    examples = parts.test[:tested]
    held_out = {example.target for example in examples}
    model = open_uncached(HF + path, None, ClientOptions())
    try:
        predicted = wait(_predict(model, examples, guidance))
    finally:
        wait(model.close())
    return evaluate(predicted, [each for _, each in pairs if each.target in held_out])


async def _predict(
    model: ChatModel, examples: Sequence[Any], guidance: IssuePromptBuilder
) -> list[IssueAnnotation | Unannotated]:
    return await drive(predict([example.sample for example in examples], guidance, model.name), model)


CHANCE = 0.55
"""Largest accuracy of a choice between two that counts as chance."""
MOST = 5000
"""Most conversations that are read."""


def train_ruber(store: Store, embedder: str, folder: Path, seed: int = 0) -> Relatedness:
    """Learn how related replies are to their contexts, and save the metric in a folder.

    Raises:
        BadInput: The store has too few contexts, its replies are unrelated to them, or there is no such embedder.
    """
    names = list(islice(store.conversation_ids(), MOST))
    learned = Relatedness.learn(pairs_of(list(store.conversations(names))), embedder, seed)
    if learned.accuracy <= CHANCE:
        raise BadInput(
            f"{learned.accuracy:.0%} of held-out replies are nearer to their own context than to another, which is "
            "chance: these conversations are not enough"
        )
    learned.save(folder)
    return learned
