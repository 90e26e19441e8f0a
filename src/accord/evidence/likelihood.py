"""Likelihood evidence: how likely a language model finds each reply, given what was before it, and on its own.

A small model's opinion of a reply is worth little; what it *expects* is worth a good deal. The difference
log p(reply | conversation, documents) - log p(reply), the pointwise mutual information of reply and context, orders
replies much as people do; log p(reply | ...) alone (GPTScore; Fu et al., NAACL 2024) hardly does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from accord.evidence.table import Column, EvidenceTable
from accord.models import (
    OUT_OF_BUDGET,
    ChatMessage,
    Failure,
    Likelihood,
    LikelihoodModel,
    Measured,
    Passage,
    documents_of,
    wait,
)
from accord.store import Store, batches
from accord.values import BudgetReached, Conversation, Sample, Signature, Target, content_hash, sendable

GIVEN_ALL, GIVEN_TURNS, ALONE = "log-p-given-all", "log-p-given-turns", "log-p-alone"
PMI, PMI_TURNS, PMI_DOCUMENTS = "pmi", "pmi-turns", "pmi-documents"
PER_TOKEN = "-per-token"

SAMPLES_AT_ONCE = 16
"""Subjects measured together: what they share is read once, and an interrupt loses no more than these."""

LIKELIHOOD = tuple(
    name + unit for name in (GIVEN_ALL, GIVEN_TURNS, ALONE, PMI, PMI_TURNS, PMI_DOCUMENTS) for unit in ("", PER_TOKEN)
)
"""The columns, in nats a reply and in nats a token: log p of a reply given the turns before it and the documents,
given the turns alone, and on its own; and the differences of the first and the third, the second and the third, the
first and the second. Each is the mean over a conversation's replies."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A subject's passages: its replies with all that was before, with the turns alone, and each reply alone."""

    given_all: Passage
    given_turns: Passage
    alone: tuple[Passage, ...]

    def all(self) -> tuple[Passage, ...]:
        """Every passage once, those that begin alike beside each other."""
        return tuple(dict.fromkeys((self.given_all, self.given_turns, *self.alone)))


def measure_likelihoods(
    model: LikelihoodModel,
    samples: Iterable[Sample],
    store: Store,
    on_measured: Callable[[Sample], None] | None = None,
    ask: bool = True,
) -> EvidenceTable:
    """The likelihood columns of each subject; what the store holds is not measured again, failures are not stored.

    A subject that is a turn is measured on that turn alone, a conversation on all its replies. With `ask` unset
    nothing is measured: what the store lacks is missing, and says so.

    Raises:
        ModelError: No call can succeed; what was measured before is kept.
        BudgetReached: The next call would pass the budget; what was measured before is kept.
    """
    made_by = str(Signature.of("likelihood", model=model.name))
    columns = [Column(name, made_by) for name in LIKELIHOOD]
    rows: dict[Target, dict[str, float]] = {}
    absences: dict[tuple[Target, str], str] = {}
    for batch in batches(samples, SAMPLES_AT_ONCE):
        wanted = [passages_of(sample) for sample in batch]
        measured = wait(_measured(model, _in_order(filter(None, wanted)), store, ask))
        for sample, passages in zip(batch, wanted, strict=True):
            found = "no reply to measure" if passages is None else _features(passages, measured)
            features, why = ({}, found) if isinstance(found, str) else (found, "no documents")
            rows[sample.target] = features
            absences |= {(sample.target, name): why for name in LIKELIHOOD if name not in features}
            if on_measured is not None:
                on_measured(sample)
    return EvidenceTable.from_rows(columns, rows, absences)


def _in_order(wanted: Iterable[_Wanted]) -> list[Passage]:
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
    alone = tuple(Passage((messages[index],), (0,)) for index in spoken)
    return _Wanted(Passage((*before, *messages), shifted), Passage(messages, spoken), alone)


def _role(role: str, replies: set[str]) -> str:
    """The chat format's role: whoever replies is the assistant, whoever else speaks the user."""
    return "assistant" if role in replies else "system" if role == "system" else "user"


def _documents(conversation: Conversation) -> tuple[ChatMessage, ...]:
    return (ChatMessage("user", documents_of(conversation.documents)),) if conversation.documents else ()


def key_of_passage(model: LikelihoodModel, passage: Passage) -> str:
    """The key under which the store keeps a passage's likelihoods."""
    return content_hash(dict(model.made_from(passage)), length=40)


async def _measured(
    model: LikelihoodModel, passages: Sequence[Passage], store: Store, ask: bool
) -> dict[Passage, Measured]:
    """Each passage's likelihoods, from the store where it holds them."""
    keys = {passage: key_of_passage(model, passage) for passage in passages}
    kept = {passage: store.reply(key) for passage, key in keys.items()}
    missing = [passage for passage in passages if kept[passage] is None] if ask else []
    found = dict(zip(missing, await model.measure(missing) if missing else (), strict=True))
    for passage, measured in found.items():
        if not isinstance(measured, Failure):
            pairs = [[each.log_probability, each.tokens] for each in measured]
            store.add_reply(keys[passage], model.name, json.dumps(pairs))
    for measured in found.values():
        if isinstance(measured, Failure) and measured.reason == OUT_OF_BUDGET:
            raise BudgetReached(measured.detail)
    return {passage: found[passage] if passage in found else _from_store(kept[passage]) for passage in passages}


def _from_store(kept: str | None) -> Measured:
    if kept is None:
        return Failure("not measured yet", "run: accord judge")
    return tuple(Likelihood(*pair) for pair in json.loads(kept))


def _features(wanted: _Wanted, measured: Mapping[Passage, Measured]) -> dict[str, float] | str:
    """The columns' values, or the reason of the first failure."""
    failed = next((m for p in wanted.all() if isinstance(m := measured[p], Failure)), None)
    if failed is not None:
        return failed.reason

    def of(passage: Passage) -> tuple[Likelihood, ...]:
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
