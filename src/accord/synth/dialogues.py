"""Five ways to make a conversation (LLM-RUBRIC, appendix F), each a flow of prompts.

DS1: a model writes the whole dialogue. DS2: it is shown the documents of the topic. DS3: those that BM25 finds for the
topic. DS4: user and assistant take turns; the user alone knows the topic, the assistant reads what BM25 finds for all
that was said. DS5: it reads what BM25 finds for a query that it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from accord.models import ASSISTANT, USER, Failure, Flow, ModelInfo, ModelQuery, Prompt, Reply, Request, together
from accord.synth.document_search import DocumentIndex
from accord.synth.planning import ConversationPlan, plan_conversations, possible_methods
from accord.synth.prompting import PROMPTS, Prompts
from accord.synth.settings import SynthMethod, SynthSettings
from accord.synth.topics import personas_of, topics_of
from accord.synth.utterance_parser import EMPTY, GenerationFailure, Utterance, read_dialogue, read_query, read_utterance
from accord.values import SYNTHETIC, Conversation, Document, Turn, content_hash
from accord.version import __version__

PURPOSE = "conversations"
_STAND_IN = 4
"""Characters of a token that is assumed where a plan is priced."""


@dataclass(frozen=True)
class GenerationResult:
    """What came of one plan: the conversation, or why there is none."""

    planned: ConversationPlan
    id: str
    found: Conversation | GenerationFailure


@dataclass(frozen=True)
class SynthesisResult:
    """What came of all: the ways that were taken, the topics, every id in the order of the plan, and what was made."""

    hows: tuple[SynthMethod, ...]
    topics: int
    personas: int
    ids: tuple[str, ...]
    made: Sequence[GenerationResult]


def generate_conversations(
    settings: SynthSettings,
    library: DocumentIndex | None,
    seed: int,
    is_there: Callable[[str], bool] = lambda id: False,
    on_made: Callable[[GenerationResult], None] = lambda made: None,
) -> Flow[SynthesisResult]:
    """Make every planned conversation that is not there yet.

    Args:
        settings: Who talks about what.
        library: The documents; none where there are none.
        seed: Of the plan.
        is_there: Whether a conversation of this id was made before.
        on_made: Called with each as it ends.

    Raises:
        BadInput: There is no topic, or a way needs what is not there.
    """
    topics = yield from topics_of(settings, library, seed)
    personas = yield from personas_of(settings, seed)
    hows = possible_methods(settings, library is not None, topics)
    user, assistant = yield [Request(USER, ModelQuery()), Request(ASSISTANT, ModelQuery())]
    plans = {
        _id(each, settings, library, seed, (user, assistant)): each
        for each in plan_conversations(settings, hows, topics, personas, seed)
    }
    who = {USER: user.name, ASSISTANT: assistant.name}
    missing = (_Talk(id, each, settings, library, seed, who).made() for id, each in plans.items() if not is_there(id))
    made = yield from together(missing, settings.concurrency, on_made)
    return SynthesisResult(hows, len(topics), len(personas), tuple(plans), made)


def _id(
    each: ConversationPlan,
    settings: SynthSettings,
    library: DocumentIndex | None,
    seed: int,
    models: tuple[ModelInfo, ModelInfo],
) -> str:
    """The same for the same plan, whoever looks; it tells a reader neither the way nor the model."""
    reading = settings.model_dump(
        mode="json", exclude={"methods", "topics", "personas", "count", "concurrency", "documents"}
    )
    about = [each.how, each.topic.model_dump(mode="json"), each.persona, each.draw, seed, PROMPTS, reading]
    where = [[known.name, known.where] for known in models]
    digest = None if library is None or each.how == "DS1" else library.digest
    return f"synth-{content_hash([about, where, digest], length=16).partition(':')[2]}"


@dataclass
class _Talk:
    """A conversation that is being made.

    Attributes:
        said: Roles and what they said so far.
        read: Every document that was shown, in the order of the first time: as citations number them.
        turns: What is noted of each turn: its documents, its query, whether it was cut.
    """

    id: str
    planned: ConversationPlan
    settings: SynthSettings
    library: DocumentIndex | None
    seed: int
    who: Mapping[str, str]
    said: list[tuple[str, str]] = field(default_factory=list)
    read: dict[str, Document] = field(default_factory=dict)
    turns: list[dict[str, Any]] = field(default_factory=list)

    def made(self) -> Flow[GenerationResult]:
        """The conversation, or the reason why there is none."""
        plan = self.planned
        self.prompts = Prompts(self.settings, plan.topic.text, plan.persona, (self.seed, plan.draw))
        lost = yield from self._turns() if self.planned.how in ("DS4", "DS5") else self._whole()
        return GenerationResult(self.planned, self.id, lost if lost is not None else self._conversation())

    # --- DS1 to DS3 ---------------------------------------------------------------------------------------------

    def _whole(self) -> Flow[GenerationFailure | None]:
        how, topic = self.planned.how, self.planned.topic
        documents: list[Document] = []
        if self.library is not None and how == "DS2":
            documents = self.library.named(topic.documents)[: self.settings.max_documents]
        elif self.library is not None and how == "DS3":
            documents = self.library.best(topic.text, self.settings.max_documents)
        ids = self._shown(documents)
        prompt = self.prompts.whole(self._numbered(ids))
        words = self._filler(self.settings.dialogue_tokens)
        reply = yield from self._asked(ASSISTANT, prompt, f"User: {topic.text}\nAssistant: {words}")
        if isinstance(reply, GenerationFailure):
            return reply
        found = read_dialogue(reply, self.settings.max_characters)
        if isinstance(found, GenerationFailure):
            return found
        self.said = found
        self.turns = [{"documents": ids} if ids and role == ASSISTANT else {} for role, _ in found]
        return None

    # --- DS4 and DS5 --------------------------------------------------------------------------------------------

    def _turns(self) -> Flow[GenerationFailure | None]:
        lost = yield from self._says(USER, self.prompts.opening(), {})
        while lost is None:
            lost = yield from self._replies()
            if lost is not None or len(self.said) >= 2 * self.settings.max_turns:
                break
            lost = yield from self._says(USER, self.prompts.user(self.said), {})
        if isinstance(lost, GenerationFailure):
            return lost
        if not any(role == ASSISTANT for role, _ in self.said):
            return GenerationFailure(EMPTY, "the conversation was ended before anything was answered")
        return None

    def _replies(self) -> Flow[GenerationFailure | bool | None]:
        """The assistant's next reply, on the documents of this turn."""
        about: dict[str, Any] = {}
        looked_for = " ".join(words for _, words in self.said)
        if self.planned.how == "DS5":
            reply = yield from self._asked(ASSISTANT, self.prompts.query(self.said), self.planned.topic.text)
            query = reply if isinstance(reply, GenerationFailure) else read_query(reply)
            if isinstance(query, GenerationFailure):
                return query
            looked_for = about["query"] = query
        assert self.library is not None
        ids = self._shown(self.library.best(looked_for, self.settings.max_documents))
        if ids:
            about["documents"] = ids
        prompt = self.prompts.assistant(self.said, self._numbered(ids))
        return (yield from self._says(ASSISTANT, prompt, about))

    def _says(self, role: str, prompt: Prompt, about: dict[str, Any]) -> Flow[GenerationFailure | bool | None]:
        """What one side says next is noted; the reason where nothing came, `True` where it ends the conversation."""
        reply = yield from self._asked(role, prompt, self._filler(self.settings.max_tokens))
        found = (
            reply if isinstance(reply, GenerationFailure) else read_utterance(reply, role, self.settings.max_characters)
        )
        if not isinstance(found, Utterance):
            return found
        if found.text:
            self.said.append((role, found.text))
            self.turns.append({**about, **({"cut": True} if found.was_cut else {})})
        return True if found.ends else None

    # --- what all share -----------------------------------------------------------------------------------------

    def _asked(self, role: str, prompt: Prompt, stand_in: str) -> Flow[str | GenerationFailure]:
        [reply] = yield [Request(role, prompt, purpose=PURPOSE, stand_in=Reply(stand_in), fewest=Reply(""))]
        if isinstance(reply, Failure):
            return GenerationFailure(reply.reason, reply.detail)
        return str(reply.text)

    def _filler(self, tokens: int) -> str:
        """A text of so many tokens, where a plan is priced; it stands for no other conversation."""
        word = f"{self.planned.topic.text} {self.id} "
        length = min(tokens * _STAND_IN, self.settings.max_characters)
        return (word * (length // len(word) + 1))[:length]

    def _shown(self, documents: Sequence[Document]) -> list[str]:
        for each in documents:
            self.read.setdefault(str(each.id), each)
        return [str(each.id) for each in documents]

    def _numbered(self, ids: Sequence[str]) -> list[tuple[int, Document]]:
        numbers = {id: place for place, id in enumerate(self.read, 1)}
        return [(numbers[id], self.read[id]) for id in ids]

    def _conversation(self) -> Conversation:
        plan = self.planned
        turns = tuple(
            Turn(role, words, extra=about) for (role, words), about in zip(self.said, self.turns, strict=True)
        )
        about = {
            "how": plan.how, "topic": plan.topic.text, "persona": plan.persona or None, "models": dict(self.who),
            "prompts": PROMPTS, "seed": self.seed, "draw": plan.draw, "accord": __version__,
            "documents": {str(at): each["documents"] for at, each in enumerate(self.turns) if "documents" in each},
        }  # fmt: skip
        metadata = {"system": plan.how, "topic": plan.topic.text, SYNTHETIC: about}
        return Conversation(self.id, turns, tuple(self.read.values()), metadata)
