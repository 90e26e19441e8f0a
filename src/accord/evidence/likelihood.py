"""Likelihood evidence: how likely a language model finds each reply, given what was before it, and on its own.

A small model's opinion of a reply is worth little; what it *expects* is worth a good deal. The difference
log p(reply | conversation, documents) - log p(reply), the pointwise mutual information of reply and context, orders
replies much as people do; log p(reply | ...) alone (GPTScore; Fu et al., NAACL 2024) hardly does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from accord.edges import sendable
from accord.evidence.source import Settings, Source, SourceContext, sources
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
from accord.values import Conversation, Rubric, Sample, Signature, Target

GIVEN_ALL, GIVEN_TURNS, ALONE = "log-p-given-all", "log-p-given-turns", "log-p-alone"
PMI, PMI_TURNS, PMI_DOCUMENTS = "pmi", "pmi-turns", "pmi-documents"
PER_TOKEN = "-per-token"

LIKELIHOOD = tuple(
    name + unit for name in (GIVEN_ALL, GIVEN_TURNS, ALONE, PMI, PMI_TURNS, PMI_DOCUMENTS) for unit in ("", PER_TOKEN)
)
"""The columns, in nats a reply and in nats a token: log p of a reply given the turns before it and the documents,
given the turns alone, and on its own; and the differences of the first and the third, the second and the third, the
first and the second. Each is the mean over a conversation's replies."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A subject's passages: its replies with all that was before, with the turns alone, and each reply alone."""

    given_all: LikelihoodRequest
    given_turns: LikelihoodRequest
    alone: tuple[LikelihoodRequest, ...]

    def all(self) -> tuple[LikelihoodRequest, ...]:
        """Every passage once, those that begin alike beside each other."""
        return tuple(dict.fromkeys((self.given_all, self.given_turns, *self.alone)))


class LikelihoodSettings(Settings):
    """Nothing is to be set; the model has the role `likelihood`."""


@sources.register("likelihood")
class Likelihoods(Source):
    """How likely a language model finds each reply: given everything, given the turns alone, on its own."""

    settings_type = LikelihoodSettings

    @property
    def roles(self) -> tuple[str, ...]:
        """The likelihood model."""
        return (LIKELIHOOD_ROLE,)

    def measure(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """The likelihood columns; a sample that is a turn is measured on that turn, a conversation on its replies."""
        [who] = yield [Request(LIKELIHOOD_ROLE, ModelQuery())]
        signature = str(Signature.of("likelihood", model=who.name))
        wanted = [passages_of(sample) for sample in samples]
        passages = _in_order(filter(None, wanted))
        requests = [Request(LIKELIHOOD_ROLE, passage, purpose="passages measured") for passage in passages]
        measured = dict(zip(passages, (yield requests), strict=True))
        rows: dict[Target, dict[str, float]] = {}
        absences: dict[tuple[Target, str], str] = {}
        for sample, mine in zip(samples, wanted, strict=True):
            found = "no reply to measure" if mine is None else _features(mine, measured)
            features, why = ({}, found) if isinstance(found, str) else (found, "no documents")
            rows[sample.target] = features
            absences |= {(sample.target, name): why for name in LIKELIHOOD if name not in features}
        return EvidenceTable.from_rows([Column(name, signature) for name in LIKELIHOOD], rows, absences)


def measure_likelihoods(
    model: LikelihoodModel, samples: Sequence[Sample], store: Store, ask: bool = True
) -> EvidenceTable:
    """The likelihood columns of some samples by a model of one's own; what the store holds is not measured again."""
    source = Likelihoods(LikelihoodSettings(), SourceContext(Rubric.model_construct()))
    return run(source.measure(samples), Models({}, store, asks=ask, given={LIKELIHOOD_ROLE: model}))


def _in_order(wanted: Iterable[_Wanted]) -> list[LikelihoodRequest]:
    """Every passage once, those of a kind together, so that those that begin alike are neighbours."""
    of_each = list(wanted)
    alone = (passage for one in of_each for passage in one.alone)
    return list(dict.fromkeys([*(one.given_all for one in of_each), *(one.given_turns for one in of_each), *alone]))


def passages_of(sample: Sample) -> _Wanted | None:
    """What has to be measured for a subject; nothing where nobody replied."""
    conversation = sample.conversation.at(sample.turn)
    turns, replies = conversation.turns, {turn.role for turn in conversation.replies}
    first = 0 if sample.turn is None else sample.turn
    spoken = tuple(i for i in range(first, len(turns)) if turns[i].role in replies and turns[i].content.strip())
    if not spoken:
        return None
    messages = tuple(ChatMessage(_role(turn.role, replies), sendable(turn.content)) for turn in turns)
    before = _documents(conversation)
    shifted = tuple(index + len(before) for index in spoken)
    alone = tuple(LikelihoodRequest((messages[index],), (0,)) for index in spoken)
    return _Wanted(LikelihoodRequest((*before, *messages), shifted), LikelihoodRequest(messages, spoken), alone)


def _role(role: str, replies: set[str]) -> str:
    """The chat format's role: whoever replies is the assistant, whoever else speaks the user."""
    return "assistant" if role in replies else "system" if role == "system" else "user"


def _documents(conversation: Conversation) -> tuple[ChatMessage, ...]:
    return (ChatMessage("user", documents_of(conversation.documents)),) if conversation.documents else ()


def _features(wanted: _Wanted, measured: Mapping[LikelihoodRequest, LikelihoodResult]) -> dict[str, float] | str:
    """The columns' values, or the reason of the first failure."""
    failed = next((m for p in wanted.all() if isinstance(m := measured[p], Failure)), None)
    if failed is not None:
        return failed.reason

    def of(passage: LikelihoodRequest) -> tuple[Likelihood, ...]:
        found = measured[passage]
        assert not isinstance(found, Failure)
        return found

    alone = [of(passage)[0] for passage in wanted.alone]
    by_kind = {GIVEN_ALL: of(wanted.given_all), GIVEN_TURNS: of(wanted.given_turns), ALONE: alone}
    features: dict[str, float] = {}
    for unit, per in (("", False), (PER_TOKEN, True)):
        mean = {name: fmean(_value(each, per) for each in found) for name, found in by_kind.items()}
        mean |= {PMI: mean[GIVEN_ALL] - mean[ALONE], PMI_TURNS: mean[GIVEN_TURNS] - mean[ALONE]}
        if wanted.given_all != wanted.given_turns:
            mean[PMI_DOCUMENTS] = mean[GIVEN_ALL] - mean[GIVEN_TURNS]
        features |= {name + unit: value for name, value in mean.items()}
    return features


def _value(likelihood: Likelihood, per_token: bool) -> float:
    return likelihood.log_probability / (max(likelihood.tokens, 1) if per_token else 1)
