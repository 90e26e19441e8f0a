"""Generation of conversations by five methods (LLM-RUBRIC, appendix F), each a flow of prompts.

DS1: a model writes the whole dialogue. DS2: it reads the documents of the topic. DS3: it reads the best documents for
the topic by BM25. DS4: user and assistant take turns; only the user knows the topic, and the assistant reads the best
documents for the dialogue. DS5: the assistant reads the best documents for a query that it writes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from accord.edges import BadInput
from accord.models import ASSISTANT, USER, Failure, Flow, ModelInfo, ModelQuery, Prompt, Reply, Request, together
from accord.synth.document_search import DocumentIndex
from accord.synth.prompting import PROMPTS, READERS, SYNTH_METHODS, Prompts, SynthMethod, SynthSettings
from accord.synth.topics import personas_of, topics_of
from accord.synth.utterance_parser import EMPTY, GenerationFailure, Utterance, read_dialogue, read_query, read_utterance
from accord.values import SYNTHETIC, Conversation, Document, Topic, Turn, content_hash
from accord.version import __version__

PURPOSE = "conversations"
_TOKEN_CHARACTERS = 4
"""Characters per token in the estimate of a plan's cost."""


@dataclass(frozen=True)
class ConversationPlan:
    """A planned conversation; `draw` counts the conversations of one method about one topic."""

    method: SynthMethod
    topic: Topic
    persona: str
    draw: int


def possible_methods(settings: SynthSettings, has_documents: bool, topics: Sequence[Topic]) -> tuple[SynthMethod, ...]:
    """Return the configured methods, or all that topics and documents allow.

    Raises:
        BadInput: A configured method needs documents.
    """
    has_named = any(topic.documents for topic in topics)
    allowed = [name for name in SYNTH_METHODS if name == "DS1" or (has_documents and (name != "DS2" or has_named))]
    for name in settings.methods:
        if name in READERS and not has_documents:
            raise BadInput(f"{name} needs documents; name them: --documents FOLDER, or documents under synth:")
        if name not in allowed:
            raise BadInput(f"{name} needs topics that name their documents: topics: [{{text: ..., documents: [ID]}}]")
    return tuple(name for name in allowed if not settings.methods or name in settings.methods)


def plan_conversations(
    settings: SynthSettings, methods: Sequence[SynthMethod], topics: Sequence[Topic], personas: Sequence[str], seed: int
) -> list[ConversationPlan]:
    """Return the plans, alternating between methods; DS2 uses only topics with documents.

    The same seed gives the same plans.
    """
    rng = random.Random(f"synth/{seed}")
    order = rng.sample(list(topics), len(topics))
    count = len(order) if settings.count is None else settings.count
    chosen = [rng.choice(personas) if personas else "" for _ in range(count)]
    plans = []
    for place in range(count):
        for method in methods:
            usable = [topic for topic in order if topic.documents] if method == "DS2" else order
            if usable and (settings.count is not None or place < len(usable)):
                plan = ConversationPlan(method, usable[place % len(usable)], chosen[place], place // len(usable))
                plans.append(plan)
    return plans


@dataclass(frozen=True)
class GenerationResult:
    """The conversation of one plan, or the failure."""

    plan: ConversationPlan
    id: str
    found: Conversation | GenerationFailure


@dataclass(frozen=True)
class SynthesisResult:
    """Results of all plans; `ids` has the order of the plans."""

    methods: tuple[SynthMethod, ...]
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
    """Generate every planned conversation that does not exist yet.

    Args:
        settings: Topics, personas, methods and limits.
        library: The documents, or None.
        seed: Seed of the plans.
        is_there: Function that returns True if a conversation with this ID exists.
        on_made: Called with each result.

    Raises:
        BadInput: The list of topics is empty, or a method needs documents.
    """
    topics = yield from topics_of(settings, library, seed)
    personas = yield from personas_of(settings, seed)
    methods = possible_methods(settings, library is not None, topics)
    user, assistant = yield [Request(USER, ModelQuery()), Request(ASSISTANT, ModelQuery())]
    plans = {
        _id(plan, settings, library, seed, (user, assistant)): plan
        for plan in plan_conversations(settings, methods, topics, personas, seed)
    }
    who = {USER: user.name, ASSISTANT: assistant.name}
    missing = (_Talk(id, each, settings, library, seed, who).made() for id, each in plans.items() if not is_there(id))
    made = yield from together(missing, settings.concurrency, on_made)
    return SynthesisResult(methods, len(topics), len(personas), tuple(plans), made)


def _id(
    plan: ConversationPlan,
    settings: SynthSettings,
    library: DocumentIndex | None,
    seed: int,
    models: tuple[ModelInfo, ModelInfo],
) -> str:
    """Return the ID of a plan, a hash that reveals neither the method nor the model to annotators."""
    limits = settings.model_dump(
        mode="json", exclude={"methods", "topics", "personas", "count", "concurrency", "documents"}
    )
    fields = [plan.method, plan.topic.model_dump(mode="json"), plan.persona, plan.draw, seed, PROMPTS, limits]
    endpoints = [[model.name, model.where] for model in models]
    digest = None if library is None or plan.method == "DS1" else library.digest
    return f"synth-{content_hash([fields, endpoints, digest], length=16).partition(':')[2]}"


@dataclass
class _Talk:
    """A conversation in progress.

    Attributes:
        messages: Roles and texts so far.
        read: All documents in prompts, in the order of their citation numbers.
        turns: Metadata of each turn: documents, query, and whether it was cut.
    """

    id: str
    plan: ConversationPlan
    settings: SynthSettings
    library: DocumentIndex | None
    seed: int
    who: Mapping[str, str]
    messages: list[tuple[str, str]] = field(default_factory=list)
    read: dict[str, Document] = field(default_factory=dict)
    turns: list[dict[str, Any]] = field(default_factory=list)

    def made(self) -> Flow[GenerationResult]:
        """Generate the conversation."""
        plan = self.plan
        self.prompts = Prompts(self.settings, plan.topic.text, plan.persona, (self.seed, plan.draw))
        failure = yield from self._turns() if self.plan.method in ("DS4", "DS5") else self._whole()
        return GenerationResult(self.plan, self.id, failure if failure is not None else self._conversation())

    # --- DS1 to DS3 ---------------------------------------------------------------------------------------------

    def _whole(self) -> Flow[GenerationFailure | None]:
        method, topic = self.plan.method, self.plan.topic
        documents: list[Document] = []
        if self.library is not None and method == "DS2":
            documents = self.library.named(topic.documents)[: self.settings.max_documents]
        elif self.library is not None and method == "DS3":
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
        self.messages = found
        self.turns = [{"documents": ids} if ids and role == ASSISTANT else {} for role, _ in found]
        return None

    # --- DS4 and DS5 --------------------------------------------------------------------------------------------

    def _turns(self) -> Flow[GenerationFailure | None]:
        lost = yield from self._says(USER, self.prompts.opening(), {})
        while lost is None:
            lost = yield from self._replies()
            if lost is not None or len(self.messages) >= 2 * self.settings.max_turns:
                break
            lost = yield from self._says(USER, self.prompts.user(self.messages), {})
        if isinstance(lost, GenerationFailure):
            return lost
        if not any(role == ASSISTANT for role, _ in self.messages):
            return GenerationFailure(EMPTY, "the conversation was ended before anything was answered")
        return None

    def _replies(self) -> Flow[GenerationFailure | bool | None]:
        """Add the assistant's reply, based on the documents of this turn."""
        details: dict[str, Any] = {}
        search_text = " ".join(words for _, words in self.messages)
        if self.plan.method == "DS5":
            reply = yield from self._asked(ASSISTANT, self.prompts.query(self.messages), self.plan.topic.text)
            query = reply if isinstance(reply, GenerationFailure) else read_query(reply)
            if isinstance(query, GenerationFailure):
                return query
            search_text = details["query"] = query
        assert self.library is not None
        ids = self._shown(self.library.best(search_text, self.settings.max_documents))
        if ids:
            details["documents"] = ids
        prompt = self.prompts.assistant(self.messages, self._numbered(ids))
        return (yield from self._says(ASSISTANT, prompt, details))

    def _says(self, role: str, prompt: Prompt, details: dict[str, Any]) -> Flow[GenerationFailure | bool | None]:
        """Add the next message of a role; return a failure, or True if it ends the conversation."""
        reply = yield from self._asked(role, prompt, self._filler(self.settings.max_tokens))
        found = (
            reply if isinstance(reply, GenerationFailure) else read_utterance(reply, role, self.settings.max_characters)
        )
        if not isinstance(found, Utterance):
            return found
        if found.text:
            self.messages.append((role, found.text))
            self.turns.append({**details, **({"cut": True} if found.was_cut else {})})
        return True if found.ends else None

    # --- requests and documents-----------------------------------------------------------------------------------

    def _asked(self, role: str, prompt: Prompt, stand_in: str) -> Flow[str | GenerationFailure]:
        [reply] = yield [Request(role, prompt, purpose=PURPOSE, stand_in=Reply(stand_in), fewest=Reply(""))]
        if isinstance(reply, Failure):
            return GenerationFailure(reply.reason, reply.detail)
        return str(reply.text)

    def _filler(self, tokens: int) -> str:
        """Return a placeholder text of a number of tokens for estimates; it differs between conversations."""
        word = f"{self.plan.topic.text} {self.id} "
        length = min(tokens * _TOKEN_CHARACTERS, self.settings.max_characters)
        return (word * (length // len(word) + 1))[:length]

    def _shown(self, documents: Sequence[Document]) -> list[str]:
        for document in documents:
            self.read.setdefault(str(document.id), document)
        return [str(document.id) for document in documents]

    def _numbered(self, ids: Sequence[str]) -> list[tuple[int, Document]]:
        numbers = {id: place for place, id in enumerate(self.read, 1)}
        return [(numbers[id], self.read[id]) for id in ids]

    def _conversation(self) -> Conversation:
        plan = self.plan
        turns = tuple(
            Turn(role, words, extra=details) for (role, words), details in zip(self.messages, self.turns, strict=True)
        )
        origin = {
            "method": plan.method, "topic": plan.topic.text, "persona": plan.persona or None, "models": dict(self.who),
            "prompts": PROMPTS, "seed": self.seed, "draw": plan.draw, "accord": __version__,
            "documents": {str(at): turn["documents"] for at, turn in enumerate(self.turns) if "documents" in turn},
        }  # fmt: skip
        metadata = {"system": plan.method, "topic": plan.topic.text, SYNTHETIC: origin}
        return Conversation(self.id, turns, tuple(self.read.values()), metadata)
