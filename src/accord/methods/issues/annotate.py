"""Annotation (SODA-EVAL, section 4.1): a model annotates each reply of a dialogue, given all turns before it.

One request covers a whole dialogue if it fits. A turn with an unreadable verdict gets a separate request, then a
repeated one that states the reason. If both fail, it stays unannotated. The result has the same form either way.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files

from accord.methods.issues.issue_prompts import (
    NO_VERDICT,
    IssuePromptBuilder,
    ReplyVerdict,
    read_verdict,
    read_verdicts,
    template,
    told_taxonomy,
)
from accord.models import (
    NOT_ASKED,
    OUT_OF_BUDGET,
    ChatMessage,
    Failure,
    ListForm,
    Prompt,
    PromptFlow,
    Reply,
    ask_for_list,
    estimated_usage,
    fence_for,
)
from accord.values import (
    NON_SPEAKERS,
    Conversation,
    Issue,
    IssueAnnotation,
    Sample,
    Target,
    Taxonomy,
    Unannotated,
    find_quote,
    turn_digests,
)

# --- selection of dialogues and turns (appendix C.1) ----------------------------------------------------------------

NO_CONTEXT, EMPTY, NO_REPLY = "no turn before it", "empty", "no reply in it"
MORE_SPEAKERS = "more than two speakers"
_ROLES = frozenset({"user", "assistant", "speaker_a", "speaker_b"})


@dataclass
class JudgedTurns:
    """Turns to annotate in one conversation, skipped turns by reason, and unusual properties to review (`odd`)."""

    turns: list[int] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    odd: Counter[str] = field(default_factory=Counter)


def judged_turns(conversation: Conversation, all_speakers: bool = False) -> JudgedTurns:
    """Return the replies of a conversation that have words and at least one turn before them.

    Without an earlier turn, a reply is judged by its surface only, and too severely. With `all_speakers`, the turns of
    all speakers are judged, as in conversations between two models.
    """
    selection = JudgedTurns()
    replies = {id(turn) for turn in conversation.replies}
    has_context = False
    for place, turn in enumerate(conversation.turns):
        if turn.role in NON_SPEAKERS:
            continue
        if all_speakers or id(turn) in replies:
            reason = EMPTY if not turn.content.strip() else None if has_context else NO_CONTEXT
            if reason is None:
                selection.turns.append(place)
            else:
                selection.skipped[reason] += 1
        has_context = has_context or bool(turn.content.strip())
    if not selection.turns and not selection.skipped:
        selection.skipped[NO_REPLY] += 1
    if len(speakers(conversation)) > 2:
        selection.odd[MORE_SPEAKERS] += 1
    return selection


def largest(conversations: Iterable[Conversation]) -> list[Conversation]:
    """Return dialogues by decreasing number of turns, then of words, then by id.

    Longer dialogues are more likely to have coherence issues.
    """
    return sorted(
        conversations, key=lambda one: (-len(one.turns), -sum(len(t.content.split()) for t in one.turns), one.id)
    )


def speakers(conversation: Conversation) -> list[str]:
    """Return the names of the speakers (or their roles), in the order of their first turn."""
    return list(dict.fromkeys(turn.name or turn.role for turn in conversation.turns if turn.role not in NON_SPEAKERS))


@cache
def _animals_and_things() -> frozenset[str]:
    return frozenset((files("accord.methods.issues") / "not_people.txt").read_text(encoding="utf-8").split())


def has_only_people(conversation: Conversation) -> bool:
    """Return False if a speaker has the name of an animal or a thing."""
    names = (name for name in speakers(conversation) if name not in _ROLES)
    return not any(" ".join(name.lower().split()) in _animals_and_things() for name in names)


# --- post-processing ------------------------------------------------------------------------------------------------

NO_KIND = "issue outside the taxonomy"


def postprocess(
    target: Target, verdict: ReplyVerdict, reply: str, taxonomy: Taxonomy, signature: str
) -> IssueAnnotation:
    """Return an annotation from a verdict, with quotes looked up in `reply`, and kinds resolved by name and alias.

    An unknown kind keeps the name that the model wrote.
    """
    issues = []
    for stated in verdict.issues:
        kind = taxonomy.find(stated.type)
        name = stated.type if kind is None else kind.name
        said = None if kind is not None and name == stated.type else stated.type
        issues.append(Issue(name, stated.comment, stated.quote, find_quote(stated.quote, reply), said))
    return IssueAnnotation(target, tuple(issues), verdict.score, verdict.comment, signature, verdict.losses)


def settled(found: IssueAnnotation, taxonomy: Taxonomy, kinds: Iterable[str | None] = ()) -> IssueAnnotation:
    """Return the annotation with a kind for each unknown issue: the next one of `kinds`, else the residual kind.

    Without a residual kind, the issue is dropped and counted as a loss.
    """
    given, issues, losses = iter(kinds), [], list(found.losses)
    for issue in found.issues:
        kind = issue.type if issue.type in taxonomy.names else next(given, None) or taxonomy.other
        if kind is None:
            losses.append(NO_KIND)
        else:
            issues.append(replace(issue, type=kind))
    return replace(found, issues=tuple(issues), losses=tuple(losses))


def postprocessed(found: Sequence[IssueAnnotation], guidance: IssuePromptBuilder) -> PromptFlow[list[IssueAnnotation]]:
    """Settle the kinds of all issues of one dialogue, with one request for all unknown kinds.

    Issues without an answer get the residual kind.
    """
    taxonomy = guidance.taxonomy
    unknown = [issue for each in found for issue in each.issues if issue.type not in taxonomy.names]
    names = tuple(dict.fromkeys(each.target.conversation for each in found))
    kinds = iter((yield from _kinds(unknown, guidance, names)))
    return (yield from _looked_at_again([settled(each, taxonomy, kinds) for each in found], guidance))


def _kinds(
    issues: Sequence[Issue], guidance: IssuePromptBuilder, conversations: tuple[str, ...]
) -> PromptFlow[list[str | None]]:
    """Return the kind of each issue in conversations by the model's answer; `None` without one."""
    if not issues:
        return []
    form = ListForm("kinds", {"number": "NUMBER", "kind": '"KIND"'}, len(issues), "its number and its kind.", 30)
    issue_list = _numbered([f"{issue.said}: {issue.comment}" for issue in issues])
    parts = {"taxonomy": told_taxonomy(guidance.taxonomy), "issues": issue_list, "fence": fence_for(issue_list)}
    entries = yield from ask_for_list(_prompt("kinds", parts, form, guidance, conversations), form)
    kinds: list[str | None] = [None] * len(issues)
    for entry in () if isinstance(entries, Failure) else entries:
        number, kind = entry.get("number"), guidance.taxonomy.find(entry.get("kind", ""))
        if isinstance(number, int) and 0 < number <= len(issues) and kind is not None:
            kinds[number - 1] = kind.name
    return kinds


def _looked_at_again(
    assessments: list[IssueAnnotation], guidance: IssuePromptBuilder
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
        return assessments
    form = ListForm("yes", {"number": "NUMBER"}, len(places), "its number.", 15)
    issue_list = _numbered([assessments[row].issues[column].comment for row, column in places])
    parts = {"question": second_look.question, "issues": issue_list, "fence": fence_for(issue_list)}
    names = (each.target.conversation for each in assessments)
    entries = yield from ask_for_list(_prompt("again", parts, form, guidance, tuple(dict.fromkeys(names))), form)
    confirmed = set() if isinstance(entries, Failure) else {entry.get("number") for entry in entries}
    for number, (row, column) in enumerate(places, 1):
        if number in confirmed:
            issues = list(assessments[row].issues)
            issues[column] = replace(issues[column], type=second_look.type, said=issues[column].said or taxonomy.other)
            assessments[row] = replace(assessments[row], issues=tuple(issues))
    return assessments


def _prompt(
    name: str, parts: dict[str, str], form: ListForm, guidance: IssuePromptBuilder, conversations: tuple[str, ...]
) -> Prompt:
    text = template(name).substitute({**parts, "form": form.instruction(by_schema=True)}).strip()
    schema = form.schema() if guidance.by_schema else None
    tokens = max(form.most, 2) * form.tokens
    return Prompt((ChatMessage("user", text),), tokens, schema=schema, conversations=conversations)


def _numbered(lines: Sequence[str]) -> str:
    return "\n".join(f"{number}. {json.dumps(line, ensure_ascii=False)}" for number, line in enumerate(lines, 1))


# --- annotation -----------------------------------------------------------------------------------------------------

MOST_TOGETHER = 30
"""Turns of a dialogue per request."""
LONGEST_DIALOGUE = 24_000
"""Estimated tokens of a request about several turns, for a model with unknown context."""


def annotate(
    conversation: Conversation, turns: Sequence[int], guidance: IssuePromptBuilder, model: str
) -> PromptFlow[list[IssueAnnotation | Unannotated]]:
    """Annotate some turns of a conversation, each given all turns before it; in the order of `turns`."""
    verdicts: dict[int, ReplyVerdict | Failure] = {}
    for group, prompt in _groups(conversation, turns, guidance):
        [reply] = yield [prompt]
        verdicts |= dict.fromkeys(group, reply) if isinstance(reply, Failure) else read_verdicts(reply.text, group)
    unread = [
        turn
        for turn in turns
        if not isinstance(verdicts.get(turn), ReplyVerdict) and _reason(verdicts.get(turn)) != OUT_OF_BUDGET
    ]
    retried = yield from _one_by_one(conversation, unread, guidance)
    for turn, verdict in retried.items():
        # Keep the failed request if the retry was not sent.
        if _reason(verdict) != NOT_ASKED or _reason(verdicts.get(turn)) in {None, NO_VERDICT}:
            verdicts[turn] = verdict
    signature = guidance.signature(model)
    read = [
        postprocess(
            Target(conversation.id, turn), verdict, conversation.turns[turn].content, guidance.taxonomy, signature
        )
        for turn in turns
        if isinstance(verdict := verdicts[turn], ReplyVerdict)
    ]
    assessments = iter((yield from postprocessed(read, guidance)))
    digests = turn_digests(conversation)
    return [
        Unannotated(Target(conversation.id, turn), verdict.reason, verdict.detail)
        if isinstance(verdict := verdicts[turn], Failure)
        else replace(next(assessments), said=digests[turn])
        for turn in turns
    ]


def _groups(
    conversation: Conversation, turns: Sequence[int], guidance: IssuePromptBuilder
) -> Iterator[tuple[Sequence[int], Prompt]]:
    """Yield groups of turns that share a request, and the request; yield nothing if each turn has its own request."""
    token_limit = int(guidance.context * 0.8) if guidance.context else LONGEST_DIALOGUE
    for start in range(0, len(turns) if guidance.together else 0, MOST_TOGETHER):
        group = turns[start : start + MOST_TOGETHER]
        if len(group) > 1:
            # The prompt tells the model to ignore turns after the judged one.
            prompt = guidance.of_dialogue(conversation.at(max(group)), group)
            if estimated_usage(prompt).total <= token_limit:
                yield group, prompt


def _one_by_one(
    conversation: Conversation, turns: Sequence[int], guidance: IssuePromptBuilder
) -> PromptFlow[dict[int, ReplyVerdict | Failure]]:
    """Return the verdicts of one request per turn, and of a repeated one after a reply with losses."""
    if not turns:
        return {}
    prompts = [guidance.of_turn(guidance.shown(Sample(conversation, turn))) for turn in turns]
    replies = yield prompts
    verdicts = {turn: _verdict(reply) for turn, reply in zip(turns, replies, strict=True)}
    to_repeat = {
        turn: guidance.again(prompt, reply.text, reason)
        for turn, prompt, reply in zip(turns, prompts, replies, strict=True)
        if isinstance(reply, Reply) and (reason := _trouble(verdicts[turn]))
    }
    if to_repeat:
        replies = yield list(to_repeat.values())
        for turn, reply in zip(to_repeat, replies, strict=True):
            verdicts[turn] = _better(verdicts[turn], _verdict(reply))
    return verdicts


def _verdict(reply: Reply | Failure) -> ReplyVerdict | Failure:
    return reply if isinstance(reply, Failure) else read_verdict(reply.text)


def _reason(found: ReplyVerdict | Failure | None) -> str | None:
    return found.reason if isinstance(found, Failure) else None


def _trouble(found: ReplyVerdict | Failure) -> str:
    """Return the reason to repeat a request; empty if the reply is complete."""
    return found.detail if isinstance(found, Failure) else "; ".join(dict.fromkeys(found.losses))


def _better(first: ReplyVerdict | Failure, second: ReplyVerdict | Failure) -> ReplyVerdict | Failure:
    """Return the reply with fewer losses; the first one in a tie or without a second verdict."""
    if isinstance(second, Failure):
        return first if isinstance(first, ReplyVerdict) or second.reason == NO_VERDICT else second
    return second if isinstance(first, Failure) or len(second.losses) < len(first.losses) else first
