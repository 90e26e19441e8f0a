"""Corrections of issues by people (SODA-EVAL, section 4.1): another kind for an issue that a model found, or none.

A correction is an annotation by a person that names the issue by `signature`, `seen` and `part`; the issue of the model
stays in the store. `issue:KIND` with the value 1 gives the issue that kind, any other value removes it. Values 1 and 0
are also labels of the kind, from which its calibration learns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from accord.edges import BadInput, UnknownName
from accord.store import Store, utc_now
from accord.values import ISSUE, Annotation, Issue, IssueAnnotation, Target, Taxonomy

IssueKey = tuple[Target, str, str, int]
"""Turn, signature, digest of the dialogue (`IssueAnnotation.said`), and number of the issue from 1."""
Corrections = Mapping[IssueKey, Annotation]
"""The correction of each issue that has one."""


def current_corrections(annotations: Iterable[Annotation]) -> dict[IssueKey, Annotation]:
    """Return the latest correction of each issue that was not undone."""
    given = [each for each in annotations if each.is_correction]
    undone = {(each.by, each.replaces) for each in given if each.replaces}
    return {_key(each): each for each in given if not each.replaces and (each.by, each.answer) not in undone}


def correction_of(corrections: Corrections, found: IssueAnnotation, part: int) -> Annotation | None:
    """Return the correction of an issue by its number."""
    return corrections.get((found.target, found.signature, found.said, part))


def corrected(found: IssueAnnotation, corrections: Corrections) -> IssueAnnotation:
    """Return the annotation without removed issues and with corrected kinds; `said` keeps the former kind."""
    issues = [_corrected(issue, correction_of(corrections, found, part)) for part, issue in enumerate(found.issues, 1)]
    return replace(found, issues=tuple(issue for issue in issues if issue is not None))


def _corrected(issue: Issue, correction: Annotation | None) -> Issue | None:
    if correction is None:
        return issue
    if correction.value != 1:
        return None
    return replace(issue, type=correction.question.removeprefix(ISSUE), said=issue.said or issue.type)


def correct_issue(
    store: Store, found: IssueAnnotation, part: int, by: str, answer: str, taxonomy: Taxonomy, kind: str | None
) -> None:
    """Store a person's correction, which replaces the same person's earlier one.

    Args:
        store: The store.
        found: The model's annotation.
        part: Number of the issue, from 1.
        by: The person.
        answer: Unique ID of the correction; one that is stored already is not stored again.
        taxonomy: Taxonomy of the allowed kinds.
        kind: New kind of the issue; None removes it.

    Raises:
        BadInput: The annotation has no such issue, or the model gave it this kind.
        UnknownName: The taxonomy has no such kind.
    """
    issue = _issue(found, part)
    if kind is not None and kind not in taxonomy.names:
        raise UnknownName("issue", kind, taxonomy.names)
    if kind == issue.type:
        raise BadInput(f"the model gave the issue the kind {kind!r}. Choose another kind, or undo the correction")
    people = list(store.annotations({"person"}, conversations=[found.target.conversation]))
    if any(each.answer == answer for each in people):
        return
    # A removal without a value is not a label of the kind, because another issue of the turn still has this kind.
    value = 1 if kind is not None else None if _others_have(issue.type, found, part, people) else 0
    new = Annotation(
        found.target, ISSUE + (kind or issue.type), by, "person", value, quote=issue.quote, span=issue.span,
        comment=issue.comment, signature=found.signature, called=issue.type, seen=found.said, part=part,
        time=_now(), answer=answer, rubric=taxonomy.hash,
    )  # fmt: skip
    store.add_annotations([*_withdrawals(people, found, part, by), new])


def undo_correction(store: Store, found: IssueAnnotation, part: int, by: str) -> None:
    """Withdraw a person's correction of an issue, which stays in the store."""
    people = store.annotations({"person"}, conversations=[found.target.conversation])
    store.add_annotations(_withdrawals(people, found, part, by))


def _issue(found: IssueAnnotation, part: int) -> Issue:
    if not 1 <= part <= len(found.issues):
        raise BadInput(f"issue {part} of {found.target}; allowed: 1 to {len(found.issues)}. Reload the page")
    return found.issues[part - 1]


def _others_have(kind: str, found: IssueAnnotation, part: int, people: Iterable[Annotation]) -> bool:
    given = current_corrections(people)
    others = [
        _corrected(issue, correction_of(given, found, number))
        for number, issue in enumerate(found.issues, 1)
        if number != part
    ]
    return any(issue is not None and issue.type == kind for issue in others)


def _withdrawals(people: Iterable[Annotation], found: IssueAnnotation, part: int, by: str) -> list[Annotation]:
    """Return the annotations that withdraw a person's corrections of an issue; concurrent requests leave several."""
    given = [each for each in people if each.by == by and each.is_correction]
    undone = {each.replaces for each in given if each.replaces}
    key = (found.target, found.signature, found.said, part)
    return [
        replace(each, value=None, replaces=each.answer, answer=f"{each.answer}-undo", time=_now())
        for each in given
        if not each.replaces and each.answer not in undone and _key(each) == key
    ]


def _key(correction: Annotation) -> IssueKey:
    return correction.target, correction.signature or "", correction.seen, correction.part


def _now() -> str:
    return utc_now().isoformat(timespec="milliseconds")
