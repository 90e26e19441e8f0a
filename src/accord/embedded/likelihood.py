"""Likelihoods by the embedded model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from accord.embedded.language_model import LanguageModel, Spoken, open_language_model
from accord.models import EMBEDDED, Failure, Likelihood, LikelihoodRequest, LikelihoodResult, passage_hash

PASSAGES_AT_ONCE = 16
"""Passages that are read in one step: an interrupt waits for no more than these."""


class EmbeddedLikelihood:
    """Likelihoods by the embedded model, in its own chat format; passages that begin alike are read together."""

    def __init__(self, model: LanguageModel) -> None:
        """See `accord.embedded.language_model.open_language_model`."""
        self.name = f"{EMBEDDED}{model.name}"
        self._model = model

    def made_from(self, passage: LikelihoodRequest) -> Mapping[str, Any]:
        """The weights, and the messages as the model sees them."""
        return {"model": self.name, "weights": self._model.fingerprint, "passage": passage_hash(passage)}

    def requests(self, passages: Sequence[LikelihoodRequest]) -> Sequence[Any]:
        """Nothing goes over a wire."""
        return ()

    async def measure(self, passages: Sequence[LikelihoodRequest]) -> list[LikelihoodResult]:
        """Some passages at a time, neighbours first; one that is longer than the context is a failure of its own."""
        spoken = [self._model.spoken([(m.role, m.content) for m in passage.messages]) for passage in passages]
        # Neighbours share most, and short ones come last: they can be read beside whatever is kept then.
        order = {i: (len(passages[i].messages) == 1, chat.tokens) for i, chat in enumerate(spoken) if self._fits(chat)}
        fitting = sorted(order, key=order.__getitem__)
        found: dict[int, LikelihoodResult] = {}
        for start in range(0, len(fitting), PASSAGES_AT_ONCE):
            some = fitting[start : start + PASSAGES_AT_ONCE]
            chats = [(spoken[i], passages[i].spoken) for i in some]
            likelihoods = await asyncio.to_thread(self._model.log_likelihoods, chats)
            for i, of_passage in zip(some, likelihoods, strict=True):
                found[i] = tuple(Likelihood(float(each.sum()), len(each)) for each in of_passage)
        return [found.get(i) or self._too_long(chat) for i, chat in enumerate(spoken)]

    async def close(self) -> None:
        """Nothing is open."""

    def _too_long(self, chat: Spoken) -> Failure:
        return Failure("too long", f"{len(chat.tokens)} tokens exceed the {self._model.context} of {self.name}")

    def _fits(self, chat: Spoken) -> bool:
        return len(chat.tokens) <= self._model.context


def open_embedded_likelihood(name: str) -> EmbeddedLikelihood:
    """Open the embedded model of a name such as `embedded:smollm2-135m`; see `open_language_model` for errors."""
    return EmbeddedLikelihood(open_language_model(name.removeprefix(EMBEDDED)))
