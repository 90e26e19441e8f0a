"""Likelihood evidence: columns, stored values, endpoints with echo, and the score without labels."""

from __future__ import annotations

import re
from typing import Any

import pytest
from misbehaving_endpoint import answer_any, fault
from scripted_models import ScriptedLikelihood

from accord import Conversation, Document, Store, Turn
from accord.edges import BadInput, BudgetReached
from accord.evidence import (
    EvidenceTable,
    passages_of,
)
from accord.evidence.likelihood import (
    LIKELIHOOD,
    measure_likelihoods,
)
from accord.models import (
    ClientOptions,
    Likelihood,
    LikelihoodRequest,
    LikelihoodResult,
    wait,
)
from accord.models.factory import open_likelihood
from accord.testing import ChatServer
from accord.testing.server import Wire
from accord.values import Sample

CHAT = Conversation(
    "c",
    (Turn("user", "Is it?"), Turn("assistant", "It is."), Turn("user", "Sure?"), Turn("assistant", "Sure.")),
    (Document("It is so.", title="Facts"),),
)


class Scripted(ScriptedLikelihood):
    """A likelihood model with words as tokens, which are likelier after more words."""

    name = "scripted"

    def _one(self, passage: LikelihoodRequest) -> LikelihoodResult:
        found = []
        for index in passage.spoken:
            before = sum(len(m.content.split()) for m in passage.messages[:index])
            words = len(passage.messages[index].content.split())
            found.append(Likelihood(-words * 10.0 / (1 + before), words))
        return tuple(found)


def column(table: EvidenceTable, name: str) -> float:
    place = [c.name for c in table.columns].index(name)
    assert table.present[0, place], name
    return float(table.values[0, place])


def test_conversation_uses_all_its_replies(memory: Store) -> None:
    table = measure_likelihoods(Scripted(), [Sample(CHAT)], memory)
    assert [c.name for c in table.columns] == list(LIKELIHOOD) and table.present.all()
    # words before: "[1] Facts It is so." is 5; "Is it?" 2, "It is." 2, "Sure?" 1
    assert column(table, "log-p-given-all") == pytest.approx(-(20 / 8 + 10 / 11) / 2)
    assert column(table, "log-p-given-turns") == pytest.approx(-(20 / 3 + 10 / 6) / 2)
    assert column(table, "log-p-alone") == pytest.approx(-15)
    assert column(table, "log-p-alone-per-token") == pytest.approx(-10)
    assert column(table, "pmi") == pytest.approx(column(table, "log-p-given-all") + 15)
    assert column(table, "pmi-documents") == pytest.approx(
        column(table, "log-p-given-all") - column(table, "log-p-given-turns")
    )
    assert "model:scripted" in table.columns[0].signature


def test_turn_uses_that_turn_alone() -> None:
    wanted = passages_of(Sample(CHAT, 1))
    assert wanted is not None
    assert [m.content for m in wanted.given_turns.messages] == ["Is it?", "It is."]
    assert wanted.given_turns.spoken == (1,) and wanted.given_all.spoken == (2,)
    two = Conversation("d", (Turn("speaker_a", "hi"), Turn("speaker_b", "hello"), Turn("speaker_a", "bye")))
    wanted = passages_of(Sample(two, 2))
    assert wanted is not None and [m.role for m in wanted.given_turns.messages] == ["assistant", "user", "assistant"]
    assert wanted.given_all == wanted.given_turns, "without documents nothing is measured twice"


def test_stored_likelihood_is_not_measured_again(memory: Store) -> None:
    model = Scripted()
    first = measure_likelihoods(model, [Sample(CHAT), Sample(CHAT, 1)], memory)
    asked = len(model.asked)
    assert asked == len(set(model.asked)), "what two subjects share is asked once"
    again = measure_likelihoods(model, [Sample(CHAT), Sample(CHAT, 1)], memory)
    assert len(model.asked) == asked
    assert (first.values == again.values).all()
    from_store = measure_likelihoods(Scripted("never"), [Sample(CHAT)], memory, ask=False)
    assert from_store.present.all()
    other = Conversation("e", (Turn("user", "Hm?"), Turn("assistant", "Well.")))
    absent = measure_likelihoods(model, [Sample(other)], memory, ask=False)
    assert set(absent.absences.values()) == {"not measured yet"} and len(model.asked) == asked


def test_failed_measurement_has_a_reason_and_is_repeated(memory: Store) -> None:
    silent = Conversation("s", (Turn("user", "hello?"), Turn("assistant", " ")))
    bare = Conversation("b", CHAT.turns)
    empty = Conversation("n", ())
    table = measure_likelihoods(Scripted(), [Sample(silent), Sample(bare), Sample(empty)], memory)
    by_row = {t.conversation: {r for (target, _), r in table.absences.items() if target == t} for t in table.targets}
    assert by_row == {"s": {"no reply to measure"}, "b": {"no documents"}, "n": {"no reply to measure"}}
    failed = measure_likelihoods(Scripted("too long"), [Sample(CHAT)], memory)
    assert set(failed.absences.values()) == {"too long"} and not failed.present.any()
    assert measure_likelihoods(Scripted(), [Sample(CHAT)], memory).present.all()
    with pytest.raises(BudgetReached):
        measure_likelihoods(Scripted("out of budget"), [Sample(Conversation("f", CHAT.turns[:2]))], memory)


# --- endpoints with echo -------------------------------------------------------------------------------------------


def test_endpoint_with_echo_gives_likelihoods(memory: Store, api_key: None) -> None:
    with ChatServer(answer_any) as server:
        model = open_likelihood("m1", server.url, ClientOptions(attempts=1))
        assert len(model.requests([LikelihoodRequest((), ())])) == 1
        table = measure_likelihoods(model, [Sample(CHAT)], memory)
        again = measure_likelihoods(model, [Sample(CHAT)], memory)
        wait(model.close())
        texts = [request["prompt"] for request in server.requests]
    assert table.present.all() and (again.values == table.values).all()
    assert len(texts) == 4, "with documents, with the turns alone, and each of two replies alone"
    assert {"assistant: It is.\n", "assistant: Sure.\n"} < set(texts)
    # The loopback gives each word -len/10, the space after it included: "It is.\n" alone is "It " and "is.\n".
    assert column(table, "log-p-alone") == pytest.approx(-(0.3 + 0.4 + 0.6) / 2)


def test_token_with_leading_space_belongs_to_the_reply(memory: Store, api_key: None) -> None:
    def gpt_like(request: Any) -> Wire:
        tokens = list(re.finditer(r"\s?[^\s]+|\s", request["prompt"]))
        mass = {"token_logprobs": [None, *[-1.0] * (len(tokens) - 1)], "text_offset": [t.start() for t in tokens]}
        return Wire({"choices": [{"index": 0, "text": request["prompt"] + " x", "logprobs": mass}]})

    with ChatServer(gpt_like) as server:
        model = open_likelihood("m1", server.url, ClientOptions(attempts=1))
        one_word = Sample(Conversation("w", (Turn("user", "Sure?"), Turn("assistant", "Yes"))))
        table = measure_likelihoods(model, [one_word], memory)
        wait(model.close())
    assert column(table, "log-p-alone") == -1.0
    with pytest.raises(BadInput, match="cannot give likelihoods"):
        open_likelihood("gguf:model.gguf", None, ClientOptions())


@pytest.mark.parametrize("kind", ["429", "500", "truncated", "half-closed", "wrong content type", "invalid JSON"])
def test_faults_are_failures(kind: str, memory: Store, api_key: None) -> None:
    with ChatServer(lambda request: fault(kind, request, answer_any(request))) as server:
        model = open_likelihood("m1", server.url, ClientOptions(attempts=1))
        table = measure_likelihoods(model, [Sample(CHAT)], memory)
        wait(model.close())
    assert not table.present.any() and all(table.absences.values())


def test_endpoint_that_ignores_echo_is_rejected(memory: Store, api_key: None) -> None:
    with ChatServer(lambda request: answer_any({**request, "echo": False})) as server:
        model = open_likelihood("m1", server.url, ClientOptions(attempts=1))
        chats = [Sample(Conversation(f"c{place}", CHAT.turns[: place + 1])) for place in range(len(CHAT.turns))]
        table = measure_likelihoods(model, [Sample(CHAT), *chats], memory)
        wait(model.close())
        assert len(server.requests) == 1, "one that does not echo is asked nothing more"
    assert "no echo" in set(table.absences.values()) and not table.present.any()
