"""Annotation (SODA-EVAL, section 4.1): each reply of a dialogue, given all turns before it, is assessed by a model.

A whole dialogue is asked about in one request where that is wanted and fits; turns that came back unread are asked
about alone, once more with the reason, and stay unassessed after that. What comes out has the same form either way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from accord.methods.issues.issue_prompts import IssuePromptBuilder, template, told_taxonomy
from accord.methods.issues.verdict_parser import Unread, Verdict, read_verdict, read_verdicts
from accord.models import (
    NOT_ASKED,
    OUT_OF_BUDGET,
    ChatMessage,
    Failure,
    ListForm,
    Prompt,
    PromptFlow,
    ask_for_list,
    estimated_usage,
    fence_for,
)
from accord.values import (
    Conversation,
    Issue,
    IssueAnnotation,
    Sample,
    Signature,
    Target,
    Taxonomy,
    Unannotated,
    find_quote,
    turn_digests,
)

NO_KIND = "an issue of no kind of the taxonomy"


@dataclass(frozen=True, slots=True)
class Mended:
    """An assessment, and the places of those of its issues whose kind has to be asked for."""

    assessment: IssueAnnotation
    unknown: tuple[int, ...] = ()


def postprocess(target: Target, verdict: Verdict, reply: str, taxonomy: Taxonomy, signature: str) -> Mended:
    """An assessment from a verdict, as far as names and aliases go; quotes are looked up in the `reply`."""
    issues, unknown = [], []
    for place, stated in enumerate(verdict.issues):
        kind = taxonomy.find(stated.type)
        if kind is None:
            unknown.append(place)
        name = stated.type if kind is None else kind.name
        said = None if name == stated.type and kind is not None else stated.type
        issues.append(Issue(name, stated.comment, stated.quote, find_quote(stated.quote, reply), said))
    made = IssueAnnotation(target, tuple(issues), verdict.score, verdict.comment, signature, verdict.losses)
    return Mended(made, tuple(unknown))


def settled(found: Mended, taxonomy: Taxonomy, kinds: Sequence[str | None] = ()) -> IssueAnnotation:
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


def postprocessed(found: Sequence[Mended], guidance: IssuePromptBuilder) -> PromptFlow[list[IssueAnnotation]]:
    """Assessments of one dialogue with every issue's kind settled: what is unknown is asked for, all at once.

    Where the model gives no answer, unknown issues become the residual kind.
    """
    taxonomy = guidance.taxonomy
    asked = [(each, each.assessment.issues[place]) for each in found for place in each.unknown]
    kinds = yield from _kinds([issue for _, issue in asked], guidance)
    answers = iter(kinds)
    assessments = [settled(each, taxonomy, [next(answers) for _ in each.unknown]) for each in found]
    return (yield from _looked_at_again(assessments, guidance))


def _kinds(issues: Sequence[Issue], guidance: IssuePromptBuilder) -> PromptFlow[list[str | None]]:
    """The kind of each issue, as the model says; `None` where it says none."""
    if not issues:
        return []
    form = ListForm("kinds", {"number": "NUMBER", "kind": '"KIND"'}, len(issues), "its number and its kind.", 30)
    shown = _numbered([f"{issue.said}: {issue.comment}" for issue in issues])
    parts = {"taxonomy": told_taxonomy(guidance.taxonomy), "issues": shown, "fence": fence_for(shown)}
    entries = yield from ask_for_list(_prompt("kinds", parts, form, guidance), form)
    kinds: list[str | None] = [None] * len(issues)
    for entry in () if isinstance(entries, Failure) else entries:
        number, kind = entry.get("number"), guidance.taxonomy.find(entry.get("kind", ""))
        if isinstance(number, int) and 0 < number <= len(issues) and kind is not None:
            kinds[number - 1] = kind.name
    return kinds


def _looked_at_again(
    assessments: Sequence[IssueAnnotation], guidance: IssuePromptBuilder
) -> PromptFlow[list[IssueAnnotation]]:
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
    form = ListForm("yes", {"number": "NUMBER"}, len(places), "its number.", 15)
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


def _prompt(name: str, parts: dict[str, str], form: ListForm, guidance: IssuePromptBuilder) -> Prompt:
    text = template(name).substitute({**parts, "form": form.instruction(by_schema=True)}).strip()
    schema = form.schema() if guidance.by_schema else None
    return Prompt((ChatMessage("user", text),), max(form.most, 2) * form.tokens, schema=schema)


def _numbered(lines: Sequence[str]) -> str:
    return "\n".join(f"{number}. {json.dumps(line, ensure_ascii=False)}" for number, line in enumerate(lines, 1))


MOST_TOGETHER = 30
"""Turns of a dialogue that are asked about in one request."""
LONGEST_DIALOGUE = 24_000
"""Estimated tokens of a request about several turns, where the model's context is not said."""

Found = Verdict | Unread | Failure


@dataclass(frozen=True)
class Asking:
    """How a model is asked.

    Attributes:
        guidance: What it is told.
        together: Whether several turns of a dialogue go into one request.
        context: Tokens of one request and its answer, where that is known.
    """

    guidance: IssuePromptBuilder
    together: bool = True
    context: int | None = None

    def signature(self, model: str) -> str:
        """How assessments are made, as a signature."""
        taxonomy = self.guidance.taxonomy
        return str(
            Signature.of(
                "issues", model=model, taxonomy=f"{taxonomy.name} {taxonomy.hash}", prompt=self.guidance.hash,
                via="dialogue" if self.together else "turn", context=self.context,
            )
        )  # fmt: skip


def annotate(
    conversation: Conversation, turns: Sequence[int], asking: Asking, model: str
) -> PromptFlow[list[IssueAnnotation | Unannotated]]:
    """Assess some turns of a conversation, each given all turns before it; in the order of `turns`."""
    found: dict[int, Found] = {}
    for group in _groups(conversation, turns, asking):
        found |= yield from _together(conversation, group, asking)
    alone = [turn for turn in turns if not isinstance(found.get(turn), Verdict) and not _is_over(found.get(turn))]
    failed = {turn: found[turn] for turn in alone if isinstance(found.get(turn), Failure)}
    again = yield from _one_by_one(conversation, alone, asking)
    # A request that failed counts, although the next one about the turn was not sent.
    found |= {turn: failed.get(turn, each) if _is_not_asked(each) else each for turn, each in again.items()}
    signature, taxonomy = asking.signature(model), asking.guidance.taxonomy
    read = {turn: verdict for turn in turns if isinstance(verdict := found[turn], Verdict)}
    made: list[Mended] = [
        postprocess(Target(conversation.id, turn), verdict, conversation.turns[turn].content, taxonomy, signature)
        for turn, verdict in read.items()
    ]
    assessments = yield from postprocessed(made, asking.guidance)
    said = turn_digests(conversation)
    by_turn: Mapping[int, IssueAnnotation] = {
        turn: replace(assessment, said=said[turn]) for turn, assessment in zip(read, assessments, strict=True)
    }
    return [by_turn.get(turn) or _unassessed(Target(conversation.id, turn), found[turn]) for turn in turns]


def prompts_of(conversation: Conversation, turns: Sequence[int], asking: Asking) -> list[Prompt]:
    """What is asked first about these turns; more only where a reply cannot be read or names an unknown kind."""
    groups = list(_groups(conversation, turns, asking))
    grouped = {turn for group in groups for turn in group}
    alone = [_alone(conversation, turn, asking) for turn in turns if turn not in grouped]
    return [*(asking.guidance.of_dialogue(_up_to(conversation, group), group) for group in groups), *alone]


def _groups(conversation: Conversation, turns: Sequence[int], asking: Asking) -> Iterator[Sequence[int]]:
    """Turns that go into one request: as many as fit; none where each is asked about alone."""
    most = int(asking.context * 0.8) if asking.context else LONGEST_DIALOGUE
    for start in range(0, len(turns) if asking.together else 0, MOST_TOGETHER):
        group = turns[start : start + MOST_TOGETHER]
        if len(group) > 1:
            prompt = asking.guidance.of_dialogue(_up_to(conversation, group), group)
            if estimated_usage(prompt).total <= most:
                yield group


def _together(conversation: Conversation, turns: Sequence[int], asking: Asking) -> PromptFlow[dict[int, Found]]:
    """The verdicts of one request about several turns."""
    prompt = asking.guidance.of_dialogue(_up_to(conversation, turns), turns)
    [reply] = yield [prompt]
    if isinstance(reply, Failure):
        return dict.fromkeys(turns, reply)
    return dict(read_verdicts(reply.text, turns))


def _one_by_one(conversation: Conversation, turns: Sequence[int], asking: Asking) -> PromptFlow[dict[int, Found]]:
    """The verdicts of a request for each turn, and of a second one where the first reply had losses."""
    if not turns:
        return {}
    prompts = [_alone(conversation, turn, asking) for turn in turns]
    replies = yield prompts
    found: dict[int, Found] = {}
    broken: list[tuple[int, Prompt]] = []
    for turn, prompt, reply in zip(turns, prompts, replies, strict=True):
        found[turn] = reply if isinstance(reply, Failure) else read_verdict(reply.text)
        reason = _trouble(found[turn])
        if not isinstance(reply, Failure) and reason:
            broken.append((turn, asking.guidance.again(prompt, reply.text, reason)))
    if broken:
        replies = yield [prompt for _, prompt in broken]
        for (turn, _), reply in zip(broken, replies, strict=True):
            found[turn] = _better(found[turn], reply if isinstance(reply, Failure) else read_verdict(reply.text))
    return found


def _alone(conversation: Conversation, turn: int, asking: Asking) -> Prompt:
    return asking.guidance.of_turn(asking.guidance.shown(Sample(conversation, turn), asking.context))


def _up_to(conversation: Conversation, turns: Sequence[int]) -> Conversation:
    """The conversation up to the last of some turns; of those before it the model can read on, and is told not to."""
    return conversation.at(max(turns))


def _trouble(found: Found) -> str | None:
    """Why a reply should be asked for again."""
    if isinstance(found, Unread):
        return found.reason
    return "; ".join(dict.fromkeys(found.losses)) or None if isinstance(found, Verdict) else None


def _better(first: Found, second: Found) -> Found:
    """Of two replies the one that lost less; the first where the second is none, or no better."""
    if not isinstance(second, Verdict):
        return second if isinstance(second, Failure) and not isinstance(first, Verdict) else first
    return second if not isinstance(first, Verdict) or len(second.losses) < len(first.losses) else first


def _is_over(found: Found | None) -> bool:
    return isinstance(found, Failure) and found.reason == OUT_OF_BUDGET


def _is_not_asked(found: Found) -> bool:
    return isinstance(found, Failure) and found.reason == NOT_ASKED


def _unassessed(target: Target, found: Found) -> Unannotated:
    if isinstance(found, Failure):
        return Unannotated(target, found.reason, found.detail)
    assert isinstance(found, Unread)
    return Unannotated(target, "no verdict", found.reason)
