"""Likelihood evidence: log-probability of each reply under a language model, with and without its context.

The pointwise mutual information of reply and context, log p(reply | conversation, documents) - log p(reply), orders
replies much as annotators do. log p(reply | ...) alone (GPTScore; Fu et al., NAACL 2024) hardly does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from statistics import fmean
from typing import NamedTuple

from accord.edges import sendable
from accord.evidence.source import Source, SourceContext, SourceSettings, sources
from accord.evidence.table import Column, EvidenceTable
from accord.models import LIKELIHOOD as LIKELIHOOD_ROLE
from accord.models import (
    ChatMessage,
    Failure,
    Flow,
    Likelihood,
    LikelihoodModel,
    LikelihoodRequest,
    LikelihoodResult,
    ModelQuery,
    Models,
    Request,
    documents_of,
    run,
)
from accord.store import Store
from accord.values import Rubric, Sample, Signature, Target

GIVEN_ALL, GIVEN_TURNS, ALONE = "log-p-given-all", "log-p-given-turns", "log-p-alone"
PMI, PMI_TURNS, PMI_DOCUMENTS = "pmi", "pmi-turns", "pmi-documents"
PER_TOKEN = "-per-token"

LIKELIHOOD = tuple(
    name + unit for name in (GIVEN_ALL, GIVEN_TURNS, ALONE, PMI, PMI_TURNS, PMI_DOCUMENTS) for unit in ("", PER_TOKEN)
)
"""Columns, in nats per reply and in nats per token: log p of a reply given turns and documents, given the
turns, and alone; and the differences first - third, second - third, first - second. Means over the replies.
"""


class Passages(NamedTuple):
    """Passages of a sample: its replies after documents and turns, after the turns, and each reply alone."""

    given_all: LikelihoodRequest
    given_turns: LikelihoodRequest
    alone: tuple[LikelihoodRequest, ...]


class LikelihoodSettings(SourceSettings):
    """No settings; the model has the role `likelihood`."""


@sources.register("likelihood")
class Likelihoods(Source):
    """Log-probability of each reply: given everything, given the turns, and alone."""

    settings_type = LikelihoodSettings

    @property
    def roles(self) -> tuple[str, ...]:
        """The likelihood model."""
        return (LIKELIHOOD_ROLE,)

    def measure(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """Return the likelihood columns: of a turn for that turn, of a conversation for its replies."""
        [who] = yield [Request(LIKELIHOOD_ROLE, ModelQuery())]
        signature = str(Signature.of("likelihood", model=who.name, redacted=who.redacted or None))
        wanted = [passages_of(sample) for sample in samples]
        found = list(filter(None, wanted))
        # Passages of a kind are together, so that common prefixes are neighbors.
        kinds = ((each[0] for each in found), (each[1] for each in found), *(each[2] for each in found))
        passages = list(dict.fromkeys(chain.from_iterable(kinds)))
        requests = [Request(LIKELIHOOD_ROLE, passage, purpose="passages measured") for passage in passages]
        measured = dict(zip(passages, (yield requests), strict=True))
        rows: dict[Target, dict[str, float]] = {}
        absences: dict[tuple[Target, str], str] = {}
        for sample, own in zip(samples, wanted, strict=True):
            result = "no reply to measure" if own is None else _features(own, measured)
            features, absence = ({}, result) if isinstance(result, str) else (result, "no documents")
            rows[sample.target] = features
            absences |= {(sample.target, name): absence for name in LIKELIHOOD if name not in features}
        return EvidenceTable.from_rows([Column(name, signature) for name in LIKELIHOOD], rows, absences)


def measure_likelihoods(
    model: LikelihoodModel, samples: Sequence[Sample], store: Store, ask: bool = True
) -> EvidenceTable:
    """Return the likelihood columns of some samples from a given model; stored values are not measured again."""
    source = Likelihoods(LikelihoodSettings(), SourceContext(Rubric.model_construct()))
    return run(source.measure(samples), Models({}, store, asks=ask, given={LIKELIHOOD_ROLE: model}))


def passages_of(sample: Sample) -> Passages | None:
    """Return the passages to measure for a sample; `None` without a reply."""
    conversation = sample.conversation.at(sample.turn)
    turns, replies = conversation.turns, {turn.role for turn in conversation.replies}
    first = 0 if sample.turn is None else sample.turn
    reply_places = tuple(i for i in range(first, len(turns)) if turns[i].role in replies and turns[i].content.strip())
    if not reply_places:
        return None
    messages = tuple(ChatMessage(_role(turn.role, replies), sendable(turn.content)) for turn in turns)
    names = (conversation.id,)
    given_turns = given_all = LikelihoodRequest(messages, reply_places, names)
    if conversation.documents:
        documents = ChatMessage("user", documents_of(conversation.documents))
        given_all = LikelihoodRequest((documents, *messages), tuple(index + 1 for index in reply_places), names)
    alone = tuple(LikelihoodRequest((messages[index],), (0,), names) for index in reply_places)
    return Passages(given_all, given_turns, alone)


def _role(role: str, replies: set[str]) -> str:
    """Return the chat role of a speaker: `assistant` for the role that replies, `system`, or `user` for all others."""
    return "assistant" if role in replies else "system" if role == "system" else "user"


def _features(wanted: Passages, measured: Mapping[LikelihoodRequest, LikelihoodResult]) -> dict[str, float] | str:
    """Return the values of the columns, or the reason of the first failure."""
    given_all, given_turns, alone = wanted
    found: dict[LikelihoodRequest, tuple[Likelihood, ...]] = {}
    for passage in (given_all, given_turns, *alone):
        result = measured[passage]
        if isinstance(result, Failure):
            return result.reason
        found[passage] = result
    by_kind = {GIVEN_ALL: found[given_all], GIVEN_TURNS: found[given_turns], ALONE: [found[each][0] for each in alone]}
    features: dict[str, float] = {}
    for unit in ("", PER_TOKEN):
        mean = {
            name: fmean(each.log_probability / (max(each.tokens, 1) if unit else 1) for each in likelihoods)
            for name, likelihoods in by_kind.items()
        }
        mean |= {PMI: mean[GIVEN_ALL] - mean[ALONE], PMI_TURNS: mean[GIVEN_TURNS] - mean[ALONE]}
        if given_all != given_turns:
            mean[PMI_DOCUMENTS] = mean[GIVEN_ALL] - mean[GIVEN_TURNS]
        features |= {name + unit: value for name, value in mean.items()}
    return features
