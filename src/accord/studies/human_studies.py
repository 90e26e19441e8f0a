"""Two built-in studies that validate the issues found in turns, and their outcomes.

`detection` asks if the issues are correct (SODA-EVAL, figure 9). In `overall`, annotators rate a turn with the dialogue
alone, and then again with its issues (figure 10). Both are ordinary studies (`shipped/*.yaml`) of turns that a model
assessed; their answers are labels of `validation:detection`, `validation:initial` and `validation:revised`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path

from accord.edges import BadInput, UnknownName, load_yaml, validate
from accord.project import Project, annotated_pairs, issues_of
from accord.store import IssueAnnotations, Studies
from accord.studies.item_sampling import eligible_turns
from accord.studies.study_outcome import (
    DETECTION,
    OVERALL,
    StudyOutcome,
    ValidatedTurns,
    detection_outcome,
    overall_outcome,
)
from accord.studies.study_session import StudySession
from accord.values import Annotation, ItemSettings, StudySettings, Taxonomy

FLOWS = (DETECTION, OVERALL)
DEFAULT_SIZES = {DETECTION: (200, 3), OVERALL: (100, 5)}
"""Number of turns, and of answers per turn, as in the paper."""


def shipped_study(flow: str) -> StudySettings:
    """Return the settings of a built-in study.

    Raises:
        UnknownName: There is no such study.
    """
    if flow not in FLOWS:
        raise UnknownName("validation flow", flow, FLOWS)
    path = Path(str(files("accord.studies") / "shipped" / f"{flow}.yaml"))
    return validate(StudySettings, load_yaml(path), str(path))


def open_validation(
    project: Project,
    flow: str,
    studies: Studies,
    turns: int | None = None,
    per_turn: int | None = None,
    items_per_annotator: int | None = None,
) -> StudySession:
    """Open a built-in study; a new study samples from all assessed turns.

    Args:
        project: Project with the assessed turns.
        flow: `detection` or `overall`.
        studies: Studies of the project's store.
        turns: Number of turns to sample; by default as in the paper, or fewer if there are fewer.
        per_turn: Number of annotators per turn.
        items_per_annotator: Maximum number of turns per annotator.

    Raises:
        BadInput: There are no assessed turns or too few, or an existing study has other numbers.
        UnknownName: There is no such study.
    """
    settings = shipped_study(flow)
    default_turns, default_annotators = DEFAULT_SIZES[flow]
    saved = studies.study(flow)
    if saved is not None and studies.items(flow):
        if turns or per_turn:
            raise BadInput(f"study {flow!r} exists; omit the number of turns and annotators, or use another store")
        before = StudySettings.model_validate(
            {name: saved[name] for name in StudySettings.model_fields if name in saved}
        )
        sample, per_turn = before.items.sample, before.annotators_per_item
    else:
        count = len(eligible_turns(each for _, each in annotated_pairs(project)))
        sample = turns or min(default_turns, count)
        if sample > count:
            raise BadInput(
                f"{sample} turns to validate; allowed: 1 to {count}, the number of eligible turns (with issues, "
                "only the first of each dialogue). Choose fewer, or assess more dialogues."
            )
    settings_of_run = {
        "items": ItemSettings(assessed=True, sample=sample), "annotators_per_item": per_turn or default_annotators,
        "seed": project.config.seed,
        "guidelines": _guidelines(settings, issues_of(project).taxonomy if flow == DETECTION else None),
        **({} if items_per_annotator is None else {"items_per_annotator": items_per_annotator}),
    }  # fmt: skip
    project.config.studies[flow] = settings.model_copy(update=settings_of_run)
    session = StudySession(project, flow, studies)
    session.begin()
    return session


def _guidelines(settings: StudySettings, taxonomy: Taxonomy | None) -> str:
    """Return the guidelines, with the definitions of the kinds of issues."""
    if taxonomy is None:
        return settings.guidelines
    kinds = []
    for objective, title in ((True, "Objective issues"), (False, "Subjective issues")):
        definitions = [f"{kind.name}: {kind.definition}" for kind in taxonomy.issues if kind.objective == objective]
        kinds += [title, *definitions] if definitions else []
    return "\n\n".join([settings.guidelines.strip(), *kinds])


def load_outcome(project: Project, flow: str, studies: Studies) -> StudyOutcome:
    """Return the outcome of a built-in study so far.

    Raises:
        BadInput: The study has no items yet.
        UnknownName: There is no such study.
    """
    if flow not in FLOWS:
        raise UnknownName("validation flow", flow, FLOWS)
    items, saved = studies.items(flow), studies.study(flow) or {}
    if not items:
        raise BadInput(f"study {flow!r} has no items yet; start it: accord validate {flow}")
    turns = ValidatedTurns(flow, str(saved.get("maker", "")), tuple(item.target for item in items))
    store, seed = project.store, project.config.seed
    annotations = [each for each in store.annotations({"person"}, synthetic="with") if each.study == flow]
    answers = {
        (each.by, each.target, each.question): each.value
        for each in _latest(annotations)
        if isinstance(each.value, int)
    }
    conversations = store.conversations({turn.conversation for turn in turns.turns})
    assessments = list(IssueAnnotations(store).of(conversations, turns.signature))
    if flow == DETECTION:
        return detection_outcome(answers, turns, assessments, issues_of(project).taxonomy, seed=seed)
    return overall_outcome(answers, turns, assessments, seed=seed)


def _latest(annotations: Sequence[Annotation]) -> Iterable[Annotation]:
    """Return the annotations that have not been replaced."""
    replaced = {(each.by, each.replaces) for each in annotations}
    return (each for each in annotations if (each.by, each.answer) not in replaced)


def load_outcomes(project: Project) -> list[StudyOutcome]:
    """Return the outcomes of the built-in studies that have answers."""
    studies = Studies(project.store)
    try:
        outcomes = [load_outcome(project, flow, studies) for flow in FLOWS if studies.items(flow)]
    finally:
        studies.close()
    return [outcome for outcome in outcomes if outcome.examples]
