"""People look at what was found in turns: two studies that come with Accord, and what came of them.

`detection`: are the issues right (SODA-EVAL, figure 9)? `overall`: a turn is rated with the dialogue alone, then again
with the issues shown (figure 10). They are studies like any other (`studies/*.yaml`), about turns that the project's
finder has looked into, and their answers are labels: `validation:detection`, `validation:initial` and `:revised`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path

from accord.edges import BadInput, UnknownName, load_yaml, validate
from accord.project import Project, annotated_pairs, issues_of
from accord.store import IssueAnnotations, Studies
from accord.studies.issue_validity import DETECTION, detection_outcome
from accord.studies.item_sampling import eligible
from accord.studies.rating_revision import OVERALL, overall_outcome
from accord.studies.study_outcome import Outcome, Validated
from accord.studies.study_session import OpenStudy
from accord.values import Annotation, ItemSettings, StudySettings, Taxonomy

FLOWS = (DETECTION, OVERALL)
USUAL = {DETECTION: (200, 3), OVERALL: (100, 5)}
"""By flow: turns, and answers each, as in the paper."""


def shipped_study(flow: str) -> StudySettings:
    """A study that comes with Accord.

    Raises:
        UnknownName: There is none of that name.
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
) -> OpenStudy:
    """The study that is under way, or a new one, drawn from everything that was assessed.

    Args:
        project: Its issues are validated.
        flow: `detection` or `overall`.
        studies: Of the project's store.
        turns: How many to draw; as many as in the paper, or as there are.
        per_turn: Answers per turn, each by somebody else.
        items_per_annotator: The most turns of one person.

    Raises:
        BadInput: Nothing was assessed, there are fewer turns, or a study with other numbers is under way.
        UnknownName: There is no such flow.
    """
    settings = shipped_study(flow)
    usual, answers = USUAL[flow]
    kept = studies.study(flow)
    if kept is not None and studies.items(flow):
        if turns or per_turn:
            raise BadInput(f"the study {flow!r} is under way; leave out how to draw it, or use another store")
        before = StudySettings.model_validate({name: kept[name] for name in StudySettings.model_fields if name in kept})
        draw, per_turn = before.items.sample, before.annotators_per_item
    else:
        count = len(eligible(each for _, each in annotated_pairs(project)))
        draw = turns or min(usual, count)
        if draw > count:
            raise BadInput(
                f"{draw} turns to validate; allowed: 1 to {count}, which is how many may be validated (with issues "
                "only the first of each dialogue). Ask for fewer, or assess more dialogues."
            )
    about = {
        "items": ItemSettings(assessed=True, sample=draw), "annotators_per_item": per_turn or answers,
        "seed": project.config.seed,
        "guidelines": _guidelines(settings, issues_of(project).taxonomy if flow == DETECTION else None),
        **({} if items_per_annotator is None else {"items_per_annotator": items_per_annotator}),
    }  # fmt: skip
    project.config.studies[flow] = settings.model_copy(update=about)
    found = OpenStudy(project, flow, studies)
    found.begin()
    return found


def _guidelines(settings: StudySettings, taxonomy: Taxonomy | None) -> str:
    """What to read beforehand, with the kinds of issues where they are what is judged."""
    if taxonomy is None:
        return settings.guidelines
    kinds = []
    for objective, title in ((True, "Objective issues"), (False, "Subjective issues")):
        named = [f"{kind.name}: {kind.definition}" for kind in taxonomy.issues if kind.objective == objective]
        kinds += [title, *named] if named else []
    return "\n\n".join([settings.guidelines.strip(), *kinds])


def outcome(project: Project, flow: str, studies: Studies) -> Outcome:
    """What came of a study so far.

    Raises:
        BadInput: It has not begun.
    """
    if flow not in FLOWS:
        raise UnknownName("validation flow", flow, FLOWS)
    items, kept = studies.items(flow), studies.study(flow) or {}
    if not items:
        raise BadInput(f"the study {flow!r} has not begun; accord validate {flow}")
    about = Validated(flow, str(kept.get("maker", "")), tuple(item.target for item in items))
    said = [each for each in project.store.annotations({"person"}, synthetic="with") if each.study == flow]
    given = {
        (each.by, each.target, each.question): each.value for each in _standing(said) if isinstance(each.value, int)
    }
    store, seed = project.store, project.config.seed
    conversations = store.conversations({turn.conversation for turn in about.turns})
    assessments = list(IssueAnnotations(store).of(conversations, about.signature))
    if flow == DETECTION:
        return detection_outcome(given, about, assessments, issues_of(project).taxonomy, seed=seed)
    return overall_outcome(given, about, assessments, seed=seed)


def _standing(said: Sequence[Annotation]) -> Iterable[Annotation]:
    gone = {(each.by, each.replaces) for each in said}
    return (each for each in said if (each.by, each.answer) not in gone)


def outcomes(project: Project) -> list[Outcome]:
    """What came of both studies, those with answers."""
    studies = Studies(project.store)
    try:
        found = [outcome(project, flow, studies) for flow in FLOWS if studies.items(flow)]
    finally:
        studies.close()
    return [each for each in found if each.examples]
