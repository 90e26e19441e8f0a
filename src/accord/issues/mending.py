"""Post-processing (SODA-EVAL, section 4.1): every issue gets a kind of the taxonomy, and keeps what it was called.

A name is looked up as it is, then among the aliases; what neither knows is asked of the model. Issues of the residual
kind are looked at again for the kind that hides among them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from accord.assessment import Assessment, Issue, span_of
from accord.conversation import Target
from accord.issues.guidance import Guidance, template, told_taxonomy
from accord.issues.reading import Verdict
from accord.llm.flow import Flow
from accord.llm.listed import Form, ask_for_list
from accord.llm.model import Failure, Message, Prompt
from accord.llm.render import fence_for
from accord.taxonomy import Taxonomy

NO_KIND = "an issue of no kind of the taxonomy"


@dataclass(frozen=True, slots=True)
class Mended:
    """An assessment, and the places of those of its issues whose kind has to be asked for."""

    assessment: Assessment
    unknown: tuple[int, ...] = ()


def mend(target: Target, verdict: Verdict, reply: str, taxonomy: Taxonomy, made_by: str) -> Mended:
    """An assessment from a verdict, as far as names and aliases go; quotes are looked up in the `reply`."""
    issues, unknown = [], []
    for place, stated in enumerate(verdict.issues):
        kind = taxonomy.find(stated.type)
        if kind is None:
            unknown.append(place)
        name = stated.type if kind is None else kind.name
        said = None if name == stated.type and kind is not None else stated.type
        issues.append(Issue(name, stated.comment, stated.quote, span_of(stated.quote, reply), said))
    made = Assessment(target, tuple(issues), verdict.score, verdict.comment, made_by, verdict.losses)
    return Mended(made, tuple(unknown))


def settled(found: Mended, taxonomy: Taxonomy, kinds: Sequence[str | None] = ()) -> Assessment:
    """The assessment where each unknown issue has the kind that was found for it, else the residual one.

    Where the taxonomy has no residual kind, the issue is left out, and counted as lost.
    """
    if not found.unknown:
        return found.assessment
    named = dict(zip(found.unknown, (*kinds, *[None] * (len(found.unknown) - len(kinds))), strict=True))
    issues, losses = [], list(found.assessment.losses)
    for place, issue in enumerate(found.assessment.issues):
        kind = named[place] or taxonomy.other if place in named else issue.type
        if kind is None:
            losses.append(NO_KIND)
        else:
            issues.append(replace(issue, type=kind))
    return replace(found.assessment, issues=tuple(issues), losses=tuple(losses))


def mended(found: Sequence[Mended], guidance: Guidance) -> Flow[list[Assessment]]:
    """Assessments of one dialogue with every issue's kind settled: what is unknown is asked for, all at once.

    Where the model gives no answer, unknown issues become the residual kind.
    """
    taxonomy = guidance.taxonomy
    asked = [(each, each.assessment.issues[place]) for each in found for place in each.unknown]
    kinds = yield from _kinds([issue for _, issue in asked], guidance)
    answers = iter(kinds)
    assessments = [settled(each, taxonomy, [next(answers) for _ in each.unknown]) for each in found]
    return (yield from _looked_at_again(assessments, guidance))


def _kinds(issues: Sequence[Issue], guidance: Guidance) -> Flow[list[str | None]]:
    """The kind of each issue, as the model says; `None` where it says none."""
    if not issues:
        return []
    form = Form("kinds", {"number": "NUMBER", "kind": '"KIND"'}, len(issues), "its number and its kind.", 30)
    shown = _numbered([f"{issue.said}: {issue.comment}" for issue in issues])
    parts = {"taxonomy": told_taxonomy(guidance.taxonomy), "issues": shown, "fence": fence_for(shown)}
    entries = yield from ask_for_list(_prompt("kinds", parts, form, guidance), form)
    kinds: list[str | None] = [None] * len(issues)
    for entry in () if isinstance(entries, Failure) else entries:
        number, kind = entry.get("number"), guidance.taxonomy.find(entry.get("kind", ""))
        if isinstance(number, int) and 0 < number <= len(issues) and kind is not None:
            kinds[number - 1] = kind.name
    return kinds


def _looked_at_again(assessments: Sequence[Assessment], guidance: Guidance) -> Flow[list[Assessment]]:
    """The assessments where issues of the residual kind that the model finds to be another kind are of that kind."""
    taxonomy, again = guidance.taxonomy, guidance.taxonomy.looked_at_again
    places = [
        (row, column)
        for row, assessment in enumerate(assessments)
        for column, issue in enumerate(assessment.issues)
        if issue.type == taxonomy.other
    ]
    if again is None or not places:
        return list(assessments)
    form = Form("yes", {"number": "NUMBER"}, len(places), "its number.", 15)
    shown = _numbered([assessments[row].issues[column].comment for row, column in places])
    parts = {"question": again.question, "issues": shown, "fence": fence_for(shown)}
    entries = yield from ask_for_list(_prompt("again", parts, form, guidance), form)
    yes = set() if isinstance(entries, Failure) else {entry.get("number") for entry in entries}
    found = list(assessments)
    for number, (row, column) in enumerate(places, 1):
        if number in yes:
            issues = list(found[row].issues)
            issues[column] = replace(issues[column], type=again.type, said=issues[column].said or taxonomy.other)
            found[row] = replace(found[row], issues=tuple(issues))
    return found


def _prompt(name: str, parts: dict[str, str], form: Form, guidance: Guidance) -> Prompt:
    text = template(name).substitute({**parts, "form": form.told(by_schema=True)}).strip()
    schema = form.schema() if guidance.by_schema else None
    return Prompt((Message("user", text),), max(form.most, 2) * form.tokens, schema=schema)


def _numbered(lines: Sequence[str]) -> str:
    return "\n".join(f"{number}. {json.dumps(line, ensure_ascii=False)}" for number, line in enumerate(lines, 1))
