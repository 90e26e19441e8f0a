"""What a model is told when it looks for issues: the taxonomy, the dialogue in a fence, the form of a verdict.

SODA-EVAL, table 11: explain, then rate. What all prompts about one dialogue share comes first, so that prefix caches
hit.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from accord.edges import BadInput, UnknownName
from accord.models import (
    ChatMessage,
    Prompt,
    documents_of,
    estimated_usage,
    fence_for,
    fit_to_context,
    prompt_file,
    room_left,
    strict_schema,
    transcript_of,
)
from accord.values import (
    MAX_SCORE,
    MIN_SCORE,
    Conversation,
    IssueAnnotation,
    JsonSchema,
    Sample,
    Taxonomy,
    Turn,
    content_hash,
)

FULL, COMPACT = "full", "compact"
STYLES = (FULL, COMPACT)
PROMPTS = ("shared", "turn", "dialogue", "example", "repair", "kinds", "again")
MOST_SHOTS = 5
TOKENS_A_TURN, TOKENS_AROUND = 400, 50
TEMPERATURE = 0.0


@dataclass(frozen=True)
class Shot:
    """An example that a model is shown: a dialogue, the turn that was judged, and the verdict as JSON."""

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
"""Two examples written for Accord, one without an issue and one with: the kind is that of `soda-eval`."""


@dataclass(frozen=True)
class IssuePromptBuilder:
    """How a model is told to look for issues.

    Attributes:
        taxonomy: The kinds of issues.
        by_schema: Whether the model keeps a JSON Schema.
        shots: Examples to show it.
        style: `full`; or `compact`, of single turns, for a model that has learned the taxonomy's verdicts and need not
            be told them (SODA-EVAL, table 12).
    """

    taxonomy: Taxonomy
    by_schema: bool = True
    shots: tuple[Shot, ...] = ()
    style: str = FULL

    def __post_init__(self) -> None:
        if self.style not in STYLES:
            raise UnknownName("style of prompt", self.style, STYLES)
        if len(self.shots) > MOST_SHOTS:
            raise BadInput(f"at most {MOST_SHOTS} examples are shown, got {len(self.shots)}")

    @property
    def hash(self) -> str:
        """A tagged digest of everything that is told, whatever the dialogue."""
        if self.style == COMPACT:
            return content_hash([template(COMPACT).template, self.taxonomy.hash], length=8)
        shots = [[[turn.to_json() for turn in shot.turns], shot.turn, shot.verdict] for shot in self.shots]
        return content_hash([[template(name).template for name in PROMPTS], shots, self.taxonomy.hash], length=8)

    def to_json(self) -> dict[str, Any]:
        """How it is told, and the taxonomy, as JSON."""
        return {"style": self.style, "hash": self.hash, "taxonomy": self.taxonomy.model_dump(mode="json")}

    def of_turn(self, shown: Sample) -> Prompt:
        """What is asked about one turn, given those before it."""
        schema = _verdict_schema(self.taxonomy)
        if self.style == COMPACT:
            return self._prompt(COMPACT, _material(shown), TOKENS_A_TURN, schema)
        parts = {"shared": self._shared(shown), "turn": shown.turn, "form": _form(FORM)}
        return self._prompt("turn", parts, TOKENS_A_TURN, schema)

    def of_dialogue(self, conversation: Conversation, turns: Sequence[int]) -> Prompt:
        """What is asked about several turns of one dialogue at once."""
        listed = ", ".join(f"[{turn}]" for turn in turns)
        form = f'{{"turns": [{{"turn": NUMBER, {FORM[1:]}, ...]}}'
        parts = {"shared": self._shared(Sample(conversation)), "turns": listed, "form": _form(form)}
        verdict = _verdict_schema(self.taxonomy)["properties"]
        one = strict_schema({"turn": {"type": "integer", "enum": list(turns)}, **verdict})
        schema = strict_schema({"turns": {"type": "array", "items": one}})
        return self._prompt("dialogue", parts, TOKENS_A_TURN * len(turns) + TOKENS_AROUND, schema)

    def again(self, prompt: Prompt, reply: str, reason: str) -> Prompt:
        """The same once more, after a reply that could not be read."""
        asked = ChatMessage("user", template("repair").substitute(reason=reason).strip())
        messages = (*prompt.messages, ChatMessage("assistant", reply[: 4 * prompt.max_tokens] or "-"), asked)
        return Prompt(messages, prompt.max_tokens, prompt.temperature, schema=prompt.schema, repeat=1)

    def room(self, context: int, setting: str) -> int:
        """Estimated tokens that a dialogue may take in one prompt about a turn.

        Raises:
            BadInput: There is hardly any beside the taxonomy and the examples.
        """
        bare = self.of_turn(Sample(Conversation("", (Turn("user", ""),)), 0))
        return room_left(estimated_usage(bare).total, context, setting)

    def shown(self, sample: Sample, context: int | None, setting: str = "issues: context") -> Sample:
        """A turn with as much of the dialogue before it as fits."""
        return sample if context is None else fit_to_context(sample, self.room(context, setting))

    def _shared(self, shown: Sample) -> str:
        examples = "".join(map(_example, self.shots))
        parts = {"taxonomy": told_taxonomy(self.taxonomy), "examples": examples, **_material(shown)}
        return template("shared").substitute(parts).rstrip() + "\n"

    def _prompt(self, name: str, parts: Mapping[str, Any], tokens: int, schema: JsonSchema) -> Prompt:
        text = template(name).substitute(parts).strip()
        return Prompt((ChatMessage("user", text),), tokens, TEMPERATURE, schema=schema if self.by_schema else None)


FORM = '{"issues": [{"type": KIND, "comment": "...", "quote": "..."}, ...], "comment": "...", "score": 1 to 5}'


template = partial(prompt_file, "accord.methods.issues")
"""A prompt file of this room."""


def told_taxonomy(taxonomy: Taxonomy) -> str:
    """The kinds of issues with their definitions, a line each."""
    return "\n".join(f"- {kind.name}: {kind.definition}" for kind in taxonomy.issues)


def _material(shown: Sample) -> dict[str, str]:
    """What is judged, and the fence around it."""
    transcript = transcript_of(shown.conversation.up_to(shown.turn), shown.hidden)
    documents = documents_of(shown.conversation.documents)
    fence = fence_for(transcript + documents)
    told = f"Documents the assistant could see:\n{fence}\n{documents}\n{fence}\n" if documents else ""
    return {"fence": fence, "conversation": transcript, "documents": told}


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
"""Characters of a dialogue that is shown as an example."""


def shots_of(pairs: Sequence[tuple[Conversation, IssueAnnotation]], count: int, seed: int = 0) -> tuple[Shot, ...]:
    """So many examples, drawn by a seed: by turns one with issues and one without, of dialogues that are short enough.

    Fewer come out where there are fewer.
    """
    drawn = list(pairs)
    random.Random(seed).shuffle(drawn)
    fits = [(c, a) for c, a in drawn if a.target.turn is not None and _size(c, a.target.turn) <= LONGEST]
    kinds = [[pair for pair in fits if bool(pair[1].issues) is wrong] for wrong in (True, False)]
    found: list[Shot] = []
    seen: set[str] = set()
    while len(found) < min(count, MOST_SHOTS) and any(kinds):
        kind = kinds[len(found) % 2] or kinds[(len(found) + 1) % 2]
        conversation, assessment = kind.pop()
        if conversation.id not in seen and assessment.target.turn is not None:
            seen.add(conversation.id)
            turn = assessment.target.turn
            found.append(Shot(tuple(conversation.turns[: turn + 1]), turn, verdict_of(assessment)))
    return tuple(found)


def verdict_of(assessment: IssueAnnotation) -> dict[str, object]:
    """An assessment as the verdict that a model should write: issues first, then the comment, the score last.

    A quote that the reply does not have is left empty: nobody is taught to make one up.
    """
    issues = [
        {"type": issue.type, "comment": issue.comment, "quote": "" if issue.is_made_up else issue.quote}
        for issue in assessment.issues
    ]
    return {"issues": issues, "comment": assessment.comment, "score": assessment.score}


def _size(conversation: Conversation, turn: int) -> int:
    return sum(len(each.content) for each in conversation.up_to(turn))
