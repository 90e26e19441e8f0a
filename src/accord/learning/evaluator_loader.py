"""Evaluators from settings or from saved folders, which are checked completely when they are loaded.

The author of a folder is unknown, so errors must appear when the folder is loaded, not during scoring.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from accord.edges import CARD_BYTES, BadInput, read_text
from accord.evidence import Arrays, Column, EvidenceTable, Source, SourceContext, SourceState, make_source
from accord.learning.answer_models.contract import part_arrays
from accord.learning.calibration.plausibility import Plausibility
from accord.learning.evaluator import Evaluator
from accord.learning.evaluator_files import (
    DAMAGED,
    HELD_OUT,
    OTHER_QUESTIONS,
    TRAINING_SET,
    SourceCard,
    read_arrays,
    saved_as,
)
from accord.learning.experiment import HeldOutAnswers
from accord.learning.head import Head, make_head
from accord.learning.presets import EVIDENCE, EvaluatorSettings, Level
from accord.learning.training_set import TrainingSet
from accord.models import LIKELIHOOD, ModelSettings
from accord.values import (
    Question,
    Rubric,
    Score,
    Target,
    find_project_file,
    note_plugins_of,
    plugin_error,
    project_folder,
)

_NESTED = 2
"""Depth of evaluators of other questions; they have none themselves."""


def make_evaluator(
    name: str,
    about: EvaluatorSettings,
    question: Question,
    context: SourceContext,
    evidence: Sequence[str] = (),
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    models: Mapping[str, ModelSettings] | None = None,
) -> Evaluator:
    """Return an unfitted evaluator.

    Args:
        name: Name of the evaluator.
        about: Sources, head and settings.
        question: Question to predict.
        context: Rubric and seed of the project.
        evidence: Names of the sources that `evidence` stands for.
        settings: Settings of sources by name.
        models: Settings of models by role.

    Raises:
        UnknownName: There is no such source, head or setting.
        BadInput: A setting has an invalid value.
    """
    named = [part for each in about.sources for part in (evidence if each == EVIDENCE else (each,))]
    parts: list[Source] = [make_source(each, (settings or {}).get(each, {}), context) for each in dict.fromkeys(named)]
    first = {key: values[0] for key, values in about.tune.items()}
    head = make_head(about.head, question, {**about.settings, **first})
    checks = about.plausibility
    if checks is None and not (about.sources and LIKELIHOOD in (models or {})):
        checks = False
    return Evaluator(
        question, tuple(parts), head, name, about.head, about.level, dict(models or {}), choose=about.tune,
        seed=context.seed, checks_plausibility=checks,
    )  # fmt: skip


def load_evaluator(folder: str | Path, project: Path | None = None) -> Evaluator:
    """Read an evaluator that `save` wrote.

    Args:
        folder: Folder of the evaluator.
        project: Base of relative paths in its settings. By default, the folder of the nearest `accord.yaml`
            above the evaluator's folder, or the working folder if there is none.

    Raises:
        BadInput: The folder holds no evaluator, is damaged or has an invalid edit, or was written by a version
            of Accord that this one cannot read; or a plug-in of its project may not be run.

    >>> from accord.testing import sample_project
    >>> with sample_project() as project:
    ...     evaluator = load_evaluator(project.fit("constant").folder)
    >>> evaluator.name, evaluator.question.id, evaluator.level
    ('constant', 'Q0', 'conversation')
    """
    place = project_of(folder) if project is None else project
    note_plugins_of(place)
    return _loaded(folder, 0, place)


def project_of(evaluator: str | Path) -> Path:
    """Return the project folder of an evaluator's folder; the working folder if it belongs to no project."""
    file = find_project_file(evaluator)
    return Path() if file is None else project_folder(file)


def _loaded(folder: str | Path, depth: int, project: Path) -> Evaluator:
    about, source = saved_as(folder), Path(folder)
    if depth > _NESTED:
        raise BadInput(f"{folder} contains itself; fit the evaluator again")
    try:
        arrays = read_arrays(source)
        if about["level"] not in (None, "turn", "step", "conversation") or not isinstance(about["name"], str):
            raise ValueError("invalid level or name")
        question = Question.model_validate(about["question"])
        head = make_head(about["head"]["name"], question, about["head"]["settings"])
        _check_scores(head.restore(about["head"]["learned"], part_arrays("head", arrays)), about["level"])
        # A source that needs a rubric keeps its own; the evaluator's question stands in for the project's.
        context = SourceContext(
            Rubric.model_construct(questions=(question,), main=question.id), about["seed"], folder=project
        )
        parts = tuple(_restored(row, arrays, source, context) for row in about["sources"])
        models = {role: ModelSettings.model_validate(row) for role, row in about["models"].items()}
        ids = about["other_questions"]
        others = tuple(_loaded(source / OTHER_QUESTIONS / str(n), depth + 1, project) for n in range(len(ids)))
        if [other.question.id for other in others] != ids:
            raise ValueError("the folder holds other evaluators than the card names")
        answers = part_arrays(HELD_OUT, arrays)
        held_out = HeldOutAnswers.restored(answers) if answers else None
        rated = part_arrays(TRAINING_SET, arrays)
        training_set = TrainingSet.restored(rated) if rated else None
        learned = about["plausibility"]
        check = None if learned is None else Plausibility.from_json(learned)
    except FileNotFoundError as error:
        raise BadInput(f"{folder} holds no evaluator: {Path(str(error.filename)).name} is missing") from None
    except DAMAGED as error:
        damage = BadInput(f"{folder} holds a damaged evaluator ({type(error).__name__}); fit it again")
        raise plugin_error(error) or damage from None
    return Evaluator(
        question, parts, head, about["name"], about["head"]["name"], about["level"], models, others,
        about["shares_evidence"], held_out=held_out, training_set=training_set,
        languages=tuple(about.get("languages", ())), checks_plausibility=check is not None, plausibility=check,
    )  # fmt: skip


def _check_scores(head: Head, level: Level | None) -> None:
    """Check that a restored head can score rows with and without evidence for every annotator, and describe itself.

    Raises:
        Exception: One of `DAMAGED`: the head cannot score, or a score or its description is not finite.
    """
    if any(type(name) is not str for name in head.annotators):
        raise ValueError("names of annotators are not texts")
    speakers = [None, *head.annotators]
    targets = tuple(
        Target(f"trial {place}", 0 if level in ("turn", "step") else None) for place in range(2 * len(speakers))
    )
    columns = (Column("trial", "trial"),) if head.columns is None else head.columns
    present = np.zeros((len(targets), len(columns)), dtype=bool)
    present[: len(speakers)] = True
    try:
        with np.errstate(all="ignore"):
            trial = EvidenceTable(targets, columns, 0.5 * present, present)
            scores = head.predict_each(trial, speakers * 2)
            elsewhere = head.in_new_domain().predict_each(trial, speakers * 2)
            head.seen(trial)
            head.state()
            descriptions = [head.describe(), head.remarks(), *(each.to_json() for each in (*scores, *elsewhere))]
            json.dumps(descriptions, allow_nan=False)
    except BadInput as error:
        if head.columns is None:
            return  # the head names the columns that it needs
        raise ValueError(str(error)) from None
    if len(scores) != len(targets):
        raise ValueError("not one score per sample")
    scale = head.question.scale
    if scale.is_ordered and any(isinstance(each, Score) and each.options != scale.numbers for each in scores):
        raise ValueError("scores are not on the question's scale")


def _restored(row: SourceCard, arrays: Arrays, folder: Path, context: SourceContext) -> Source:
    made = make_source(row["name"], row["settings"], context)
    files = {path.name: read_text(path, CARD_BYTES) for path in folder.iterdir() if path.suffix in {".yaml", ".jsonl"}}
    restored = made.restored(SourceState(row["learned"], part_arrays(row["name"], arrays), files))
    restored.name = row["name"]
    return restored
