"""Who writes prompts and who scores with them, opened when they are first asked; their replies are kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from accord.config import Config, InContextConfig
from accord.errors import BadInput
from accord.llm.budget import Budget
from accord.llm.logprobs import IN_PROCESS_LOGPROBS, TOP_LOGPROBS
from accord.llm.model import ChatModel, in_process
from accord.llm.own_context import own_context
from accord.llm.waiting import wait
from accord.rubric import Question
from accord.store import Store

if TYPE_CHECKING:
    from accord.llm.stack import Terms

NO_MODEL = (
    "the project names no model that scores in context; add one to accord.yaml: in_context: {model: NAME}, with "
    "way: logprobs or decisions where it gives distributions"
)


@dataclass
class InContextModels:
    """The models of in-context scoring, asked within one budget.

    Attributes:
        about: The project's settings.
        budget: What may be spent.
    """

    about: InContextConfig
    budget: Budget
    _open: list[ChatModel] = field(default_factory=list)
    _scorers: dict[str, ChatModel] = field(default_factory=dict)

    @cached_property
    def _terms(self) -> Terms:
        from accord.llm.stack import Terms

        return Terms(self.about.at_once, self.about.attempts, self.about.timeout, self.budget)

    @property
    def writer_model(self) -> str:
        """Who writes prompts."""
        return self.about.writer or self.about.model

    @property
    def writer_base_url(self) -> str | None:
        """Where they are asked."""
        return self.about.writer_base_url or self.about.base_url

    @property
    def decides(self) -> bool:
        """Whether the scoring model is a decisions endpoint, which writes no text."""
        return self.about.way in {"decisions", "systemone"}

    @property
    def context(self) -> int | None:
        """Tokens of one request: as configured, or what a model in this process is known to read."""
        return self.about.context or own_context(self.about.model)

    @property
    def writing_context(self) -> int | None:
        """The same of the writer."""
        return min(filter(None, (own_context(self.writer_model), self.about.context)), default=None)

    @property
    def top(self) -> int:
        """The likeliest tokens that are asked for."""
        return IN_PROCESS_LOGPROBS if in_process(self.about.model) else TOP_LOGPROBS

    def scorer(self, question: Question, store: Store) -> ChatModel:
        """The model that scores a question; replies are kept in the store.

        Raises:
            BadInput: It is not on this machine, or cannot be asked that way.
            ModelError: There is no key for its endpoint.
        """
        from accord.llm.stack import open_chat, open_decided

        if question.key not in self._scorers:
            about = self.about
            if self.decides:
                model = open_decided(about.way, about.model, about.base_url, question, store, self._terms)
            else:
                model = open_chat(about.model, about.base_url, store, self._terms)
            self._scorers[question.key] = model
            self._open.append(model)
        return self._scorers[question.key]

    def writer(self, store: Store) -> ChatModel:
        """The model that writes prompts.

        Raises:
            BadInput: It is not on this machine, or is a decisions endpoint.
            ModelError: There is no key for its endpoint.
        """
        from accord.llm.stack import open_chat

        if self.decides and self.about.writer is None:
            raise BadInput(
                "a decisions endpoint writes no prompts; name a chat model that does: in_context: {writer: NAME}, or "
                "enter prompts by hand alone: in_context: {prompts: FILE, candidates: 0}"
            )
        model = open_chat(self.writer_model, self.writer_base_url, store, self._terms)
        self._open.append(model)
        return model

    def scorer_endpoint(self, question: Question) -> str:
        """Where the scoring model answers, as its kept replies are keyed."""
        from accord.llm.stack import decided_endpoint_of, endpoint_of

        about = self.about
        if self.decides:
            return decided_endpoint_of(about.way, about.model, about.base_url, question)
        return endpoint_of(about.model, about.base_url)

    def where(self, scorer: ChatModel, question: Question) -> str:
        """Who scores a question and where: another model, or the same name elsewhere, needs prompts of its own."""
        return f"{scorer.name} {self.scorer_endpoint(question)}"

    def writer_endpoint(self) -> str:
        """Where the writer answers, as its kept replies are keyed."""
        from accord.llm.stack import endpoint_of

        return endpoint_of(self.writer_model, self.writer_base_url)

    def close(self) -> None:
        """Let go of connections."""
        for model in self._open:
            wait(model.close())


def make_in_context(config: Config, budget: Budget) -> InContextModels:
    """The models that a project names for in-context scoring; nothing is opened yet.

    Raises:
        BadInput: It names none.
    """
    if config.in_context is None:
        raise BadInput(NO_MODEL)
    return InContextModels(config.in_context, budget)
