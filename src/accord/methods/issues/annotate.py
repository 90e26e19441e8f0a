"""Annotation (SODA-EVAL, section 4.1): a model annotates each reply of a dialogue, given all turns before it.

One request covers a whole dialogue if it fits. A turn with an unreadable verdict gets a separate request, then a
repeated one that states the reason. If both fail, it stays unannotated. The result has the same form either way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from accord.methods.issues.issue_prompts import IssuePromptBuilder, template, told_taxonomy
from accord.methods.issues.verdict_parser import UnreadableVerdict, Verdict, read_verdict, read_verdicts
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

NO_KIND = "issue outside the taxonomy"


@dataclass(frozen=True, slots=True)
class PostprocessedAnnotation:
    """An annotation, and the indices of its issues with an unknown kind."""

    assessment: IssueAnnotation
    unknown: tuple[int, ...] = ()


def postprocess(
    target: Target, verdict: Verdict, reply: str, taxonomy: Taxonomy, signature: str
) -> PostprocessedAnnotation:
    """Return an annotation from a verdict, with kinds resolved by name and alias and quotes looked up in `reply`."""
    issues, unknown = [], []
    for place, stated in enumerate(verdict.issues):
        kind = taxonomy.find(stated.type)
        if kind is None:
            unknown.append(place)
        name = stated.type if kind is None else kind.name
        original_kind = None if name == stated.type and kind is not None else stated.type
        issues.append(Issue(name, stated.comment, stated.quote, find_quote(stated.quote, reply), original_kind))
    made = IssueAnnotation(target, tuple(issues), verdict.score, verdict.comment, signature, verdict.losses)
    return PostprocessedAnnotation(made, tuple(unknown))


def settled(found: PostprocessedAnnotation, taxonomy: Taxonomy, kinds: Sequence[str | None] = ()) -> IssueAnnotation:
    """Return the annotation with a kind for each unknown issue: the found kind, else the residual kind.

    Without a residual kind, the issue is dropped and counted as a loss.
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


def postprocessed(
    found: Sequence[PostprocessedAnnotation], guidance: IssuePromptBuilder
) -> PromptFlow[list[IssueAnnotation]]:
    """Settle the kinds of all issues of one dialogue, with one request for all unknown kinds.

    Issues without an answer get the residual kind.
    """
    taxonomy = guidance.taxonomy
    unknown = [(part, part.assessment.issues[place]) for part in found for place in part.unknown]
    kinds = yield from _kinds([issue for _, issue in unknown], guidance)
    answers = iter(kinds)
    assessments = [settled(part, taxonomy, [next(answers) for _ in part.unknown]) for part in found]
    return (yield from _looked_at_again(assessments, guidance))


def _kinds(issues: Sequence[Issue], guidance: IssuePromptBuilder) -> PromptFlow[list[str | None]]:
    """Return the kind of each issue by the model's answer; `None` without one."""
    if not issues:
        return []
    form = ListForm("kinds", {"number": "NUMBER", "kind": '"KIND"'}, len(issues), "its number and its kind.", 30)
    issue_list = _numbered([f"{issue.said}: {issue.comment}" for issue in issues])
    parts = {"taxonomy": told_taxonomy(guidance.taxonomy), "issues": issue_list, "fence": fence_for(issue_list)}
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
    """Move issues of the residual kind to the kind that the model confirms."""
    taxonomy, second_look = guidance.taxonomy, guidance.taxonomy.looked_at_again
    places = [
        (row, column)
        for row, assessment in enumerate(assessments)
        for column, issue in enumerate(assessment.issues)
        if issue.type == taxonomy.other
    ]
    if second_look is None or not places:
        return list(assessments)
    form = ListForm("yes", {"number": "NUMBER"}, len(places), "its number.", 15)
    issue_list = _numbered([assessments[row].issues[column].comment for row, column in places])
    parts = {"question": second_look.question, "issues": issue_list, "fence": fence_for(issue_list)}
    entries = yield from ask_for_list(_prompt("again", parts, form, guidance), form)
    confirmed = set() if isinstance(entries, Failure) else {entry.get("number") for entry in entries}
    revised = list(assessments)
    for number, (row, column) in enumerate(places, 1):
        if number in confirmed:
            issues = list(revised[row].issues)
            issues[column] = replace(issues[column], type=second_look.type, said=issues[column].said or taxonomy.other)
            revised[row] = replace(revised[row], issues=tuple(issues))
    return revised


def _prompt(name: str, parts: dict[str, str], form: ListForm, guidance: IssuePromptBuilder) -> Prompt:
    text = template(name).substitute({**parts, "form": form.instruction(by_schema=True)}).strip()
    schema = form.schema() if guidance.by_schema else None
    return Prompt((ChatMessage("user", text),), max(form.most, 2) * form.tokens, schema=schema)


def _numbered(lines: Sequence[str]) -> str:
    return "\n".join(f"{number}. {json.dumps(line, ensure_ascii=False)}" for number, line in enumerate(lines, 1))


MOST_TOGETHER = 30
"""Turns of a dialogue per request."""
LONGEST_DIALOGUE = 24_000
"""Estimated tokens of a request about several turns, for a model with unknown context."""

VerdictResult = Verdict | UnreadableVerdict | Failure


@dataclass(frozen=True)
class FinderOptions:
    """Options of the annotating model.

    Attributes:
        guidance: Prompts.
        together: True if one request covers several turns of a dialogue.
        context: Tokens of one request and its answer, if known.
    """

    guidance: IssuePromptBuilder
    together: bool = True
    context: int | None = None

    def signature(self, model: str) -> str:
        """Return the signature of the annotations."""
        taxonomy = self.guidance.taxonomy
        return str(
            Signature.of(
                "issues", model=model, taxonomy=f"{taxonomy.name} {taxonomy.hash}", prompt=self.guidance.hash,
                via="dialogue" if self.together else "turn", context=self.context,
            )
        )  # fmt: skip


def annotate(
    conversation: Conversation, turns: Sequence[int], asking: FinderOptions, model: str
) -> PromptFlow[list[IssueAnnotation | Unannotated]]:
    """Annotate some turns of a conversation, each given all turns before it; in the order of `turns`."""
    verdicts: dict[int, VerdictResult] = {}
    for group in _groups(conversation, turns, asking):
        verdicts |= yield from _together(conversation, group, asking)
    unread = [
        turn for turn in turns if not isinstance(verdicts.get(turn), Verdict) and not _is_over(verdicts.get(turn))
    ]
    failed = {turn: verdicts[turn] for turn in unread if isinstance(verdicts.get(turn), Failure)}
    retried = yield from _one_by_one(conversation, unread, asking)
    # Keep the failed request if the retry was not sent.
    verdicts |= {
        turn: failed.get(turn, verdict) if _is_not_asked(verdict) else verdict for turn, verdict in retried.items()
    }
    signature, taxonomy = asking.signature(model), asking.guidance.taxonomy
    read = {turn: verdict for turn in turns if isinstance(verdict := verdicts[turn], Verdict)}
    processed: list[PostprocessedAnnotation] = [
        postprocess(Target(conversation.id, turn), verdict, conversation.turns[turn].content, taxonomy, signature)
        for turn, verdict in read.items()
    ]
    assessments = yield from postprocessed(processed, asking.guidance)
    content_digests = turn_digests(conversation)
    by_turn: Mapping[int, IssueAnnotation] = {
        turn: replace(assessment, said=content_digests[turn])
        for turn, assessment in zip(read, assessments, strict=True)
    }
    return [by_turn.get(turn) or _unassessed(Target(conversation.id, turn), verdicts[turn]) for turn in turns]


def prompts_of(conversation: Conversation, turns: Sequence[int], asking: FinderOptions) -> list[Prompt]:
    """Return the first requests about these turns; unreadable replies and unknown kinds need more."""
    groups = list(_groups(conversation, turns, asking))
    grouped = {turn for group in groups for turn in group}
    alone = [_alone(conversation, turn, asking) for turn in turns if turn not in grouped]
    return [*(asking.guidance.of_dialogue(_up_to(conversation, group), group) for group in groups), *alone]


def _groups(conversation: Conversation, turns: Sequence[int], asking: FinderOptions) -> Iterator[Sequence[int]]:
    """Yield groups of turns that share a request; none if each turn has its own."""
    token_limit = int(asking.context * 0.8) if asking.context else LONGEST_DIALOGUE
    for start in range(0, len(turns) if asking.together else 0, MOST_TOGETHER):
        group = turns[start : start + MOST_TOGETHER]
        if len(group) > 1:
            prompt = asking.guidance.of_dialogue(_up_to(conversation, group), group)
            if estimated_usage(prompt).total <= token_limit:
                yield group


def _together(
    conversation: Conversation, turns: Sequence[int], asking: FinderOptions
) -> PromptFlow[dict[int, VerdictResult]]:
    """Return the verdicts of one request about several turns."""
    prompt = asking.guidance.of_dialogue(_up_to(conversation, turns), turns)
    [reply] = yield [prompt]
    if isinstance(reply, Failure):
        return dict.fromkeys(turns, reply)
    return dict(read_verdicts(reply.text, turns))


def _one_by_one(
    conversation: Conversation, turns: Sequence[int], asking: FinderOptions
) -> PromptFlow[dict[int, VerdictResult]]:
    """Return the verdicts of one request per turn, and of a repeated one after a reply with losses."""
    if not turns:
        return {}
    prompts = [_alone(conversation, turn, asking) for turn in turns]
    replies = yield prompts
    verdicts: dict[int, VerdictResult] = {}
    to_repeat: list[tuple[int, Prompt]] = []
    for turn, prompt, reply in zip(turns, prompts, replies, strict=True):
        verdicts[turn] = reply if isinstance(reply, Failure) else read_verdict(reply.text)
        reason = _trouble(verdicts[turn])
        if not isinstance(reply, Failure) and reason:
            to_repeat.append((turn, asking.guidance.again(prompt, reply.text, reason)))
    if to_repeat:
        replies = yield [prompt for _, prompt in to_repeat]
        for (turn, _), reply in zip(to_repeat, replies, strict=True):
            verdicts[turn] = _better(verdicts[turn], reply if isinstance(reply, Failure) else read_verdict(reply.text))
    return verdicts


def _alone(conversation: Conversation, turn: int, asking: FinderOptions) -> Prompt:
    return asking.guidance.of_turn(asking.guidance.shown(Sample(conversation, turn), asking.context))


def _up_to(conversation: Conversation, turns: Sequence[int]) -> Conversation:
    """Return the conversation up to the last of some turns; the prompt tells the model to ignore later ones."""
    return conversation.at(max(turns))


def _trouble(found: VerdictResult) -> str | None:
    """Return the reason to repeat a request; `None` if the reply is complete."""
    if isinstance(found, UnreadableVerdict):
        return found.reason
    return "; ".join(dict.fromkeys(found.losses)) or None if isinstance(found, Verdict) else None


def _better(first: VerdictResult, second: VerdictResult) -> VerdictResult:
    """Return the reply with fewer losses; the first one in a tie or without a second verdict."""
    if not isinstance(second, Verdict):
        return second if isinstance(second, Failure) and not isinstance(first, Verdict) else first
    return second if not isinstance(first, Verdict) or len(second.losses) < len(first.losses) else first


def _is_over(found: VerdictResult | None) -> bool:
    return isinstance(found, Failure) and found.reason == OUT_OF_BUDGET


def _is_not_asked(found: VerdictResult) -> bool:
    return isinstance(found, Failure) and found.reason == NOT_ASKED


def _unassessed(target: Target, found: VerdictResult) -> Unannotated:
    if isinstance(found, Failure):
        return Unannotated(target, found.reason, found.detail)
    assert isinstance(found, UnreadableVerdict)
    return Unannotated(target, "no verdict", found.reason)
