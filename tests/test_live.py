"""Live scoring: equal to batch scoring, bounded memory, each message at most once."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from live_evaluator import CONTEXT, QUESTION, fitted, learned, predicted, replies, unfitted
from waiting import PATIENCE, at_once

from accord import (
    Conversation,
    Document,
    Evaluator,
    Label,
    Labels,
    LiveScorer,
    Reward,
    Score,
    Store,
    Target,
    Turn,
    Unscored,
)
from accord.edges import BadInput, BudgetReached, NotFitted, UnknownName
from accord.evidence import (
    CHARACTERS,
    Column,
    EvidenceTable,
    Source,
    make_source,
    metrics,
    sources,
    word_count,
)
from accord.evidence.bank import reply_metrics as similarity
from accord.evidence.bank import words
from accord.evidence.bank.reply_features import parsed_document
from accord.evidence.bank.reply_metrics import BANK
from accord.evidence.bank.session import (
    LEXICAL,
    WORDLESS,
)
from accord.evidence.metric_source import measure
from accord.learning import Head, make_head
from accord.live import (
    LiveContext,
    open_ingestor,
    raise_alarms,
)
from accord.live.messages import Message
from accord.live.monitoring import MonitoringThread
from accord.models import (
    SCORER,
    Budget,
    Caps,
    ChatMessage,
    Flow,
    Models,
    ModelSettings,
    Prompt,
    Request,
    memory_models,
    run,
    without_requests,
)
from accord.project import LiveConfig
from accord.testing import ChatServer, completion
from accord.values import GrowingTurns, Sample


def play(scorer: LiveScorer, conversation: Conversation) -> Iterator[Score | Unscored]:
    documents = [document.text for document in conversation.documents]
    for turn in conversation.turns:
        found = scorer.message(conversation.id, turn.role, turn.content, documents)
        if turn.role == "assistant":
            assert found is not None
            yield found
        else:
            assert found is None


def said_in(scorer: LiveScorer, name: str) -> list[str]:
    """State of a conversation."""
    found = scorer.conversation(name)
    return [] if found is None else [turn.content for turn in found.turns]


def test_live_scores_equal_batch_scores(chats: list[Conversation], evaluator: Evaluator) -> None:
    scorer = LiveScorer(evaluator)
    for conversation in chats[:8]:
        batch = predicted(evaluator, replies(conversation))
        for one, other in zip(play(scorer, conversation), batch, strict=True):
            assert isinstance(one, Score) and isinstance(other, Score)
            assert one.target == other.target and one.signature == other.signature and one.warning == other.warning
            assert [one.value, *one.probabilities] == pytest.approx([other.value, *other.probabilities])
            assert dict(one.attributions) == pytest.approx(dict(other.attributions))
    assert len(scorer) == 8


def test_remembered_conversations_are_bounded_in_number_and_age(evaluator: Evaluator) -> None:
    now = [0.0]
    scorer = LiveScorer(evaluator, conversations=3, seconds=60, clock=lambda: now[0])
    for name in "abcd":
        scorer.message(name, "user", "hello there")
        now[0] += 10
    assert len(scorer) == 3 and list(scorer._open) == ["b", "c", "d"]
    now[0] = 75  # b was heard at 10, c at 20, d at 30
    scorer.message("d", "user", "still there?")
    assert list(scorer._open) == ["c", "d"]
    scorer.forget("c")
    now[0] = 1000
    scorer.message("e", "user", "hi")
    assert list(scorer._open) == ["e"]


def test_repeated_message_is_scored_once(evaluator: Evaluator) -> None:
    scorer = LiveScorer(evaluator)
    scorer.message("c", "user", "Where is my order?", id="1")
    scorer.message("c", "user", "Where is my order?", id="1")
    first = scorer.message("c", "assistant", "It was sent on Monday.", id="2")
    assert scorer.message("c", "assistant", "It was sent on Monday.", id="2") is first
    scorer.message("d", "user", "Another conversation may use the same ids.", id="1")
    assert said_in(scorer, "d") == ["Another conversation may use the same ids."]
    assert said_in(scorer, "c") == ["Where is my order?", "It was sent on Monday."]


def test_batch_of_messages_equals_single_messages(chats: list[Conversation], evaluator: Evaluator) -> None:
    batch = [
        Message(c.id, turn.role, turn.content, [document.text for document in c.documents], str(place), place)
        for c in chats[:6]
        for place, turn in enumerate(c.turns)
    ]
    again = [*batch, batch[-1]]
    together, alone = LiveScorer(evaluator).take(again), LiveScorer(evaluator)
    singly = [alone.take([said])[0] for said in again]
    assert together[-1].again and singly[-1].again and together[-1].score == together[-2].score
    for one, other in zip(together, singly, strict=True):
        assert (one.score is None) == (other.score is None)
        if isinstance(one.score, Score) and isinstance(other.score, Score):
            assert one.score.target == other.score.target and (one.evidence == other.evidence or one.again)
            assert one.score.value == pytest.approx(other.score.value)
    found = LiveScorer(evaluator, conversations=1).take([Message(name, "assistant", "Hello.") for name in "aba"])
    assert [each.score.target.conversation for each in found] == ["a", "b", "a"]


def test_late_turns_are_rejected_and_gaps_give_warnings(evaluator: Evaluator) -> None:
    scorer = LiveScorer(evaluator)
    scorer.message("c", "system", "Be brief.", turn=0)
    scorer.message("c", "user", "Where is my order?", turn=1)
    whole = scorer.message("c", "assistant", "It was sent on Monday.", turn=2)
    assert isinstance(whole, Score) and "not heard" not in str(whole.warning)
    late = scorer.message("c", "assistant", "Let me look.", turn=2)
    assert isinstance(late, Unscored) and late.reason == "turn 2 arrived after turn 2"
    assert said_in(scorer, "c") == ["Be brief.", "Where is my order?", "It was sent on Monday."]
    gap = scorer.message("c", "assistant", "It arrives on Friday.", turn=7)
    assert isinstance(gap, Score) and str(gap.warning).endswith("turns 3 to 6 before it are missing")
    following = scorer.message("c", "assistant", "Anything else?")
    assert isinstance(following, Score) and following.target.turn == 8
    with pytest.raises(BadInput, match="numbered from 0"):
        scorer.message("c", "user", "x", turn=-1)


HOSTILE = {
    "words that all differ": lambda count: " ".join(f"w{place:x}" for place in range(count)),
    "short words of another script": lambda count: " ".join(chr(0x4E00 + place % 20_000) for place in range(count)),
    "no blank": lambda count: ".".join(chr(0x4E00 + place % 20_000) for place in range(count)),
    "one long word": lambda count: "é" * 8 * count,
    "one word": lambda count: "a " * count,
}
"""Texts with a given number of words that are expensive to measure."""


def bounded(evaluator: Evaluator, **limits: float) -> LiveScorer:
    return LiveScorer(evaluator, limits=LiveConfig(**limits))


def test_memory_is_bounded_and_oldest_conversation_goes_first(evaluator: Evaluator) -> None:
    scorer = bounded(evaluator, memory_mb=0.5)
    scorer.message("a", "user", "hello there", documents=["a word " * 300])
    oldest = weakref.ref(scorer._open["a"])
    for name in "bcdef":
        scorer.message(name, "user", "hello there", documents=[f"{name} word " * 300])
    assert list(scorer._open) == ["d", "e", "f"] and 0 < scorer.memory.used <= scorer.memory.most
    assert oldest() is None, "it is freed"
    scorer.message("d", "user", "still here")
    scorer.message("g", "user", "hello", documents=["another word " * 300])
    assert list(scorer._open) == ["f", "d", "g"]
    for name in "fdg":
        scorer.forget(name)
    assert len(scorer) == scorer.memory.used == 0
    with pytest.raises(BadInput, match="the limit is 1000000"):
        scorer.message("g", "user", "x" * 1_000_001)


def kept_and_counted(evaluator: Evaluator, text: str) -> tuple[int, int]:
    """Return real and counted bytes of a conversation of these texts."""
    scorer = LiveScorer(evaluator)
    scorer.message("warm", "assistant", text[:500], [text[:500]])
    tracemalloc.start()
    try:
        before, counted = tracemalloc.get_traced_memory()[0], scorer.memory.used
        for turn in range(3):
            scorer.message("c", "user", f"{turn} {text}", [text, f"{turn} {text}"], id=f"u{turn}")
            scorer.message("c", "assistant", f"{turn} {text}", id=f"a{turn}")
        for are_apart in (True, False):
            words.vocabulary(words.ENGLISH, are_apart).forget()
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    return kept, scorer.memory.used - counted


@pytest.mark.parametrize("shape", HOSTILE)
def test_counted_bytes_cover_real_bytes(evaluator: Evaluator, shape: str) -> None:
    # What belongs to the process, such as a table of names that happens to grow, is there but once.
    found = (kept_and_counted(evaluator, HOSTILE[shape](count)) for count in (2000, 2001))
    assert any(kept <= counted for kept, counted in found)


def test_shared_document_counts_once(evaluator: Evaluator) -> None:
    scorer, in_use = LiveScorer(evaluator), weakref.WeakSet[Any]()
    policy = "Opened routers can be returned within 45 days. " * 50

    def grown(name: str, *documents: str) -> int:
        before = scorer.memory.used
        scorer.message(name, "assistant", "Hello.", documents)
        return scorer.memory.used - before

    first = grown("0", policy, "x")
    for place in range(1, 20):
        assert grown(str(place), policy, "x") < first - len(policy) and grown(str(place), policy, "x") < len(policy)
        in_use.add(parsed_document(policy))
    assert len(in_use) == 1 and grown("own", policy[1:], "x") == pytest.approx(first, rel=0.01)
    for place in range(20):
        scorer.forget(str(place))
    gc.collect()
    assert not in_use, "the field is no longer shown"
    assert grown("own") < 0
    scorer.forget("own")
    assert scorer.memory.used == 0


def test_single_conversation_is_bounded_and_warns(evaluator: Evaluator) -> None:
    scorer, place = bounded(evaluator, memory_mb=0.1), 0
    for place in range(300):
        found = scorer.message("c", "assistant", f"We open at nine, route {place}.", id=str(place))
        assert scorer.memory.used <= scorer.memory.most
    assert isinstance(found, Score) and found.target.turn == 299
    assert "no longer remembered" in str(found.warning)
    assert len(said_in(scorer, "c")) < 300
    again = scorer.take([Message("c", "assistant", "x", id=str(place))])[0]
    assert again.again and again.score is found


@pytest.mark.parametrize("shape", HOSTILE)
def test_long_messages_are_truncated_with_a_warning(evaluator: Evaluator, shape: str) -> None:
    scorer, text = bounded(evaluator, max_reply_words=50, max_document_words=100), HOSTILE[shape]
    whole = scorer.message("c", "assistant", text(50).strip(), [text(50).strip(), text(30).strip()])
    assert isinstance(whole, Score) and "looked at" not in str(whole.warning)
    heard, longer, more, less = scorer.take([
        Message("d", "user", text(80)),
        Message("d", "assistant", text(80)),
        Message("d", "assistant", "Hello.", documents=tuple(text(30) + str(place) for place in range(9))),
        Message("d", "assistant", "Hello.", documents=("We open at nine.",)),
    ])  # fmt: skip
    assert heard.warning == "only its first 50 words were read"
    assert isinstance(longer.score, Score) and str(longer.score.warning).endswith(heard.warning)
    assert isinstance(more.score, Score) and "the first 100 words of the documents" in str(more.score.warning)
    assert isinstance(less.score, Score) and "looked at" not in str(less.score.warning)
    assert all(word_count(said) <= 50 for said in said_in(scorer, "d"))
    assert scorer.work(Message("d", "user", text(10_000), documents=(text(10_000),))) <= 150 * CHARACTERS


def test_late_user_messages_have_no_score(evaluator: Evaluator) -> None:
    scorer = LiveScorer(evaluator)
    scorer.message("c", "user", "one", turn=3)
    [late] = scorer.take([Message("c", "user", "two", turn=1)])
    assert late.score is None and late.warning == "turn 1 arrived after turn 3"
    assert said_in(scorer, "c") == ["one"]


def test_documents_may_change_and_a_reply_may_come_first(evaluator: Evaluator) -> None:
    scorer = LiveScorer(evaluator)
    alone = scorer.message("c", "assistant", "Welcome! How can I help?")
    assert isinstance(alone, Score)
    scorer.message("c", "user", "When do you open?")
    without = scorer.message("c", "assistant", "We open at nine on weekdays.")
    scorer.message("c", "user", "And on Sundays?", documents=["Open at ten on Sundays."])
    using = scorer.message("c", "assistant", "We open at ten on Sundays.")
    assert isinstance(using, Score) and isinstance(without, Score)
    amounts = [dict(score.attributions)["ciu"] for score in (using, without)]
    assert amounts[0] != amounts[1]
    for text in ("\ud800 said", "nul\0", "word " * 20_000):
        assert isinstance(scorer.message("c", "assistant", text), Score)


def test_threads_share_a_scorer(chats: list[Conversation], evaluator: Evaluator) -> None:
    scorer, alone = LiveScorer(evaluator), LiveScorer(evaluator)
    found = at_once(lambda c=c: list(play(scorer, c)) for c in chats[:12])
    expected = [list(play(alone, c)) for c in chats[:12]]
    assert [[score.to_json() for score in each] for each in found] == [[s.to_json() for s in e] for e in expected]


def test_message_from_many_threads_counts_once(evaluator: Evaluator) -> None:
    scorer = LiveScorer(evaluator)
    found = at_once([lambda: scorer.message("c", "assistant", "We open at nine.", id="m1")] * 8)
    assert said_in(scorer, "c") == ["We open at nine."] and len({id(score) for score in found}) == 1


def test_evaluators_that_cannot_score_live_are_named(chats: list[Conversation], evaluator: Evaluator) -> None:
    metrics.register("test-length")(lambda conversation: float(len(conversation.turns)))
    try:
        slow = learned(chats, (*BANK, "test-length"))
        for refused in (LiveScorer, Reward):
            with pytest.raises(
                BadInput, match="its source 'metrics' asks an endpoint, or reads the whole conversation"
            ):
                refused(slow)
    finally:
        metrics.forget("test-length")
    with pytest.raises(NotFitted):
        LiveScorer(unfitted())
    columns = evaluator.head.columns
    otherwise = replace(evaluator, head=evaluator.head.__class__(QUESTION).restore(*evaluator.head.state()))
    side = otherwise.head.reference_
    changed = (replace(columns[0], signature="metric|name:of-old"), *columns[1:])
    otherwise.head.reference_ = replace(side, columns=changed)
    with pytest.raises(BadInput, match=r"the evaluator learned from metric\|name:of-old"):
        LiveScorer(otherwise)
    assert LiveScorer(evaluator).columns == columns
    with pytest.raises(UnknownName):
        LiveScorer(evaluator, annotator="nobody")
    with pytest.raises(BadInput, match="needs room for a conversation"):
        LiveScorer(evaluator, conversations=0)
    with pytest.raises(BadInput, match="allowed: assistant, developer"):
        LiveScorer(evaluator).message("c", "narrator", "be brief")
    labels = Labels([Label(Target(c.id), "useful", "ann", 2) for c in chats])
    constant = fitted(unfitted("constant"), list(map(Sample, chats)), labels)
    for each in (constant, replace(constant, sources=())):  # `fit --best` learns the constant from few labels
        score = LiveScorer(each).message("c", "assistant", "Hello.")
        assert isinstance(score, Score) and score.value == pytest.approx(2, abs=0.1)


class Embedder:
    """Embedder that counts letters."""

    name = identity = "letters"

    def embed(self, text: str) -> np.ndarray:
        found = np.array([1.0 + text.count(letter) for letter in "aeiounst"])
        return found / np.linalg.norm(found)

    def states(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        words = text.split()
        return np.ones(len(words)), np.array([self.embed(word) for word in words]).reshape(-1, 8)

    def prepare(self, texts: Sequence[str]) -> None:
        """Do nothing."""


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Replace every embedder by one that counts letters."""
    monkeypatch.setattr(similarity, "open_embedder", lambda name: Embedder())
    similarity.scores.cache_clear()
    yield
    similarity.scores.cache_clear()


SETTINGS = {"metrics": {"names": ["bank", "lexical"]}}
LIVE = [name for name in sources.names() if make_source(name, SETTINGS.get(name, {}), CONTEXT).is_live]


def unlearned(*parts: Source, head: Head | None = None) -> Evaluator:
    """Return an evaluator whose head reads no column."""
    fitted = make_head("constant", QUESTION, {}).fit(
        EvidenceTable.from_rows([], {Target("c"): {}}), Labels([Label(Target("c"), "useful", "ann", 2)])
    )
    return Evaluator(QUESTION, parts, head or fitted, name="unlearned")


def batch(evaluator: Evaluator, samples: Sequence[Sample]) -> list[dict[str, float | None]]:
    """Return batch evidence, measured sample by sample."""
    tables = [run(evaluator.evidence([sample]), memory_models()) for sample in samples]
    return [
        {
            column.name: float(table.values[0, i]) if table.present[0, i] else None
            for i, column in enumerate(table.columns)
        }
        for table in tables
    ]


def test_there_are_live_sources() -> None:
    assert {"bank", "embedding", "lexical", "metrics", "reference"} <= set(LIVE)
    assert not make_source("embedding@endpoint:small", {}, CONTEXT).is_live  # it would ask over the network


@pytest.mark.parametrize("name", LIVE)
def test_live_evidence_equals_batch_evidence_bit_for_bit(name: str, chats: list[Conversation], letters: None) -> None:
    if name == "reference":
        pytest.importorskip("sacrebleu")
    evaluator = unlearned(make_source(name, SETTINGS.get(name, {}), CONTEXT))
    scorer = LiveScorer(evaluator)
    odd = Conversation("odd", (
        Turn("system", "Be brief."), Turn("user", "hello"), Turn("assistant", "..."), Turn("tool", "42"),
        Turn("assistant", "Hello, how are you?"), Turn("assistant", "Hello, how are you?"), Turn("user", "👍"),
        Turn("assistant", "Bye."),
    ), (Document("Hello, how are you? Bye."),))  # fmt: skip
    german = "Kann ich das Gerät noch zurückgeben, wenn es nicht mehr in der Schachtel ist?"
    switching = Conversation("switching", (
        Turn("user", "Router?"), Turn("assistant", "Yes."), Turn("user", german), Turn("assistant", "Ja, das geht."),
        Turn("user", "返品できますか"), Turn("assistant", "はい、できます。"),
        Turn("user", f"{german} " * 20), Turn("assistant", german), Turn("user", "The router is not in the box. " * 80),
        Turn("assistant", "The router can go back in the box, or das Gerät."),
    ), (Document("Das Gerät kann in der Schachtel zurück."), Document("The box.")))  # fmt: skip
    for conversation in (*chats[:5], odd, switching):
        documents = tuple(document.text for document in conversation.documents)
        said = [Message(conversation.id, turn.role, turn.content, documents) for turn in conversation.turns]
        samples = replies(conversation)
        expected = batch(evaluator, samples)
        singly = [scorer.take([each])[0].evidence for each in said]
        together = [each.evidence for each in LiveScorer(evaluator).take(said)]
        assert [singly[s.turn] for s in samples] == [together[s.turn] for s in samples] == expected
        assert any(value is not None for value in expected[-1].values())


class Exclamations(Source):
    """Number of exclamation marks of the assistant; a live source without state."""

    name, is_live = "exclamations", True

    def measure(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """Measure one column."""
        rows = {
            sample.target: {
                "exclamations": float(sum(t.content.count("!") for t in sample.conversation.at(sample.turn).replies))
            }
            for sample in samples
        }
        return without_requests(EvidenceTable.from_rows([Column("exclamations", "exclamations")], rows))


def test_custom_source_scores_live(chats: list[Conversation]) -> None:
    source = Exclamations({}, CONTEXT)
    head = make_head("label-free", QUESTION, {"features": ["exclamations"]})
    head.fit(run(source.measure(replies(*chats)), memory_models()), Labels([]))
    evaluator = unlearned(source, head=head)
    assert head.columns is None
    scorer = LiveScorer(evaluator)
    for conversation in chats[:4]:
        assert list(play(scorer, conversation)) == predicted(evaluator, replies(conversation))
    assert [column.name for column in scorer.columns] == ["exclamations"]
    [reward] = Reward(evaluator)(["Hi"], ["Hello!!!"])
    assert reward > Reward(evaluator).one("Hi", "Hello.")


class Asks(Exclamations):
    """The same source with a model."""

    name, is_live, roles = "asks", False, (SCORER,)

    def measure(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """Send one request per sample."""
        yield [Request(SCORER, Prompt((ChatMessage("user", s.conversation.turns[-1].content),), 5)) for s in samples]
        return (yield from super().measure(samples))


AskingModel = Callable[..., tuple[ChatServer, Models]]


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch, memory: Store) -> Iterator[AskingModel]:
    """Start a model, and the models that ask it for scores."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with ExitStack() as stack:

        def start(respond: Callable[[Any], Any], caps: Caps) -> tuple[ChatServer, Models]:
            server = stack.enter_context(ChatServer(respond))
            settings = {SCORER: ModelSettings(model="m", mode="logprobs", base_url=server.url)}
            models = Models(settings, memory, Budget(caps, {}))
            stack.callback(models.close)
            return server, models

        yield start


def test_sources_with_models_need_permission(asking: AskingModel) -> None:
    evaluator = unlearned(Asks({}, CONTEXT))
    for refused in (LiveScorer, Reward):
        with pytest.raises(BadInput, match=r"'asks' asks the scorer about every reply. Allow that with --ask"):
            refused(evaluator)
        with pytest.raises(BadInput, match="'asks'"):
            refused(replace(unlearned(Exclamations({}, CONTEXT)), other_questions=(evaluator,)))
    server, models = asking(lambda request: completion("yes"), Caps(requests=2))
    scorer = LiveScorer(evaluator, models=models)
    scorer.message("c", "user", "Hi")
    assert not server.requests  # only replies are asked about
    found = scorer.take([Message("c", "assistant", text) for text in ("Hello!", "Hello!!")])
    assert [each.evidence for each in found] == [{"exclamations": 1.0}, {"exclamations": 2.0}]
    assert all(isinstance(each.score, Score) for each in found) and len(server.requests) == 2


def test_slow_model_does_not_block_other_replies(asking: AskingModel) -> None:
    asked, go = threading.Event(), threading.Event()

    def slowly(request: Any) -> Any:
        if "slow" in request["messages"][0]["content"]:
            asked.set()
            assert go.wait(PATIENCE)
        return completion("yes")

    server, models = asking(slowly, Caps())
    scorer = LiveScorer(unlearned(Asks({}, CONTEXT)), models=models)
    found: list[Any] = []
    said = Message("c", "assistant", "slow!", id="m")
    threads = [threading.Thread(target=lambda: found.extend(scorer.take([said]))) for _ in range(2)]
    threads[0].start()
    assert asked.wait(PATIENCE)
    threads[1].start()  # the same message, sent again meanwhile
    assert isinstance(scorer.message("d", "assistant", "Hello!"), Score)
    assert isinstance(scorer.message("c", "assistant", "And more!"), Score)
    scorer.forget("d")
    assert said_in(scorer, "c") == ["slow!", "And more!"] and not found
    go.set()
    for thread in threads:
        thread.join()
    assert found[0].score is found[1].score and {each.again for each in found} == {True, False}
    assert len(server.requests) == 3


def test_failed_request_gives_unscored_reply() -> None:
    class Broken(Asks):
        def measure(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
            raise BudgetReached("the budget of 2 requests is spent")
            yield []

    with pytest.raises(BadInput, match="no model configured for role 'scorer'"):
        LiveScorer(unlearned(Broken({}, CONTEXT)), models=memory_models())
    nobody = memory_models({SCORER: ModelSettings(model="m", mode="logprobs")})
    scorer = LiveScorer(unlearned(Broken({}, CONTEXT)), models=nobody)
    found = scorer.message("c", "assistant", "Hello!")
    assert isinstance(found, Unscored) and found.reason == "the budget of 2 requests is spent"
    assert said_in(scorer, "c") == ["Hello!"]


def test_a_reply_costs_the_same_after_ten_turns_and_after_a_thousand(
    chats: list[Conversation], evaluator: Evaluator
) -> None:
    """Counts function calls and allocated bytes, which would show a copy of the turns."""
    scorer = LiveScorer(unlearned(*evaluator.sources, Exclamations({}, CONTEXT)))  # the second looks at the last turn
    texts = [turn.content for turn in chats[0].turns if turn.role == "assistant"][:2]
    work: list[tuple[int, int]] = []

    def one() -> tuple[int, int]:
        calls = 0

        def count(frame: Any, event: str, argument: Any) -> None:
            nonlocal calls
            calls += event in {"call", "c_call"}

        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        sys.setprofile(count)
        try:
            scorer.message("c", "user", texts[0], ["Open at ten on Sundays."])
            scorer.message("c", "assistant", texts[1])
        finally:
            sys.setprofile(None)
        return calls, tracemalloc.get_traced_memory()[1] - before

    tracemalloc.start()
    try:
        work = [one() for _ in range(500)]
    finally:
        tracemalloc.stop()
    assert len(scorer.conversation("c").turns) == 1000
    assert work[-1][0] == work[9][0]
    assert median(peak for _, peak in work[-50:]) < median(peak for _, peak in work[10:60]) + 2000  # 1000 turns: 8000


def test_growing_turns_behave_like_a_tuple() -> None:
    one, two, three = Turn("user", "a"), Turn("assistant", "b"), Turn("user", "c")
    first = GrowingTurns().plus(one).plus(two)
    more = first.plus(three)
    assert first == (one, two) and more == (one, two, three) and list(first) == [one, two] and len(more) == 3
    assert first != more and hash(more) == hash((one, two, three)) and more[-1] == three and more[1:] == (two, three)
    assert more[:2] == first and more[:2].session is more.session and (*first, three) == more
    with pytest.raises(IndexError):
        first[2]
    with pytest.raises(ValueError, match="has later turns"):
        first.plus(one)
    grown, whole = Conversation("c", more), Conversation("c", (one, two, three))
    assert grown == whole and grown.at(1) == whole.at(1) and grown.to_json() == whole.to_json()
    assert grown.replies == whole.replies and grown.others == whole.others


@pytest.mark.parametrize("text", ["", " \n", "...", "?!", "👍", "👩‍👩‍👧‍👦 🎉", "—"])
def test_a_reply_with_nothing_to_measure_is_unscored_with_the_reason(text: str, evaluator: Evaluator) -> None:
    turns = (Turn("user", "tell me about dogs"), Turn("assistant", text), Turn("assistant", "Dogs bark."))
    conversation = Conversation("c", turns, (Document("Dogs bark at cats."),))
    found, after = predicted(evaluator, [Sample(conversation, 1), Sample(conversation, 2)])
    assert isinstance(found, Unscored) and found.reason == f"no evidence; {WORDLESS}" and isinstance(after, Score)
    scorer = LiveScorer(evaluator)
    live, next_one = play(scorer, conversation)
    assert live == found and isinstance(next_one, Score) and next_one.value == pytest.approx(after.value)
    assert Reward(evaluator).one("tell me about dogs", text) == 1.0
    table = measure([Sample(conversation, 1)], [*BANK, *LEXICAL])
    assert not table.present.any() and set(table.absences.values()) == {WORDLESS}


def test_service_is_imported_lazily() -> None:
    code = "import sys, accord.live as live\nprint(sorted({'fastapi', 'uvicorn'} & sys.modules.keys()), hasattr(live, 'x'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] False\n"


def test_a_calibration_on_the_bank_scores_live_for_one_annotator(chats: list[Conversation]) -> None:
    labels = Labels(
        Label(Target(c.id), "useful", who, 1 + (len(c.turns) + bias) % 4)
        for c in chats
        for who, bias in (("ann", 0), ("bo", 1))
    )
    mixed = fitted(unfitted("mixed"), list(map(Sample, chats)), labels)
    found = LiveScorer(mixed, annotator="bo").message("c", "assistant", "We open at nine.")
    assert isinstance(found, Score) and found.annotator == "bo"


@pytest.mark.parametrize("level", ["turn", "conversation"])
def test_live_replies_are_compared_with_training_replies(
    level: str,
    chats: list[Conversation],
    evaluator: Evaluator,
    memory: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = Labels(Label(Target(c.id), "useful", "ann", 1 + place % 4) for place, c in enumerate(chats))
    trained = evaluator if level == "turn" else fitted(unfitted(), list(map(Sample, chats)), whole)
    assert trained.level == level
    trained.save(tmp_path)
    schedulers: list[MonitoringThread] = []

    class Recorded(MonitoringThread):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            schedulers.append(self)

    monkeypatch.setattr("accord.live.ingest.MonitoringThread", Recorded)
    with open_ingestor(tmp_path, context=LiveContext(store=memory)) as ingestor:
        for place in range(60):
            ingestor.take([Message(f"c{place}", "assistant", "buy now " * 400, system="bot")])
    [scheduler] = schedulers
    found = {alarm.kind for alarm in raise_alarms(memory, checks={}, training=scheduler.training)}
    # Means over a conversation are unlike a reply's own values, so only replies are compared with.
    assert found == ({"unlike"} if level == "turn" else set())


def test_reward_is_one_number_per_reply(evaluator: Evaluator) -> None:
    reward, ask = Reward(evaluator), "What does a heron eat?"
    fact = "The heron eats fish, frogs and insects near rivers and lakes, and stands still for hours."
    answers = ["Fish.", [{"role": "assistant", "content": fact}]]
    short, long = reward(prompts=[ask] * 2, completions=answers, documents=[[fact], [fact]], other_column=[1, 2])
    assert long > short and 1 <= short <= 4
    assert reward.one(ask, "Fish.", [fact]) == pytest.approx(short)
    assert reward.one([{"role": "user", "content": ask}], "Fish.", [fact]) == pytest.approx(short)
    conversation = Conversation("x", (Turn("user", ask), Turn("assistant", "Fish.")), (Document(fact),))
    [score] = predicted(evaluator, [Sample(conversation, 1)])
    assert isinstance(score, Score) and score.value == pytest.approx(short)
    with pytest.raises(BadInput, match="2 prompts, 1 completions"):
        reward(["a", "b"], ["c"])
    tool = [{"role": "tool", "content": fact}, {"role": "assistant", "content": "Fish."}]
    odd = reward([ask] * 3, [tool, "Fish.", "Fish."], [[fact], fact, None])
    assert odd[0] == odd[1] == pytest.approx(short) and isinstance(odd[2], float)
    nothing = ["", " ", "...", "👍", [{"role": "assistant", "content": None}], [{"role": "assistant"}]]
    assert reward(["a"] * 6, nothing) == [1.0] * 6  # the scale's floor
    assert Reward(evaluator, missing=-9.0)(["a"] * 6, nothing) == [-9.0] * 6
    assert json.dumps(reward([], [])) == "[]"
    assert reward.__name__ == "accord_reward"
