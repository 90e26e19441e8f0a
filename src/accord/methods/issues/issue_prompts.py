"""Prompts for issue annotation, and the parser of verdicts.

SODA-EVAL, table 11: explain, then rate. The part shared by all prompts about one dialogue comes first, for prefix
caches.

The parser reads issues and score by form only and never guesses. A reply with two verdicts, or with text before the
verdict, could quote the transcript and is not read. Unreadable parts are counted by reason and never become an issue or
a score.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from accord.edges import BadInput, UnknownName, sendable
from accord.models import (
    ChatMessage,
    Failure,
    Prompt,
    documents_of,
    estimated_usage,
    fence_for,
    fit_to_context,
    prompt_file,
    room_left,
    strict_schema,
    transcript_of,
    unfenced,
)
from accord.values import (
    MAX_SCORE,
    MIN_SCORE,
    Conversation,
    Issue,
    IssueAnnotation,
    JsonSchema,
    Sample,
    Signature,
    Taxonomy,
    Turn,
    content_hash,
)

FULL, COMPACT = "full", "compact"
STYLES = (FULL, COMPACT)
PROMPTS = ("shared", "turn", "dialogue", "example", "repair", "kinds", "again")
MOST_SHOTS = 5
TOKENS_A_TURN, TOKENS_AROUND = 400, 50


@dataclass(frozen=True)
class Shot:
    """An example for the model: a dialogue, the judged turn, and the verdict as JSON."""

    turns: tuple[Turn, ...]
    turn: int
    verdict: Mapping[str, Any]


SHIPPED_SHOTS = (
    Shot(
        (
            Turn("user", "My flight leaves at nine. Is there a train that gets me to the airport by seven?"),
            Turn("assistant", "Yes: the 6:05 arrives at 6:48. Shall I look up the platform for you?"),
        ),
        1,
        {"issues": [], "comment": "It answers the question and offers a useful next step.", "score": 5},
    ),
    Shot(
        (
            Turn("user", "I sold my car last week, so I walk to work now."),
            Turn("assistant", "That is good for your health! Where do you park it while you work?"),
        ),
        1,
        {
            "issues": [
                {
                    "type": "Coherence",
                    "comment": "The user has just said that the car is sold.",
                    "quote": "Where do you park it",
                }
            ],
            "comment": "It asks about a car that was sold.",
            "score": 2,
        },
    ),
)
"""Two examples written for Accord, one without and one with an issue of a `soda-eval` kind."""


@dataclass(frozen=True)
class IssuePromptBuilder:
    """Prompts of issue annotation.

    Attributes:
        by_schema: True if the model supports JSON Schema.
        style: `full`; or `compact`, for single turns and a model fine-tuned on the taxonomy (SODA-EVAL, table 12).
        together: True if one request covers several turns of a dialogue.
        context: Tokens of one request and its answer, if known.
    """

    taxonomy: Taxonomy
    by_schema: bool = True
    shots: tuple[Shot, ...] = ()
    style: str = FULL
    together: bool = True
    context: int | None = None

    def __post_init__(self) -> None:
        if self.style not in STYLES:
            raise UnknownName("style of prompt", self.style, STYLES)
        if len(self.shots) > MOST_SHOTS:
            raise BadInput(f"{len(self.shots)} examples given; at most {MOST_SHOTS} are allowed")

    @property
    def hash(self) -> str:
        """Tagged digest of the parts that do not depend on the dialogue."""
        if self.style == COMPACT:
            return content_hash([template(COMPACT).template, self.taxonomy.hash], length=8)
        shots = [[[turn.to_json() for turn in shot.turns], shot.turn, shot.verdict] for shot in self.shots]
        return content_hash([[template(name).template for name in PROMPTS], shots, self.taxonomy.hash], length=8)

    def signature(self, model: str) -> str:
        """Return the signature of a model's annotations."""
        return str(
            Signature.of(
                "issues", model=model, taxonomy=f"{self.taxonomy.name} {self.taxonomy.hash}", prompt=self.hash,
                via="dialogue" if self.together else "turn", context=self.context,
            )
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Return style, hash and taxonomy as JSON."""
        return {"style": self.style, "hash": self.hash, "taxonomy": self.taxonomy.model_dump(mode="json")}

    def shown(self, sample: Sample) -> Sample:
        """Return a turn with as many earlier turns as fit into the context; `BadInput` if too few tokens are left."""
        if self.context is None:
            return sample
        bare = self.of_turn(Sample(Conversation("", (Turn("user", ""),)), 0))
        return fit_to_context(sample, room_left(estimated_usage(bare).total, self.context, "issues: context"))

    def of_turn(self, shown: Sample) -> Prompt:
        """Return the request about one turn, given the turns before it."""
        schema = _verdict_schema(self.taxonomy)
        if self.style == COMPACT:
            return self._prompt(COMPACT, _material(shown), TOKENS_A_TURN, schema, shown)
        parts = {"shared": self._shared(shown), "turn": shown.turn, "form": _form(FORM)}
        return self._prompt("turn", parts, TOKENS_A_TURN, schema, shown)

    def of_dialogue(self, conversation: Conversation, turns: Sequence[int]) -> Prompt:
        """Return one request about several turns of a dialogue."""
        listed = ", ".join(f"[{turn}]" for turn in turns)
        form = f'{{"turns": [{{"turn": NUMBER, {FORM[1:]}, ...]}}'
        sample = Sample(conversation)
        parts = {"shared": self._shared(sample), "turns": listed, "form": _form(form)}
        verdict = _verdict_schema(self.taxonomy)["properties"]
        of_turn = strict_schema({"turn": {"type": "integer", "enum": list(turns)}, **verdict})
        schema = strict_schema({"turns": {"type": "array", "items": of_turn}})
        return self._prompt("dialogue", parts, TOKENS_A_TURN * len(turns) + TOKENS_AROUND, schema, sample)

    def again(self, prompt: Prompt, reply: str, reason: str) -> Prompt:
        """Return the request to repeat an unreadable reply."""
        repair = ChatMessage("user", template("repair").substitute(reason=reason).strip())
        messages = (*prompt.messages, ChatMessage("assistant", reply[: 4 * prompt.max_tokens] or "-"), repair)
        return replace(prompt, messages=messages, top_logprobs=0, repeat=1)

    def _shared(self, shown: Sample) -> str:
        examples = "".join(map(_example, self.shots))
        parts = {"taxonomy": told_taxonomy(self.taxonomy), "examples": examples, **_material(shown)}
        return template("shared").substitute(parts).rstrip() + "\n"

    def _prompt(self, name: str, parts: Mapping[str, Any], tokens: int, schema: JsonSchema, shown: Sample) -> Prompt:
        text, own = template(name).substitute(parts).strip(), schema if self.by_schema else None
        names = (shown.conversation.id,) if all(shot in SHIPPED_SHOTS for shot in self.shots) else None
        return Prompt((ChatMessage("user", text),), tokens, 0.0, schema=own, conversations=names)


FORM = '{"issues": [{"type": KIND, "comment": "...", "quote": "..."}, ...], "comment": "...", "score": 1 to 5}'


template = partial(prompt_file, "accord.methods.issues")
"""Return a prompt file of this package."""


def told_taxonomy(taxonomy: Taxonomy) -> str:
    """Return one line per kind of issue, with its definition."""
    return "\n".join(f"- {kind.name}: {kind.definition}" for kind in taxonomy.issues)


def _material(shown: Sample) -> dict[str, str]:
    """Return the judged transcript and documents with their fence."""
    transcript = transcript_of(shown.conversation.up_to(shown.turn), shown.hidden)
    documents = documents_of(shown.conversation.documents)
    fence = fence_for(transcript + documents)
    fenced_documents = f"Documents the assistant could see:\n{fence}\n{documents}\n{fence}\n" if documents else ""
    return {"fence": fence, "conversation": transcript, "documents": fenced_documents}


def _example(shot: Shot) -> str:
    transcript = transcript_of(shot.turns)
    verdict = json.dumps(shot.verdict, ensure_ascii=False)
    parts = {"fence": fence_for(transcript), "conversation": transcript, "turn": shot.turn, "verdict": verdict}
    return template("example").substitute(parts)


def _form(form: str) -> str:
    return f"Answer with nothing but a JSON object: {form}"


def _verdict_schema(taxonomy: Taxonomy) -> JsonSchema:
    text: JsonSchema = {"type": "string"}
    issue = strict_schema({"type": {"type": "string", "enum": list(taxonomy.names)}, "comment": text, "quote": text})
    score: JsonSchema = {"type": "integer", "enum": list(range(MIN_SCORE, MAX_SCORE + 1))}
    return strict_schema({"issues": {"type": "array", "items": issue}, "comment": text, "score": score})


LONGEST = 2000
"""Characters of a dialogue shown as an example."""


def shots_of(pairs: Sequence[tuple[Conversation, IssueAnnotation]], count: int, seed: int = 0) -> tuple[Shot, ...]:
    """Draw up to `count` examples by a seed from short dialogues, alternating with and without issues."""
    drawn = list(pairs)
    random.Random(seed).shuffle(drawn)
    fits = [(c, a) for c, a in drawn if sum(len(turn.content) for turn in c.up_to(a.target.turn)) <= LONGEST]
    kinds = [[pair for pair in fits if bool(pair[1].issues) is has_issues] for has_issues in (True, False)]
    shots: list[Shot] = []
    used: set[str] = set()
    while len(shots) < min(count, MOST_SHOTS) and any(kinds):
        kind = kinds[len(shots) % 2] or kinds[(len(shots) + 1) % 2]
        conversation, assessment = kind.pop()
        if conversation.id not in used and assessment.target.turn is not None:
            used.add(conversation.id)
            turn = assessment.target.turn
            shots.append(Shot(tuple(conversation.turns[: turn + 1]), turn, verdict_of(assessment)))
    return tuple(shots)


def verdict_of(assessment: IssueAnnotation) -> dict[str, object]:
    """Return an annotation as the verdict that a model should write: issues, comment, then score.

    A quote that does not occur in the reply is left empty, so that no model learns to invent quotes.
    """
    issues = [
        {"type": issue.type, "comment": issue.comment, "quote": "" if issue.is_made_up else issue.quote}
        for issue in assessment.issues
    ]
    return {"issues": issues, "comment": assessment.comment, "score": assessment.score}


# --- parsing --------------------------------------------------------------------------------------------------------

NO_VERDICT = "no verdict"
"""Reason of a `Failure` for a reply that cannot be read; its detail says why."""

LONGEST_TEXT = 1000
"""Characters of a comment or a quote; longer ones are cut."""
MOST_ISSUES = 50

_DIGITS = re.compile(r"\s*([0-9])(?:\.0+)?\s*")


@dataclass(frozen=True, slots=True)
class ReplyVerdict:
    """A model's verdict on one reply: issues of any type, and in `losses` the reasons for unreadable parts."""

    issues: tuple[Issue, ...]
    score: int
    comment: str
    losses: tuple[str, ...] = ()


class _RepeatedKey(ValueError):
    """A JSON object has a key twice."""


def read_verdict(text: str) -> ReplyVerdict | Failure:
    """Read the verdict on one reply: `{"issues": [{"type", "comment", "quote"}], "score": 1..5, "comment"}`.

    The verdict may be in one code fence, and text may follow it.
    """
    content = _only_object(text)
    return content if isinstance(content, Failure) else _read(content)


def read_verdicts(text: str, turns: Sequence[int]) -> dict[int, ReplyVerdict | Failure]:
    """Read verdicts on several replies, `{"turns": [{"turn": 3, ...}, ...]}`; every turn has an entry."""
    content = _only_object(text)
    entries = content.get("turns") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        reason = content if isinstance(content, Failure) else _unreadable("no list of turns")
        return dict.fromkeys(turns, reason)
    by_turn: dict[int, ReplyVerdict | Failure] = {}
    for entry in entries:
        turn = _whole(entry.get("turn")) if isinstance(entry, dict) else None
        if turn in turns and turn is not None:
            by_turn[turn] = _unreadable("two verdicts on one turn") if turn in by_turn else _read(entry)
    return {turn: by_turn.get(turn, _unreadable("no verdict on this turn")) for turn in turns}


def _unreadable(reason: str) -> Failure:
    return Failure(NO_VERDICT, reason)


def _only_object(text: str) -> dict[str, Any] | Failure:
    """Return the JSON object at the beginning of a text, plain or fenced."""
    body, after = unfenced(text.strip().removeprefix("\ufeff"))
    if not body:
        return _unreadable("empty reply")
    if not body.startswith("{"):
        return _unreadable("text before the verdict" if "{" in body else "no JSON object")
    try:
        content, end = _decoder.raw_decode(body)
    except _RepeatedKey:
        return _unreadable("duplicate key")
    except (ValueError, RecursionError):
        return _unreadable("broken or truncated JSON")
    if _more(body[end:] + after):
        return _unreadable("more than one verdict")
    return content if isinstance(content, dict) else _unreadable("no JSON object")


def _more(rest: str) -> bool:
    """Return True if the rest could contain another verdict."""
    return "{" in rest and ('"score"' in rest or '"issues"' in rest)


def _read(content: Mapping[str, Any]) -> ReplyVerdict | Failure:
    score = _score(content.get("score"))
    if score is None:
        return _unreadable("no score" if content.get("score") is None else "score outside 1 to 5")
    entries = content.get("issues")
    if not isinstance(entries, list):
        return _unreadable("no list of issues")
    losses: list[str] = []
    issues = tuple(_stated(entries[:MOST_ISSUES], losses))
    losses += ["too many issues"] * max(len(entries) - MOST_ISSUES, 0)
    comment = content.get("comment", "")
    if not isinstance(comment, str):
        losses.append("comment is not text")
        comment = ""
    return ReplyVerdict(issues, score, _text(comment), tuple(losses))


def _stated(entries: Sequence[Any], losses: list[str]) -> Iterator[Issue]:
    for entry in entries:
        if not isinstance(entry, dict):
            losses.append("issue is not an object")
            continue
        kind, comment, quote = entry.get("type"), entry.get("comment", ""), entry.get("quote") or ""
        if not isinstance(kind, str) or not kind.strip():
            losses.append("issue without a type")
        elif not isinstance(comment, str) or not isinstance(quote, str):
            losses.append("comment or quote of an issue is not text")
        else:
            yield Issue(_text(kind)[:100], _text(comment), _text(quote))


def _score(value: Any) -> int | None:
    """Return an integer from 1 to 5, or its digit as text."""
    digit = _DIGITS.fullmatch(value) if isinstance(value, str) else None
    number = int(digit[1]) if digit else _whole(value)
    return number if number is not None and MIN_SCORE <= number <= MAX_SCORE else None


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value == value // 1 else None


def _text(text: str) -> str:
    """Return a text in one line without characters that pages and files cannot hold."""
    valid = text if text.isascii() else sendable(text).replace("\ufffd", "")
    return " ".join(valid.replace("\0", "").split())[:LONGEST_TEXT]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise _RepeatedKey
    return content


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


_decoder = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number)
