"""The embeddings wire: some texts in, a vector each out."""

from __future__ import annotations

from dataclasses import dataclass

from accord.llm.model import CallFailed, Usage
from accord.llm.wire import Endpoint, failures


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts whose vectors are wanted together."""

    texts: tuple[str, ...]

    @property
    def text(self) -> str:
        """All of them, to estimate what they cost."""
        return "\n".join(self.texts)


@dataclass(frozen=True, slots=True)
class Vectors:
    """A vector a text, in the order of the texts."""

    vectors: tuple[tuple[float, ...], ...]
    usage: Usage = Usage()


class EmbeddingsEndpoint(Endpoint):
    """An embeddings model at an OpenAI-compatible endpoint."""

    async def ask(self, question: Texts, /) -> Vectors:
        """Send some texts.

        Raises:
            CallFailed: The call failed; `malformed` where there are not as many vectors as texts.
            ModelError: No call can succeed.
        """
        with failures(self.endpoint, self.name):
            found = await self.client.embeddings.create(
                model=self.name, input=list(question.texts), encoding_format="float"
            )
            ordered = sorted(found.data, key=lambda each: each.index)
            if len(ordered) != len(question.texts) or not all(each.embedding for each in ordered):
                raise CallFailed("malformed", f"{self.endpoint} gave {len(ordered)} vectors of {len(question.texts)}")
            used = Usage(found.usage.prompt_tokens, 0) if found.usage else Usage()
            return Vectors(tuple(tuple(map(float, each.embedding)) for each in ordered), used)
