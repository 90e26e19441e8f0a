"""Built-in studies of issues (SODA-EVAL): validation of a model's issues, and annotation by people.

`detection` and `overall` ask about turns that a model assessed; their answers are labels of `validation:detection`,
`validation:initial` and `validation:revised`. In `analysis` (section 3), annotators read dialogues and mark the issues
of each reply; the marks are labels of `issue:KIND`. All are ordinary studies (`shipped/*.yaml`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from importlib.resources import files
from pathlib import Path

from accord.edges import BadInput, UnknownName, load_yaml, validate
from accord.project import Workspace, annotated_pairs, issues_of
from accord.store import IssueAnnotations, Item, Studies
from accord.studies.human_studies import (
    ANALYSIS,
    DETECTION,
    OVERALL,
    Answers,
    StudyOutcome,
    ValidatedTurns,
    analysis_outcome,
    detection_outcome,
    overall_outcome,
)
from accord.studies.item_sampling import eligible_turns
from accord.studies.study_session import StudySession
from accord.values import (
    ISSUE,
    Annotation,
    IssueAnnotation,
    ItemSettings,
    StudySettings,
    Target,
    Taxonomy,
    load_taxonomy,
)

FLOWS = (DETECTION, OVERALL, ANALYSIS)
DEFAULT_SIZES = {DETECTION: (200, 3), OVERALL: (100, 5), ANALYSIS: (100, 1)}
"""Number of turns (of dialogues for `analysis`), and of annotators for each, as in the paper."""
READ = "analysis:read"
"""Question of `analysis`: 1 if all issues of a dialogue are marked."""


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
    project: Workspace,
    flow: str,
    studies: Studies,
    turns: int | None = None,
    per_turn: int | None = None,
    items_per_annotator: int | None = None,
) -> StudySession:
    """Open a built-in study; a new study samples from all assessed turns, or for `analysis` from all dialogues.

    Args:
        project: Workspace with the turns.
        flow: `detection`, `overall` or `analysis`.
        studies: Studies of the project's store.
        turns: Number of turns, or dialogues, to sample; by default as in the paper, or fewer if there are fewer.
        per_turn: Number of annotators per turn or dialogue.
        items_per_annotator: Maximum number of turns or dialogues per annotator.

    Raises:
        BadInput: The turns to sample are missing or too few, or an existing study has other numbers.
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
        sample = _sample_size(project, flow, turns, default_turns)
    settings_of_run = {
        "items": ItemSettings(assessed=flow != ANALYSIS, sample=sample),
        "annotators_per_item": per_turn or default_annotators, "seed": project.config.seed,
        "guidelines": _guidelines(settings, issues_of(project).taxonomy if flow == DETECTION else None),
        **({} if items_per_annotator is None else {"items_per_annotator": items_per_annotator}),
    }  # fmt: skip
    project.config.studies[flow] = settings.model_copy(update=settings_of_run)
    session = StudySession(project, flow, studies)
    session.begin()
    return session


def _sample_size(project: Workspace, flow: str, wanted: int | None, default: int) -> int:
    """Return the number of turns or dialogues to sample; `BadInput` if there are fewer than wanted."""
    if flow == ANALYSIS:
        count, unit, allowed = (
            project.store.count_conversations(project.store.synthetic),
            "dialogues",
            "the number of dialogues. Choose fewer, or import more.",
        )
    else:
        count, unit = len(eligible_turns(each for _, each in annotated_pairs(project))), "turns to validate"
        allowed = (
            "the number of eligible turns (with issues, only the first of each dialogue). Choose fewer, or assess more "
            "dialogues."
        )
    if not count or (wanted or 0) > count:
        raise BadInput(f"{wanted or default} {unit}; allowed: 1 to {count}, {allowed}")
    return wanted or min(default, count)


def _guidelines(settings: StudySettings, taxonomy: Taxonomy | None) -> str:
    """Return the guidelines, with the definitions of the kinds of issues."""
    if taxonomy is None:
        return settings.guidelines
    kinds = []
    for objective, title in ((True, "Objective issues"), (False, "Subjective issues")):
        definitions = [f"{kind.name}: {kind.definition}" for kind in taxonomy.issues if kind.objective == objective]
        kinds += [title, *definitions] if definitions else []
    return "\n\n".join([settings.guidelines.strip(), *kinds])


def load_outcome(project: Workspace, flow: str, studies: Studies) -> StudyOutcome:
    """Return the outcome of a built-in study so far.

    Raises:
        BadInput: The study has no items yet.
        UnknownName: There is no such study.
    """
    if flow not in FLOWS:
        raise UnknownName("validation flow", flow, FLOWS)
    seed = project.config.seed
    if flow == ANALYSIS:
        return _analysis(project, {item.target.conversation for item in _items(flow, studies)})
    answers, turns, assessments = study_answers(project, flow, studies)
    if flow == DETECTION:
        return detection_outcome(answers, turns, assessments, issues_of(project).taxonomy, seed=seed)
    return overall_outcome(answers, turns, assessments, seed=seed)


def study_answers(
    project: Workspace, flow: str, studies: Studies
) -> tuple[Answers, ValidatedTurns, list[IssueAnnotation]]:
    """Return the answers of `detection` or `overall`, the sampled turns, and the model's annotations of these turns.

    Raises:
        BadInput: The study has no items yet.
    """
    signature = str((studies.study(flow) or {}).get("maker", ""))
    turns = ValidatedTurns(flow, signature, tuple(item.target for item in _items(flow, studies)))
    answers = {
        (each.by, each.target, each.question): each.value
        for each in _given(project, flow)
        if isinstance(each.value, int)
    }
    conversations = project.store.conversations({turn.conversation for turn in turns.turns})
    return answers, turns, list(IssueAnnotations(project.store).of(conversations, signature))


def _items(flow: str, studies: Studies) -> list[Item]:
    if items := studies.items(flow):
        return items
    raise BadInput(f"study {flow!r} has no items yet; start it: accord validate {flow}")


def _analysis(project: Workspace, sampled: Collection[str]) -> StudyOutcome:
    """Return table 2 from the marks of the dialogues that were read completely."""
    given = _given(project, ANALYSIS)
    read = [(each.by, each.target.conversation) for each in given if each.question == READ and each.value == 1]
    marks = [
        (each.by, each.target, each.question.removeprefix(ISSUE))
        for each in given
        if each.question.startswith(ISSUE) and each.value == 1
    ]
    replies = {}
    for conversation in project.store.conversations(sampled, "with"):
        own = {id(turn) for turn in conversation.replies}
        replies[conversation.id] = [
            Target(conversation.id, place) for place, turn in enumerate(conversation.turns) if id(turn) in own
        ]
    taxonomy = load_taxonomy(str(shipped_study(ANALYSIS).issue_taxonomy))
    return analysis_outcome(read, marks, replies, len(sampled), taxonomy, project.config.seed)


def _given(project: Workspace, flow: str) -> list[Annotation]:
    """Return the current answers and marks of a study."""
    annotations = project.store.annotations({"person"}, synthetic="with")
    return list(_latest([each for each in annotations if each.study == flow]))


def _latest(annotations: Sequence[Annotation]) -> Iterable[Annotation]:
    """Return the annotations that have not been replaced."""
    replaced = {(each.by, each.replaces) for each in annotations}
    return (each for each in annotations if (each.by, each.answer) not in replaced)


def load_outcomes(project: Workspace) -> list[StudyOutcome]:
    """Return the outcomes of the studies about a model's issues that have answers."""
    with closing(Studies(project.store)) as studies:
        outcomes = [load_outcome(project, flow, studies) for flow in (DETECTION, OVERALL) if studies.items(flow)]
    return [outcome for outcome in outcomes if outcome.examples]
