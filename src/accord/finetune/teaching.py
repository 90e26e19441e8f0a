"""What a small model is taught to answer: the prompt about one turn, and the verdict as JSON.

SODA-EVAL, section 5: the full prompt names the taxonomy (table 11); the compact one only says the task (table 12),
since a model that was trained on a taxonomy's verdicts need not be told it each time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

from accord.assessment import Assessment, Issue
from accord.conversation import content_hash
from accord.errors import UnknownName
from accord.issues.guidance import TEMPERATURE, TOKENS_A_TURN, Guidance
from accord.llm.model import Message, Prompt, Subject
from accord.llm.render import documents_of, transcript_of
from accord.taxonomy import Taxonomy

FULL, COMPACT = "full", "compact"
PROMPTS = (FULL, COMPACT)


@dataclass(frozen=True)
class Teaching:
    """How a model is asked while it learns, and afterwards.

    Attributes:
        taxonomy: The kinds of issues.
        prompt: `full` as `issues` asks any model, `compact` where the taxonomy is learned and not told.
    """

    taxonomy: Taxonomy
    prompt: str = FULL

    def __post_init__(self) -> None:
        if self.prompt not in PROMPTS:
            raise UnknownName("prompt", self.prompt, PROMPTS)

    def of_turn(self, shown: Subject) -> Prompt:
        """What is asked about one turn, given those before it."""
        if self.prompt == FULL:
            return Guidance(self.taxonomy, by_schema=False).of_turn(shown)
        transcript = transcript_of(shown.conversation.up_to(shown.turn), shown.hidden)
        documents = documents_of(shown.conversation.documents)
        told = f"\nDocuments the assistant could see:\n{documents}\n" if documents else ""
        text = _compact().substitute(conversation=transcript, documents=told).strip()
        return Prompt((Message("user", text),), TOKENS_A_TURN, TEMPERATURE)

    @property
    def hash(self) -> str:
        """A tagged digest of everything that is told, whatever the dialogue."""
        if self.prompt == FULL:
            return Guidance(self.taxonomy).hash
        return content_hash([_compact().template, self.taxonomy.hash], length=8)

    def to_json(self) -> dict[str, Any]:
        """The prompt, and the taxonomy by its name and digest."""
        taxonomy = {"name": self.taxonomy.name, "hash": self.taxonomy.hash, "types": list(self.taxonomy.names)}
        return {"prompt": self.prompt, "prompt_hash": self.hash, "taxonomy": taxonomy}


def answer_of(assessment: Assessment) -> str:
    """An assessment as the verdict that a model should write: issues first, then the comment, the score last.

    A quote that the reply does not have is left empty: nobody is taught to make one up.
    """
    issues = [_stated(issue) for issue in assessment.issues]
    verdict = {"issues": issues, "comment": assessment.comment, "score": assessment.score}
    return json.dumps(verdict, ensure_ascii=False)


def _stated(issue: Issue) -> dict[str, str]:
    return {"type": issue.type, "comment": issue.comment, "quote": "" if issue.is_made_up else issue.quote}


@cache
def _compact() -> Template:
    return Template((files("accord.finetune") / "prompts" / f"{COMPACT}.md").read_text(encoding="utf-8"))
