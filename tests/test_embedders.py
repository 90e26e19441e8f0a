"""Embedders by name, texts without a vector, stored vectors, and the RUBER metric."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accord import Conversation, Document, Store, Turn, embedded
from accord.edges import BadInput, BudgetReached, MissingExtra, ModelError, NotSent, UnknownName, Unmeasured
from accord.evidence import (
    Relatedness,
    SourceContext,
    make_source,
    pairs_of,
    turn_metrics,
)
from accord.evidence.bank import reply_metrics as similarity
from accord.evidence.bank import ruber
from accord.evidence.bank.ruber import (
    FOLDS,
    Pair,
    fold_of,
)
from accord.evidence.bank.session import MetricSession
from accord.evidence.metric_source import measure
from accord.models import (
    Caps,
    ClientOptions,
    embedders,
    memory_models,
    open_embedder,
    run,
)
from accord.models.embedders import (
    EmbeddingsEndpoint,
    Local,
    Remote,
    embed,
)
from accord.models.factory import wrap_wire
from accord.project import train_ruber
from accord.testing import ChatServer
from accord.testing.server import Wire
from accord.values import Sample

WORDS = ["heron", "fish", "opening", "hours", "router", "return", "order", "monday"]


def vector(text: str) -> list[float]:
    """Counts of a few words, plus a constant."""
    return [text.lower().count(word) + 0.01 for word in WORDS]


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    opened: list[Remote] = []
    begin = Remote.__init__

    def noted(self: Remote, *given: Any, **more: Any) -> None:
        begin(self, *given, **more)
        opened.append(self)

    monkeypatch.setattr(Remote, "__init__", noted)
    open_embedder.cache_clear()
    ruber._opened.cache_clear()
    yield
    for each in opened:
        each.close()
    open_embedder.cache_clear()
    ruber._opened.cache_clear()


def serve(request: Mapping[str, Any]) -> Wire:
    if not request["_path"].endswith("/embeddings"):
        return Wire({"error": {"message": "no such path"}}, status=404)
    if any("poison" in text for text in request["input"]):
        return Wire({"error": {"message": "no"}}, status=400)
    found = [{"object": "embedding", "index": i, "embedding": vector(t)} for i, t in enumerate(request["input"])]
    return Wire(
        {
            "object": "list",
            "data": found[::-1],
            "model": request["model"],
            "usage": {"prompt_tokens": 3, "total_tokens": 3},
        }
    )


def chat(*turns: str, documents: tuple[str, ...] = (), name: str = "c") -> Conversation:
    roles = ("user", "assistant") * len(turns)
    return Conversation(name, tuple(map(Turn, roles, turns)), tuple(map(Document, documents)))


def test_endpoint_gets_many_texts_per_request_and_each_text_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer(serve) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "hush")
        chats = [
            chat(f"heron {place}?", f"A heron eats fish {place}.", documents=("Fish and heron.",), name=f"c{place}")
            for place in range(100)
        ]
        names = ["cosine-documents@endpoint:small", "cosine-user@endpoint:small"]
        table = measure(map(Sample, chats), names)
        assert len(server.requests) == -(-201 // 64) and {r["model"] for r in server.requests} == {"small"}
        one, other = (np.array(vector(text)) for text in ("A heron eats fish 0.", "Fish and heron."))
        assert table.values[0, 0] == pytest.approx(one @ other / np.linalg.norm(one) / np.linalg.norm(other))
        assert [column.name for column in table.columns] == names and "words:endpoint:small" in table.columns[
            0
        ].signature
        measure(map(Sample, chats), names)
        assert len(server.requests) == 4
        with pytest.raises(ModelError, match="vectors of texts, not of tokens"):
            measure(map(Sample, chats[:1]), ["bertscore-f1@endpoint:small"])


def test_failed_text_does_not_affect_other_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer(serve) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "hush")
        chats = [
            chat("heron?", "fish", name="a"),
            chat("heron?", "poison", name="b"),
            chat("order?", "monday", name="c"),
        ]
        table = measure(map(Sample, chats), ["cosine-user@endpoint:small", "words"])
        assert table.present.tolist() == [[True, True], [False, True], [True, True]]
        assert table.absences == {(table.targets[1], "cosine-user@endpoint:small"): "no embedding: rejected"}
        session = MetricSession({"cosine-user@endpoint:small": turn_metrics.get("cosine-user@endpoint:small")})
        session.hear("heron?")
        assert session.reply("poison") == {"cosine-user@endpoint:small": None} and session.history.messages == 2
    gone = Remote("endpoint:x", wrap_wire(EmbeddingsEndpoint("x", server.url, "hush"), ClientOptions(attempts=1)))
    with pytest.raises(NotSent, match=r"cannot connect to 127\.0\.0\.1:\d+ .*nothing was sent"):
        gone.embed("heron")
    refusing = lambda _: Wire({"error": {"message": "bad key hush"}}, status=401)  # noqa: E731
    with ChatServer(refusing) as server, pytest.raises(ModelError, match="refused the key") as caught:
        Remote("endpoint:x", wrap_wire(EmbeddingsEndpoint("x", server.url, "hush"), ClientOptions(attempts=1))).embed(
            "heron"
        )
    assert "hush" not in str(caught.value)
    short = lambda request: Wire({"object": "list", "data": [], "model": "x"})  # noqa: E731
    with ChatServer(short) as server, pytest.raises(Unmeasured, match="malformed"):
        Remote("endpoint:x", wrap_wire(EmbeddingsEndpoint("x", server.url, "hush"), ClientOptions(attempts=1))).embed(
            "heron"
        )


def test_passing_faults_are_retried_and_invalid_vectors_reported() -> None:
    wires = [Wire({"error": {}}, status=429), Wire({"error": {}}, status=503)]
    widths: list[list[float]] = [[1.0, 2.0], [1.0, 2.0, 3.0], [1.0, float("nan")], [3.0, 4.0]]

    def flaky(request: Mapping[str, Any]) -> Wire:
        if wires:
            return wires.pop(0)
        body = {
            "object": "list",
            "model": "x",
            "data": [{"object": "embedding", "index": 0, "embedding": widths.pop(0)}],
        }
        return Wire(json.dumps(body).encode())

    with ChatServer(flaky) as server:
        remote = Remote("endpoint:x", wrap_wire(EmbeddingsEndpoint("x", server.url, "hush"), ClientOptions(attempts=1)))
        for reason in ("rate-limited", "server"):
            with pytest.raises(Unmeasured, match=reason):
                remote.embed("policy")
        assert remote.embed("policy") == pytest.approx(np.array([1, 2]) / np.sqrt(5))
        for text in ("wider", "no number"):
            with pytest.raises(Unmeasured, match="malformed"):
                remote.embed(text)
        assert remote.embed("policy").shape == remote.embed("fine").shape == (2,)


def test_embedder_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert open_embedder("").name == open_embedder("minilm-l6").name == "minilm-l6"
    with pytest.raises(
        BadInput, match="no embedder 'bert'; allowed: minilm-l6, sentence-transformers:NAME, endpoint:MODEL"
    ):
        open_embedder("bert")
    with ChatServer(serve) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        with pytest.raises(ModelError, match="no API key for model 'x': set OPENAI_API_KEY"):
            open_embedder("endpoint:x").embed("heron")
        assert not server.requests, "the key is missed before anything is sent"
    with pytest.raises(BadInput, match="has no model name"):
        open_embedder("sentence-transformers:")
    assert (
        "cosine-user@endpoint:x" in turn_metrics
        and "words@endpoint:x" not in turn_metrics
        and "ruber@" not in turn_metrics
    )
    with pytest.raises(UnknownName, match="turn metric 'words@x'"):
        turn_metrics.get("words@x")
    assert not any("@" in name for name in turn_metrics.names())


def test_sentence_transformers_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    embedders._sentence_transformer.cache_clear()
    with pytest.raises(MissingExtra, match=r"pip install .*\[embedders\]"):
        open_embedder("sentence-transformers:all").embed("heron")

    class Model:
        """The used part of the library's class."""

        def __init__(self, name: str) -> None:
            assert name == "all"

        def encode(
            self, texts: list[str], output_value: str = "sentence_embedding", show_progress_bar: bool = True
        ) -> Any:
            if output_value == "token_embeddings":
                return [
                    np.array([[9.0, 9.0], *([float(len(word)), 1.0] for word in text.split()), [9.0, 9.0]])
                    for text in texts
                ]
            return np.array([vector(text) for text in texts])

    monkeypatch.setitem(sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=Model))
    embedder = open_embedder("sentence-transformers:all")
    assert np.linalg.norm(embedder.embed("heron fish")) == pytest.approx(1)
    weights, states = embedder.states("heron fish")
    assert weights.tolist() == [1, 1] and np.linalg.norm(states, axis=1) == pytest.approx([1, 1])
    table = measure(
        [Sample(chat("heron?", "heron fish", documents=("heron fish",)))],
        ["cosine-documents@sentence-transformers:all", "bertscore-f1@sentence-transformers:all"],
    )
    assert table.values[0].tolist() == pytest.approx([1, 1])
    embedders._sentence_transformer.cache_clear()


# --- stored vectors ---------------------------------------------------------------------------------------------


class Counted:
    """An embedder that records its texts and fails on some."""

    name = "counted"

    def __init__(self, identity: str = "counted:1", width: int = 3) -> None:
        self.identity, self.width = identity, width
        self.ahead: list[list[str]] = []
        self.read: list[str] = []

    def embed(self, text: str) -> np.ndarray:
        self.read.append(text)
        if "poison" in text:
            raise Unmeasured("no embedding: rejected")
        return np.full(self.width, len(text), dtype=np.float64)

    def prepare(self, texts: Any) -> None:
        self.ahead.append(list(texts))


def test_text_is_embedded_once_across_processes(store: Store) -> None:
    odd = "half a pair \ud83d, NUL \0"
    texts = ["fish", "heron", "fish", "", odd]
    first = Counted()
    found = embed(texts, first, store)
    assert found.dtype == np.float32 and found[:, 0].tolist() == [len(text) for text in texts]
    assert first.read == ["fish", "heron", "", odd] and first.ahead == [first.read]
    store.close()
    opened, second = Store(store.url), Counted()
    assert np.array_equal(embed(texts, second, opened), found) and not second.ahead and not second.read
    assert embed(["monday", "fish"], second, opened)[:, 0].tolist() == [6, 4] and second.read == ["monday"]
    retrained = Counted("counted:2", width=4)
    assert embed(["fish"], retrained, opened).shape == (1, 4), "other weights with the same name are another model"
    opened.close()


def test_text_without_vector_is_an_error_and_other_vectors_are_stored(memory: Store) -> None:
    embedder = Counted()
    texts = [f"heron {place}" for place in range(600)]
    texts[550] = "poison " * 20
    with pytest.raises(
        ModelError, match=r"counted has no vector for 1 of 88 texts; no embedding: rejected. .*run the command"
    ) as caught:
        embed(texts, embedder, memory)
    assert len(str(caught.value)) < 200
    embedder.read.clear()
    texts[550] = "fish"
    assert embed(texts, embedder, memory).shape == (600, 3) and embedder.read == ["fish"]
    with pytest.raises(ModelError, match="counted gives vectors of 3 and of 5 numbers: another model has this name"):
        embed(["fish", "monday"], Counted(width=5), memory)
    assert embed(["monday"], embedder, memory).shape == (1, 3), "a vector of another width is not stored"


def test_identity_of_an_embedder_covers_weights_and_endpoint(memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "hush")
    monkeypatch.setattr(embedded, "open_sentence_embedder", lambda _: SimpleNamespace(fingerprint="1f3c"))
    assert Local("minilm-l6").identity == "minilm-l6:1f3c"
    assert open_embedder("sentence-transformers:all").identity == "sentence-transformers:all"
    with ChatServer(serve) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url.replace("http://", "http://user:hush@"))
        remote = open_embedder("endpoint:small")
        assert remote.identity == f"endpoint:small {server.url}/"
        texts = [f"heron {place}" for place in range(100)]
        found = embed(texts, remote, memory)
        assert found.shape == (100, len(WORDS)) and len(server.requests) == 2
        open_embedder.cache_clear()
        assert np.array_equal(embed(texts, open_embedder("endpoint:small"), memory), found)
        assert len(server.requests) == 2, "a stored vector is not requested again"
        with pytest.raises(ModelError, match=r"no vector for 1 of 2 texts; no embedding: rejected"):
            embed(["poison", "order"], remote, memory)


# --- RUBER --------------------------------------------------------------------------------------------------------


class Bag:
    """A bag-of-words embedder."""

    name = "bag"

    def embed(self, text: str) -> np.ndarray:
        found = np.array(vector(text))
        return found / np.linalg.norm(found)

    def prepare(self, texts: Any) -> None:
        """Do nothing."""


@pytest.fixture
def bag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ruber, "open_embedder", lambda name: Bag())


def logged(count: int, seed: int = 0) -> list[Conversation]:
    """Replies with words of their question and document."""
    rng = np.random.default_rng(seed)
    found = []
    for place in range(count):
        one, other = rng.choice(WORDS, 2, replace=False)
        found.append(
            chat(f"{one} {place}?", f"{one} {other} indeed", documents=(f"the {other} {place}",), name=f"c{place}")
        )
    return found


def test_ruber_separates_related_and_unrelated_replies(bag: None, tmp_path: Path) -> None:
    learned = Relatedness.learn(pairs_of(logged(150)))
    assert learned.accuracy > 0.9 and learned.replies == 150 and learned.weights.shape == (FOLDS, 32)
    right = learned.score("heron, new?", ["the fish"], "heron fish")
    assert right > 0.5 > learned.score("heron, new?", ["the fish"], "router monday")
    learned.save(tmp_path / "ruber")
    again = Relatedness.load(tmp_path / "ruber")
    assert again.score("heron, new?", ["the fish"], "heron fish") == right
    assert Relatedness.learn(pairs_of(logged(150))).weights.tolist() == learned.weights.tolist()
    table = measure(map(Sample, logged(5)), [f"ruber-unreferenced@{tmp_path / 'ruber'}"])
    assert (
        table.present.all()
        and ((table.values > 0) & (table.values < 1)).all()
        and "words:minilm-l6,s256:" in table.columns[0].signature
    )
    nothing = measure(
        [Sample(Conversation("c", (Turn("assistant", "Hello"),)))], [f"ruber-unreferenced@{tmp_path / 'ruber'}"]
    )
    assert not nothing.present.any()


def test_ruber_scores_each_context_with_a_model_that_has_not_seen_it(bag: None) -> None:
    assert {pair.fold for pair in pairs_of(logged(150))} == set(range(FOLDS))
    assert Pair("heron?", ("a", "b"), "x").fold == Pair("heron?", ("b", "a"), "y").fold == fold_of("heron?", ["a", "b"])
    noise = np.random.default_rng(9)
    unrelated = [Pair(f"{noise.choice(WORDS)} {i}?", (), str(noise.choice(WORDS))) for i in range(400)]
    assert 0.4 < Relatedness.learn(unrelated).accuracy < 0.6  # chance, although each model fits its own half


def test_ruber_rejects_unusable_conversations(bag: None, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="needs at least 20 contexts"):
        Relatedness.learn(pairs_of(logged(10)))
    orders = [Pair("hi", tuple(order), "yes") for order in permutations("abcd")]
    with pytest.raises(BadInput, match="needs at least 20 contexts"):
        Relatedness.learn(orders)
    store = Store("sqlite://")
    store.add_conversations([chat(f"{place}?", "the same", name=f"c{place}") for place in range(100)])
    with pytest.raises(BadInput, match="which is chance"):
        train_ruber(store, "minilm-l6", tmp_path / "none")
    store.close()
    with pytest.raises(BadInput, match="accord models train ruber --out"):
        turn_metrics.get(f"ruber@{tmp_path}").made_with  # type: ignore[attr-defined]  # noqa: B018
    (tmp_path / "ruber.json").write_text(json.dumps({}), encoding="utf-8")
    (tmp_path / "arrays.safetensors").write_bytes(b"x")
    with pytest.raises(BadInput, match="damaged RUBER"):
        Relatedness.load(tmp_path)


def test_ruber_learns_from_a_store(bag: None, tmp_path: Path) -> None:
    store = Store("sqlite://")
    store.add_conversations(logged(60))
    found = train_ruber(store, "minilm-l6", tmp_path / "ruber")
    store.close()
    assert found.replies == 60 and (tmp_path / "ruber" / "ruber.json").is_file()


def test_ruber_referenced_part_pools_words(monkeypatch: pytest.MonkeyPatch) -> None:
    states = {"one": np.array([[1.0, 0.0], [0.0, 1.0]]), "two": np.array([[1.0, 1.0]]), "": np.zeros((0, 2))}
    fake = SimpleNamespace(states=lambda text: (np.ones(len(states[text])), states[text]), name="fake")
    monkeypatch.setattr(similarity, "open_embedder", lambda name: fake)
    session = MetricSession({"r": turn_metrics.get("ruber-referenced")}, ["two", ""])
    assert session.reply("one")["r"] == pytest.approx(2 / np.sqrt(2) / 2)  # (1, 1, 0, 0) with (1, 1, 1, 1)
    assert MetricSession({"r": turn_metrics.get("ruber-referenced")}).reply("one") == {"r": None}


def test_budget_stops_metrics_that_use_an_endpoint(monkeypatch: pytest.MonkeyPatch, rubric: Any) -> None:
    bank = make_source("metrics", {"names": ["cosine-user@endpoint:small"]}, SourceContext(rubric, 0))
    samples = [Sample(chat(f"heron {place}?", f"fish {place}", name=f"c{place}")) for place in range(100)]
    with ChatServer(serve) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "hush")
        models = memory_models()
        models.budget.caps = Caps(requests=3)
        with pytest.raises(BudgetReached):
            run(bank.measure(samples), models)
        assert len(server.requests) == models.budget.to_json()["requests"] == 3
